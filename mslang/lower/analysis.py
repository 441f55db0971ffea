"""Small questions about lowered statements."""

from __future__ import annotations

from collections.abc import Iterator

from mslang.ir.expr import Expr, Load, Var
from mslang.ir.program import Store
from mslang.ir.visit import walk_expr
from mslang.lower.kernel import Body, expressions, walk

Access = Load | Store


def accesses(body: Body) -> Iterator[Access]:
    """Every load and store, in no particular order within a statement."""
    for s in walk(body):
        if isinstance(s, Store):
            yield s
        for e in expressions(s):
            for x in walk_expr(e):
                if isinstance(x, Load):
                    yield x


def mentions(e: Expr, name: str) -> bool:
    """Whether the variable occurs in the expression."""
    return any(isinstance(x, Var) and x.name == name for x in walk_expr(e))
