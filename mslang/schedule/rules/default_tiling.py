"""The tiles of the default schedule as a rule: two sizes of each product are drawn."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from mslang.ir.program import Block
from mslang.schedule.rules.cpu.contraction import is_dot_of_rows
from mslang.schedule.rules.default_tiles import tile
from mslang.schedule.rules.multi_level import needs_tiling
from mslang.schedule.rules.nests import block_handle
from mslang.schedule.rules.rule import legal

if TYPE_CHECKING:
    from mslang.schedule.interpret import Interpreter


class DefaultTiling(msgspec.Struct, frozen=True):
    """Tiles products as the default schedule does, with two sizes drawn: the register tile at
    `default_tiling:BLOCK/registers` (ten times its rows plus its vectors), and how many iterations of the reduction are
    unrolled at `default_tiling:BLOCK/unroll`."""

    name: str = "default_tiling"

    def applies(self, it: Interpreter, block: Block) -> bool:
        """Whether the block is a reduction with reuse, other than a matrix times a vector."""
        program = it.session.program
        return needs_tiling(program, block) and not is_dot_of_rows(program, block)

    def alternatives(self, it: Interpreter, block: Block) -> tuple[str, ...]:
        """One, if it is legal: what is open are numbers."""
        return legal(it, self, block, ("applied",))

    def apply(self, it: Interpreter, block: Block, alternative: str) -> None:
        """Tile the block, and what produces or uses its operands and results."""
        tile(it.session, block_handle(it.session, block.name), it.machine, f"{self.name}:{block.name}")
