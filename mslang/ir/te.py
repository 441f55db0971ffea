"""Tensor expressions: programs from what each tensor's elements are.

    A = te.placeholder((64, 32), name="A")
    B = te.placeholder((32, 48), name="B")
    k = te.reduce_axis(32, "k")
    C = te.compute((64, 48), lambda i, j: te.sum(A[i, k] * B[k, j], axis=k), name="C")
    program = te.program("matmul", C)

Every computed tensor `C` becomes a block `C_block`; those that are not results are allocated.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Sequence

import msgspec

from mslang.diagnostics import MsError, problem
from mslang.ir.build import AxisSpec, ProgramBuilder, Size
from mslang.ir.build import Tensor as Declared
from mslang.ir.build import reduce as reduction_axis
from mslang.ir.build import spatial as spatial_axis
from mslang.ir.expr import DynamicRange, Expr, Load, Symbol, Var
from mslang.ir.operators import Value, call, expression, maximum, minimum, select
from mslang.ir.program import Program
from mslang.ir.verify import verify
from mslang.ir.visit import map_expr, walk_expr

Index = Value | int


class ReduceAxis(Value, frozen=True):
    """An axis to reduce over, used like an index."""

    extent: Size

    @property
    def name(self) -> str:
        """The axis's name."""
        assert isinstance(self.expr, Var)
        return self.expr.name


class Reduction(msgspec.Struct, frozen=True):
    """A sum, maximum or minimum of `value` over axes: what a `compute` may give."""

    op: str
    value: Value
    axes: tuple[ReduceAxis, ...]


class Tensor(msgspec.Struct, frozen=True, eq=False):
    """A tensor that is given (`axes` None; `constant`: the same at each call) or computed."""

    name: str
    shape: tuple[Size, ...]
    dtype: str
    axes: tuple[str, ...] | None = None
    body: Value | Reduction | None = None
    constant: bool = False

    def __getitem__(self, indices: Index | tuple[Index, ...]) -> Value:
        at = indices if isinstance(indices, tuple) else (indices,)
        if len(at) != len(self.shape):
            raise _wrong_rank(self.name, self.shape, f"{len(at)} are indexed")
        return Value(_Element(self.name, tuple(expression(x) for x in at), self.dtype, self))


class _Element(Load, frozen=True, eq=False):
    """A load that knows its tensor."""

    tensor: Tensor


def _wrong_rank(name: str, shape: Sequence[Size], but: str) -> MsError:
    return MsError(problem("MS105", f"`{name}` has {len(shape)} dimensions, but {but}"))


def size(name: str, lo: int, hi: int, multiple: int = 1) -> Value:
    """A dynamic size, known when the kernel is called."""
    return Value(Symbol(name, DynamicRange(lo, hi, multiple)))


def placeholder(shape: Sequence[Size], dtype: str = "f32", name: str = "A", constant: bool = False) -> Tensor:
    """A tensor that the program is given; `constant`: it holds the same at each call (weights)."""
    return Tensor(name, tuple(shape), dtype, constant=constant)


def reduce_axis(extent: Size, name: str = "k") -> ReduceAxis:
    """An axis that `sum`, `max` or `min` run over."""
    return ReduceAxis(Var(name), extent)


def sum(value: Value | float, axis: ReduceAxis | Sequence[ReduceAxis]) -> Reduction:
    """The sum over an axis or several."""
    return Reduction("+", _value(value), _axes(axis))


def max(value: Value | float, axis: ReduceAxis | Sequence[ReduceAxis]) -> Reduction:
    """The largest over an axis or several."""
    return Reduction("max", _value(value), _axes(axis))


def min(value: Value | float, axis: ReduceAxis | Sequence[ReduceAxis]) -> Reduction:
    """The least over an axis or several."""
    return Reduction("min", _value(value), _axes(axis))


def _axes(axis: ReduceAxis | Sequence[ReduceAxis]) -> tuple[ReduceAxis, ...]:
    return (axis,) if isinstance(axis, ReduceAxis) else tuple(axis)


