"""Buffers whose elements are converted once, where they are stored, in place of each time that they are loaded."""

from __future__ import annotations

from collections.abc import Collection

from mslang.ir.dtype import widens
from mslang.ir.expr import Cast, Expr, Load


def directly(e: Expr, names: Collection[str], dtype: str) -> Expr | None:
    """`f32(bf16(b[i]))` as `b[i]`; None if an expression is nothing of the kind.

    Args:
        e: the expression.
        names: buffers that hold elements of another type, converted to a wider one.
        dtype: the wider type.
    """
    match e:
        case Cast(dtype=to, operand=Cast(dtype=narrow, operand=Load() as x)):
            if to == dtype == x.dtype and x.buffer in names and widens(narrow, dtype):
                return x
    return None
