"""Cooperative fetch: all threads of a block share the copy of a tile."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from mslang.ir import arith
from mslang.ir.expr import ZERO, Binary, Const, Expr
from mslang.ir.find import all_buffers
from mslang.ir.program import Block, For
from mslang.schedule.handles import Handle
from mslang.schedule.rules.gpu.steps import BYTES, fused
from mslang.schedule.rules.nests import block_of, do, draw, handle, loops_around
from mslang.schedule.session import Session

WIDEST = 16
"""Bytes of the widest access of one thread."""

Threads = Sequence[tuple[str, Expr]]
"""Thread axes with their extents, the slowest varying first: `("threadIdx.y", 8), ("threadIdx.x", 32)`."""


def lanes_of(dtype: str) -> tuple[int, ...]:
    """How many elements of a type one thread may access at once."""
    size = BYTES.get(dtype, 4)
    return tuple(n for n in (1, 2, 4, 8, 16) if n * size <= WIDEST)


def staged_bytes(session: Session, copy: Handle, place: Handle, padding: int = 0) -> Expr:
    """How many bytes a copy holds for one iteration of the loop under which it copies.

    Args:
        session: the running schedule.
        copy: the block that copies.
        place: the loop.
        padding: elements after each row at least.
    """
    block = block_of(session, copy)
    size: Expr = Const(BYTES.get(all_buffers(session.program)[block.writes[0].buffer].dtype, 4))
    *outer, row = (loop.extent for loop in loops_under(session, block, place))
    for extent in (*outer, arith.add(row, Const(padding))):
        size = Binary("*", size, extent)  # Not multiplied out: a tile with its margin stays one product.
    return size


def loops_under(session: Session, block: Block, place: Handle) -> tuple[For, ...]:
    """The loops around a block that lie under another loop."""
    around = loops_around(session.program, block)
    names = [s.var for s in around]
    return around[names.index(session.handles.resolve(place).name) + 1 :]


def require_shared_memory(session: Session, sizes: Iterable[Expr], stages: int, most: int) -> None:
    """Require that copies fit the shared memory of a block, as many times as stages of a pipeline hold one.

    What the machine's limits say exactly of a whole program is stated here early of the largest part, as a bound that
    holds before anything is drawn.
    """
    first, *others = (Binary("*", size, Const(stages)) for size in sizes)
    total: Expr = first
    for size in others:
        total = Binary("+", total, size)
    session.require(Binary("<=", total, Const(most)), "the tiles do not fit the shared memory")


def cooperative_fetch(session: Session, copy: Handle, place: Handle, threads: Threads, address: str) -> None:
    """Fuse the loops of a copy, and share them among threads that each access a drawn number of neighbours.

    Args:
        session: the running schedule.
        copy: the block that copies.
        place: the loop under which it copies; the loops between are its own.
        threads: the thread axes of the kernel and their extents, which may be decisions.
        address: the address of the number of neighbours.

    Source: MetaSchedule, `RewriteCooperativeFetch`; there the extents of threads are read off a replayed trace.
    """
    if loops_under(session, block_of(session, copy), place):
        share_copy(session, copy, place, threads, draw_lanes(session, copy, place, address))


def draw_lanes(session: Session, copy: Handle, place: Handle, address: str) -> Expr:
    """How many neighbours a thread copies at once, drawn at an address.

    It must divide the copy's contiguous dimension, which is stated as a condition on decisions.
    """
    block = block_of(session, copy)
    written = all_buffers(session.program)[block.writes[0].buffer]
    lanes = draw(session, "choose", lanes_of(written.dtype), address=address)
    assert isinstance(lanes, Expr | int)
    width = lanes if isinstance(lanes, Expr) else Const(lanes)
    contiguous = arith.simplify(arith.mod(loops_under(session, block, place)[-1].extent, width))
    if contiguous != ZERO:
        session.require(Binary("==", contiguous, ZERO), "a vector of a cooperative fetch crosses rows")
    return width


def share_copy(session: Session, copy: Handle, place: Handle, threads: Threads, lanes: Expr | int) -> None:
    """Fuse the loops of a copy under a loop, and share them among threads that each access `lanes` neighbours.

    The loops of the threads have the extents of the block's own; an iteration that they do not need is predicated.
    """
    own = loops_under(session, block_of(session, copy), place)
    flat = fused(session, [handle(session, s.var) for s in own])
    _, *parts, lane = do(session, "split", flat, (None, *(n for _, n in threads), lanes))
    for (axis, _), loop in zip(threads, parts, strict=True):
        do(session, "bind", loop, axis)
    do(session, "vectorize", lane)
