"""Running programs: `run` is what a program means."""

from __future__ import annotations

import operator
from collections.abc import Mapping, Sequence
from functools import lru_cache
from itertools import product
from math import prod
from types import CodeType, FunctionType, MappingProxyType, TracebackType
from typing import TYPE_CHECKING, Any

import msgspec

from mslang.backend.reference.expressions import no_value, unsupported
from mslang.backend.reference.faults import Checker, Fault, unflattened
from mslang.backend.reference.generate import Source, generate, known
from mslang.backend.reference.numeric import NAMESPACE, Undefined, poison
from mslang.diagnostics import MsError, Note, problem
from mslang.ir.expr import Const, DynamicRange, Expr, Symbol
from mslang.ir.program import Buffer, Packing, Param, Program, Within
from mslang.ir.rounding import bf16
from mslang.ir.visit import map_program_exprs
from mslang.runtime.packing import places
from mslang.runtime.ranges import Bounds, violation

if TYPE_CHECKING:
    import numpy as np

    Array = np.ndarray[Any, np.dtype[Any]]

FILENAME = "<reference>"
NO_SIZES: Mapping[str, int | Sequence[int]] = MappingProxyType({})


class Compiled(msgspec.Struct, frozen=True):
    """A program ready to run."""

    code: CodeType
    source: Source


def run(
    program: Program,
    arrays: Mapping[str, Array],
    check: bool = True,
    *,
    sizes: Mapping[str, int | Sequence[int]] = NO_SIZES,
    bits: bool = False,
) -> dict[str, Array]:
    """Run a program, before or after scheduling, in program order.

    Args:
        program: the program; loops of any kind, nested blocks, views.
        arrays: an array for every `in` and `inout` parameter, none of which is changed.
        check: whether to check bounds, uninitialised reads, declared regions, races between iterations of concurrent
            loops, axes against their extents, and that instances of spatial axes are independent. Without it a
            faulty program may do anything but harm the process.
        sizes: values of dynamic sizes, and of sampled decisions (a sequence for a tile).
        bits: whether bf16 results are given as their bits (`uint16`, as kernels take them), not as `float32` values.
            Arguments may be either.

    Returns:
        The `out` and `inout` parameters; one that is packed is given and returned as its caller has it.
        Without `check`, an element that was not written is NaN, or an integer of bytes 0xA5.

    Raises:
        MsError: a rule is broken (MS480 to MS486, MS489: the access and the iterations are named), an output is not
            written whole (MS490), the arguments do not fit (MS487) or are outside of a declared range (MS162), or the
            program has what the interpreter cannot run (MS488).
    """
    concrete = _with_sizes(program, sizes)
    lists = {q.buffer.name: _taken(q, arrays, check) for q in concrete.params}
    compiled = _compiled(_Same(concrete), check)
    checker = Checker(compiled.source.sites)
    namespace: dict[str, Any] = {**NAMESPACE, "product": product}
    exec(compiled.code, namespace)
    function: FunctionType = namespace["run"]
    try:
        function(checker, *lists.values())
    except Fault as fault:
        raise _explained(fault, fault.__traceback__, compiled.source) from None
    except (ZeroDivisionError, Undefined) as error:
        what = "division by zero" if isinstance(error, ZeroDivisionError) else str(error)
        raise _explained(Fault("MS486", what, None), error.__traceback__, compiled.source) from None
    results = {q.buffer.name: _elements_of(q, lists[q.buffer.name]) for q in concrete.params if q.direction != "in"}
    if check:
        _require_written(concrete, results)
    return {q.buffer.name: _given(q, results[q.buffer.name], bits) for q in concrete.params if q.direction != "in"}


def _require_written(program: Program, results: Mapping[str, list[Any]]) -> None:
    """Refuse outputs of which an element was not written: their caller would get whatever was in memory."""
    for q in program.params:
        found = results.get(q.buffer.name, [])
        missing = sum(x is None for x in found) if q.direction == "out" else 0
        if not missing:
            continue
        element = ", ".join(map(str, unflattened(found.index(None), _shape(q.given))))
        raise MsError(
            problem(
                "MS490",
                f"`{q.buffer.name}[{element}]` was not written",
                why=f"{missing} of {len(found)} elements of the output hold nothing defined",
                help=f"write all of it, or declare it `inout {q.buffer.name}`",
            )
        )


class _Same:
    """A program as a key of its own: equal programs may differ in what Python calls equal, 0.0 and -0.0."""

    __slots__ = ("program",)

    def __init__(self, program: Program) -> None:
        self.program = program

    def __hash__(self) -> int:
        return id(self.program)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Same) and self.program is other.program


@lru_cache(maxsize=128)
def _compiled(key: _Same, check: bool) -> Compiled:
    try:
        source = generate(key.program, check)
        return Compiled(compile(source.text, FILENAME, "exec"), source)
    except (SyntaxError, RecursionError, MemoryError) as error:
        raise unsupported("expressions or statements nested this deeply") from error


def _explained(fault: Fault, trace: TracebackType | None, source: Source) -> MsError:
    """The error for a fault, with the loops and axes as they stood."""
    values: dict[str, int] = {}
    block = fault.block
    around: tuple[str, ...] = ()
    while trace is not None:
        if trace.tb_frame.f_code.co_filename == FILENAME:
            line = source.lines[trace.tb_lineno - 1]
            block, around = fault.block or line.block, line.around
            values |= trace.tb_frame.f_locals
        trace = trace.tb_next
    where = [f"in block `{block}`"] if block else []
    if around:
        where.append("at " + ", ".join(f"{source.names[k]} = {values[k]}" for k in around))
    notes = (Note(" ".join(where)),) if where else ()
    return MsError(problem(fault.code, fault.message, why=fault.why, notes=notes))


