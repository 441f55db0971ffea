"""Terms of sums that can be rescaled when a maximum in them changes: multiples of `exp(f(x - m))` with `f` linear."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from math import exp, sqrt

import msgspec

from mslang.ir import arith
from mslang.ir.arith.operations import SCALAR
from mslang.ir.dtype import is_float
from mslang.ir.expr import (
    ONE,
    Binary,
    Call,
    Cast,
    Const,
    DynamicRange,
    Expr,
    Load,
    Symbol,
    Unary,
    Var,
    dtype_of,
)
from mslang.ir.visit import loads_of, map_expr, walk_expr

EXPONENTIALS = frozenset({"exp", "exp2"})
_DIFFERENCE = "$difference"


class Exponential(msgspec.Struct, frozen=True):
    """`exp(f(value - maximum))`."""

    scale: Expr
    """`exp(f(d))`, with a variable in place of `d`."""
    value: Expr
    maximum: Load

    def of(self, difference: Expr) -> Expr:
        """`exp(f(difference))`: what a term is multiplied by when its maximum decreases by the difference."""
        return map_expr(self.scale, lambda x: difference if isinstance(x, Var) and x.name == _DIFFERENCE else None)


Multiple = Exponential | Load
"""What a term is a multiple of: an exponential, or an element of a buffer that holds such terms."""


def multiples(term: Expr, maximum: str, terms: Mapping[str, object], dependent: frozenset[str]) -> list[Multiple] | str:
    """What a term is a linear combination of, if nothing else in it depends on a maximum; else why it is none.

    Args:
        term: what a sum adds up.
        maximum: the buffer of the maximum.
        terms: the buffers that hold terms.
        dependent: all buffers whose elements depend on the maximum.
    """

    def depends(e: Expr) -> bool:
        return any(x.buffer in dependent for x in loads_of(e))

    def found(e: Expr) -> list[Multiple] | str:
        match e:
            case Load(buffer=b) if b in terms and not any(map(depends, e.indices)):
                return [e]
            case Call(name=name, args=(x,)) if name in EXPONENTIALS:
                return _exponential(e, x, maximum, depends)
            case Unary(op="-", operand=x):
                return found(x)
            case Cast(dtype=d, operand=x) if is_float(d) and is_float(dtype_of(x)):
                return found(x)
            case Binary(op="+" | "-", left=a, right=b):
                first, second = found(a), found(b)
                return first if isinstance(first, str) else second if isinstance(second, str) else first + second
            case Binary(op="*", left=a, right=b) if not (depends(a) and depends(b)):
                return found(a if depends(a) else b)
            case Binary(op="/", left=a, right=b) if not depends(b):
                return found(a)
        if not depends(e):
            return "a part of it does not depend on the maximum, and would be rescaled with the rest"
        return "it is not a multiple of an exponential of a difference to the maximum"

    return found(term)


def _exponential(e: Expr, exponent: Expr, maximum: str, depends: Callable[[Expr], bool]) -> list[Multiple] | str:
    differences = [
        x
        for x in walk_expr(exponent)
        if isinstance(x, Binary) and x.op == "-" and isinstance(x.right, Load) and x.right.buffer == maximum
    ]
    if len(differences) != 1:
        return "the exponent holds no difference `x - m` to the maximum, or several"
    (difference,) = differences
    right = difference.right
    assert isinstance(right, Load)
    if depends(difference.left) or any(map(depends, right.indices)):
        return "what the maximum is subtracted from depends on the maximum"
    if not _is_linear(exponent, difference):
        return "the exponent is more than a difference to the maximum times positive constants"
    hole = Var(_DIFFERENCE, dtype_of(difference))
    return [Exponential(map_expr(e, lambda x: hole if x == difference else None), difference.left, right)]


def _is_linear(e: Expr, difference: Expr) -> bool:
    """Is an expression a difference multiplied and divided by positive constants?"""
    if e == difference:
        return True
    match e:
        case Binary(op="*", left=a, right=b) if _is_positive(b):
            return _is_linear(a, difference)
        case Binary(op="*", left=a, right=b) if _is_positive(a):
            return _is_linear(b, difference)
        case Binary(op="/", left=a, right=b) if _is_positive(b):
            return _is_linear(a, difference)
    return False


def _is_positive(e: Expr) -> bool:
    """Is an expression provably a positive finite number of its type, the same everywhere in a program?"""
    return _magnitude(e) is not None


def _magnitude(e: Expr) -> tuple[float, float] | None:
    """Between which positive numbers an expression lies, all parts of it being ones that their types hold; or None."""
    found = _exact_magnitude(e)
    if found is None:
        return None
    low, high = _NORMAL.get(dtype_of(e), (1.0, 2.0**62))
    return found if low <= found[0] <= found[1] <= high else None


_NORMAL = {
    "f16": (2.0**-13, 2.0**14),
    "bf16": (2.0**-120, 2.0**120),
    "f32": (2.0**-120, 2.0**120),
    "f64": (2.0**-1000, 2.0**1000),
}
"""Positive numbers of floating types with room for what rounding adds: they are neither 0 nor infinite."""


def _exact_magnitude(e: Expr) -> tuple[float, float] | None:
    match e:
        case Const(value=v):
            return (float(v), float(v)) if not isinstance(v, bool) and 0 < v < 2**1000 else None
        case Symbol(domain=domain):
            most = domain.hi if isinstance(domain, DynamicRange) else 2**40
            return (1.0, float(most)) if arith.proved(Binary("<=", ONE, e)) else None
        case Cast(dtype=d, operand=x):
            return _magnitude(x) if is_float(d) else None
        case Call(name="exp", args=(Const(value=v),)):
            return (exp(v),) * 2 if not isinstance(v, bool) and abs(v) < 600 else None
        case Call(name="sqrt", args=(x,)) if (inner := _magnitude(x)) is not None:
            return sqrt(inner[0]), sqrt(inner[1])
        case Call(name="rsqrt", args=(x,)) if (inner := _magnitude(x)) is not None:
            return 1 / sqrt(inner[1]), 1 / sqrt(inner[0])
        case Binary(op="*" | "+" | "/" as op, left=a, right=b):
            left, right = _magnitude(a), _magnitude(b)
            if left is None or right is None or (op == "/" and not is_float(dtype_of(a))):
                return None
            if op == "/":
                return left[0] / right[1], left[1] / right[0]
            combine = SCALAR[op]
            return combine(left[0], right[0]), combine(left[1], right[1])
    return None


__all__ = ["Exponential", "Multiple", "multiples"]
