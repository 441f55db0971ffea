"""Compiled programs, the arrays that they take, and where their time goes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from operator import index
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from mslang.api.arguments import compiler_of, program_in, require_lists, require_seconds
from mslang.api.source import Source
from mslang.backend.backend import BackEnd, Loaded, Options
from mslang.brevity import brief
from mslang.diagnostics import MsError, bounded_depth, problem
from mslang.ir.access_bounds import require_inside
from mslang.ir.dtype import SCALARS
from mslang.ir.program import Program
from mslang.ir.unwritten import require_written
from mslang.runtime import arrays
from mslang.runtime.arrays import ALIGNMENT
from mslang.runtime.signature import Signature
from mslang.schedule.instruction import Value
from mslang.schedule.schedule import Schedule
from mslang.schedule.space import Candidate, Space
from mslang.suggestions import did_you_mean
from mslang.target.description import Target

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from mslang.apply.passes import Applied
    from mslang.perf.result import KernelProfile
    from mslang.tune.result import Tuned

NO_PINS: Mapping[str, Value] = MappingProxyType({})


def build(
    program: Program | Schedule | Candidate | Tuned | Applied | Space | Source,
    target: Target | str | None = None,
    *,
    seed: int = 0,
    pins: Mapping[str, Value] = NO_PINS,
    checked: bool = False,
    allow_native: bool = False,
    backend: BackEnd[Any] | str | None = None,
) -> Loaded:
    """Compile a program (scheduled or not) and load it: a callable over NumPy arrays and whatever speaks DLPack.

    It takes and gives the arrays of the unscheduled program. Parameters to which the schedule gave another layout are
    packed and unpacked at each call, which is not timed; `kernel.pack("W", array)` packs one once. Constant parameters
    (`const W`) are always packed so: a call takes what `pack` made, whatever the schedule.

    Args:
        program: a program, a `Schedule`, a candidate, a tuning result or what `apply` gave; a space, of which one
            candidate is drawn; or a source that holds one program and nothing else. Where `apply` found schedules
            for buckets of dynamic sizes, each call goes to the kernel of its sizes. Where it found a library call, the
            kernel runs that; with `checked` or `backend` the program itself is compiled.
        target: the machine or its name (`"avx2"`; default: this one).
        seed: a space's open decisions are drawn from it.
        pins: decisions of a space that are given, by address.
        checked: compare every index with its buffer's shape while running; slow.
        allow_native: let implementations in LLVM text call functions and hold assembly. They can then do whatever this
            process can: allow it only for files that you trust.
        backend: what compiles it, or its name (`"reference"` interprets; default: what serves the target).

    Raises:
        MsError: there is nothing to compile, or it cannot be compiled.
        TargetError: no code can be generated for the target, or this machine cannot run its code.

    >>> import mslang as ms, numpy
    >>> p = ms.parse_program("program p(A: f32[4], out B: f32[4]) { block b[i: 4] { B[i] = A[i] + 1.0 } }")
    >>> kernel = ms.build(p)
    >>> kernel(numpy.zeros(4, numpy.float32)).tolist()
    [1.0, 1.0, 1.0, 1.0]
    """
    from mslang.apply.passes import Applied
    from mslang.backend.dispatch import DispatchKernel, Serving
    from mslang.ir.buckets import dynamic_sizes

    wanted = program_in(program, seed, pins)
    made_by, machine = compiler_of(backend, target)

    def loaded(scheduled: Program, own: BackEnd[Any] | None = None) -> Loaded:
        with bounded_depth(f"program `{scheduled.name}`"):
            require_inside(scheduled)
            require_written(scheduled)
            used = made_by if own is None or backend is not None or checked else own
            return used.loaded(scheduled, machine, Options(checked, allow_native))

    whole = loaded(wanted, program.backend if isinstance(program, Applied) else None)
    if not isinstance(program, Applied) or not dynamic_sizes(program.source):
        return whole
    cases = [Serving(case.bucket, loaded(case.applied.program, case.applied.backend)) for case in program.cases]
    return DispatchKernel(Signature.of_program(program.source), cases, whole)


def empty(shape: int | Sequence[int], dtype: str, *, align: int = ALIGNMENT) -> NDArray[Any]:
    """A row-major array that begins on a cache line; what it holds is not defined.

    NumPy aligns its own arrays to 16 bytes, so that a vector of 64 bytes that is read from one spans two lines.

    Args:
        shape: its extents; of one dimension also a number.
        dtype: an element type of the language (`"f32"`); bf16 is its bits in `uint16`, as kernels take it.
        align: the bytes that its address is a multiple of, a power of two; 64 at least.

    Raises:
        MsError: MS117, there is no such element type; MS412, an extent is no size; MS413, no such alignment.

    >>> a = empty((3, 5), "f32")
    >>> a.shape, a.dtype.name, a.ctypes.data % 64
    ((3, 5), 'float32', 0)
    """
    extents = tuple(shape) if isinstance(shape, Sequence) and not isinstance(shape, str) else (shape,)
    if not all(map(_is_extent, extents)):
        why = "an extent is a whole number from 0 on"
        raise MsError(problem("MS412", f"there is no array of shape {brief(repr(shape))}", why=why))
    if dtype not in SCALARS:
        near = did_you_mean(dtype, SCALARS) if isinstance(dtype, str) else None
        help = near or f"there are: {', '.join(SCALARS)}"
        raise MsError(problem("MS117", f"unknown element type `{dtype}`", help=help))
    if isinstance(align, bool) or not hasattr(align, "__index__") or align < 1 or align & (align - 1):
        raise MsError(problem("MS413", f"no array is aligned to {brief(repr(align))}", why="that is no power of two"))
    return arrays.empty(tuple(map(index, extents)), dtype, align=index(align))


def _is_extent(n: object) -> bool:
    """Whether something is a whole number from 0 on; NumPy's arrays have `__index__` and may not be numbers."""
    try:
        return not isinstance(n, bool) and index(n) >= 0  # type: ignore[arg-type]
    except TypeError:
        return False


