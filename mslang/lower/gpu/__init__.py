"""Lowering for GPUs: launches, memory of threads and blocks, barriers."""

from mslang.lower.gpu.lower import PASSES, lower

__all__ = ["PASSES", "lower"]
