"""Where the elements of a buffer lie."""

from __future__ import annotations

from mslang.ir.expr import Binary, Const, Expr


def row_major(shape: tuple[Expr, ...]) -> tuple[Expr, ...]:
    """The strides of a compact array, the last dimension contiguous."""
    strides: list[Expr] = []
    step: Expr = Const(1)
    for size in reversed(shape):
        strides.append(step)
        step = _times(size, step)
    return tuple(reversed(strides))


def _times(a: Expr, b: Expr) -> Expr:
    if isinstance(a, Const) and isinstance(b, Const):
        return Const(int(a.value) * int(b.value))
    if b == Const(1):
        return a
    return Binary("*", a, b)
