"""The checked mode: every index of every access is compared with its dimension before it is used."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mslang.backend.llvm.scope import Memory, Scope
from mslang.ir.expr import Expr

if TYPE_CHECKING:
    from mslang.backend.llvm.expression import ExpressionWriter


class BoundsGuard:
    """Collects the accesses of a kernel; the number of one is what a failing kernel reports."""

    def __init__(self) -> None:
        self.buffers: list[str] = []

    def check(self, writer: ExpressionWriter, place: Memory, indices: tuple[Expr, ...], scope: Scope) -> None:
        """Leave the function, with the access reported, if an index is outside of its dimension."""
        fn = writer.fn
        name = place.buffer.name
        if name not in self.buffers:
            self.buffers.append(name)
        number = self.buffers.index(name)
        for dimension, (e, size) in enumerate(zip(indices, place.buffer.shape, strict=True)):
            index, extent = writer.value(e, scope), writer.value(size, scope)
            fine = fn.op(f"icmp ult {index.typed}, {extent.ref}")
            good, bad = fn.fresh("inside"), fn.fresh("outside")
            fn.branch(fine, good, bad)
            fn.start(bad)
            args = f"ptr %ctx, i64 {number}, i64 {dimension}, {index.typed}, {extent.typed}"
            fn.do(f"call void @mslang.report({args})")
            fn.do("ret i32 1")
            fn.start(good)


REPORT = """define internal void @mslang.report(
    ptr %ctx, i64 %buffer, i64 %dimension, i64 %index, i64 %extent
) noinline {
entry:
  %place = getelementptr i64, ptr %ctx, i64 3
  %status = load ptr, ptr %place
  %code = add i64 %buffer, 1
  %swap = cmpxchg ptr %status, i64 0, i64 %code monotonic monotonic
  %first = extractvalue { i64, i1 } %swap, 1
  br i1 %first, label %write, label %done
write:
  %p1 = getelementptr i64, ptr %status, i64 1
  store i64 %dimension, ptr %p1
  %p2 = getelementptr i64, ptr %status, i64 2
  store i64 %index, ptr %p2
  %p3 = getelementptr i64, ptr %status, i64 3
  store i64 %extent, ptr %p3
  br label %done
done:
  ret void
}
"""
"""Keeps the first failure: buffer number + 1, dimension, index, extent."""
