"""Vectorized loops as vectors: whole ones, then a masked one or shorter ones for what is left.

The loop's variable becomes a `Ramp`. A branch that differs between lanes becomes a mask, of stores and of loads;
an instruction of the same operands in all lanes stays scalar. Loops that cannot run as lanes become serial.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import NamedTuple

from msgspec.structs import replace

from mslang.ir.dtype import INDEX
from mslang.ir.expr import (
    ZERO,
    Binary,
    Broadcast,
    Call,
    Cast,
    Const,
    Expr,
    Load,
    MaskedLoad,
    Ramp,
    Select,
    Shuffle,
    Unary,
    Var,
    children,
    dtype_of,
    with_children,
)
from mslang.ir.program import Buffer
from mslang.ir.reduction import identity
from mslang.ir.visit import fresh
from mslang.kernel.lanes import active_lanes, lanes_of, tail_mask
from mslang.kernel.nodes import (
    Allocate,
    Body,
    For,
    If,
    Let,
    Module,
    Stmt,
    Store,
    While,
)
from mslang.kernel.visit import bodies, map_functions, walk, with_bodies
from mslang.lower.analysis import VECTORS_WRITTEN_OUT, indexes, names
from mslang.lower.lane_reduction import LaneReduction, accumulator_lanes, joined, lane_reduction
from mslang.lower.lanes import Chunk, adjacent_lanes, chunks, native_lanes, vectorizable
from mslang.lower.rows import in_rows
from mslang.lower.substitute import Known, loop_bounds, reads
from mslang.target.description import Target


def vectorize(module: Module, target: Target) -> Module:
    """The module with vectorized loops as vector statements; one that checks each access is left serial."""
    if module.checked:
        return module

    def function(body: Body) -> Body:
        return _Vectorizer(target, names(body)).body(body, _Place(Known({})))

    return map_functions(module, function)


class _Place(NamedTuple):
    """Where statements stand: what is known of variables there, and the buffers that may become registers."""

    known: Known
    registers: frozenset[str] = frozenset()
    in_parallel: bool = False


class _Lanes(NamedTuple):
    """The lanes in which statements run: their number, what variables are in them, and the lanes that act."""

    lanes: int
    values: Mapping[str, Expr]
    mask: Expr | None = None
    certain: bool = True
    """Whether what stands here is evaluated wherever its statement runs."""

    @property
    def guarded(self) -> bool:
        """Whether what does not act must not be loaded: a tail alone may load what is the same in all lanes."""
        return self.mask is not None and active_lanes(self.mask) is None

    def with_value(self, name: str, value: Expr) -> _Lanes:
        return self._replace(values={**self.values, name: value})

    def where(self, condition: Expr) -> _Lanes:
        """The lanes that satisfy a vector condition too."""
        return self._replace(mask=condition if self.mask is None else Binary("and", self.mask, condition))


class _Vectorizer:
    def __init__(self, target: Target, taken: set[str]) -> None:
        self.target = target
        self.taken = taken

    def _fresh(self, wanted: str) -> str:
        name = fresh(wanted, self.taken)
        self.taken.add(name)
        return name

    # -------------------------------------------------------------- outside of vectors
    def body(self, body: Body, at: _Place) -> Body:
        out: list[Stmt] = []
        for s in body:
            out.extend(self._statement(s, at))
        return tuple(out)

    def _statement(self, s: Stmt, at: _Place) -> Iterator[Stmt]:
        match s:
            case For(kind="vectorized"):
                if vectorizable(s):
                    yield from self._loop(s, at)
                elif (found := lane_reduction(s)) is not None and isinstance(s.extent, Const):
                    yield from self._reduction(s, found, int(s.extent.value), at.known)
                elif (rows := in_rows(s, at.known, self._fresh)) is not None:
                    yield from self._statement(rows, at)
                else:
                    yield from self._statement(replace(s, kind="serial"), at)
                return
            case For(var=v):
                inner = at._replace(known=at.known.within(v, loop_bounds(s, at.known)))
                if s.kind == "parallel" and not at.in_parallel:
                    inner = inner._replace(registers=frozenset(), in_parallel=True)
            case Allocate(buffer=b) if b.scope == "local":
                inner = at._replace(registers=at.registers | {b.name})
            case Let(name=n):
                inner = at._replace(known=at.known.within(n, None))
            case _:
                inner = at
        yield with_bodies(s, tuple([self.body(b, inner) for b in bodies(s)]))

    def _loop(self, s: For, at: _Place) -> Iterator[Stmt]:
        start, extent = at.known.expr(s.start, {}), at.known.expr(s.extent, {})
        native = native_lanes(s.body, self.target)
        lanes = adjacent_lanes(s, native)
        if not isinstance(extent, Const):
            yield from self._open(s, start, extent, lanes, at)
            return
        wide = lanes == native and any(isinstance(x, For | While) for x in walk(s.body))
        pieces = chunks(int(extent.value), lanes, wide=wide, masks=self.target.has("avx512f"))
        whole = [p for p in pieces if p.active == pieces[0].lanes]
        if len(whole) > VECTORS_WRITTEN_OUT and not indexes(s, at.registers):
            yield self._repeated(s, start, Const(len(whole)), whole[0].lanes, at)
            pieces = pieces[len(whole) :]
        for p in pieces:
            yield from self._chunk(s, Binary("+", start, Const(p.start)), p.lanes, p.active, at.known)

    def _open(self, s: For, start: Expr, extent: Expr, width: int, at: _Place) -> Iterator[Stmt]:
        """A length known at run time only: whole vectors, then one by one."""
        known = at.known.interval(extent)
        count = extent if known is not None and known[0] >= 0 else Binary("max", extent, ZERO)
        whole = at.known.expr(Binary("//", count, Const(width)), {})
        yield self._repeated(s, start, whole, width, at)
        done = Binary("*", whole, Const(width))
        rest = at.known.expr(Binary("-", extent, done), {})
        yield from self._statement(
            replace(s, kind="serial", start=at.known.expr(Binary("+", start, done), {}), extent=rest), at
        )

    def _repeated(self, s: For, start: Expr, times: Expr, width: int, at: _Place) -> Stmt:
        """A loop over equal chunks."""
        var = self._fresh(f"{s.var}_vector")
        loop = For(var, times, ())
        known = at.known.within(var, loop_bounds(loop, at.known))
        first = Binary("+", start, Binary("*", Var(var), Const(width)))
        return replace(loop, body=tuple(self._chunk(s, first, width, width, known)))

    def _chunk(self, s: For, first: Expr, lanes: int, active: int, known: Known) -> Iterator[Stmt]:
        base = known.expr(first, {})
        at: Expr = base if lanes == 1 else Ramp(base, 1, lanes)
        mask = None if active == lanes else tail_mask(active, lanes)
        yield from self._in_lanes(s.body, _Lanes(lanes, {s.var: at}, mask), known)

    # -------------------------------------------------------------- reductions over lanes
    def _reduction(self, s: For, found: LaneReduction, trips: int, known: Known) -> Iterator[Stmt]:
        """Whole vectors combined lane by lane, their lanes with each other; then the rest."""
        native = native_lanes(s.body, self.target)
        lanes = accumulator_lanes(trips, native)
        count = trips // lanes
        if count > 1:
            yield self._accumulated(s, found, count, lanes, known)
        done = lanes * count if count > 1 else 0
        for p in chunks(trips - done, native, wide=False, masks=self.target.has("avx512f")):
            yield from self._joined_chunk(s, found, Chunk(done + p.start, p.lanes, p.active), known)

    def _accumulated(self, s: For, found: LaneReduction, count: int, lanes: int, known: Known) -> Stmt:
        """Several vectors of iterations, combined in registers."""
        op, dtype = found.update.op, found.update.dtype
        parts = Buffer(self._fresh(f"{s.var}_lanes"), dtype, (Const(lanes),), "local")
        at = (Ramp(ZERO, 1, lanes),)
        var = self._fresh(f"{s.var}_vector")
        kind = "unrolled" if count <= VECTORS_WRITTEN_OUT else "serial"
        start = Store(parts.name, at, Broadcast(identity(op, dtype), lanes))
        loop = For(var, Const(count), (), kind=kind)
        inner = known.within(var, loop_bounds(loop, known))
        first = Binary("+", s.start, Binary("*", Var(var), Const(lanes)))

        def add(value: Expr) -> Stmt:
            return Store(parts.name, at, Binary(op, Load(parts.name, at, dtype), value))

        step = self._with_lanes(found, _Lanes(lanes, {s.var: Ramp(inner.expr(first, {}), 1, lanes)}), inner, add)
        result = joined(Load(parts.name, at, dtype), op, dtype, self._fresh, found.into)
        return Allocate(parts, (start, replace(loop, body=(step,)), result))

    def _joined_chunk(self, s: For, found: LaneReduction, chunk: Chunk, known: Known) -> Iterator[Stmt]:
        """The lanes of one vector, combined."""
        op, dtype, lanes = found.update.op, found.update.dtype, chunk.lanes
        first = known.expr(Binary("+", s.start, Const(chunk.start)), {})
        at: Expr = first if lanes == 1 else Ramp(first, 1, lanes)
        mask = None if chunk.active == lanes else tail_mask(chunk.active, lanes)

        def add(value: Expr) -> Stmt:
            if lanes > 1 and lanes_of(value) == 1:
                value = Broadcast(value, lanes)
            if mask is not None:
                value = Select(mask, value, Broadcast(identity(op, dtype), lanes))
            return joined(value, op, dtype, self._fresh, found.into)

        yield self._with_lanes(found, _Lanes(lanes, {s.var: at}, mask), known, add)

    def _with_lanes(self, found: LaneReduction, lanes: _Lanes, known: Known, use: Callable[[Expr], Stmt]) -> Stmt:
        """A statement that uses what is combined, in lanes."""
        saved: list[tuple[str, Expr]] = []
        made = use(_Values(self, lanes, known, saved).of(found.update.value))
        for name, value in reversed(saved):
            made = Let(name, value, (made,))
        return made

    # -------------------------------------------------------------- in lanes
    def _in_lanes(self, body: Body, lanes: _Lanes, known: Known) -> Body:
        out: list[Stmt] = []
        for s in body:
            out.extend(self._lanes_statement(s, lanes, known))
        return tuple(out)

    def _lanes_statement(self, s: Stmt, lanes: _Lanes, known: Known) -> Body:
        saved: list[tuple[str, Expr]] = []
        made = self._in_lane(s, lanes, known, saved)
        for name, value in reversed(saved):
            made = (Let(name, value, made),)
        return made

    def _in_lane(self, s: Stmt, lanes: _Lanes, known: Known, saved: list[tuple[str, Expr]]) -> Body:
        """A statement in lanes; `saved` gets what must be computed once before it."""
        value = _Values(self, lanes, known, saved)
        match s:
            case Store(indices=xs, value=v, mask=None):
                return (self._store(s, tuple([value.index(x) for x in xs]), value.of(v), lanes),)
            case For(var=v):
                start, extent = known.expr(s.start, lanes.values), known.expr(s.extent, lanes.values)
                loop = replace(s, start=start, extent=extent, kind="serial" if s.kind == "vectorized" else s.kind)
                inner = known.within(v, loop_bounds(loop, known))
                return (replace(loop, body=self._in_lanes(s.body, lanes, inner)),)
            case If(condition=c, then=then, otherwise=otherwise):
                return self._branch(value.of(c), then, otherwise, lanes, known, value)
            case Let(name=n, value=v, body=b):
                made = value.index(v) if dtype_of(v) == INDEX else value.of(v)
                if dtype_of(v) == INDEX and not reads(made) and known.form(made) is not None:
                    return self._in_lanes(b, lanes.with_value(n, made), known)
                inner = known.within(n, None)
                name = Var(n, dtype_of(v), lanes_of(made))
                return (Let(n, made, self._in_lanes(b, lanes.with_value(n, name), inner)),)
        raise TypeError(f"not a statement that runs in lanes: {s!r}")

    def _store(self, s: Store, indices: tuple[Expr, ...], value: Expr, lanes: _Lanes) -> Stmt:
        if any(lanes_of(x) > 1 for x in indices):
            return replace(s, indices=indices, value=value, mask=lanes.mask)
        if lanes.guarded:
            spread = tuple([Broadcast(x, lanes.lanes) for x in indices])
            return replace(s, indices=spread, value=value, mask=lanes.mask)
        if lanes_of(value) > 1:
            # Of lanes that write one element the last one wins, as in the loop.
            last = lanes.lanes if lanes.mask is None else active_lanes(lanes.mask) or lanes.lanes
            value = Shuffle((value,), (last - 1,))
        return replace(s, indices=indices, value=value)

    def _branch(self, c: Expr, then: Body, otherwise: Body, lanes: _Lanes, known: Known, value: _Values) -> Body:
        if isinstance(c, Const):
            return self._in_lanes(then if c.value else otherwise, lanes, known)
        if lanes_of(c) == 1:
            a, b = self._in_lanes(then, lanes, known), self._in_lanes(otherwise, lanes, known)
            return (If(c, a, b),) if a or b else ()
        c = value.once(c)
        made = self._in_lanes(then, lanes.where(c), known)
        if otherwise:
            made += self._in_lanes(otherwise, lanes.where(Unary("not", c)), known)
        return made


class _Values:
    """Expressions of one statement, in lanes."""

    def __init__(self, owner: _Vectorizer, lanes: _Lanes, known: Known, saved: list[tuple[str, Expr]]) -> None:
        self._owner, self._lanes, self._known, self._saved = owner, lanes, known, saved

    def of(self, e: Expr) -> Expr:
        """An expression; loads in it are masked where lanes may not read."""
        return self._made(e, self._lanes)

    def index(self, e: Expr) -> Expr:
        """An index of an access."""
        return self._at(e, self._lanes)

    def once(self, condition: Expr, certain: bool = True) -> Expr:
        """A condition that several masks need: computed before the statement if it reads memory, and may there."""
        if not certain or not reads(condition):
            return condition
        name = self._owner._fresh("mask")
        self._saved.append((name, condition))
        return Var(name, "bool", lanes_of(condition))

    def _at(self, e: Expr, lanes: _Lanes) -> Expr:
        if not reads(e):
            return self._known.index(e, lanes.values)
        return self._known.index(self._made(e, lanes), {})

    def _made(self, e: Expr, lanes: _Lanes) -> Expr:
        if not reads(e):
            return self._known.expr(e, lanes.values)
        match e:
            case Load(buffer=b, indices=xs, dtype=d):
                return self._load(b, tuple([self._at(x, lanes) for x in xs]), d, lanes)
            case Select(condition=c, then=t, otherwise=o):
                return self._select(self._made(c, lanes), t, o, lanes)
            case Binary(op="and" | "or" as op, left=left, right=right) if reads(right):
                # The right side may only be read where the left one lets it.
                other = Const(op == "or", "bool")
                then, otherwise = (right, other) if op == "and" else (other, right)
                return self._select(self._made(left, lanes), then, otherwise, lanes)
            case Binary() | Unary() | Cast() | Call():
                return self._known.settled(with_children(e, tuple([self._made(x, lanes) for x in children(e)])))
        raise TypeError(f"not an expression of a program: {e!r}")

    def _select(self, c: Expr, then: Expr, otherwise: Expr, lanes: _Lanes) -> Expr:
        if isinstance(c, Const):
            return self._made(then if c.value else otherwise, lanes)
        if not reads(then) and not reads(otherwise):
            return Select(c, self._made(then, lanes), self._made(otherwise, lanes))
        if lanes_of(c) == 1:
            inside = lanes._replace(certain=False)
            return Select(c, self._made(then, inside), self._made(otherwise, inside))
        c = self.once(c, lanes.certain)
        yes, no = self._made(then, lanes.where(c)), self._made(otherwise, lanes.where(Unary("not", c)))
        return Select(c, yes, no)

    def _load(self, buffer: str, indices: tuple[Expr, ...], dtype: str, lanes: _Lanes) -> Expr:
        varies = any(lanes_of(x) > 1 for x in indices)
        # The element of a buffer without dimensions is always there.
        if lanes.mask is None or not indices or not (varies or lanes.guarded):
            return Load(buffer, indices, dtype)
        if not varies:
            indices = tuple([Broadcast(x, lanes.lanes) for x in indices])
        return MaskedLoad(buffer, indices, dtype, lanes.mask)
