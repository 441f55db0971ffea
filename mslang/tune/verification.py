"""Verification of a candidate against the unscheduled program.

Inputs of sparse small integers make every reordering of sums exact, so results are compared bit for bit where the
program only adds, multiplies, compares and selects; dense random inputs are compared within a tolerance derived from
the element type and the number of terms summed. Outputs are poisoned at the start, so that a
skipped write is detected. (The trick is tinygrad's BEAM_VALIDATE.)
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

import msgspec

from mslang.diagnostics import MsError, problem
from mslang.ir.arith import evaluate
from mslang.ir.dtype import bits, is_float, is_unsigned
from mslang.ir.expr import Binary, Call, Cast, Const, Expr, Load, Symbol, dtype_of
from mslang.ir.find import all_buffers
from mslang.ir.program import Buffer, For, Program, Store
from mslang.ir.visit import stmt_exprs, walk, walk_expr
from mslang.tune.inputs import bounds_of, drawn
from mslang.tune.record import Verification

if TYPE_CHECKING:
    import numpy as np

    Arrays = dict[str, np.ndarray]

SPARSE, DENSE = "sparse integers", "dense"

_EPSILON = {"f16": 2.0**-10, "bf16": 2.0**-7, "f32": 2.0**-23, "f64": 2.0**-52}


class Difference(msgspec.Struct, frozen=True):
    """A wrong result: the buffer, the index, and the two values."""

    text: str


def reorders_exactly(program: Program) -> bool:
    """Whether sums of small integers stay exact in any order: no division of floats, no math function, no fraction,
    and no more terms than a half type can represent exactly."""

    def inexact(e: Expr) -> bool:
        match e:
            case Call():
                return True
            case Binary(op="/"):
                return True
            case Const(value=float(v)):
                return v == v and abs(v) != float("inf") and not v.is_integer()
        return False

    if _epsilon(program) >= _EPSILON["f16"] and 9 * _terms(program) * _epsilon(program) > 2:
        return False  # sums of products of up to 3 * 3 may exceed the integers that a half type represents exactly
    return not any(inexact(x) for s in walk(program.body) for e in stmt_exprs(s) for x in walk_expr(e))


def tolerance(program: Program) -> float:
    """The relative error allowed on dense inputs: a few roundings for each doubling of the terms summed.

    For half types, where that many roundings would allow any result, at most one rounding per term.
    """
    epsilon, terms = _epsilon(program), _terms(program)
    roundings = 64 * max(1, terms.bit_length())
    return epsilon * (roundings if epsilon < _EPSILON["f16"] else min(roundings, 4 + 2 * terms))


def half_tolerance(program: Program) -> float:
    """`tolerance` where the program rounds to a half type, else 0: the minimal tolerance for reordered sums."""
    return tolerance(program) if _epsilon(program) >= _EPSILON["f16"] else 0.0


def _epsilon(program: Program) -> float:
    return max((_EPSILON[d] for d in _computed_in(program) if d in _EPSILON), default=_EPSILON["f32"])


def _terms(program: Program) -> int:
    extents = (s.extent for s in walk(program.body) if isinstance(s, For))
    return max((int(e.value) for e in extents if isinstance(e, Const)), default=1)


def _computed_in(program: Program) -> set[str]:
    """The element types that results are rounded to: those of operations and of stored values."""
    found = {p.buffer.dtype for p in program.params if p.direction != "in"} | {b.dtype for b in program.allocs}
    for s in walk(program.body):
        for e in stmt_exprs(s):
            found |= {dtype_of(x) for x in walk_expr(e) if isinstance(x, Binary | Call)}
    return found


def shape_of(buffer: Buffer) -> tuple[int, ...]:
    """The buffer's shape as numbers.

    Raises:
        MsError: MS112 if a size is known only when the kernel is called.
    """
    return _numbers(buffer.shape)


def _numbers(sizes: Sequence[Expr]) -> tuple[int, ...]:
    open_sizes = [x.text for e in sizes for x in walk_expr(e) if isinstance(x, Symbol)]
    if open_sizes:
        raise MsError(
            problem(
                "MS112",
                f"size `{open_sizes[0]}` is known only when the kernel is called",
                why="a kernel is run and timed on arrays of one size",
                help=f"give the size: `--set {open_sizes[0]}=…`, from Python `source.program(name, {open_sizes[0]}=…)`",
            )
        )
    return tuple(int(evaluate(e, {})) for e in sizes)


def make_inputs(program: Program, kind: str, seed: int) -> Arrays:
    """Arrays for `in` and `inout` parameters, the same in every process for one seed.

    Values satisfy the parameters' declarations. Without a declaration, indices into other buffers stay within bounds.

    Raises:
        MsError: MS129, no value satisfies a declaration.
    """
    from mslang.runtime.arrays import sparse_integers

    arrays: Arrays = {}
    limits = index_limits(program)
    for position, param in enumerate(program.params):
        if param.direction == "out":
            continue
        buffer, own = param.given, seed * 1_000_003 + position
        if param.within is not None:
            bounds = bounds_of(buffer, param.within)
            arrays[buffer.name] = drawn(shape_of(buffer), buffer.dtype, bounds, kind == SPARSE, own)
            continue
        make = sparse_integers if kind == SPARSE else _dense
        made = make(shape_of(buffer), buffer.dtype, own)
        if buffer.name in limits:
            below = min(limits[buffer.name], 2 ** (bits(buffer.dtype) - (not is_unsigned(buffer.dtype))))
            made = (made.astype("int64") % below).astype(made.dtype)
        arrays[buffer.name] = made
    return arrays


def index_limits(program: Program) -> dict[str, int]:
    """The exclusive upper bound of each buffer's elements that are indices into others (`table[idx[i]]`)."""
    found: dict[str, int] = {}
    for _, _, index, extent in _indexed(program):
        by = _uncast(index)
        if isinstance(by, Load) and isinstance(extent, Const):
            found[by.buffer] = min(found.get(by.buffer, int(extent.value)), int(extent.value))
    return found


