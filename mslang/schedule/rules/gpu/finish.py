"""Postprocessors of the rule sets for GPUs: what must hold of a program before a GPU can run it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from mslang.schedule.rules.gpu.auto_bind import BLOCKS, bind_loops, unbound_blocks
from mslang.schedule.rules.gpu.machine import most_threads
from mslang.schedule.session import Session

if TYPE_CHECKING:
    from mslang.schedule.interpret import Interpreter


def bind_unbound(session: Session, threads: int, blocks: int = BLOCKS) -> None:
    """Bind the outer spatial loops of every unbound block.

    Args:
        session: the running schedule.
        threads: threads of a block.
        blocks: blocks beyond which a thread takes several elements.
    """
    while unbound := unbound_blocks(session.program):
        bind_loops(session, unbound[-1], lambda most: most, blocks, threads)


class UnboundBlocks(msgspec.Struct, frozen=True):
    """Bind the loops of blocks that the rules left on no thread, without drawing.

    Source: MetaSchedule, `RewriteUnboundBlock`.
    """

    name: str = "unbound_blocks"
    blocks: int = BLOCKS

    def apply(self, it: Interpreter) -> None:
        """Bind the outer spatial loops of every unbound block, to as many threads as a block may have."""
        bind_unbound(it.session, most_threads(it.machine), self.blocks)
