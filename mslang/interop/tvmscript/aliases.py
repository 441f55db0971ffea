"""Buffers of TVMScript that are declared over the memory of another (`T.decl_buffer(…, data=A.data)`).

Programs have no pointers: an element of such a buffer is read as the element of the other that lies there.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from mslang.interop.tvmscript.scope import Array
from mslang.ir.arith import Verdict, decide, equal, simplify
from mslang.ir.expr import ONE, ZERO, Binary, Expr
from mslang.ir.program import Buffer, Range, Region
from mslang.ir.region import point, whole
from mslang.lower.layout import row_major


def over(declared: Buffer, memory: Array, start: Expr) -> Array | str:
    """A buffer over the memory of another, or the reason against it.

    Args:
        declared: the buffer as it is declared: its element type, shape, strides and offset.
        memory: the other buffer, or one over its memory.
        start: where the pointer points, in elements from the start of the memory.
    """
    held = memory.memory or memory.buffer
    if declared.dtype != held.dtype:
        return f"the memory of `{held.name}` holds elements of type {held.dtype}, not {declared.dtype}"
    if held.offset is not None or (held.strides is not None and not _same(held.strides, row_major(held.shape))):
        return f"the elements of `{held.name}` are not adjacent, from the start of its memory on"
    strides = declared.strides or row_major(declared.shape)
    at = simplify(Binary("+", start, declared.offset or ZERO))
    if decide(Binary(">=", at, ZERO)) is not Verdict.PROVED:
        return f"its start in the memory of `{held.name}` is not provably inside"
    last = at
    for n, step in zip(declared.shape, strides, strict=True):
        last = Binary("+", last, Binary("*", Binary("-", n, ONE), step))
    if decide(Binary("<", last, _size(held.shape))) is not Verdict.PROVED:
        return f"it is not provably inside the memory of `{held.name}`"
    if at == ZERO and _same(declared.shape, held.shape) and _same(strides, row_major(held.shape)):
        return Array(held)
    return Array(_placed(declared, strides, at), held)


def _placed(declared: Buffer, strides: tuple[Expr, ...], offset: Expr) -> Buffer:
    return Buffer(declared.name, declared.dtype, declared.shape, declared.scope, strides, offset)


def element(of: Array, indices: Sequence[Expr], ranges: Mapping[str, Range]) -> tuple[Buffer, tuple[Expr, ...]]:
    """The buffer in which an element lies, and its indices there."""
    b, held = of.buffer, of.memory
    if held is None:
        return b, tuple(indices)
    assert b.strides is not None and b.offset is not None
    flat = b.offset
    for x, step in zip(indices, b.strides, strict=True):
        flat = Binary("+", flat, Binary("*", x, step))
    found: list[Expr] = []
    for k, (n, step) in enumerate(zip(held.shape, row_major(held.shape), strict=True)):
        at = Binary("//", flat, step)
        found.append(simplify(Binary("%", at, n) if k else at, ranges))
    return held, tuple(found)


def region(of: Array, ranges: Sequence[Range], loops: Mapping[str, Range]) -> Region:
    """The region that holds a region of a buffer: of several elements, all of the memory."""
    b, held = of.buffer, of.memory
    if held is None:
        return Region(b.name, tuple(ranges))
    if all(r.extent == ONE for r in ranges):
        return Region(held.name, tuple(point(x) for x in element(of, [r.start for r in ranges], loops)[1]))
    return Region(held.name, whole(held))


def _size(shape: Sequence[Expr]) -> Expr:
    size: Expr = ONE
    for n in shape:
        size = Binary("*", size, n)
    return size


def _same(a: Sequence[Expr], b: Sequence[Expr]) -> bool:
    return len(a) == len(b) and all(equal(x, y) for x, y in zip(a, b, strict=True))