def compute(shape: Sequence[Size], element: Callable[..., Value | Reduction | float], name: str) -> Tensor:
    """A tensor defined by its elements.

    Args:
        shape: its shape.
        element: a function of as many indices as there are dimensions; its parameters name the block's axes. A Python
            number that it gives is a constant: bool, i32 or f32.
        name: the tensor's name; its block is called `name_block`.

    Raises:
        MsError: MS105, the function takes another number of indices.
    """
    axes = tuple(inspect.signature(element).parameters)
    if len(axes) != len(shape):
        raise _wrong_rank(name, shape, f"its function takes {len(axes)} indices")
    body = element(*(Value(Var(a)) for a in axes))
    if isinstance(body, Reduction):
        # A sum over no axis is what it sums.
        body = body if body.axes else body.value
    else:
        body = _value(body)
    value = body.value if isinstance(body, Reduction) else body
    return Tensor(name, tuple(shape), value.dtype, axes, body)


def _value(x: Value | float) -> Value:
    return x if isinstance(x, Value) else Value(expression(x, "f32" if isinstance(x, float) else "i32"))


def program(name: str, *results: Tensor, inputs: Sequence[Tensor] = ()) -> Program:
    """The program that computes tensors.

    Args:
        name: the program's name.
        results: the tensors that are its `out` parameters.
        inputs: the placeholders in the order of its parameters; those not named follow in the order of use.

    Raises:
        MsError: MS150, two tensors have one name; MS159, a result is not computed, or there is none; what comes out is
            not well-formed.
    """
    order = tuple(_in_order((*inputs, *results)))
    _require_distinct(order)
    given_out = next((t for t in results if t.axes is None), None)
    if given_out is not None or not results:
        what = "a program without results" if given_out is None else f"`{given_out.name}` is given, not computed"
        raise MsError(problem("MS159", what, why="the results of a program are tensors made by `te.compute`"))
    b = ProgramBuilder(name)
    shapes = (expression(n) for t in order for n in t.shape)
    for s in dict.fromkeys(x for e in shapes for x in walk_expr(e) if isinstance(x, Symbol)):
        if isinstance(s.domain, DynamicRange):
            b.dynamic(s.name, s.domain.lo, s.domain.hi, s.domain.multiple)
    given = [(t, b.input(t.name, t.shape, t.dtype, t.constant)) for t in order if t.axes is None]
    made = [(t, b.output(t.name, t.shape, t.dtype)) for t in results]
    made += [
        (t, b.alloc(t.name, t.shape, t.dtype)) for t in order if t.axes is not None and not any(t is r for r in results)
    ]
    declared = {id(t): d for t, d in (*given, *made)}
    for t in order:
        if t.axes is not None:
            _block(b, t, t.axes, declared[id(t)])
    result = b.finish()
    found = verify(result)
    if found:
        raise MsError(*found)
    return result


def _require_distinct(tensors: Sequence[Tensor]) -> None:
    seen: set[str] = set()
    for t in tensors:
        if t.name in seen:
            raise MsError(problem("MS150", f"`{t.name}` is the name of 2 tensors", help="give each a name of its own"))
        seen.add(t.name)


def _in_order(tensors: Sequence[Tensor]) -> Iterator[Tensor]:
    """The tensors and all they need, each once, after what it needs."""
    seen: set[int] = set()

    def visit(t: Tensor) -> Iterator[Tensor]:
        if id(t) in seen:
            return
        seen.add(id(t))
        if t.body is not None:
            value = t.body.value if isinstance(t.body, Reduction) else t.body
            for x in walk_expr(value.expr):
                if isinstance(x, _Element):
                    yield from visit(x.tensor)
        yield t

    for t in tensors:
        yield from visit(t)


def _block(b: ProgramBuilder, t: Tensor, axes: tuple[str, ...], out: Declared) -> None:
    spec: list[AxisSpec] = [spatial_axis(n, extent) for n, extent in zip(axes, t.shape, strict=True)]
    if isinstance(t.body, Reduction):
        spec += [reduction_axis(a.name, a.extent) for a in t.body.axes]
    with b.block(f"{t.name}_block", *spec) as values:
        at = values[: len(axes)]
        match t.body:
            case Reduction(op=op, value=v):
                combine = {"+": lambda x, y: x + y, "max": maximum, "min": minimum}[op]
                out[at] = combine(out[at], _plain(v))
            case Value():
                out[at] = _plain(t.body)


def _plain(v: Value) -> Value:
    """The value over plain loads."""

    def plain(e: Expr) -> Expr | None:
        return Load(e.buffer, e.indices, e.dtype) if isinstance(e, _Element) else None

    return Value(map_expr(v.expr, plain))


__all__ = [
    "ReduceAxis",
    "Reduction",
    "Tensor",
    "call",
    "compute",
    "max",
    "maximum",
    "min",
    "minimum",
    "placeholder",
    "program",
    "reduce_axis",
    "select",
    "size",
    "sum",
]
