"""The checked mode: every index of every access is compared with its dimension before it is used.

The first failure is kept in the status words: the number of the access + 1, dimension, index, extent, then the values
of the axes of its block.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from mslang.backend.llvm import arithmetic
from mslang.backend.llvm.scope import Memory, Scope
from mslang.ir.dtype import INDEX
from mslang.ir.expr import Expr
from mslang.runtime.signature import CheckedAccess

if TYPE_CHECKING:
    from mslang.backend.llvm.expression import ExpressionWriter


class BoundsGuard:
    """Collects the accesses of a kernel; a failing kernel reports the number of one."""

    def __init__(self) -> None:
        self.accesses: dict[CheckedAccess, int] = {}

    def check(self, writer: ExpressionWriter, place: Memory, indices: tuple[Expr, ...], scope: Scope) -> None:
        """Leave the function, with the access reported, if an index is outside of its dimension."""
        fn = writer.fn
        axes = () if scope.within is None else scope.within.axes
        at = () if scope.within is None else scope.within.values
        block = None if scope.within is None else scope.within.block
        access = CheckedAccess(place.buffer.name, block, axes)
        number = self.accesses.setdefault(access, len(self.accesses))
        for dimension, (e, size) in enumerate(zip(indices, place.buffer.shape, strict=True)):
            index = arithmetic.cast(fn, writer.value(e, scope), INDEX)
            extent = writer.value(size, scope)
            fine = fn.op(f"icmp ult {index.typed}, {extent.ref}")
            good, bad = fn.fresh("inside"), fn.fresh("outside")
            fn.branch(fine, good, bad)
            fn.start(bad)
            with fn.nested():
                args = f"ptr %ctx, i64 {number}, i64 {dimension}, {index.typed}, {extent.typed}"
                values = fn.op(f"call ptr @mslang.report({args})")
                for k, axis in enumerate(at):
                    value = arithmetic.cast(fn, writer.value(axis, scope), INDEX)
                    fn.do(f"store {value.typed}, ptr {fn.op(f'getelementptr i64, ptr {values}, i64 {k}')}")
                fn.do("ret i32 1")
            fn.start(good)

    @property
    def report(self) -> str:
        """The function that keeps the first failure and gives the place for its axes; for later ones, a place that
        is not read."""
        most = max((len(a.axes) for a in self.accesses), default=0)
        return _REPORT.replace("@UNREAD@", str(4 + most))


_REPORT = """define internal ptr @mslang.report(
    ptr %ctx, i64 %access, i64 %dimension, i64 %index, i64 %extent
) noinline {
entry:
  %place = getelementptr i64, ptr %ctx, i64 3
  %status = load ptr, ptr %place
  %code = add i64 %access, 1
  %swap = cmpxchg ptr %status, i64 0, i64 %code monotonic monotonic
  %first = extractvalue { i64, i1 } %swap, 1
  br i1 %first, label %write, label %later
write:
  %p1 = getelementptr i64, ptr %status, i64 1
  store i64 %dimension, ptr %p1
  %p2 = getelementptr i64, ptr %status, i64 2
  store i64 %index, ptr %p2
  %p3 = getelementptr i64, ptr %status, i64 3
  store i64 %extent, ptr %p3
  %p4 = getelementptr i64, ptr %status, i64 4
  ret ptr %p4
later:
  %unread = getelementptr i64, ptr %status, i64 @UNREAD@
  ret ptr %unread
}
"""
