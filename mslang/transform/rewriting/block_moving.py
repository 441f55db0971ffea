"""What moving a block to another loop asks for, whichever way it goes."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from itertools import takewhile

import msgspec

from mslang.ir import arith
from mslang.ir.expr import ONE, Expr
from mslang.ir.find import path_to_block, path_to_loop
from mslang.ir.program import Block, For, Program, Range
from mslang.ir.text import kind_text
from mslang.ir.visit import Path, walk
from mslang.transform.analysis.cover import produces_for, why_not_covered
from mslang.transform.analysis.dependence import (
    buffers_read,
    buffers_written,
    consumers,
    producers,
    readers,
    storages_read,
    storages_written,
    writers,
)
from mslang.transform.analysis.initialization import why_not_init_first
from mslang.transform.analysis.instances import loops_beyond_spatial, portable_predicate, runs_all, runs_once
from mslang.transform.analysis.legality import why_neither
from mslang.transform.analysis.loop_kinds import require_joined, require_shared_apart
from mslang.transform.analysis.outer_accesses import require_in_blocks
from mslang.transform.analysis.position import (
    block_at,
    block_path,
    common_path,
    index_of,
    is_under,
    leaves,
    loop_at,
    loop_path,
    loop_ranges,
    loops_above,
    ranges_above,
    same_scope,
    scope_body,
    taken_names,
    within_scope,
)
from mslang.transform.analysis.reduction_order import why_not_in_sequence
from mslang.transform.analysis.spans import Spans
from mslang.transform.analysis.stability import why_not_final, why_other_results, why_other_values
from mslang.transform.outcome import BlockRef, LoopRef, Outcome, refuse
from mslang.transform.rewriting.nest import ALL, inserted, nest, vanished

LAST, FIRST = -1, -2
"""What `index` says besides a position: the last or the first position that is legal."""


class Movable(msgspec.Struct, frozen=True):
    """A block that may be moved to a loop, as far as the two alone tell.

    `kept` is what the block's predicate says of its axes besides keeping them in their domains.
    """

    path: Path
    target: Path
    kept: tuple[Expr, ...]

    @property
    def block(self) -> Block:
        """The block."""
        return block_at(self.path)

    @property
    def loop(self) -> For:
        """The loop."""
        return loop_at(self.target)

    @property
    def around(self) -> tuple[For, ...]:
        """The loop and those above it."""
        return loops_to(self.target)


def movable(program: Program, block: BlockRef, loop: LoopRef, primitive: str) -> Movable:
    """A block and a loop under which it may be moved, as far as they alone tell.

    Raises:
        ScheduleError: MS340 another scope or a loop above the block, MS345 not complete and no reduction, MS346 a
            vectorized or still reducing loop, MS347 a predicate about loops.
    """
    path, target = block_path(program, block, primitive), loop_path(program, loop, primitive)
    if not same_scope(path, target):
        raise refuse(
            "MS340",
            primitive,
            f"loop `{loop.name}` and block `{block.name}` are in different scopes",
            why="a block moves among the loops of its enclosing block",
        )
    if is_under(path, target[-1]):
        raise refuse(
            "MS340",
            primitive,
            f"loop `{loop.name}` is above block `{block.name}` already",
            why="a block moves under a loop of another block",
        )
    for s in (*within_scope(path), *within_scope(target)):
        if not isinstance(s, For | Block):
            raise refuse(
                "MS340",
                primitive,
                f"{kind_text(s)} stands above block `{block.name}` or loop `{loop.name}`",
                why="only loops may stand between them and the innermost block that encloses both",
            )
    vector = next((s.var for s in loops_to(target) if s.kind == "vectorized"), None)
    if vector is not None:
        raise refuse(
            "MS346",
            primitive,
            f"loop `{vector}` is vectorized",
            why="a vectorized loop holds one block, in lanes",
            help="vectorize after moving",
        )
    neither = why_neither(program, path)
    if neither is not None:
        raise refuse("MS345", primitive, f"block `{block.name}` cannot be moved", why=neither)
    kept = portable_predicate(path)
    if kept is None:
        raise refuse(
            "MS347",
            primitive,
            f"the predicate of block `{block.name}` is about loops that it would leave",
            why="it cannot be said of the block's axes",
            help="state the condition on the axes: `where` in the block",
        )
    _require_whole(program, path, target, primitive)
    return Movable(path, target, kept)


def _require_whole(program: Program, path: Path, target: Path, primitive: str) -> None:
    """Nobody may read results of a block while a loop around it and its new place still reduces (MS346)."""
    reduced = [s for s in common_path(path, target) if isinstance(s, For) and s.var in loops_beyond_spatial(path)]
    users = consumers(program, path)
    partial = next((s for s in reduced if any(b in leaves(s) for b in users)), None)
    if partial is not None:
        raise refuse(
            "MS346",
            primitive,
            f"block `{block_at(path).name}` reduces over loop `{partial.var}`, which is around both",
            why="what reads it there sees partial results, and would not after the move",
        )


def room(program: Program, moving: Movable, primitive: str) -> tuple[int, int]:
    """The first and the last position among the statements of the loop that are after all that the block reads and
    before all that reads it.

    Raises:
        ScheduleError: MS341, a producer comes after the loop; MS344, a consumer before it.
    """
    name, body, inside = moving.block.name, moving.loop.body, leaves(moving.loop)
    makers, users = producers(program, moving.path), consumers(program, moving.path)
    order = leaves(*scope_body(program, moving.path))
    start = _leaves_before(program, moving)
    late = [b.name for b in makers if b not in inside and index_of(order, b) >= start]
    if late:
        raise refuse(
            "MS341",
            primitive,
            f"not all producers of block `{name}` are under loop `{moving.loop.var}`",
            why=f"block `{late[0]}` comes after it",
            help="move the other producers there first",
        )
    early = [b.name for b in users if b not in inside and index_of(order, b) < start]
    if early:
        raise refuse(
            "MS344",
            primitive,
            f"block `{early[0]}` reads what block `{name}` would write after it",
            why=f"it comes before loop `{moving.loop.var}`",
        )
    first = max((k + 1 for k, s in enumerate(body) if any(b in leaves(s) for b in makers)), default=0)
    last = min((k for k, s in enumerate(body) if any(b in leaves(s) for b in users)), default=len(body))
    return first, last


def _leaves_before(program: Program, moving: Movable) -> int:
    before = takewhile(lambda s: s is not moving.loop, walk(scope_body(program, moving.path), into_blocks=False))
    return sum(isinstance(s, Block) for s in before)


def require_order(program: Program, path: Path, primitive: str, predicates: bool = True) -> None:
    """Nobody may write what the block at the end of a path reads after it, or read what it writes before it (MS344),
    or do either outside of blocks (MS352); `predicates` says whether those of blocks are meant, too."""
    block, body = block_at(path), scope_body(program, path)
    written = buffers_written(block)
    touched = (*buffers_read(block), *written)
    require_in_blocks(program, body, primitive, read=written, written=touched, predicates=predicates)
    order = [b.name for b in leaves(*body)]
    here = order.index(block.name)
    for storage in sorted(storages_read(program, block) - storages_written(program, block)):
        after = [b.name for b in writers(program, body, storage) if order.index(b.name) > here]
        if after:
            raise refuse(
                "MS344",
                primitive,
                f"block `{after[0]}` writes `{storage}` after block `{block.name}` read it",
                why="moved, the block could read what is written later",
            )
    for storage in sorted(storages_written(program, block)):
        before = [b.name for b in readers(program, body, storage) if order.index(b.name) < here]
        if before:
            raise refuse(
                "MS344",
                primitive,
                f"block `{before[0]}` reads `{storage}` before block `{block.name}` writes it",
                why="moved, the block could write what is still to be read",
            )


def require_same_values(
    program: Program,
    path: Path,
    places: Iterable[Path],
    primitive: str,
    but: frozenset[str] = frozenset(),
    *,
    keeps: Callable[[For], bool] = lambda loop: False,
) -> None:
    """The block at the end of a path must read the same values at other places, whatever loops around the writers it
    leaves or comes under (MS320); see `why_other_values`."""
    reason = why_other_values(program, path, places, but, keeps=keeps)
    if reason is not None:
        raise refuse(
            "MS320",
            primitive,
            f"block `{block_at(path).name}` would read other values at its new place",
            why=reason,
            help="move it to a place under the same loops as the blocks that write what it reads",
        )


def require_same_results(program: Program, before: Path, done: Program, after: Path, primitive: str) -> None:
    """Other blocks must read the same values of what a block writes once it has moved (MS320); see
    `why_other_results`."""
    reason = why_other_results(program, before, done, after)
    if reason is not None:
        raise refuse(
            "MS320",
            primitive,
            f"blocks would read other values than block `{block_at(before).name}` leaves at its old place",
            why=reason,
            help="move it to a place under the same loops as the blocks that read what it writes",
        )


def require_finished(program: Program, before: Path, done: Program, after: Path, primitive: str) -> None:
    """A block at its new place must not read what a later iteration of a loop around it still writes (MS320); see
    `why_not_final`."""
    reason = why_not_final(program, before, done, after)
    if reason is not None:
        raise refuse(
            "MS320",
            primitive,
            f"block `{block_at(before).name}` would read other values at its new place",
            why=reason,
            help="move it to a place where what it reads is finished",
        )


def require_final(
    program: Program, makers: Iterable[Block], around: Collection[For], reader: str, primitive: str
) -> None:
    """No loop of `around` may still reduce in a block whose results another reads there (MS346)."""
    for maker in makers:
        path = path_to_block(program, maker.name) or ()
        above = {s.var for s in loops_above(path)} & loops_beyond_spatial(path)
        unfinished = [s.var for s in around if s.var in above and not arith.equal(s.extent, ONE)]
        if unfinished:
            raise refuse(
                "MS346",
                primitive,
                f"loop `{unfinished[0]}` still reduces in block `{maker.name}`",
                why=f"what block `{reader}` reads is not final before the loop ends",
            )


def require_all_run(program: Program, path: Path, domains: Spans, primitive: str) -> None:
    """A block at its new place must run for all values of its axes in `domains` (MS348), must not reduce over
    iterations that run at the same time (MS346), and not twice while its reduction goes on (MS349)."""
    block = block_at(path)
    if not runs_all(path, domains):
        raise refuse(
            "MS348",
            primitive,
            f"block `{block.name}` would not provably run for all values of its axes",
            why="what one iteration of the loop produces does not determine which of them it serves",
        )
    loops, reducing = loops_above(path), loops_beyond_spatial(path)
    outermost = next((k for k, s in enumerate(loops) if s.var in reducing), len(loops))
    updating = next((s for s in loops if s.var in reducing and s.kind not in _UPDATING), None)
    if updating is not None:
        raise refuse(
            "MS346",
            primitive,
            f"block `{block.name}` would reduce over the {updating.kind} loop `{updating.var}`",
            why="concurrent iterations would update the same elements",
        )
    if not runs_once(path, loops[outermost:]):
        raise refuse(
            "MS349",
            primitive,
            f"block `{block.name}` would run some instances of its reduction twice",
            why="its bindings are not provably different in different iterations",
        )


_UPDATING = ("serial", "unrolled", *(f"threadIdx.{x}" for x in "xyz"))
"""Kinds of loops that a reduction may run over: one after the other, or with what each has summed combined."""


def require_sequence(before: Path, after: Path, primitive: str) -> None:
    """A reduction at its new place must begin with its init, and keep the order in which it combines what cannot be
    combined in any (MS308)."""
    reason = why_not_init_first(after) or why_not_in_sequence(before) or why_not_in_sequence(after)
    if reason is not None:
        raise refuse("MS308", primitive, f"block `{block_at(after).name}` would reduce in another order", why=reason)


def position(index: int, first: int, last: int, moving: Movable, primitive: str) -> int:
    """The position among the statements of the loop that `index` means (MS342 if it is not from `first` to `last`)."""
    chosen = {LAST: last, FIRST: first}.get(index, index)
    if not first <= chosen <= last:
        raise refuse(
            "MS342",
            primitive,
            f"block `{moving.block.name}` cannot stand at position {index} of loop `{moving.loop.var}`",
            why="it must stand after what it reads and before what reads it",
            help=f"legal positions: {first} to {last}" if first <= last else None,
        )
    return chosen


def placed(
    program: Program, rest: Program, moving: Movable, at: int, spans: Spans, primitive: str, parts: Spans = ALL
) -> Outcome:
    """The block of `moving` put under its loop in `rest`, the program without it, and kept to the `parts` of its axes
    that are its own; its reads and its readers checked.

    Raises:
        ScheduleError: MS332, something would be read that is not provably written.
    """
    target = path_to_loop(rest, moving.loop.var) or ()
    made = nest(moving.block, spans, moving.kept, ranges_inside(target), taken_names(program), parts)
    done = inserted(rest, target, at, made.stmt)
    path = path_to_block(done, moving.block.name) or ()
    reason = why_not_covered(done, path)
    if reason is not None:
        raise refuse(
            "MS332",
            primitive,
            f"block `{made.block.name}` would read elements that are not provably written",
            why=reason,
        )
    for user in consumers(done, path):
        reading = path_to_block(done, user.name) or ()
        for buffer in buffers_written(made.block):
            if buffer in buffers_read(user) and not produces_for(done, path, reading, buffer):
                raise refuse(
                    "MS332",
                    primitive,
                    f"block `{user.name}` would read elements that are not provably written",
                    why=f"block `{made.block.name}` does not provably write all elements of `{buffer}` that it reads",
                )
    require_joined(done, primitive)
    require_shared_apart(program, done, primitive)
    return Outcome(done, (), vanished(program, done, primitive, made.loops))


def ranges_inside(target: Path) -> dict[str, Range]:
    """The ranges of the variables that a statement in the loop at the end of a path may use."""
    return {**ranges_above(target), **loop_ranges((loop_at(target),))}


def loops_to(target: Path) -> tuple[For, ...]:
    """The loop at the end of a path and those above it, outermost first."""
    return (*loops_above(target), loop_at(target))