def computed_indices(program: Program) -> frozenset[tuple[str, int]]:
    """The buffers and dimensions indexed by values computed from data that neither `index_limits` nor the ranges of
    parameters bound."""
    inputs = {p.buffer.name for p in program.params if p.direction == "in"}
    ranged = {p.buffer.name for p in program.params if p.within is not None}
    found = set()
    for buffer, dimension, index, _ in _indexed(program):
        by = _uncast(index)
        read = {x.buffer for x in walk_expr(index) if isinstance(x, Load)}
        if read and not read <= ranged and not (isinstance(by, Load) and by.buffer in inputs):
            found.add((buffer, dimension))
    return frozenset(found)


def _indexed(program: Program) -> Iterator[tuple[str, int, Expr, Expr]]:
    """Each index of each access: the buffer, the dimension, the index, and the dimension's extent."""
    shapes = {name: b.shape for name, b in all_buffers(program).items()}
    for s in walk(program.body):
        stored = [(s.buffer, s.indices)] if isinstance(s, Store) else []
        loaded = [(x.buffer, x.indices) for e in stmt_exprs(s) for x in walk_expr(e) if isinstance(x, Load)]
        for buffer, indices in (*stored, *loaded):
            for d, (index, extent) in enumerate(zip(indices, shapes[buffer], strict=True)):
                yield buffer, d, index, extent


def _uncast(e: Expr) -> Expr:
    while isinstance(e, Cast):
        e = e.operand
    return e


def _dense(shape: tuple[int, ...], dtype: str, seed: int) -> np.ndarray:
    """Random numbers from -1 to 1; bytes of any value; of wider integer types, up to 100 in magnitude."""
    import numpy as np

    from mslang.runtime.arrays import empty

    random = np.random.default_rng(seed)
    out = empty(shape, dtype)
    if dtype == "bf16":
        out[...] = random.uniform(-1.0, 1.0, shape).astype(np.float32).view(np.uint32) >> 16
    elif is_float(dtype):
        out[...] = random.uniform(-1.0, 1.0, shape)
    elif dtype == "bool":
        out[...] = random.random(shape) < 0.5
    else:
        # Bytes take all values, so that saturating sums of products are detected.
        top = 2 ** (bits(dtype) - (not is_unsigned(dtype)))
        reach = top - 1 if bits(dtype) <= 8 else min(top - 1, 100)
        low = 0 if is_unsigned(dtype) else -reach - (bits(dtype) <= 8)
        out[...] = random.integers(low, reach + 1, shape)
    return out


