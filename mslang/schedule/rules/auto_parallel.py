"""Parallelization, vectorization and unrolling of any loops: the last rule of a space for CPUs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import msgspec

from mslang.ir.program import Block, For
from mslang.ir.visit import blocks_of, free_vars
from mslang.schedule.handles import Handle
from mslang.schedule.rules.nests import (
    attempt,
    block_handle,
    block_of,
    block_under,
    chain_below,
    do,
    draw,
    handle,
    leaf_blocks,
    loops_around,
    roots,
)
from mslang.schedule.session import Session
from mslang.transform.analysis.position import leaves
from mslang.transform.outcome import BlockRef, LoopRef

if TYPE_CHECKING:
    from mslang.schedule.interpret import Interpreter

STEPS = (0, 16, 64, 512)
"""The largest number of copies made by unrolling."""


class AutoParallel(msgspec.Struct, frozen=True):
    """Runs a block's outermost loops in parallel, vectorizes and unrolls the innermost; see `auto_parallel`."""

    name: str = "auto_parallel"

    def applies(self, it: Interpreter, block: Block) -> bool:
        """Whether it has loops, and no nested blocks."""
        return bool(loops_around(it.session.program, block)) and not blocks_of(block.body)

    def alternatives(self, it: Interpreter, block: Block) -> tuple[str, ...]:
        """One."""
        return ("applied",)

    def apply(self, it: Interpreter, block: Block, alternative: str) -> None:
        """Do all that primitives allow."""
        auto_parallel(it, (block_handle(it.session, block.name),), {})


def auto_parallel(it: Interpreter, args: Sequence[object], kwargs: Mapping[str, object]) -> object:
    """Parallelize the outermost loops, decompose reductions, vectorize the innermost loop where accesses are
    contiguous, and unroll the loops around it.

    A step that a primitive refuses is skipped. The one decision of a reduction block has the address
    `auto_parallel:block/unroll`.
    """
    session = it.session
    named = [b for b in args if isinstance(b, Handle)]
    blocks = named or [block_handle(session, b.name) for b in leaf_blocks(session.program)]
    # addresses use the names of blocks before this rule decomposes reductions
    names = {b: session.handles.resolve(b).name for b in blocks}
    for root in roots(session.program):
        if root.kind == "serial" and set(names.values()) & {b.name for b in leaves(root)}:
            _share(session, root)
    starts = [start for b in blocks for start in _started(session, b)]
    for b in (*blocks, *starts):
        _vectorise(session, block_of(session, b))
    for b, name in names.items():
        if any(a.kind == "reduce" for a in block_of(session, b).axes):
            _unroll(session, block_of(session, b), f"auto_parallel:{name}/unroll")
    return None


def _share(session: Session, root: For) -> None:
    """Fuse as many of the outermost loops as there are spatial axes, except the innermost, and make the result
    parallel."""
    chain = chain_below(root)
    spatial = sum(a.kind == "spatial" for a in block_under(root).axes)
    for n in range(min(spatial, max(1, len(chain) - 1)), 0, -1):
        loops = [LoopRef(s.var) for s in chain[:n]]
        fused = attempt(session.program, "fuse", loops) if n > 1 else None
        if n > 1 and fused is None:
            continue
        program, loop = (session.program, loops[0]) if fused is None else (fused.program, fused.handles[0])
        if attempt(program, "parallel", loop) is not None:
            done = handle(session, loops[0])
            if n > 1:
                (done,) = do(session, "fuse", *(handle(session, x) for x in loops))
            do(session, "parallel", done)
            return


def _started(session: Session, reduction: Handle) -> tuple[Handle, ...]:
    """Make the init of a reduction a block of its own, before the outermost reduction loop."""
    block = block_of(session, reduction)
    reduced = {v for a in block.axes if a.kind == "reduce" for v in free_vars(a.binding)}
    loop = next((s for s in loops_around(session.program, block) if s.var in reduced), None)
    if block.init is None or loop is None:
        return ()
    if attempt(session.program, "decompose_reduction", BlockRef(block.name), LoopRef(loop.var)) is None:
        return ()
    return do(session, "decompose_reduction", reduction, handle(session, loop.var))


def _vectorise(session: Session, block: Block) -> None:
    loops = loops_around(session.program, block)
    if not loops or not block.writes or loops[-1].kind != "serial":
        return
    last = block.writes[0].ranges[-1:]
    along = {v for r in last for v in free_vars(r.start)}
    inner = loops[-1].var
    contiguous = any(inner in free_vars(a.binding) for a in block.axes if a.name in along)
    if contiguous and attempt(session.program, "vectorize", LoopRef(inner)) is not None:
        do(session, "vectorize", handle(session, inner))


def _unroll(session: Session, block: Block, address: str) -> None:
    """Unroll the two loops around the vector, up to a limit that is drawn."""
    loops = [s for s in loops_around(session.program, block) if s.kind == "serial"][-2:]
    if not loops:
        return
    steps = draw(session, "choose", STEPS, address=address)
    for s in reversed(loops):
        if attempt(session.program, "unroll", LoopRef(s.var)) is not None:
            do(session, "unroll", handle(session, s.var), max_steps=steps)
