"""Sizes that are known only when a kernel is called."""

from mslang.ir.expr import DynamicRange

ANY_SIZE = DynamicRange(1, 2**31 - 1)
"""The assumed range of a size without a declaration in TVM's program."""
