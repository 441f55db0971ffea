"""Reductions with little to run in parallel: partial results, then a reduction of these."""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING

import msgspec

from mslang.ir.expr import Const
from mslang.ir.program import Block, Program
from mslang.ir.visit import free_vars
from mslang.schedule.decisions import Drawing
from mslang.schedule.handles import Handle
from mslang.schedule.rules.multi_level import needs_tiling
from mslang.schedule.rules.nests import allows, do, do_if_legal, draw, handle, loops_around, own_loop, untiled
from mslang.schedule.session import Session

if TYPE_CHECKING:
    from mslang.schedule.interpret import Interpreter

WHOLE = "whole"
"""The reduction stays as it is."""


SHORTEST = 8
"""A loop of fewer iterations is not worth partial results."""


class AddRFactor(msgspec.Struct, frozen=True):
    """Takes reductions apart whose other loops give the cores too little to do.

    A reduction loop is split in two by a tile at `add_rfactor:block/reduced`. The alternatives: the block stays
    `whole`; partial results along the `outer` part of the outermost reduction loop, for the cores; partial results
    along the `inner` part of the innermost one, for the lanes of a vector. Loops of few iterations are not split.

    Args:
        max_jobs_per_core: a reduction that would be tiled is left alone if its other loops have more iterations than
            this on each core, or more than the reduction.
        max_innermost: the largest inner part.

    Source: MetaSchedule's `AddRFactor`, which fuses the reduction loops first. What is read would then be at quotients
    and remainders by sizes that are open, of which neither footprints nor vectors are known.
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
        loop = self._loop(trial, block, part)
        return loop is not None and allows(trial, "rfactor", loop, self._axis(block, part))

    def apply(self, it: Interpreter, block: Block, alternative: str) -> None:
        """Split a reduction loop, and take the block apart along one part."""
        if alternative == WHOLE:
            return
        loop = self._loop(it.session, block, alternative)
        assert loop is not None  # as for `alternatives`
        do(it.session, "rfactor", loop, self._axis(block, alternative))

    def _axis(self, block: Block, part: str) -> int:
        """Partial results for lanes are contiguous."""
        return len(block.writes[0].ranges) if part == "inner" else 0

    def _loop(self, session: Session, block: Block, part: str) -> Handle | None:
        """The loop of the partial results; None if the reduction loops are too short, or cannot be brought inside."""
        reduced = {v for a in block.axes if a.kind == "reduce" for v in free_vars(a.binding)}
        loops = loops_around(session.program, block)
        inside = [s for s in loops if s.var in reduced]
        taken = inside[-1 if part == "inner" else 0]
        if not isinstance(taken.extent, Const) or taken.extent.value < SHORTEST:
            return None
        order = [handle(session, s.var) for s in (*(s for s in loops if s.var not in reduced), *inside)]
        if list(loops[len(loops) - len(inside) :]) != inside and do_if_legal(session, "reorder", *order) is None:
            return None
        loop = handle(session, taken.var)
        address = f"{self.name}:{block.name}/reduced"
        parts = do(session, "split", loop, draw(session, "perfect_tile", loop, 2, self.max_innermost, address=address))
        return parts[part == "inner"]


def _iterations(program: Program, block: Block, kind: str) -> int:
    """The iterations of the loops of a block's axes of a kind, which are constant."""
    own = [own_loop(program, block, a.name) for a in block.axes if a.kind == kind]
    return prod(int(s.extent.value) for s in own if s is not None and isinstance(s.extent, Const))
