"""Which arrays are large for the caches of a machine."""

from __future__ import annotations

from mslang.ir.arith.convert import read_size
from mslang.ir.arith.domain import limits
from mslang.ir.dtype import size_of
from mslang.ir.program import Buffer, Program
from mslang.target.description import Target

SHARE = 2
"""A result of at least the L2 cache over this number counts, where the arrays together do not fit it."""


def bytes_of(buffer: Buffer) -> int:
    """The most bytes that a buffer holds; 0 where its sizes have no bound."""
    total = size_of(buffer.dtype)
    for e in buffer.shape:
        _, most = limits(read_size(e))
        total *= 0 if most is None else most
    return total


def outgrows_caches(buffer: Buffer, program: Program, machine: Target) -> bool:
    """Whether a result is a good part of the L2 cache, and is not held by it along with the other arrays."""
    together = sum(bytes_of(p.buffer) for p in program.params)
    return bytes_of(buffer) >= machine.l2 // SHARE and together > machine.l2
