"""Indices in simpler form, for what is asked of them."""

from __future__ import annotations

from collections.abc import Mapping
from math import gcd

from mslang.ir import arith
from mslang.ir.expr import Binary, Cast, Const, DynamicRange, Expr, Load, Select, Symbol, Var
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


def multiple_of(e: Expr) -> int:
    """A number of which an index is a multiple for all values of its variables; 0 if it is always 0."""
    match e:
        case Const(value=v):
            return abs(int(v))
        case Symbol(domain=DynamicRange(multiple=n)):
            return n
        case Binary(op="+" | "-" | "min" | "max", left=a, right=b):
            return gcd(multiple_of(a), multiple_of(b))
        case Binary(op="*", left=a, right=b):
            return multiple_of(a) * multiple_of(b)
        case Binary(op="//", left=a, right=Const(value=int() as d)) if d > 0 and multiple_of(a) % d == 0:
            return multiple_of(a) // d
        case Binary(op="%", left=a, right=b):
            return gcd(multiple_of(a), multiple_of(b))
        case Select(then=a, otherwise=b):
            return gcd(multiple_of(a), multiple_of(b))
    return 1
