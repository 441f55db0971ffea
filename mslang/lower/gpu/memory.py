"""Arrays of a kernel in memory: how many elements they take, and the bytes at a multiple of which they begin."""

from __future__ import annotations

from math import gcd

from mslang.diagnostics import MsError, problem
from mslang.ir.dtype import size_of
from mslang.ir.expr import Const
from mslang.ir.program import Buffer
from mslang.lower.layout import span

DYNAMIC = "shared.dyn"
"""The scope of shared memory that the launch reserves."""

ALIGN = 16
"""Bytes to which arrays are aligned: the widest access of a thread. Allocators of the driver align to 256."""

DYNAMIC_ALIGN = 128
"""Bytes to which dynamic shared memory is aligned: what swizzled bulk copies need."""


def elements(b: Buffer) -> int:
    """How many elements a buffer of constant size takes in memory, those between its rows included.

    Raises:
        MsError: MS440, the size is known only when the kernel is called.
    """
    found = span(b)
    if not isinstance(found, Const):
        raise MsError(
            problem(
                "MS440",
                f"the size of `{b.name}`, in {b.scope} memory, is known only when the kernel is called",
                why="the registers and the shared memory of a kernel are reserved when it is compiled",
                help="tile the loops around it by numbers, or keep the buffer in global memory",
            )
        )
    return max(int(found.value), 1)


def alignment(b: Buffer) -> int:
    """Bytes to which a buffer is aligned: one in dynamic shared memory as its offset is, arrays of a kernel as they are
    declared, and parameters as far as callers are relied on.

    >>> alignment(Buffer("tile", "f32", (Const(64),), "shared.dyn", offset=Const(8)))
    32
    """
    if b.scope == "global":
        return min(b.align or ALIGN, ALIGN)
    if b.scope == DYNAMIC:
        return gcd(offset_bytes(b), DYNAMIC_ALIGN)
    return max(b.align or 1, ALIGN)


def offset_bytes(b: Buffer) -> int:
    """Where a buffer begins in dynamic shared memory, as the pass `shared` has laid it out."""
    return int(b.offset.value) * size_of(b.dtype) if isinstance(b.offset, Const) else 0
