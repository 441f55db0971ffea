"""Blocks to plain statements: axes become their bindings, init and predicates become branches, views their source."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from msgspec.structs import replace

from mslang.diagnostics import MsError, problem
from mslang.ir.expr import TRUE, ZERO, Binary, Const, Expr, Load, Var, dtype_of
from mslang.ir.program import Block, Buffer, For, If, Let, Program, Stmt, Store, View, While
from mslang.ir.visit import conjunction, fresh, map_expr, used_names
from mslang.lower.fold import fold
from mslang.lower.kernel import Body, bodies, map_expressions, with_bodies


class Flat(NamedTuple):
    """A program without blocks, the buffers it allocates not yet placed."""

    body: Body
    buffers: tuple[Buffer, ...]


class _Names(NamedTuple):
    """What names in a block's body stand for."""

    values: Mapping[str, Expr]
    views: Mapping[str, View]


def flatten(p: Program) -> Flat:
    """The program's statements with every block replaced by what it does."""
    found = list(p.allocs)
    lets = _Lets(set(used_names(p)))
    body = _body(p.body, _Names({}, {}), found, lets)
    return Flat(body, tuple(found))


class _Lets:
    """Makes `let` names unique, as they are local to their block only."""

    def __init__(self, taken: set[str]) -> None:
        self.taken = taken
        self.seen: set[str] = set()

    def name(self, wanted: str) -> str:
        if wanted in self.seen:
            wanted = fresh(wanted, self.taken)
        self.taken.add(wanted)
        self.seen.add(wanted)
        return wanted


def _body(body: tuple[Stmt, ...], names: _Names, found: list[Buffer], lets: _Lets) -> Body:
    out: list[Stmt] = []
    for s in body:
        out.extend(_statement(s, names, found, lets))
    return tuple(out)


def _statement(s: Stmt, names: _Names, found: list[Buffer], lets: _Lets) -> Body:
    match s:
        case Block():
            return _block(s, names, found, lets)
        case Store(buffer=b, indices=xs, value=v):
            buffer, indices = _access(b, tuple(_rewrite(x, names) for x in xs), names)
            return (Store(buffer, indices, _rewrite(v, names)),)
        case Let(name=n, value=v, body=b):
            name = lets.name(n)
            inner = _Names({**names.values, n: Var(name, dtype_of(v))}, names.views)
            return (Let(name, _rewrite(v, names), _body(b, inner, found, lets)),)
        case For() | If() | While():
            parts = tuple(_body(b, names, found, lets) for b in bodies(s))
            return (map_expressions(with_bodies(s, parts), lambda e: _rewrite(e, names)),)
    return (map_expressions(s, lambda e: _rewrite(e, names)),)


def _block(s: Block, names: _Names, found: list[Buffer], lets: _Lets) -> Body:
    outer = names
    axes = {a.name: _rewrite(a.binding, outer) for a in s.axes}
    views = {**outer.views}
    for v in s.views:
        source, starts = v.source, tuple(_rewrite(r.start, _Names({**outer.values, **axes}, outer.views)) for r in v.source.ranges)
        ranges = tuple(replace(r, start=at) for r, at in zip(source.ranges, starts, strict=True))
        views[v.buffer.name] = View(v.buffer, replace(source, ranges=ranges))
    inner = _Names({**outer.values, **axes}, views)
    found.extend(s.allocs)
    body = _body(s.body, inner, found, lets)
    if s.init is not None:
        reduced = tuple(
            Binary("==", axes[a.name], ZERO) for a in s.axes if a.kind == "reduce" and a.extent != Const(1)
        )
        init = _body(s.init, inner, found, lets)
        first = fold(conjunction(reduced))
        body = (*(init if first == TRUE else (If(first, init),)), *body)
    predicate = fold(_rewrite(s.predicate, inner))
    return body if predicate == TRUE else (If(predicate, body),)


def _rewrite(e: Expr, names: _Names) -> Expr:
    def change(x: Expr) -> Expr | None:
        match x:
            case Var(name=n):
                return names.values.get(n)
            case Load(buffer=b, indices=xs, dtype=d) if b in names.views:
                buffer, indices = _access(b, xs, names)
                return Load(buffer, indices, d)
        return None

    return map_expr(e, change)


def _access(buffer: str, indices: tuple[Expr, ...], names: _Names) -> tuple[str, tuple[Expr, ...]]:
    """An access of a view as one of what it stands for."""
    while (view := names.views.get(buffer)) is not None:
        starts = [r.start for r in view.source.ranges]
        dropped = len(starts) - len(indices)
        if dropped < 0:
            raise MsError(problem("MS405", f"{buffer} is accessed with more indices than the region it views has"))
        shifted = tuple(Binary("+", at, i) for at, i in zip(starts[dropped:], indices, strict=True))
        buffer, indices = view.source.buffer, (*starts[:dropped], *shifted)
    return buffer, indices