def make_arguments(program: Program, inputs: Mapping[str, np.ndarray]) -> Arrays:
    """All arguments of a call: the `in` arrays, fresh copies of `inout` arrays, and poisoned `out` arrays.

    Where a parameter has strides or a larger alignment, its array has them: an input is copied into such an array.
    """
    from mslang.runtime.arrays import ALIGNMENT, empty, poison

    arrays: Arrays = {}
    for param in program.params:
        buffer = param.given
        align = buffer.align or ALIGNMENT
        if param.direction == "in" and buffer.strides is None and align <= ALIGNMENT:
            arrays[buffer.name] = inputs[buffer.name]
            continue
        strides = None if buffer.strides is None else _numbers(buffer.strides)
        fresh = empty(shape_of(buffer), buffer.dtype, strides, align)
        if param.direction == "out":
            poison(fresh, buffer.dtype)
        else:
            fresh[...] = inputs[buffer.name]
        arrays[buffer.name] = fresh
    return arrays


def compare(
    program: Program,
    expected: Mapping[str, np.ndarray],
    actual: Mapping[str, np.ndarray],
    kind: str,
    *,
    rtol: float | None = None,
    atol: float = 0.0,
) -> Verification | Difference:
    """Compare the outputs with the expected ones.

    Sparse integers are compared exactly where that is meaningful, other inputs within a tolerance (`rtol`, relative to
    the largest expected magnitude; None: derived from the type and the length of sums).
    """
    import numpy as np

    from mslang.runtime.ranges import numbers

    exact = kind == SPARSE and reorders_exactly(program)
    worst = 0.0
    for param in program.params:
        if param.direction == "in":
            continue
        name, buffer = param.buffer.name, param.given
        want, got = (numbers(np.asarray(x[name]), buffer.dtype) for x in (expected, actual))
        floating = is_float(buffer.dtype)
        if not floating or exact:
            same = want == got
            if floating and not same.all():
                same |= (want != want) & (got != got)
        elif (largest := _error_if_finite(want, got)) is not None and largest <= _allowed(program, rtol, atol, want):
            worst = max(worst, largest)
            continue
        else:
            a, b = want.astype(np.float64), got.astype(np.float64)
            allowed = _allowed(program, rtol, atol, a)
            with np.errstate(invalid="ignore", over="ignore"):
                error = np.abs(a - b) / np.maximum(np.abs(a), _scale(a))
            same = (error <= allowed) | (a == b) | ((a != a) & (b != b))
            finite = error[np.isfinite(error)]
            worst = max(worst, float(finite.max()) if finite.size else 0.0)
        if not same.all():
            at = tuple(int(k) for k in np.argwhere(~same)[0])
            wrong = int((~same).sum())
            place = ", ".join(map(str, at))
            return Difference(
                f"{name}[{place}] is {got[at]} instead of {want[at]} ({wrong} of {same.size} elements differ)"
            )
    return Verification(kind, worst)


def _allowed(program: Program, rtol: float | None, atol: float, expected: np.ndarray) -> float:
    """The error that is allowed, relative to the largest expected magnitude."""
    return (tolerance(program) if rtol is None else rtol) + atol / _scale(expected)


def _error_if_finite(want: np.ndarray, got: np.ndarray) -> float | None:
    """The largest error relative to the largest expected magnitude, in few passes; None where a value is not finite,
    or of a type whose differences may overflow."""
    import numpy as np

    if want.dtype not in (np.float32, np.float64) or not want.size:
        return None
    scale = max(float(want.max()), -float(want.min())) or 1.0
    with np.errstate(invalid="ignore", over="ignore"):
        apart = want - got
    largest = max(float(apart.max()), -float(apart.min()))
    return largest / scale if np.isfinite(scale) and np.isfinite(largest) else None


def _scale(a: np.ndarray) -> float:
    """The magnitude below which an error counts absolutely: sums that cancel are compared relative to their terms."""
    import numpy as np

    finite = np.abs(a[np.isfinite(a)])
    return float(finite.max()) if finite.size and finite.max() > 0 else 1.0
