"""Tiling around an instruction: its tile is split off a block, the rest is tiled as any block, then it is put in."""

from __future__ import annotations

from mslang.diagnostics import ScheduleError
from mslang.ir.find import path_to_block
from mslang.ir.program import Block
from mslang.ir.visit import free_vars
from mslang.schedule.handles import Handle
from mslang.schedule.rules.mapping import map_loops
from mslang.schedule.rules.nests import block_handle, block_of, do, handle, loops_around
from mslang.schedule.session import Session
from mslang.sema.named_intrin import library_intrin
from mslang.transform.analysis.axes import axis_loops
from mslang.transform.outcome import BlockRef
from mslang.transform.tensorize_mapping import tensorize_mapping


def divides(session: Session, block: Block, intrin: str) -> bool:
    """Whether the loops of a block are whole tiles of an intrinsic, with spatial and reduction loops around them.

    Raises:
        MsError: MS101, there is no such intrinsic.
    """
    wanted = library_intrin(intrin)
    try:
        found = tensorize_mapping(session.program, BlockRef(block.name), wanted)
    except ScheduleError:
        return False
    covered = {t.loop.name for t in found if t.whole}
    return all(t.divides for t in found) and all(_loops(block, kind) - covered for kind in ("spatial", "reduce"))


def split_off(session: Session, block: Block, intrin: str) -> Handle:
    """Make the tile of an intrinsic the body of a block, and return that block.

    Raises:
        ScheduleError: no loops of the block are those of the intrinsic.
    """
    inner = map_loops(session, block_handle(session, block.name), intrin, laid_out=False)
    return do(session, "blockize", inner)[0]


def put_in(session: Session, tile: Handle, intrin: str) -> None:
    """Replace a tile by the instruction; its sums begin before the outermost loop of the reduction.

    Raises:
        ScheduleError: the tile is not what the intrinsic does.
    """
    do(session, "decompose_reduction", tile, handle(session, first_reduction(session, block_of(session, tile))))
    do(session, "tensorize", tile, intrin)


def first_reduction(session: Session, block: Block) -> str:
    """The outermost loop that a reduction axis of a block is bound to."""
    reduced = _loops(block, "reduce")
    return next(s.var for s in loops_around(session.program, block) if s.var in reduced)


def _loops(block: Block, kind: str) -> frozenset[str]:
    """The loops that the axes of a kind are bound to."""
    return frozenset(v for a in block.axes if a.kind == kind for v in free_vars(a.binding))


def looped_axes(session: Session, block: Block) -> frozenset[str]:
    """The axes of a block that have loops; those that a tile covers have none."""
    path = path_to_block(session.program, block.name) or ()
    return frozenset(a.name for a in block.axes if axis_loops(path, a.name))
