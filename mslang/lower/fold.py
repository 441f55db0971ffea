"""Constant folding of expressions whose sizes are known."""

from __future__ import annotations

from mslang.ir.arith.operations import DIVIDING, SCALAR
from mslang.ir.dtype import INDEX
from mslang.ir.expr import COMPARISONS, FALSE, TRUE, Binary, Cast, Const, Expr, Select, Unary, dtype_of
from mslang.ir.visit import map_expr

_FOLDED = frozenset({"+", "-", "*", "//", "%", "min", "max"}) | COMPARISONS


def fold(e: Expr) -> Expr:
    """`e` with what is known evaluated: index arithmetic, comparisons, conditions. Floats are left alone."""
    return map_expr(e, step)


def step(e: Expr) -> Expr | None:
    """Fold one node whose operands are folded already; None where there is nothing to fold."""
    match e:
        case Binary(op="and" | "or" as op, left=left, right=right):
            unit, zero = (TRUE, FALSE) if op == "and" else (FALSE, TRUE)
            if left == unit or right == zero:
                return right
            return left if right == unit or left == zero else None
        case Binary(op=op, left=Const(value=a, dtype=d), right=Const(value=b)) if d == INDEX:
            return _constants(op, int(a), int(b))
        case Binary(op="+", left=left, right=Const(value=0, dtype=d)) if d == INDEX:
            return left
        case Binary(op="+", left=Const(value=0, dtype=d), right=right) if d == INDEX:
            return right
        case Binary(op="-", left=left, right=Const(value=0, dtype=d)) if d == INDEX:
            return left
        case Binary(op="*" | "//", left=left, right=Const(value=1, dtype=d)) if d == INDEX:
            return left
        case Binary(op="*", left=Const(value=1, dtype=d), right=right) if d == INDEX:
            return right
        case Unary(op="not", operand=Const(value=v)):
            return FALSE if v else TRUE
        case Unary(op="-", operand=Const(value=v, dtype=d)) if d == INDEX:
            return Const(-v)
        case Select(condition=Const(value=v), then=then, otherwise=otherwise):
            return then if v else otherwise
        case Cast(dtype=d, operand=x) if dtype_of(x) == d:
            return x
    return None


def _constants(op: str, a: int, b: int) -> Expr | None:
    if op not in _FOLDED or (b == 0 and op in DIVIDING):
        return None
    value = SCALAR[op](a, b)
    return Const(value, "bool") if isinstance(value, bool) else Const(value)
