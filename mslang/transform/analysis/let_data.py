"""Names of `let`s, which may be data: arithmetic on loops and sizes is exact, on numbers of 64 bits that were loaded it
wraps."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from mslang.ir.arith.data import may_be_any
from mslang.ir.dtype import INDEX
from mslang.ir.expr import Cast, Expr, Var
from mslang.ir.program import Let, Stmt
from mslang.ir.visit import map_expr, map_stmt_exprs, substitute


def as_data(e: Expr, names: Iterable[str], rewrite: Callable[[Expr], Expr]) -> Expr:
    """What `rewrite` makes of an expression, for which these names are no indices but data."""
    data = {n: _data(n) for n in names}
    return _shown(rewrite(substitute(e, data)), data) if data else rewrite(e)


def rebuilt_under(s: Let, rebuild: Callable[[tuple[Stmt, ...]], tuple[Stmt, ...]]) -> tuple[Stmt, ...]:
    """The body of a `let` as `rebuild` makes it, for which the name of any number is no index but data."""
    if not may_be_any(s.value):
        return rebuild(s.body)
    data = {s.name: _data(s.name)}
    hidden = tuple(map_stmt_exprs(x, lambda e: substitute(e, data)) for x in s.body)
    return tuple(map_stmt_exprs(x, lambda e: _shown(e, data)) for x in rebuild(hidden))


def _data(name: str) -> Expr:
    return Cast(INDEX, Var(name, "u64"))


def _shown(e: Expr, data: dict[str, Expr]) -> Expr:
    names = {x: Var(n) for n, x in data.items()}
    return map_expr(e, names.get)