def profile_kernel(
    program: Program | Schedule | Candidate | Tuned | Applied | Space | Source,
    target: Target | str | None = None,
    *,
    parts: Sequence[str] = (),
    seconds: float = 1.0,
    seed: int = 0,
    pins: Mapping[str, Value] = NO_PINS,
    allow_native: bool = False,
) -> KernelProfile:
    """Where the time of a kernel goes: its loops timed while it runs, with their operations and bytes (`print` it).

    Args:
        program: what `build` takes.
        target: the machine or its name (default: this one).
        parts: loops, or blocks for their loops, to be timed besides the outermost ones and long inner ones.
        seconds: how long to measure.
        seed, pins, allow_native: those of `build`.

    Raises:
        MsError: MS710, there is no such loop in the compiled kernel; MS711, the target's back end cannot time parts; or
            the program cannot be compiled or run.

    >>> import mslang as ms
    >>> p = ms.parse_program("program p(A: f32[4096], out B: f32[4096]) { block b[i: 4096] { B[i] = A[i] + 1.0 } }")
    >>> [row.name for row in ms.profile_kernel(p, seconds=0.05).rows]
    ['p', 'i']
    """
    from mslang.apply.passes import Applied
    from mslang.perf.profile import profile_kernel as run

    require_seconds("profile_kernel", seconds, limit=False)
    require_lists("profile_kernel", parts=parts)
    scheduled = program_in(program, seed, pins)
    made_by, machine = compiler_of(None, target)
    if isinstance(program, Applied) and program.backend is not None:
        made_by = program.backend
    prepared = made_by.scheduled(scheduled, machine)
    return run(prepared, scheduled, machine, names=parts, seconds=seconds, backend=made_by, allow_native=allow_native)
