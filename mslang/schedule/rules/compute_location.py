"""Where a block is computed: drawn among the loops of its consumers."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from mslang.ir.find import blocks_of
from mslang.ir.program import Block
from mslang.schedule.rules.nests import block_handle, do, draw, stands_alone, untiled
from mslang.schedule.sampling import locations
from mslang.transform.getters import consumers, is_output
from mslang.transform.outcome import BlockRef

if TYPE_CHECKING:
    from mslang.schedule.interpret import Interpreter


class RandomComputeLocation(msgspec.Struct, frozen=True):
    """Draws where a block that is not tiled is computed: inlined, at a loop of its first consumer, or where it is.

    The location is the decision `compute_location:block/location`; its outcomes are the legal locations, and each is a
    structure of its own. Tiled blocks, blocks that share their loops, and blocks without consumers stay.

    Source: MetaSchedule's `RandomComputeLocation`.
    """

    name: str = "compute_location"

    def applies(self, it: Interpreter, block: Block) -> bool:
        """Whether the block stands alone in loops of its own, untiled, and other blocks read it."""
        program = it.session.program
        if blocks_of(block.body) or not stands_alone(program, block) or not untiled(program, block):
            return False
        ref = BlockRef(block.name)
        if is_output(program, ref) or not consumers(program, ref):
            return False
        return len(locations(program, ref)) > 1

    def alternatives(self, it: Interpreter, block: Block) -> tuple[str, ...]:
        """One: the location is sampled."""
        return ("sampled",)

    def apply(self, it: Interpreter, block: Block, alternative: str) -> None:
        """Draw the location and move the block there."""
        session = it.session
        own = block_handle(session, block.name)
        location = draw(session, "compute_location", own, address=f"{self.name}:{block.name}/location")
        do(session, "compute_at", own, location)
