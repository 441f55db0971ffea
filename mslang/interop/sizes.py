"""Sizes that are known only when a kernel is called."""

from mslang.ir.expr import DynamicRange

ANY_SIZE = DynamicRange(1, 2**31 - 1)
"""What is known of a size of which a program of TVM's says nothing."""
