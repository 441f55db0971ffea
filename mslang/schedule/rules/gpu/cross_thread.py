"""Cross-thread reduction: the threads of a block share a sum, and their consumer finds it in shared memory."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from mslang.ir.expr import Const, Expr
from mslang.ir.find import path_to_block
from mslang.ir.program import Block, For, Program
from mslang.schedule.rules.gpu.machine import most_threads
from mslang.schedule.rules.gpu.nests import extent, loop_names
from mslang.schedule.rules.gpu.steps import fused, handle_of
from mslang.schedule.rules.multi_level import needs_tiling
from mslang.schedule.rules.nests import attempt, block_handle, block_of, do, draw, handle, loops_around
from mslang.schedule.rules.rule import legal
from mslang.transform.analysis.axes import axis_loops
from mslang.transform.analysis.legality import is_reduction, loops_by_kind
from mslang.transform.getters import consumers
from mslang.transform.outcome import BlockRef, LoopRef

if TYPE_CHECKING:
    from mslang.schedule.interpret import Interpreter

ACROSS, APART = "across", "apart"
EXTENTS = (4, 8, 16, 32, 64, 128, 256, 512)


class CrossThreadReduction(msgspec.Struct, frozen=True):
    """Bind a part of a reduction to the threads of a block; where a consumer goes along the same outer loops, compute
    the reduction there, and pass the result through shared memory.

    Decisions: `cross_thread_reduction:block` (`across`, or `apart`: each thread reduces alone) and, of their number,
    `cross_thread_reduction:block/threads`.

    Source: MetaSchedule, `CrossThreadReduction`.
    """

    name: str = "cross_thread_reduction"
    thread_extents: tuple[int, ...] = EXTENTS

    def applies(self, it: Interpreter, block: Block) -> bool:
        """Whether it is a reduction in loops of its own that has too little work for threads that reduce alone."""
        program = it.session.program
        if not is_reduction(block) or not block.writes or not _alone(program, block):
            return False
        if not needs_tiling(program, block):
            return True
        rows, summed = (extent(program, block, loop_names(program, block, k)) for k in ("spatial", "reduce"))
        return rows is not None and summed is not None and rows < summed and rows <= most_threads(it.machine)

    def alternatives(self, it: Interpreter, block: Block) -> tuple[str, ...]:
        """Across the threads, or by each alone."""
        return legal(it, self, block, (ACROSS, APART))

    def apply(self, it: Interpreter, block: Block, alternative: str) -> None:
        """Share the reduction among threads."""
        if alternative == APART:
            return
        session = it.session
        b = block_handle(session, block.name)
        place = _place(session.program, block)
        threads = self._threads(it, block) if place is None else self._at_consumer(it, block, *place)
        program, now = session.program, block_of(session, b)
        around = [s.var for s in loops_around(program, now)]
        reduced = loop_names(program, now, "reduce")
        first = min(around.index(v) for v in reduced)
        wanted = [*(v for v in around[first:] if v not in reduced), *reduced]
        if wanted != around[first:]:
            do(session, "reorder", *(handle(session, v) for v in wanted))
        loop = fused(session, [handle(session, v) for v in reduced])
        _, inner = do(session, "split", loop, (None, threads))
        do(session, "bind", inner, "threadIdx.x")

    def _threads(self, it: Interpreter, block: Block) -> Expr | int:
        sizes = tuple(x for x in self.thread_extents if x <= most_threads(it.machine))
        drawn = draw(it.session, "choose", sizes, address=f"{self.name}:{block.name}/threads")
        assert isinstance(drawn, Expr | int)
        return drawn

    def _at_consumer(self, it: Interpreter, block: Block, consumer: Block, loop: For) -> Expr | int:
        """Compute the block at a loop of its consumer, whose threads take part; gives their number."""
        session = it.session
        around = loops_around(session.program, consumer)
        bound = next((s for s in around if s.kind == "threadIdx.x"), None)
        place = handle(session, loop.var)
        if bound is not None:
            threads: Expr | int = bound.extent
        else:
            threads = self._threads(it, block)
            outer, inner = do(session, "split", handle(session, around[-1].var), (None, threads))
            do(session, "bind", inner, "threadIdx.x")
            place = outer if around[-1].var == loop.var else place
        b = block_handle(session, block.name)
        do(session, "compute_at", b, place)
        do(session, "set_scope", b, handle_of(session, block.writes[0].buffer), "shared")
        return threads


def _alone(program: Program, block: Block) -> bool:
    """Whether a block is alone under loops each of which is bound to one axis, and one at least is reduced."""
    path = path_to_block(program, block.name) or ()
    around = loops_around(program, block)
    if any(len(s.body) != 1 or s.kind != "serial" for s in around):
        return False
    per_axis = [axis_loops(path, a.name) for a in block.axes if a.extent != Const(1)]
    if any(len(x) > 1 for x in per_axis):
        return False
    spatial, reduced = (loops_by_kind(path, k) for k in ("spatial", "reduce"))
    return bool(reduced) and {s.var for s in (*spatial, *reduced)} == {s.var for s in around}


def _place(program: Program, block: Block) -> tuple[Block, For] | None:
    """The first consumer of a block and the loop of it to compute the block at; None if there is none."""
    readers = [_block(program, x.name) for x in consumers(program, BlockRef(block.name))]
    if len(block.writes) != 1 or not readers or needs_tiling(program, readers[0]):
        return None
    target = loops_around(program, readers[0])
    mine = loops_around(program, block)
    shared = {s.var for s in mine}.union(s.var for s in target)
    for r in readers:
        shared &= {s.var for s in loops_around(program, r)}
    if len(readers) > 1 and not shared:
        return None
    path = path_to_block(program, block.name) or ()
    spatial = {s.var for s in loops_by_kind(path, "spatial")}
    depth = min(len(mine), len(target))
    for k in range(depth):
        if mine[k].var not in spatial:
            depth = k
            break
        if len(readers) > 1 and target[k].var in shared and (k + 1 == len(target) or target[k + 1].var not in shared):
            depth = k + 1
            break
    if depth == 0 or target[depth - 1].kind.startswith("threadIdx"):
        return None
    place = target[depth - 1]
    if attempt(program, "compute_at", BlockRef(block.name), LoopRef(place.var)) is None:
        return None
    return readers[0], place


def _block(program: Program, name: str) -> Block:
    found = (path_to_block(program, name) or ())[-1]
    assert isinstance(found, Block)
    return found
