"""Memory of a warp: registers spread over its lanes, and shuffles where a lane reads what another one wrote.

A buffer of scope `warp` belongs to the lanes of one row of `threadIdx.x`. Each lane keeps the elements that it stores:
along one dimension, which its number moves by a constant stride, element `i` is in lane `i // stride % lanes`, the rest
of the indices is the *slot* in the registers of that lane. A load becomes a shuffle of a slot from that lane.

    W[t * 2 + c] = x              w[0, c] = x
    y = W[31 - t]                 y = shuffle(w[0, (31 - t) % 2], (31 - t) // 2 % 32)      (refused: the slot differs)

All lanes take part in a shuffle, and all of them send the same slot; a condition that differs among lanes goes around
what is done with the value.

Source: TVM's pass `LowerWarpMemory`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NamedTuple

from msgspec.structs import replace

from mslang.diagnostics import TargetError, problem
from mslang.ir import arith
from mslang.ir.arith.linear import coefficients
from mslang.ir.expr import ONE, ZERO, Binary, Call, Const, Expr, Load, MaskedLoad, Select, Unary, Var, dtype_of
from mslang.ir.print import print_expr
from mslang.ir.program import Buffer, Range
from mslang.ir.reduction import identity
from mslang.ir.visit import conjunction, conjuncts, free_vars, fresh, loads_of, map_expr, substitute, walk_expr
from mslang.kernel import Allocate, Body, For, Function, If, Invoke, Let, Module, Stmt, Store, While, Within
from mslang.kernel.visit import bodies, map_expressions, walk, with_bodies
from mslang.lower.gpu.accesses import direct, touched
from mslang.lower.gpu.axes import BLOCK_SHARED, THREAD_AXES, WARP, axis_ranges, extents_of, thread_extents
from mslang.lower.gpu.indices import simpler
from mslang.target.description import Target

LANE = Var("threadIdx.x")
SCOPE = "warp"


def exchanged(module: Module, target: Target) -> Module:
    """The module with memory of warps in registers.

    Raises:
        TargetError: MS438, shuffles cannot exchange what lanes read.
    """
    return replace(module, functions=tuple(_exchanged(f) for f in module.functions))


def _exchanged(f: Function) -> Function:
    buffers = {s.buffer.name: s.buffer for s in walk(f.body) if isinstance(s, Allocate)}
    mine = {n: b for n, b in buffers.items() if b.scope == SCOPE}
    if not mine:
        return f
    ranges = axis_ranges(extents_of(f.launch))
    stores: dict[str, list[_Stored]] = {n: [] for n in mine}
    _collect(f.body, _Around(ranges, {}), stores)
    lanes = thread_extents(f).get("threadIdx.x", 1)
    layouts = {n: _layout(b, lanes, stores[n]) for n, b in mine.items()}
    shared = frozenset(n for n, b in buffers.items() if b.scope in BLOCK_SHARED) | {b.name for b in f.params}
    pass_ = _Pass(layouts, shared, _row(f, lanes), {x.name for x in walk(f.body) if isinstance(x, Let)})
    apart = frozenset({LANE.name} if lanes == WARP else THREAD_AXES)  # Short rows share a warp.
    return replace(f, body=pass_.body(f.body, _Context(ranges, {}, apart, ())))


def _row(f: Function, lanes: int) -> Expr:
    """The first lane of the row of a thread in its warp."""
    extents = thread_extents(f)
    y, z = (Var(f"threadIdx.{d}") if extents.get(f"threadIdx.{d}", 1) > 1 else ZERO for d in "yz")
    if lanes == WARP or y == z == ZERO:
        return ZERO
    rows = Binary("+", y, Binary("*", z, Const(extents.get("threadIdx.y", 1))))
    return arith.simplify(Binary("%", Binary("*", rows, Const(lanes)), Const(WARP)))


# ------------------------------------------------------------------ where elements are
class _Around(NamedTuple):
    """Ranges of axes and loops, and values of `let`s, where a statement stands."""

    ranges: Mapping[str, Range]
    values: Mapping[str, Expr]

    def inside(self, s: Stmt) -> _Around:
        match s:
            case For(var=v, start=start, extent=extent):
                over = Range(substitute(start, self.values), substitute(extent, self.values))
                return self._replace(ranges={**self.ranges, v: over})
            case Let(name=n, value=v):
                return self._replace(values={**self.values, n: substitute(v, self.values)})
        return self

    def known(self, e: Expr) -> Expr:
        return simpler(substitute(e, self.values), self.ranges)


class _Stored(NamedTuple):
    indices: tuple[Expr, ...]
    ranges: Mapping[str, Range]


def _collect(body: Body, around: _Around, found: dict[str, list[_Stored]]) -> None:
    for s in body:
        for a in direct(s):
            if a.write and a.buffer in found:
                found[a.buffer].append(_Stored(tuple(map(around.known, a.indices)), around.ranges))
        for b in bodies(s):
            _collect(b, around.inside(s), found)


class _Layout(NamedTuple):
    """A buffer whose element `i` of a dimension is in lane `i // stride % lanes`."""

    buffer: Buffer
    dimension: int
    stride: int
    lanes: int

    def lane(self, indices: tuple[Expr, ...], ranges: Mapping[str, Range]) -> Expr:
        at = Binary("//", indices[self.dimension], Const(self.stride))
        return arith.simplify(Binary("%", at, Const(self.lanes)), ranges)

    def slots(self, indices: tuple[Expr, ...], ranges: Mapping[str, Range]) -> tuple[Expr, ...]:
        i = indices[self.dimension]
        parts = (Binary("//", i, Const(self.stride * self.lanes)), Binary("%", i, Const(self.stride)))
        before, after = indices[: self.dimension], indices[self.dimension + 1 :]
        return tuple(arith.simplify(e, ranges) for e in (*before, *parts, *after))

    def registers(self) -> Buffer:
        """The buffer that each lane has."""
        whole = arith.ceildiv(self.buffer.shape[self.dimension], Const(self.stride * self.lanes))
        before, after = self.buffer.shape[: self.dimension], self.buffer.shape[self.dimension + 1 :]
        shape = (*before, arith.simplify(whole), Const(self.stride), *after)
        return replace(self.buffer, scope="local", shape=shape, strides=None)


def _layout(buffer: Buffer, lanes: int, stores: list[_Stored]) -> _Layout:
    found: set[tuple[int, int]] = set()
    for indices, _ in stores:
        moving = [k for k, e in enumerate(indices) if LANE.name in free_vars(e)]
        terms = coefficients(indices[moving[0]], frozenset({LANE.name})) if len(moving) == 1 else None
        stride = None if terms is None else terms[LANE.name]
        if not isinstance(stride, Const) or stride.value <= 0:
            raise _refused(
                buffer.name, f"it is stored at {_text(indices)}, which does not rise evenly with threadIdx.x"
            )
        found.add((moving[0], int(stride.value)))
    if len(found) != 1:
        raise _refused(buffer.name, "its stores do not agree on which lane keeps an element")
    layout = _Layout(buffer, *found.pop(), lanes)
    for indices, ranges in stores:
        slots = layout.slots(indices, ranges)
        if layout.lane(indices, ranges) != LANE or any(LANE.name in free_vars(e) for e in slots):
            raise _refused(buffer.name, f"lane threadIdx.x is not seen to keep what it stores at {_text(indices)}")
    return layout


def _text(indices: tuple[Expr, ...]) -> str:
    return f"[{', '.join(map(print_expr, indices))}]"


# ------------------------------------------------------------------ stores and loads
class _Context(NamedTuple):
    """What is known where a statement stands; `varying` are the names whose values differ among lanes, `conditions`
    those that go around what is done."""

    ranges: Mapping[str, Range]
    values: Mapping[str, Expr]
    varying: frozenset[str]
    conditions: tuple[Expr, ...]

    def where(self, condition: Expr) -> _Context:
        """Where a condition holds. Lanes in which it does not need no value: what they ask for does not matter."""
        ranges = dict(self.ranges)
        for part in conjuncts(condition):
            match part:
                case Binary(op="<", left=Var(name=n), right=Const() as end) if n in THREAD_AXES:
                    ranges[n] = Range(ZERO, end)
                case Binary(op="==", left=Var(name=n), right=Const() as only) if n in THREAD_AXES:
                    ranges[n] = Range(only, ONE)
        return self._replace(ranges=ranges, conditions=(*self.conditions, condition))

    def guarded(self, s: Stmt) -> Stmt:
        return If(conjunction(self.conditions), (s,)) if self.conditions else s


class _Pass:
    """Rewrites the accesses of one function."""

    def __init__(self, layouts: Mapping[str, _Layout], shared: frozenset[str], row: Expr, names: set[str]) -> None:
        self.layouts, self.shared, self.row, self.names = layouts, shared, row, names

    def body(self, body: Body, c: _Context) -> Body:
        return tuple(x for s in body for x in self._statement(s, c))

    def _statement(self, s: Stmt, c: _Context) -> Body:
        if not any(_reads(x, self.layouts) for x in walk((s,))):
            return (c.guarded(self._stored(s, c)),)
        match s:
            case If(condition=e, then=then, otherwise=otherwise):
                return self._branches(s, e, then, otherwise, c)
            case For(start=start, extent=extent) if not (self._varies(start, c) or self._varies(extent, c)):
                kind = "unrolled" if s.kind == "vectorized" else s.kind
                inner = c._replace(ranges=_Around(c.ranges, c.values).inside(s).ranges)
                return self._received(s, c, lambda x: replace(x, body=self.body(s.body, inner), kind=kind))
            case Let(name=n, value=v):
                differs = c.varying | {n} if self._varies(v, c) else c.varying
                inner = c._replace(values=_Around(c.ranges, c.values).inside(s).values, varying=differs)
                return self._received(s, c, lambda x: self._let(x, c, inner))
            case Allocate(buffer=b, body=body):
                made = self.layouts[b.name].registers() if b.name in self.layouts else b
                return (replace(s, buffer=made, body=self.body(body, c)),)
            case Within(body=body):
                return (replace(s, body=self.body(body, c)),)
            case For() | While() | Invoke():
                name = next(iter(sorted(touched((s,)) & self.layouts.keys())))
                raise _refused(name, "lanes read it in a loop that they run differently often, or by an instruction")
        return self._received(s, c, lambda x: c.guarded(self._stored(x, c)))

    def _let(self, s: Stmt, c: _Context, inner: _Context) -> Stmt:
        assert isinstance(s, Let)
        value = s.value
        if c.conditions and any(loads_of(value)):
            value = Select(conjunction(c.conditions), value, identity("max", dtype_of(value)))
        return replace(s, value=value, body=self.body(s.body, inner))

    def _branches(self, s: If, condition: Expr, then: Body, otherwise: Body, c: _Context) -> Body:
        if not c.conditions and not self._varies(condition, c):
            parts = (self.body(then, c), self.body(otherwise, c))
            return self._received(s, c, lambda x: with_bodies(x, parts))
        if any(loads_of(condition)):  # What it loads may change between its statements.
            name = self._fresh("taken")
            return self._statement(Let(name, condition, (If(Var(name, "bool"), then, otherwise),)), c)
        no = c._replace(conditions=(*c.conditions, Unary("not", condition)))
        return (*self.body(then, c.where(condition)), *self.body(otherwise, no))

    def _received(self, s: Stmt, c: _Context, made: Callable[[Stmt], Stmt]) -> Body:
        """A statement after the shuffles of what it loads itself."""
        around = _Around(c.ranges, c.values)
        taken: dict[Expr, str] = {}
        sent: dict[str, Expr] = {}

        def visit(x: Expr) -> Expr | None:
            if not isinstance(x, Load) or x.buffer not in self.layouts:
                return None
            layout = self.layouts[x.buffer]
            indices = tuple(map(around.known, x.indices))
            slots = layout.slots(indices, c.ranges)
            lane = layout.lane(indices, c.ranges)
            held = Load(x.buffer, _inside(slots, layout.registers(), c.ranges), x.dtype)
            if lane == LANE:
                return held
            if any(self._varies(e, c) for e in slots):
                raise _refused(x.buffer, f"lanes read {_text(x.indices)} from different registers of one another")
            if x not in taken:
                taken[x] = self._fresh(f"{x.buffer}_received")
                source = arith.simplify(Binary("+", lane, self.row)) if self.row != ZERO else lane
                sent[taken[x]] = Call("shuffle", (held, source), x.dtype)
            return Var(taken[x], x.dtype)

        out = made(map_expressions(s, lambda e: map_expr(e, visit)))
        for name, value in reversed(sent.items()):
            out = Let(name, value, (out,))
        return (out,)

    def _stored(self, s: Stmt, c: _Context) -> Stmt:
        """A statement whose stores go to the registers of the lane."""
        around = _Around(c.ranges, c.values)

        def visit(x: Stmt, a: _Around) -> Stmt:
            inner = a.inside(x)
            x = with_bodies(x, tuple(tuple(visit(y, inner) for y in b) for b in bodies(x)))
            if isinstance(x, Store) and x.buffer in self.layouts:
                slots = self.layouts[x.buffer].slots(tuple(map(a.known, x.indices)), a.ranges)
                return replace(x, indices=slots)
            if isinstance(x, Allocate) and x.buffer.name in self.layouts:
                return replace(x, buffer=self.layouts[x.buffer.name].registers())
            return x

        return visit(s, around)

    def _varies(self, e: Expr, c: _Context) -> bool:
        """May an expression have different values in the lanes of a warp?"""
        if not c.varying.isdisjoint(free_vars(e)):
            return True
        return any(isinstance(x, Load | MaskedLoad) and x.buffer not in self.shared for x in walk_expr(e))

    def _fresh(self, name: str) -> str:
        made = fresh(name, self.names)
        self.names.add(made)
        return made


def _reads(s: Stmt, layouts: Mapping[str, _Layout]) -> bool:
    return any(not a.write and a.buffer in layouts for a in direct(s)) or (
        isinstance(s, Invoke) and any(x.buffer in layouts for e in s.operands for x in loads_of(e))
    )


def _inside(slots: tuple[Expr, ...], b: Buffer, ranges: Mapping[str, Range]) -> tuple[Expr, ...]:
    """Slots that exist, also where the lane that asks for an element does not need it."""
    out: list[Expr] = []
    for e, n in zip(slots, b.shape, strict=True):
        low, high = Binary(">=", e, ZERO), Binary("<", e, n)
        e = e if arith.proved(low, ranges) else arith.maximum(e, ZERO)
        out.append(e if arith.proved(high, ranges) else arith.minimum(e, arith.sub(n, ONE)))
    return tuple(out)


def _refused(name: str, why: str) -> TargetError:
    return TargetError(
        problem(
            "MS438",
            f"lanes of a warp cannot exchange the elements of `{name}` by shuffles",
            why=why,
            help='`set_scope` the buffer to "shared"; or bind the innermost loop that fills it to threadIdx.x',
        )
    )
