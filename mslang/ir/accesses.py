"""The loads and stores of a program, each with its loops and the conditions under which it happens."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import msgspec

from mslang.ir.expr import TRUE, ZERO, Binary, Expr, Load, Select, Unary, children
from mslang.ir.program import Block, Evaluate, For, If, Let, Program, Range, Stmt, Store, View, While
from mslang.ir.visit import substitute


class Access(msgspec.Struct, frozen=True):
    """A load or store. Indices and guards are expressions of loop variables and sizes: axes and lets are put in.

    `ranges` are the loops around it; `guards` must hold for it to happen. `certain`: if they hold, it happens, so it
    stands in no `while` loop. `written` is the access as it stands in its block, which `block` names.
    """

    buffer: str
    indices: tuple[Expr, ...]
    store: bool
    ranges: Mapping[str, Range]
    guards: tuple[Expr, ...]
    certain: bool
    block: str | None
    written: tuple[str, tuple[Expr, ...]]


class _Place(msgspec.Struct, frozen=True):
    """A place in a program: what names stand for, the loops and conditions around."""

    values: Mapping[str, Expr]
    views: Mapping[str, View]
    ranges: Mapping[str, Range]
    guards: tuple[Expr, ...] = ()
    certain: bool = True
    block: str | None = None

    def when(self, guard: Expr) -> _Place:
        """The place under one more condition."""
        return msgspec.structs.replace(self, guards=(*self.guards, substitute(guard, self.values)))

    def loads(self, e: Expr) -> Iterator[Access]:
        """The loads of an expression, in the order of evaluation."""
        match e:
            case Select(condition=c, then=t, otherwise=o):
                yield from self.loads(c)
                yield from self.when(c).loads(t)
                yield from self.when(Unary("not", c)).loads(o)
                return
            case Binary(op="and" | "or" as op, left=a, right=b):
                yield from self.loads(a)
                yield from self.when(a if op == "and" else Unary("not", a)).loads(b)
                return
            case Load(buffer=b, indices=xs):
                yield self.access(b, xs, False)
        for x in children(e):
            yield from self.loads(x)

    def access(self, buffer: str, indices: tuple[Expr, ...], store: bool) -> Access:
        """One access, of the buffer that a view is part of."""
        written = (buffer, indices)
        indices = tuple(substitute(x, self.values) for x in indices)
        while (view := self.views.get(buffer)) is not None:
            starts = [substitute(r.start, self.values) for r in view.source.ranges]
            lead = len(starts) - len(indices)
            inner = (Binary("+", at, x) for at, x in zip(starts[lead:], indices, strict=True))
            buffer, indices = view.source.buffer, (*starts[:lead], *inner)
        return Access(buffer, indices, store, self.ranges, self.guards, self.certain, self.block, written)


def accesses_of(program: Program) -> Iterator[Access]:
    """Every access of a program, in program order; accesses of views as those of the buffers that they are part of."""
    yield from _of_body(program.body, _Place({}, {}, {}))


def _of_body(body: tuple[Stmt, ...], place: _Place) -> Iterator[Access]:
    for s in body:
        yield from _of_statement(s, place)


def _of_statement(s: Stmt, place: _Place) -> Iterator[Access]:
    match s:
        case Store(buffer=b, indices=xs, value=v):
            for e in (v, *xs):
                yield from place.loads(e)
            yield place.access(b, xs, True)
        case Evaluate(value=v):
            yield from place.loads(v)
        case Let(name=n, value=v, body=inner):
            yield from place.loads(v)
            values = {**place.values, n: substitute(v, place.values)}
            yield from _of_body(inner, msgspec.structs.replace(place, values=values))
        case If(condition=c, then=t, otherwise=o):
            yield from place.loads(c)
            yield from _of_body(t, place.when(c))
            yield from _of_body(o, place.when(Unary("not", c)))
        case While(condition=c, body=inner):
            yield from place.loads(c)
            yield from _of_body(inner, msgspec.structs.replace(place.when(c), certain=False))
        case For(var=n, start=a, extent=e, body=inner):
            yield from place.loads(a)
            yield from place.loads(e)
            over = Range(substitute(a, place.values), substitute(e, place.values))
            yield from _of_body(inner, msgspec.structs.replace(place, ranges={**place.ranges, n: over}))
        case Block():
            yield from _of_block(s, place)


def _of_block(b: Block, place: _Place) -> Iterator[Access]:
    for a in b.axes:
        yield from place.loads(a.binding)
    axes = {a.name: substitute(a.binding, place.values) for a in b.axes}
    inside = msgspec.structs.replace(place, values={**place.values, **axes}, block=b.name)
    if b.predicate != TRUE:
        yield from inside.loads(b.predicate)
        inside = inside.when(b.predicate)
    if b.views:
        inside = msgspec.structs.replace(inside, views={**inside.views, **{v.buffer.name: v for v in b.views}})
    first = inside
    for a in b.axes:
        if a.kind == "reduce":
            first = first.when(Binary("==", axes[a.name], ZERO))
    yield from _of_body(b.init or (), first)
    yield from _of_body(b.body, inside)
