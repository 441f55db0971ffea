"""Where the buffers of a function are: static and dynamic shared memory, registers, fragments."""

from __future__ import annotations

from typing import NamedTuple

from mslang.diagnostics import MsError, TargetError, problem
from mslang.ir.dtype import size_of
from mslang.ir.expr import Const
from mslang.ir.program import Buffer
from mslang.kernel.nodes import Allocate, Body
from mslang.kernel.visit import walk
from mslang.lower.layout import span
from mslang.target.description import Target

STATIC_LIMIT = 48 * 1024
"""Bytes of shared memory that a kernel may declare; more is reserved at the launch."""

ALIGN = 16
"""Bytes to which arrays are aligned: the widest access."""

DYNAMIC_ALIGN = 128
"""Bytes to which dynamic shared memory is aligned: what swizzled bulk copies need."""

GLOBAL_ALIGN = 16
"""Bytes to which every array that a kernel is given is aligned; allocators of the driver align to 256."""


class Shared(NamedTuple):
    """Where shared buffers are in dynamic shared memory, by name, in bytes; those not named are static.

    `size` are the bytes of dynamic shared memory, `used` those of static shared memory, too.
    """

    offsets: dict[str, int]
    size: int
    used: int


def elements(b: Buffer) -> int:
    """How many elements a buffer of constant size takes in memory.

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


def shared_layout(body: Body, reserved: int = 0) -> Shared:
    """Where the shared buffers of a function go. Buffers do not overlap: barriers know buffers by their names.

    Args:
        body: the function's.
        reserved: bytes of dynamic shared memory that its launch reserves already.
    """
    static: list[Buffer] = []
    dynamic: list[Buffer] = []
    for s in walk(body):
        if isinstance(s, Allocate) and s.buffer.scope in ("shared", "shared.dyn"):
            (static if s.buffer.scope == "shared" else dynamic).append(s.buffer)
    offsets: dict[str, int] = {}
    top = reserved
    for b in dynamic:
        if isinstance(b.offset, Const):
            # Lowering has placed it, in elements of its type.
            offsets[b.name] = int(b.offset.value) * size_of(b.dtype)
            top = max(top, offsets[b.name] + _padded(b))
    declared = sum(_padded(b) for b in static)
    over = declared > STATIC_LIMIT
    for b in (*(b for b in dynamic if b.name not in offsets), *(static if over else ())):
        top = -(-top // alignment(b, DYNAMIC_ALIGN)) * alignment(b, DYNAMIC_ALIGN)
        offsets[b.name] = top
        top += _padded(b)
    return Shared(offsets, top, top if over else top + declared)


def require_shared(kernel: str, shared: Shared, target: Target) -> None:
    """Check that the shared buffers of a kernel fit, each at a multiple of its alignment.

    The limits of the summary count the bytes of the buffers alone, which is all that decisions determine.

    Raises:
        TargetError: MS461, they do not.
    """
    most = target.fields.get("shared")
    if isinstance(most, int) and shared.used > most:
        raise TargetError(
            problem(
                "MS461",
                f"`{kernel}` needs {shared.used} bytes of shared memory a block, its buffers aligned",
                why=f"the target `{target.name}` has at most {most}",
                help="tile the reduction more finely",
            )
        )


def alignment(b: Buffer, least: int = ALIGN) -> int:
    """Bytes to which an array is aligned."""
    return max(b.align or 1, least)


def _padded(b: Buffer) -> int:
    return -(-elements(b) * size_of(b.dtype) // ALIGN) * ALIGN
