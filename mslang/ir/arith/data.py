"""Arithmetic on data, which may overflow: unlike that on loops and sizes, it is not exact.

Sums and products of 64-bit integers wrap round, so they may be regrouped, but an order that holds for the exact numbers
need not hold for the results, nor a quotient: with `U[0]` near the largest number `U[0] + U[0] <= 1` holds, and
`U[0] < 1` does not.
"""

from __future__ import annotations

from functools import lru_cache

from mslang.ir.dtype import INDEX, is_float, size_of
from mslang.ir.expr import Binary, Cast, Const, Expr, Symbol, Unary, Var, children, dtype_of


@lru_cache(maxsize=65536)
def may_overflow(e: Expr) -> bool:
    """Whether a sum or product of an index expression is one of data with the width of indices."""
    match e:
        case Const() | Var() | Symbol():
            return False
        case Binary(op="+" | "-" | "*", left=a, right=b):
            return _is_data(a) or _is_data(b) or may_overflow(a) or may_overflow(b)
        case Unary(op="-", operand=x):
            return _is_data(x) or may_overflow(x)
        case Binary(left=a, right=b):
            return may_overflow(a) or may_overflow(b)
    return False


def _is_data(e: Expr) -> bool:
    """Whether an index expression may be any number of 64 bits."""
    match e:
        case Const() | Var() | Symbol():
            return False
        case Cast(operand=x):
            held = dtype_of(x)
            return held != "bool" and (is_float(held) or size_of(held) > 4)
        case Binary(op="%", right=Const()):
            return False
        case Binary() | Unary():
            return any(_is_data(x) for x in children(e))
    return dtype_of(e) == INDEX
