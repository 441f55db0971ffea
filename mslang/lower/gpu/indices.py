"""Indices in simpler form, for what is asked of them."""

from __future__ import annotations

from collections.abc import Mapping

from mslang.ir import arith
from mslang.ir.expr import Binary, Cast, Const, Expr, Load, Var
from mslang.ir.program import Range
from mslang.ir.visit import walk_expr


def simpler(e: Expr, ranges: Mapping[str, Range]) -> Expr:
    """An index in canonical form, with the ranges of threads and loops known.

    Where that has as many `//` and `%` as before, the index stays as it was written: `(3·a + b) % 2` says which digit
    of one number it is, `(a + b) % 2` does not.
    """
    if isinstance(e, Var | Const) or any(isinstance(x, Load | Cast) for x in walk_expr(e)):
        return e
    made = arith.simplify(e, ranges)
    divisions = _divisions(e)
    return e if divisions and _divisions(made) >= divisions else made


def _divisions(e: Expr) -> int:
    return sum(isinstance(x, Binary) and x.op in ("//", "%") for x in walk_expr(e))