# ------------------------------------------------------------------ sizes
def _with_sizes(program: Program, given: Mapping[str, int | Sequence[int]]) -> Program:
    sizes = {name: v if isinstance(v, Sequence) else operator.index(v) for name, v in given.items()}
    for s in program.dynamic:
        if isinstance(s, Symbol):
            _check_size(s, sizes.get(s.name))
    if not program.dynamic and not sizes:
        return program
    from mslang.ir.arith import substitute_symbols

    def concrete(e: Expr) -> Expr:
        return substitute_symbols(e, sizes)

    return msgspec.structs.replace(map_program_exprs(program, concrete), dynamic=())


def _check_size(s: Symbol, value: int | Sequence[int] | None) -> None:
    match s.domain, value:
        case _, None:
            raise no_value(s.name)
        case DynamicRange(lo=lo, hi=hi, multiple=m), int():
            if not lo <= value <= hi or value % m:
                multiple = f", a multiple of {m}" if m > 1 else ""
                raise MsError(
                    problem(
                        "MS487",
                        f"the size `{s.name}` cannot be {value}",
                        why=f"it is declared from {lo} to {hi}{multiple}",
                    )
                )


# ------------------------------------------------------------------ arrays
NUMPY_TYPES = MappingProxyType(
    {
        "bool": "bool",
        "i8": "int8",
        "i16": "int16",
        "i32": "int32",
        "i64": "int64",
        "u8": "uint8",
        "u16": "uint16",
        "u32": "uint32",
        "u64": "uint64",
        "f16": "float16",
        "bf16": "float32",
        "f32": "float32",
        "f64": "float64",
    }
)
"""The NumPy type of arrays of each element type. NumPy has no bfloat16: `float32` values stand for it, or its bits."""


def _taken(q: Param, arrays: Mapping[str, Array], check: bool) -> list[Any]:
    """The elements of an argument as they lie in the buffer, or nothing yet for an `out` parameter."""
    b = q.given
    nothing = None if check else poison(b.dtype)
    if q.direction == "out":
        return [nothing] * prod(_shape(q.buffer))
    given = _elements(b, arrays)
    if check and q.within is not None:
        _require_range(q, q.within, given)
    if q.packing is None:
        return given
    pad = q.packing.pad
    # Without `pad`, what is there is unspecified, but it is something: it may be read, and changed.
    padding = poison(b.dtype) if not isinstance(pad, Const) else bf16(pad.value) if b.dtype == "bf16" else pad.value
    packed = [padding] * prod(_shape(q.buffer))
    for place, x in zip(_places(q, q.packing), given, strict=True):
        packed[place] = x
    return packed


def _require_range(q: Param, w: Within, given: list[Any]) -> None:
    import numpy as np

    low, high = (e.value if isinstance(e, Const) else known(e) for e in (w.low, w.high))
    bounds = Bounds(low, high, w.sorted, w.unique)
    # In the elements' type, to which NumPy rounds the bounds as well: kernels that check do the same.
    array = np.array(given, NUMPY_TYPES[q.given.dtype]).reshape(_shape(q.given))
    found = violation(q.buffer.name, array, bounds)
    if found is not None:
        raise MsError(problem("MS162", found, why=f"{q.buffer.name} is declared to hold {bounds.text}"))


def _shape(b: Buffer) -> tuple[int, ...]:
    return tuple(known(n) for n in b.shape)


def _places(q: Param, packing: Packing) -> list[int]:
    found: list[int] = places(packing, _shape(q.given), _shape(q.buffer), {}).tolist()
    return found


def _elements(b: Buffer, arrays: Mapping[str, Array]) -> list[Any]:
    shape = _shape(b)
    array = arrays.get(b.name)
    if array is None:
        raise MsError(problem("MS487", f"there is no array for the parameter `{b.name}`"))
    if tuple(array.shape) != shape:
        raise MsError(
            problem(
                "MS487",
                f"the array for `{b.name}` has shape {list(array.shape)}",
                why=f"the parameter has shape {list(shape)}",
            )
        )
    wanted = NUMPY_TYPES.get(b.dtype)
    if b.dtype == "bf16" and array.dtype.name in ("uint16", "bfloat16"):
        return _from_bits(array)
    if wanted is not None and array.dtype.name != wanted:
        raise MsError(
            problem(
                "MS487",
                f"the array for `{b.name}` has elements of type {array.dtype.name}",
                why=f"the parameter is `{b.dtype}`, which takes {wanted}",
            )
        )
    values: list[Any] = array.ravel().tolist()
    return [bf16(x) for x in values] if b.dtype == "bf16" else values


def _from_bits(array: Array) -> list[Any]:
    import numpy as np

    values: list[Any] = (array.view("uint16").astype(np.uint32) << 16).view(np.float32).ravel().tolist()
    return values


def _elements_of(q: Param, values: list[Any]) -> list[Any]:
    """The elements of a parameter as its caller has them."""
    return values if q.packing is None else [values[k] for k in _places(q, q.packing)]


def _given(q: Param, values: list[Any], bits: bool) -> Array:
    import numpy as np

    b = q.given
    dtype = np.dtype(NUMPY_TYPES[b.dtype])
    nothing = poison(b.dtype)
    filled = [nothing if x is None else x for x in values]
    made = np.array(filled, dtype=dtype).reshape(tuple(known(n) for n in b.shape))
    return (made.view(np.uint32) >> 16).astype(np.uint16) if bits and b.dtype == "bf16" else made
