"""Parallelization, vectorization and unrolling of any loops: the last rule of a space for CPUs."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import msgspec

from mslang.ir.expr import Const
from mslang.ir.find import blocks_of, path_to_block
from mslang.ir.intrin import intrin_of
from mslang.ir.program import Block, For, Program, Region
from mslang.ir.visit import free_vars
from mslang.schedule.handles import Handle
from mslang.schedule.rules.nests import (
    allows,
    block_handle,
    block_of,
    block_under,
    chain_below,
    do,
    do_if_legal,
    draw,
    handle,
    loops_around,
    roots,
)
from mslang.schedule.rules.rule import apply_rule, apply_rules, blocks_given
from mslang.schedule.session import Session

if TYPE_CHECKING:
    from mslang.schedule.interpret import Interpreter

STEPS = (0, 16, 64, 512)
"""The largest number of copies made by unrolling."""

SHARES = (64, 256, 1024, 4096)
"""Iterations of a single loop that one job runs as vectors."""


class ParallelizeVectorizeUnroll(msgspec.Struct, frozen=True):
    """Runs the outermost loops of a nest in parallel, vectorizes its innermost loop, and unrolls what is around that.

    The outermost spatial loops are fused until there are `max_jobs_per_core` jobs for each core. Reductions are begun
    apart (`decompose_reduction`). The loop along which elements are contiguous is vectorized; where it is the outermost
    one, it is split by a size drawn from `vector_extents`, at `parallelize_vectorize_unroll:block/share`. How many
    copies unrolling may make is drawn from `unroll_steps`, at `parallelize_vectorize_unroll:block/unroll`. A step that
    a primitive refuses is left out, which never depends on the values of decisions.

    Source: MetaSchedule's `ParallelizeVectorizeUnroll`, with its postprocessors `RewriteParallelVectorizeUnroll` and
    `RewriteReductionBlock`.
    """

    max_jobs_per_core: int = 16
    vector_extents: tuple[int, ...] = SHARES
    unroll_steps: tuple[int, ...] = STEPS
    name: str = "parallelize_vectorize_unroll"

    def applies(self, it: Interpreter, block: Block) -> bool:
        """Whether the block has loops, all on the CPU and none of vectors yet, and holds no blocks or instruction."""
        around = path_to_block(it.session.program, block.name) or ()
        if any(isinstance(s, Block) and intrin_of(s) is not None for s in around):
            return False
        loops = loops_around(it.session.program, block)
        done = any("Idx." in s.kind or s.kind == "vectorized" for s in loops)
        return bool(loops) and not blocks_of(block.body) and not done

    def alternatives(self, it: Interpreter, block: Block) -> tuple[str, ...]:
        """One: what is open are numbers."""
        return ("applied",)

    def apply(self, it: Interpreter, block: Block, alternative: str) -> None:
        """Do all that primitives allow."""
        session = it.session
        own = block_handle(session, block.name)
        root = next((r for r in roots(session.program) if block.name in {b.name for b in blocks_of((r,))}), None)
        if root is not None and root.kind == "serial":
            self._parallelize(session, root, self.max_jobs_per_core * it.machine.cores)
        begun = _begun_apart(session, own)
        for b in (own, *begun):
            _vectorize(session, block_of(session, b))
        if any(a.kind == "reduce" for a in block.axes):
            self._unroll(session, block_of(session, own), f"{self.name}:{block.name}/unroll")

    def _parallelize(self, session: Session, root: For, jobs: int) -> None:
        """Fuse the outermost loops over spatial axes, as many as it takes but the innermost; run them in parallel."""
        chain = chain_below(root)
        block = block_under(root)
        vector = vector_loop(session.program, block)
        if root == vector and self._is_long(root):
            self._share(session, root, block)
            return
        spatial = sum(a.kind == "spatial" for a in block.axes)
        whole = len(chain) == len(loops_around(session.program, block))
        outside = chain.index(vector) if vector in chain else len(chain) - whole
        for n in range(max(1, min(spatial, outside, _enough(chain, jobs))), 0, -1):
            loops = [handle(session, s.var) for s in chain[:n]]
            if n > 1 and not allows(session, "fuse", *loops):
                continue
            if not all(allows(session, "parallel", x) for x in loops):
                continue
            (fused,) = do(session, "fuse", *loops) if n > 1 else loops
            do_if_legal(session, "parallel", fused)
            return

    def _is_long(self, loop: For) -> bool:
        return isinstance(loop.extent, Const) and loop.extent.value > min(self.vector_extents, default=math.inf)

    def _share(self, session: Session, loop: For, block: Block) -> None:
        """Run the loop of vectors in parallel, in parts that are long enough to be vectors."""
        own = handle(session, loop.var)
        if not allows(session, "parallel", own):
            return
        size = _open(session, self.vector_extents, f"{self.name}:{block.name}/share")
        own, _ = do(session, "split", own, (None, size))
        do_if_legal(session, "parallel", own)

    def _unroll(self, session: Session, block: Block, address: str) -> None:
        """Unroll the two loops around the vector, up to a limit that is drawn."""
        loops = [s for s in loops_around(session.program, block) if s.kind == "serial"][-2:]
        loops = [s for s in loops if allows(session, "unroll", handle(session, s.var))]
        if not loops:
            return
        steps = _open(session, self.unroll_steps, address)
        for s in reversed(loops):
            do_if_legal(session, "unroll", handle(session, s.var), max_steps=steps)


def auto_parallel(it: Interpreter, args: Sequence[object], kwargs: Mapping[str, object]) -> object:
    """`std.cpu.auto_parallel`: the rule on all blocks, or on those given. Its decisions have addresses of this name.

    Raises:
        ScheduleError: MS203, an argument is no block.
    """
    rule = ParallelizeVectorizeUnroll(name="auto_parallel")
    named = blocks_given(rule.name, args)
    if not named:
        apply_rules(it, (rule,))
    for b in named:
        apply_rule(it, rule, block_of(it.session, b))
    return None


def _open(session: Session, sizes: tuple[int, ...], address: str) -> object:
    """One of some sizes: a decision if there are several."""
    return sizes[0] if len(sizes) == 1 else draw(session, "choose", sizes, address=address)


def _enough(chain: Sequence[For], jobs: int) -> int:
    """How many of some loops have together as many iterations as there should be jobs; all if that is not known."""
    total = 1
    for n, loop in enumerate(chain, 1):
        if not isinstance(loop.extent, Const):
            return len(chain)
        total *= int(loop.extent.value)
        if total >= jobs:
            return n
    return len(chain)


def _begun_apart(session: Session, reduction: Handle) -> tuple[Handle, ...]:
    """Make the init of a reduction a block of its own, before the outermost reduction loop."""
    block = block_of(session, reduction)
    reduced = {v for a in block.axes if a.kind == "reduce" for v in free_vars(a.binding)}
    loop = next((s for s in loops_around(session.program, block) if s.var in reduced), None)
    if block.init is None or loop is None:
        return ()
    return do_if_legal(session, "decompose_reduction", reduction, handle(session, loop.var)) or ()


def vector_loop(program: Program, block: Block) -> For | None:
    """The serial loop to vectorize, if any.

    It is the innermost of those along which the elements written are contiguous, and all elements read are contiguous
    or the same; else the innermost loop, if the elements written are contiguous along it.
    """
    loops = [s for s in loops_around(program, block) if s.kind == "serial"]
    if not block.writes:
        return None
    for loop in reversed(loops):
        if _contiguous(block, block.writes[0], loop) and all(_suits(block, r, loop) for r in block.reads):
            return loop
    return loops[-1] if loops and _contiguous(block, block.writes[0], loops[-1]) else None


def _contiguous(block: Block, region: Region, loop: For) -> bool:
    """Whether the last index of an access depends on a loop."""
    return bool(_axes_of(block, loop) & {v for r in region.ranges[-1:] for v in free_vars(r.start)})


def _suits(block: Block, region: Region, loop: For) -> bool:
    """Whether no index of an access but the last depends on a loop."""
    return not _axes_of(block, loop) & {v for r in region.ranges[:-1] for v in free_vars(r.start)}


def _axes_of(block: Block, loop: For) -> frozenset[str]:
    return frozenset(a.name for a in block.axes if loop.var in free_vars(a.binding))


def _vectorize(session: Session, block: Block) -> None:
    """Vectorize a block's loop of vectors, moved inside if need be."""
    inner = vector_loop(session.program, block)
    if inner is None:
        return
    own = handle(session, inner.var)
    below = chain_below(inner)[1:]
    if below and do_if_legal(session, "reorder", *(handle(session, s.var) for s in below), own) is None:
        return
    do_if_legal(session, "vectorize", own)
