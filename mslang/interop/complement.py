"""The complement of integers, which programs write as an exclusive or."""

from __future__ import annotations

from mslang.ir.dtype import bits, is_unsigned
from mslang.ir.expr import Binary, Const, Expr, Unary, dtype_of


def complement(x: Expr, dtype: str) -> Expr:
    """An integer of type `dtype` with all bits inverted; the negation of a truth value.

    >>> complement(Const(1, "u8"), "u8")
    Binary(op='^', left=Const(value=1, dtype='u8'), right=Const(value=255, dtype='u8'))
    """
    if dtype == "bool":
        return Unary("not", x)
    return Binary("^", x, Const((1 << bits(dtype)) - 1 if is_unsigned(dtype) else -1, dtype_of(x)))
