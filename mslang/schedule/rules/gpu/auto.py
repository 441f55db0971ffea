"""`std.cuda.auto`: a schedule for GPUs without search, in the manner of TVM's dlight.

What a nest does decides, never a name: attention of many scores is one kernel over tiles of keys, products are tiled,
chains of reductions along rows share a block of threads, transpositions go through shared memory, and of anything else
each element of the result has a thread. A step that a primitive refuses, or the back end, leaves the nest to the next
one; the last is one thread, which is always legal.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from mslang.ir.program import Block, Program
from mslang.ir.reduction import is_maximum
from mslang.schedule.rules.gpu.attention import Chain, chain_of, score_count
from mslang.schedule.rules.gpu.nests import (
    Accepts,
    Step,
    inlined_by_default,
    kept_between,
    possible,
    take,
    tiled_axes,
    unbound,
)
from mslang.schedule.rules.gpu.online import KEYS, ROWS, online
from mslang.schedule.rules.gpu.steps import columns, handle_of, partial_sums, rows, spread, spread_apart, tile, turned
from mslang.schedule.rules.nests import attempt, block_handle, do, leaf_blocks
from mslang.schedule.rules.rule import refuse_blocks
from mslang.schedule.session import Session
from mslang.transform.outcome import BlockRef

if TYPE_CHECKING:
    from mslang.schedule.interpret import Interpreter

TILES = ((16, 4, 16), (16, 2, 16), (8, 4, 8), (8, 2, 8), (8, 1, 8))
"""Tiles of a product, the largest first: threads along each side, results of each, and the depth of a fetch."""


SCORES = 4 << 20
"""From so many scores on they are not written to memory: with the weights 32 MiB, about one L2 cache."""


def auto(it: Interpreter, args: Sequence[object], kwargs: Mapping[str, object]) -> object:
    """Schedule the nests of which no loop is bound to a GPU's blocks or threads; draws nothing.

    Raises:
        ScheduleError: MS205, there are arguments.
    """
    refuse_blocks("auto", args)
    schedule_threads(it.session)
    return None


def anything(program: Program) -> bool:
    """Accept every program."""
    return True


def schedule_threads(session: Session, accepts: Accepts = anything) -> None:
    """Inline elementwise stages, then schedule nest after nest, the last first.

    Args:
        session: the running schedule.
        accepts: whether a program can be compiled; a step of which it says no is not taken.
    """
    _inline(session, leaf_blocks(session.program))
    _share(session, accepts)


def finish_threads(session: Session, accepts: Accepts = anything) -> None:
    """Inline and schedule the nests of which no loop is bound, as `schedule_threads`; others stay as they are."""
    _inline(session, unbound(session.program))
    _share(session, accepts)


def _inline(session: Session, blocks: Sequence[Block]) -> None:
    """Compute those of some blocks where they are read that only prepare operands."""
    for name in [b.name for b in blocks]:
        found = next(b for b in leaf_blocks(session.program) if b.name == name)
        if inlined_by_default(session.program, found) and attempt(session.program, "compute_inline", BlockRef(name)):
            do(session, "compute_inline", block_handle(session, name))


def _share(session: Session, accepts: Accepts) -> None:
    """Schedule nest after nest, the last first."""
    for block, buffer in kept_between(session.program):
        # `@ local` was said of a CPU. What becomes one kernel after all says again where its buffers are.
        do(session, "set_scope", block_handle(session, block), handle_of(session, buffer), "global")
    for b in unbound(session.program):
        take(session, [partial_sums(b.name)], accepts)
    seen: set[str] = set()
    while left := [b for b in unbound(session.program) if b.name not in seen]:
        seen.add(left[-1].name)
        take(session, _steps(session, left, accepts), accepts)


def _steps(session: Session, left: Sequence[Block], accepts: Accepts) -> Iterator[Step]:
    """The ways of scheduling the last nest of some, the best first."""
    block = left[-1]
    chain = _attention(session.program, left)
    if chain is not None:
        yield from (online(chain, ROWS, keys) for keys in KEYS)
    axes = tiled_axes(session.program, block)
    if axes is not None:
        yield from (tile(block.name, axes, *sizes) for sizes in TILES)
    yield columns(block.name)
    if (group := _group(session, left, accepts)) is not None:
        yield rows(group)
    yield turned(block.name)
    yield spread(block.name, registers=False, vector=True)
    yield spread(block.name, registers=True, vector=False)
    yield spread(block.name, registers=False, vector=False)
    yield spread_apart(block.name)


def _attention(program: Program, left: Sequence[Block]) -> Chain | None:
    """The stages of attention that some nests end with; None if they do not, or scores are few."""
    names = [b.name for b in left]
    maximum = next((b.name for b in reversed(left) if is_maximum(b)), None)
    chain = None if maximum is None else chain_of(program, names, maximum)
    if chain is None or names[-1] not in chain.stages or score_count(program, chain) < SCORES:
        return None
    return chain


def _group(session: Session, left: Sequence[Block], accepts: Accepts) -> list[str] | None:
    """The longest chain of nests, the last of some at its end, of which a block of threads can compute a row."""
    names = [b.name for b in left]
    best: list[str] | None = None
    for k in range(len(names) - 1, -1, -1):
        if tiled_axes(session.program, left[k]) is not None:
            break
        if possible(session, rows(names[k:]), accepts):
            best = names[k:]
    return best
