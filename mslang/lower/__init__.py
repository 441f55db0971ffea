"""Lowering: from scheduled programs to the kernels that back ends print."""

from mslang.lower.passes import lower

__all__ = ["lower"]
