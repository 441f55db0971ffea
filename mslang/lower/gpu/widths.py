"""How many neighbours one instruction loads or stores: up to 16 bytes, where addresses are provably aligned.

After this pass a store of a vector is one instruction, and so is a `let` of a load of one. What is stored is computed
lane by lane, as GPUs do, and other vectors that it loads are loaded element by element: those whose addresses are not
aligned, and those that a condition of the statement guards. A store of lanes that no instruction takes together is
written out.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from msgspec.structs import replace

from mslang.ir import arith
from mslang.ir.dtype import INDEX, size_of
from mslang.ir.expr import (
    FALSE,
    LOGICAL,
    TRUE,
    ZERO,
    Binary,
    Broadcast,
    Const,
    Expr,
    Load,
    MaskedLoad,
    Ramp,
    Select,
    Shuffle,
    Var,
    children,
    dtype_of,
    with_children,
)
from mslang.ir.program import HOLDERS, Buffer, Range
from mslang.ir.visit import fresh, walk_expr
from mslang.kernel import Allocate, Body, For, Function, If, Let, Module, Stmt, Store
from mslang.kernel.lanes import lane, lanes_of
from mslang.kernel.visit import bodies, expressions, with_bodies
from mslang.lower.analysis import names
from mslang.lower.fold import fold
from mslang.lower.gpu.axes import AXES
from mslang.lower.gpu.indices import multiple_of
from mslang.lower.gpu.memory import alignment
from mslang.lower.layout import row_major
from mslang.target.description import Target

WIDEST = 16
"""Bytes that one instruction loads or stores."""

Ranges = Mapping[str, Range]


def widths(module: Module, target: Target) -> Module:
    """The module in which a store of a vector is one instruction, and so is a `let` of a load of one."""
    return replace(module, functions=tuple(replace(f, body=_Function(f).body) for f in module.functions))


class _Function:
    """The accesses of one function; `body` are its statements with them written out."""

    def __init__(self, f: Function) -> None:
        self.taken = names(f.body)
        launch = () if f.launch is None else zip(AXES, (*f.launch.grid, *f.launch.block), strict=True)
        ranges = {axis: Range(ZERO, n) for axis, n in launch}
        self.body = self._body(f.body, {b.name: b for b in f.params}, ranges)

    def _body(self, body: Body, buffers: Mapping[str, Buffer], ranges: Ranges) -> Body:
        return tuple(x for s in body for x in self._statement(s, buffers, ranges))

    def _statement(self, s: Stmt, buffers: Mapping[str, Buffer], ranges: Ranges) -> Body:
        match s:
            case Store() if any(lanes_of(e) > 1 for e in expressions(s)):
                return self._store(s, _Widths(buffers, ranges))
            case Allocate(buffer=b):
                buffers = {**buffers, b.name: b}
            case For(var=v, start=start, extent=extent):
                ranges = {**ranges, v: Range(start, extent)}
            case Let(name=n, value=v) if (known := _range_of(v, ranges)) is not None:
                ranges = {**ranges, n: known}
        return (with_bodies(s, tuple(self._body(b, buffers, ranges) for b in bodies(s))),)

    def _store(self, s: Store, known: _Widths) -> Body:
        """A store of a vector: loads of neighbours, then stores of as many as one instruction takes."""
        lanes = max(map(lanes_of, expressions(s)))
        loads: list[tuple[str, Load]] = []
        held: dict[Expr, Expr] = {}
        for load in dict.fromkeys(_unconditional(s.value) if s.mask is None else ()):
            pieces = self._pieces(load, known.of(load.buffer, load.indices))
            if pieces:
                loads += pieces
                loaded = tuple(Var(name, x.dtype, lanes_of(x)) for name, x in pieces)
                held[load] = _elements(loaded, tuple(range(lanes_of(load))))
        value = _with(held, s.value)
        width = known.of(s.buffer, s.indices) if s.mask is None else 1
        if width > 1:
            starts = range(0, lanes, width)
            stores: Body = tuple(
                replace(s, indices=_parts(s.indices, k, width), value=_part(value, k, width)) for k in starts
            )
        else:
            stores = self._one_by_one(s, [fold(lane(value, k)) for k in range(lanes)])
        for name, load in reversed(loads):
            stores = (Let(name, load, stores),)
        return stores

    def _pieces(self, load: Load, width: int) -> list[tuple[str, Load]]:
        """The loads of so many neighbours that are one of all lanes, by name; none if neighbours are loaded singly."""
        if width == 1:
            return []
        starts = range(0, lanes_of(load), width)
        name = f"{load.buffer}_vector"
        return [(self._fresh(name), replace(load, indices=_parts(load.indices, k, width))) for k in starts]

    def _one_by_one(self, s: Store, values: Sequence[Expr]) -> Body:
        lets: list[tuple[str, Expr]] = []
        reads = any(isinstance(x, Load | MaskedLoad) and x.buffer == s.buffer for x in walk_expr(s.value))
        if reads and len(set(values)) > 1:
            # All lanes are read before one is stored.
            lets = [(self._fresh("value"), v) for v in values]
            values = [Var(name, dtype_of(v)) for name, v in lets]
        stores: Body = tuple(
            Store(s.buffer, tuple(fold(lane(x, k)) for x in s.indices), v, stream=s.stream)
            for k, v in enumerate(values)
        )
        if s.mask is not None:
            masks = (fold(lane(s.mask, k)) for k in range(len(stores)))
            stores = tuple(x if m == TRUE else If(m, (x,)) for m, x in zip(masks, stores, strict=True) if m != FALSE)
        for name, value in reversed(lets):
            stores = (Let(name, value, stores),)
        return stores

    def _fresh(self, name: str) -> str:
        found = fresh(name, self.taken)
        self.taken.add(found)
        return found


class _Widths:
    """What is known where a statement stands: the buffers in memory, and the ranges of variables."""

    def __init__(self, buffers: Mapping[str, Buffer], ranges: Ranges) -> None:
        self.buffers, self.ranges = buffers, ranges

    def of(self, buffer: str, indices: tuple[Expr, ...]) -> int:
        """How many neighbours one instruction may take at once: 1 if they are none, or not provably aligned."""
        b = self.buffers.get(buffer)
        lanes = max(map(lanes_of, indices), default=1)
        if b is None or b.scope in HOLDERS or lanes == 1:
            return 1
        starts = [_flat(b, tuple(lane(x, k) for x in indices)) for k in range(lanes)]
        if not all(arith.equal(e, Binary("+", starts[0], Const(k)), self.ranges) for k, e in enumerate(starts)):
            return 1
        first = multiple_of(arith.simplify(starts[0], self.ranges))
        size = size_of(b.dtype)
        n = min(WIDEST // size, lanes)
        while n > 1 and (lanes % n or n & (n - 1) or first % n or alignment(b) % (n * size)):
            n -= 1
        return n


def _flat(b: Buffer, indices: tuple[Expr, ...]) -> Expr:
    """The number of an element, counted from where the buffer begins."""
    total: Expr = b.offset if b.offset is not None and b.scope == "global" else ZERO
    for e, stride in zip(indices, b.strides or row_major(b.shape), strict=True):
        total = Binary("+", total, Binary("*", e, stride))
    return total


def _range_of(value: Expr, ranges: Ranges) -> Range | None:
    """The numbers among which an index is."""
    if dtype_of(value) != INDEX or lanes_of(value) > 1:
        return None
    match arith.bounds(value, ranges):
        case (Const(value=low), Const(value=high)):
            return Range(Const(int(low)), Const(int(high) - int(low) + 1))
    return None


def _unconditional(e: Expr) -> list[Load]:
    """The loads of an expression that happen whatever its conditions are."""
    match e:
        case Load(indices=xs):
            return [e, *(y for x in xs for y in _unconditional(x))]
        case Select(condition=c):
            return _unconditional(c)
        case Binary(op=op, left=left) if op in LOGICAL:
            return _unconditional(left)
        case MaskedLoad(mask=m):
            return _unconditional(m)
    return [y for x in children(e) for y in _unconditional(x)]


# ------------------------------------------------------------------ lanes
def _with(held: Mapping[Expr, Expr], e: Expr) -> Expr:
    """An expression with what is at hand in the place of loads."""
    return held[e] if e in held else with_children(e, tuple(_with(held, x) for x in children(e)))


def _parts(indices: tuple[Expr, ...], first: int, lanes: int) -> tuple[Expr, ...]:
    return tuple(_part(x, first, lanes) for x in indices)


def _part(e: Expr, first: int, lanes: int) -> Expr:
    """So many lanes of a vector, from the first of them on; a scalar as it is."""
    match e:
        case Ramp(base=base, stride=stride):
            return Ramp(fold(Binary("+", base, Const(first * stride))), stride, lanes)
        case Broadcast(value=x):
            return Broadcast(x, lanes)
        case Var(lanes=n) if n > 1:
            return _elements((e,), tuple(range(first, first + lanes)))
        case Shuffle(operands=xs, order=order):
            return _elements(xs, order[first : first + lanes])
    return with_children(e, tuple(_part(x, first, lanes) for x in children(e)))


def _elements(vectors: tuple[Expr, ...], order: tuple[int, ...]) -> Expr:
    """Elements of vectors that stand one after another: one of them, if it is those."""
    begin = 0
    for x in vectors:
        end = begin + lanes_of(x)
        if order == tuple(range(begin, end)):
            return x
        begin = end
    return Shuffle(vectors, order)
