"""How far an index gets on from one iteration of a loop to the next."""

from __future__ import annotations

import msgspec

from mslang.ir import arith
from mslang.ir.expr import ONE, ZERO, Binary, Expr, Var
from mslang.ir.visit import free_vars


class Pace(msgspec.Struct, frozen=True):
    """The least and the most that an index grows."""

    least: Expr
    most: Expr


def pace(e: Expr, loop: str) -> Pace | None:
    """How much an index grows when a loop variable grows by one; None if it is not a sum, multiple or quotient of
    it."""
    if loop not in free_vars(e):
        return Pace(ZERO, ZERO)
    match e:
        case Var():
            return Pace(ONE, ONE)
        case Binary("+", left, right):
            a, b = pace(left, loop), pace(right, loop)
            return None if a is None or b is None else Pace(arith.add(a.least, b.least), arith.add(a.most, b.most))
        case Binary("-", left, right):
            a, b = pace(left, loop), pace(right, loop)
            return None if a is None or b is None else Pace(arith.sub(a.least, b.most), arith.sub(a.most, b.least))
        case Binary("*", left, right) if _positive(left) or _positive(right):
            scale, inner = (left, right) if _positive(left) else (right, left)
            a = pace(inner, loop)
            return None if a is None else Pace(arith.mul(a.least, scale), arith.mul(a.most, scale))
        case Binary("//", inner, by) if _positive(by):
            a = pace(inner, loop)
            return None if a is None else Pace(arith.floordiv(a.least, by), arith.ceildiv(a.most, by))
    return None


def _positive(e: Expr) -> bool:
    return not free_vars(e) and arith.proved(Binary("<", ZERO, e))


__all__ = ["Pace", "pace"]
