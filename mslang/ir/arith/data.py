"""Arithmetic on data, which may overflow: unlike that on loops and sizes, it is not exact.

Sums and products of 64-bit integers wrap round, so they may be regrouped, but an order that holds for the exact numbers
need not hold for the results, nor a quotient: with `U[0]` near the largest number `U[0] + U[0] <= 1` holds, and
`U[0] < 1` does not.
"""

from __future__ import annotations

from functools import lru_cache

from mslang.ir.dtype import INDEX, bits, is_float
from mslang.ir.expr import Binary, Broadcast, Cast, Const, Expr, Load, Ramp, Symbol, Unary, Var, dtype_of
from mslang.ir.visit import walk_expr

_DATA = 64
"""Bits of what may be any number of the width of indices."""

_INDEX = 62
"""Bits of loops, axes and sizes, and of their sums: memory has fewer elements. Data of as many may be added to them."""


@lru_cache(maxsize=65536)
def may_overflow(e: Expr) -> bool:
    """Whether a sum or product of an index expression has data among its parts, and may need more than 64 bits."""
    match e:
        case Binary(op="//", left=a, right=Const(value=int(k))) if k < 0:
            return may_overflow(a) or _width(a) > _INDEX  # the quotient of the negation, which may have no 64 bits
        case Binary(op=op, left=a, right=b):
            return may_overflow(a) or may_overflow(b) or (op in ("+", "-", "*") and _width(e) > _INDEX)
        case Unary(op="-", operand=x):
            return may_overflow(x) or _width(x) > _INDEX
    return False


def may_be_any(e: Expr) -> bool:
    """Whether an index expression holds data that may be any number of the width of indices."""
    loads = dtype_of(e) == INDEX and any(isinstance(x, Load | Cast) for x in walk_expr(e))
    return loads and may_overflow(Binary("+", e, Const(1)))


def fits(e: Const) -> bool:
    """Whether a number has no more bits than indices."""
    return -(1 << (_DATA - 1)) <= e.value < 1 << (_DATA - 1)


@lru_cache(maxsize=65536)
def _width(e: Expr) -> int:
    """How many bits the data in an index expression have at most, with their sign; 0 where there are none."""
    match e:
        case Const() | Var() | Symbol():
            return 0
        case Cast(operand=x):
            held = dtype_of(x)
            return _DATA if is_float(held) else bits(held)
        case Unary(op="-", operand=x):
            return _width(x)
        case Ramp(base=x) | Broadcast(value=x):
            return _width(x)
        case Binary(op=op, left=a, right=b) if dtype_of(a) == INDEX:
            if not _width(a) and not _width(b):
                return 0
            match op:
                case "+" | "-":
                    parts = [_whole(x) for x in (a, b) if _width(x) or isinstance(x, Const)]
                    return max(parts) + len(parts) - 1
                case "*":
                    return _whole(a) + _whole(b)
                case "%":
                    return _whole(b)
                case "//":
                    return _whole(a)
                case "min" | "max":
                    return max(_whole(a), _whole(b))
    return _DATA


def _whole(e: Expr) -> int:
    """How many bits an index expression has at most."""
    if isinstance(e, Const):
        return abs(int(e.value)).bit_length()
    return _width(e) or _INDEX
