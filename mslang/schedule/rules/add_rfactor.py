"""Reductions with little to run in parallel: partial results, then a reduction of these."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import TYPE_CHECKING

import msgspec

from mslang.ir.expr import Const
from mslang.ir.program import Block, Program
from mslang.schedule.decisions import Drawing
from mslang.schedule.handles import Handle
from mslang.schedule.rules.multi_level import needs_tiling
from mslang.schedule.rules.nests import allows, block_handle, do, draw, own_loop, untiled
from mslang.schedule.session import Session

if TYPE_CHECKING:
    from mslang.schedule.interpret import Interpreter

WHOLE = "whole"
"""The reduction stays as it is."""


class AddRFactor(msgspec.Struct, frozen=True):
    """Takes reductions apart whose other loops give the cores too little to do.

    The reduction loops are fused and split in two, by a tile at `add_rfactor:block/reduced`. The alternatives: the
    block stays `whole`; partial results along the `outer` loop, for the cores; partial results along the `inner` loop,
    for the lanes of a vector.

    Args:
        max_jobs_per_core: a reduction that would be tiled is left alone if its other loops have more iterations than
            this on each core, or more than the reduction.
        max_innermost: the largest inner part.

    Source: MetaSchedule's `AddRFactor`.
    """

    max_jobs_per_core: int = 16
    max_innermost: int = 64
    name: str = "add_rfactor"

    def applies(self, it: Interpreter, block: Block) -> bool:
        """Whether the block is an untiled reduction that may profit."""
        program = it.session.program
        kinds = {a.kind for a in block.axes}
        if block.init is None or "reduce" not in kinds or kinds - {"spatial", "reduce"} or not untiled(program, block):
            return False
        free, reduced = (_iterations(program, block, kind) for kind in ("spatial", "reduce"))
        if reduced < 2:
            return False
        return not needs_tiling(program, block) or free < min(reduced, self.max_jobs_per_core * it.machine.cores + 1)

    def alternatives(self, it: Interpreter, block: Block) -> tuple[str, ...]:
        """`whole`, and the loops along which `rfactor` accepts the block."""
        parts = tuple(x for x in ("outer", "inner") if self._possible(it, block, x))
        return (WHOLE, *parts)

    def _possible(self, it: Interpreter, block: Block, part: str) -> bool:
        trial = Session(it.session.program, Drawing(0), it.session.registry)
        loop = self._parts(trial, block)
        return loop is not None and allows(trial, "rfactor", loop[part == "inner"], self._axis(block, part))

    def apply(self, it: Interpreter, block: Block, alternative: str) -> None:
        """Fuse and split the reduction loops, and take the block apart along one."""
        if alternative == WHOLE:
            return
        loops = self._parts(it.session, block)
        assert loops is not None  # as for `alternatives`
        do(it.session, "rfactor", loops[alternative == "inner"], self._axis(block, alternative))

    def _axis(self, block: Block, part: str) -> int:
        """Partial results for lanes are contiguous."""
        return len(block.writes[0].ranges) if part == "inner" else 0

    def _parts(self, session: Session, block: Block) -> Sequence[Handle] | None:
        """The two parts of the fused reduction loops; None if they cannot be brought inside and fused."""
        own = block_handle(session, block.name)
        free = [session.axis(own, a.name) for a in block.axes if a.kind == "spatial"]
        reduced = [session.axis(own, a.name) for a in block.axes if a.kind == "reduce"]
        order = [*free, *reduced]
        if len(order) > 1 and not allows(session, "reorder", *order):
            return None
        if len(order) > 1:
            do(session, "reorder", *order)
        if len(reduced) > 1 and not allows(session, "fuse", *reduced):
            return None
        loop = do(session, "fuse", *reduced)[0] if len(reduced) > 1 else reduced[0]
        address = f"{self.name}:{block.name}/reduced"
        tile = draw(session, "perfect_tile", loop, 2, self.max_innermost, address=address)
        return do(session, "split", loop, tile)


def _iterations(program: Program, block: Block, kind: str) -> int:
    """The iterations of the loops of a block's axes of a kind, which are constant."""
    own = [own_loop(program, block, a.name) for a in block.axes if a.kind == kind]
    return prod(int(s.extent.value) for s in own if s is not None and isinstance(s.extent, Const))
