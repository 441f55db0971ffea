"""Where the elements of a buffer lie."""

from __future__ import annotations

from mslang.ir.arith import simplify
from mslang.ir.expr import ONE, ZERO, Binary, Const, Expr
from mslang.ir.program import Buffer


def row_major(shape: tuple[Expr, ...]) -> tuple[Expr, ...]:
    """The strides of a compact array, the last dimension contiguous."""
    strides: list[Expr] = []
    step: Expr = Const(1)
    for size in reversed(shape):
        strides.append(step)
        step = _times(size, step)
    return tuple(reversed(strides))


def span(buffer: Buffer) -> Expr:
    """How many elements of memory a buffer takes, those between its rows included.

    >>> from mslang.sema.program import parse_program
    >>> p = parse_program(
    ...     "program p(A: f32[4, 6] @ global(strides = [8, 1]), out B: f32[1]) { block b[] { B[0] = A[0, 0] } }"
    ... )
    >>> int(span(p.params[0].buffer).value)
    30
    """
    if buffer.strides is None:
        total: Expr = ONE
        for size in buffer.shape:
            total = _times(total, size)
        return total
    if ZERO in buffer.shape:
        return ZERO
    total = ONE
    for size, stride in zip(buffer.shape, buffer.strides, strict=True):
        total = Binary("+", total, Binary("*", Binary("-", size, ONE), stride))
    total = simplify(total)
    return total if isinstance(total, Const) else Binary("max", total, ZERO)


def _times(a: Expr, b: Expr) -> Expr:
    if isinstance(a, Const) and isinstance(b, Const):
        return Const(int(a.value) * int(b.value))
    if b == Const(1):
        return a
    return Binary("*", a, b)
