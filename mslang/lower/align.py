"""Strides that `storage_align` asked for, in buffers that are compacted already."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec.structs import replace

from mslang.ir import arith
from mslang.ir.expr import ONE, Const, Expr
from mslang.ir.program import Buffer
from mslang.kernel.nodes import Alignment, Allocate, Body, Stmt
from mslang.kernel.visit import bodies, with_bodies


def align(body: Body) -> Body:
    """The statements with strides given to the buffers for which some are asked."""
    return tuple(_aligned(s) for s in body)


def _aligned(s: Stmt) -> Stmt:
    inner = with_bodies(s, tuple(align(b) for b in bodies(s)))
    if not isinstance(inner, Allocate) or not inner.alignment:
        return inner
    return replace(inner, buffer=_with_strides(inner.buffer, inner.alignment), alignment=())


def _with_strides(buffer: Buffer, wanted: Sequence[Alignment]) -> Buffer:
    """The buffer with each stride rounded up to what is asked of it; compact buffers stay so."""
    if buffer.strides is not None:
        return buffer
    by_axis = {a.axis: a for a in wanted}
    strides: list[Expr] = []
    step: Expr = ONE
    compact = True
    for axis in reversed(range(len(buffer.shape))):
        if axis in by_axis:
            apart = _rounded(step, by_axis[axis])
            compact &= apart == step
            step = apart
        strides.append(step)
        step = arith.mul(step, buffer.shape[axis])
    return buffer if compact else replace(buffer, strides=tuple(reversed(strides)))


def _rounded(stride: Expr, wanted: Alignment) -> Expr:
    """The least number from `stride` on that is `offset` modulo `factor`."""
    factor = Const(wanted.factor)
    over = arith.mod(arith.sub(Const(wanted.offset), stride), factor)
    return arith.add(stride, over)
