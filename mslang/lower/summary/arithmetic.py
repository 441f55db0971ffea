"""How many operations of each type a statement performs."""

from __future__ import annotations

from collections.abc import Mapping

from mslang.ir.dtype import INDEX, is_float
from mslang.ir.expr import (
    BITS,
    COMPARISONS,
    LOGICAL,
    SHIFTS,
    Binary,
    Call,
    Cast,
    Expr,
    Load,
    Select,
    children,
    dtype_of,
)
from mslang.ir.visit import loads_of
from mslang.lower.summary.values import Arithmetic

_FLOAT: Mapping[str, Arithmetic] = {
    **dict.fromkeys(("+", "-"), Arithmetic(float_add=1)),
    "*": Arithmetic(float_mul=1),
    **dict.fromkeys(("/", "//", "%"), Arithmetic(float_div=1)),
    **dict.fromkeys(("min", "max"), Arithmetic(compare=1)),
}
_INTEGER: Mapping[str, Arithmetic] = {
    **dict.fromkeys(("+", "-"), Arithmetic(integer_add=1)),
    "*": Arithmetic(integer_mul=1),
    **dict.fromkeys(("/", "//", "%"), Arithmetic(integer_div=1)),
    **dict.fromkeys(("min", "max"), Arithmetic(compare=1)),
    **dict.fromkeys(BITS | SHIFTS, Arithmetic(bitwise=1)),
}


def arithmetic(e: Expr) -> Arithmetic:
    """The operations of an expression; those of indices and of constants are not counted."""
    match e:
        case Load():
            return Arithmetic()
        case _ if dtype_of(e) == INDEX and not any(loads_of(e)):
            return Arithmetic()
        case Binary(op="+" | "-", left=a, right=b) if is_float(dtype_of(e)) and (_product(a) or _product(b)):
            product, other = (a, b) if _product(a) else (b, a)
            return Arithmetic(float_fma=1) + _inside(product) + arithmetic(other)
    return _own(e) + _inside(e)


def _inside(e: Expr) -> Arithmetic:
    return sum((arithmetic(x) for x in children(e)), Arithmetic())


def _product(e: Expr) -> bool:
    return isinstance(e, Binary) and e.op == "*"


def _own(e: Expr) -> Arithmetic:
    match e:
        case Binary(op=op) if op in COMPARISONS:
            return Arithmetic(compare=1)
        case Binary(op=op) if op in LOGICAL:
            return Arithmetic(bitwise=1)
        case Binary(op=op, left=a):
            return (_FLOAT if is_float(dtype_of(a)) else _INTEGER).get(op, Arithmetic())
        case Call():
            return Arithmetic(float_math=1)
        case Select():
            return Arithmetic(select=1)
        case Cast():
            return Arithmetic(cast=1)
    return Arithmetic()
