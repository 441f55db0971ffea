"""Lowering: from scheduled programs to what back ends emit."""

from mslang.lower.kernel import Kernel
from mslang.lower.lower import lower

__all__ = ["Kernel", "lower"]
