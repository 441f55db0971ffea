"""Postprocessors of the rule sets for GPUs: what must hold of a program before a GPU can run it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from mslang.schedule.rules.gpu.auto_bind import BLOCKS, bind_loops, unbound_blocks
from mslang.schedule.rules.gpu.machine import most_threads

if TYPE_CHECKING:
    from mslang.schedule.interpret import Interpreter


class UnboundBlocks(msgspec.Struct, frozen=True):
    """Bind the loops of blocks that the rules left on no thread, without drawing.

    Source: MetaSchedule, `RewriteUnboundBlock`.
    """

    name: str = "unbound_blocks"
    blocks: int = BLOCKS

    def apply(self, it: Interpreter) -> None:
        """Bind the outer spatial loops of every unbound block, to as many threads as a block may have."""
        while unbound := unbound_blocks(it.session.program):
            bind_loops(it.session, unbound[-1], lambda most: most, self.blocks, most_threads(it.machine))
