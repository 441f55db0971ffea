"""Sizes of loops and buffers, as TVM has them and as programs here have them."""

from mslang.ir.expr import ZERO, Const, DynamicRange, Expr

ANY_SIZE = DynamicRange(1, 2**31 - 1)
"""The assumed range of a size without a declaration in TVM's program."""


def iterations(extent: Expr) -> Expr:
    """The extent of a loop, 0 for a negative number: TVM runs no iteration then, and extents here are at least 0.

    >>> iterations(Const(-3))
    Const(value=0, dtype='i64')
    """
    return ZERO if isinstance(extent, Const) and extent.value < 0 else extent


def is_empty(shape: tuple[Expr, ...]) -> bool:
    """Whether a dimension of a shape is 0; buffers here have at least one element.

    >>> is_empty((Const(4), Const(0)))
    True
    """
    return any(isinstance(n, Const) and n.value == 0 for n in shape)
