"""Which arrays are large for the caches of a machine."""

from __future__ import annotations

from mslang.ir.arith.convert import read_size
from mslang.ir.arith.domain import limits
from mslang.ir.dtype import size_of
from mslang.ir.program import Buffer
from mslang.target.description import Target


def is_large(buffer: Buffer, machine: Target, least_bytes: int | None = None) -> bool:
    """Whether a buffer may hold `least_bytes` (None: as much as the L2 cache)."""
    return _bytes(buffer) >= (machine.l2 if least_bytes is None else least_bytes)


def _bytes(buffer: Buffer) -> int:
    """The most bytes that a buffer holds; 0 where its sizes have no bound."""
    total = size_of(buffer.dtype)
    for e in buffer.shape:
        _, most = limits(read_size(e))
        total *= 0 if most is None else most
    return total
