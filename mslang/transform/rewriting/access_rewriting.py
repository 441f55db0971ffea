"""Rewriting the indices of accesses, knowing the ranges of the variables around each."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from msgspec.structs import replace

from mslang.ir.expr import Expr, Load
from mslang.ir.program import Axis, Block, Evaluate, For, If, Let, Range, Stmt, Store, While
from mslang.ir.visit import map_expr
from mslang.transform.analysis.let_data import rebuilt_under
from mslang.transform.analysis.position import axis_ranges, loop_range

Scope = Mapping[str, Range]
"""The ranges of the variables that an expression may use; what a `let` names has none."""

Indexing = Callable[[str, tuple[Expr, ...], Scope], tuple[Expr, ...]]
"""New indices of an access of a buffer."""


def map_accesses(
    body: tuple[Stmt, ...], scope: Scope, index: Indexing, block: Callable[[Block], Block] = lambda b: b
) -> tuple[Stmt, ...]:
    """Statements with the indices of all loads and stores rebuilt, inner ones first.

    `block` is given each block with its body, bindings and predicate done, to see to what it declares.
    """
    return tuple(_mapped(s, scope, index, block) for s in body)


def _mapped(s: Stmt, scope: Scope, index: Indexing, block: Callable[[Block], Block]) -> Stmt:
    def value(e: Expr, inside: Scope = scope) -> Expr:
        def load(x: Expr) -> Expr | None:
            return Load(x.buffer, index(x.buffer, x.indices, inside), x.dtype) if isinstance(x, Load) else None

        return map_expr(e, load)

    def several(body: tuple[Stmt, ...], inside: Scope = scope) -> tuple[Stmt, ...]:
        return map_accesses(body, inside, index, block)

    match s:
        case Store(buffer=b, indices=xs, value=v):
            return Store(b, index(b, tuple(value(x) for x in xs), scope), value(v))
        case For(var=v):
            loop = replace(s, start=value(s.start), extent=value(s.extent))
            return replace(loop, body=several(s.body, {**scope, v: loop_range(loop)}))
        case Let(name=n):
            inside = {v: r for v, r in scope.items() if v != n}
            return Let(n, value(s.value), rebuilt_under(s, lambda body: several(body, inside)))
        case If():
            return If(value(s.condition), several(s.then), several(s.otherwise))
        case While():
            return While(value(s.condition), several(s.body))
        case Evaluate():
            return Evaluate(value(s.value))
        case Block():
            own = axis_ranges(s)
            made = replace(
                s,
                axes=tuple(Axis(a.name, a.extent, a.kind, value(a.binding)) for a in s.axes),
                predicate=value(s.predicate, {**scope, **own}),
                init=None if s.init is None else several(s.init, own),
                body=several(s.body, own),
            )
            return block(made)
    raise TypeError(f"not a statement: {s!r}")
