"""Primitives that move a block under a loop of another: compute_at, reverse_compute_at."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping

from msgspec.structs import replace

from mslang.diagnostics import MsError, ScheduleError
from mslang.ir import arith
from mslang.ir.expr import ZERO, Var
from mslang.ir.find import all_buffers, path_to_block, path_to_loop
from mslang.ir.program import Block, Buffer, Program, Range, Region
from mslang.ir.visit import Path, free_vars
from mslang.transform.analysis.axes import called
from mslang.transform.analysis.cover import consumed_box, produces_for
from mslang.transform.analysis.definite_writes import Box
from mslang.transform.analysis.dependence import (
    buffers_read,
    buffers_written,
    consumers,
    is_output,
    producers,
    storages_written,
)
from mslang.transform.analysis.instances import domains_of, provable_domains, runs_all, tells_instance
from mslang.transform.analysis.loop_kinds import require_nesting, require_own_writes
from mslang.transform.analysis.position import (
    block_at,
    leaves,
    loop_ranges,
    loops_above,
    scope_path,
    whole_box,
)
from mslang.transform.analysis.spans import Spans, joined_spans, kept_inside, spans_touching
from mslang.transform.analysis.stability import runs_alike
from mslang.transform.kinds import Location
from mslang.transform.outcome import BlockRef, LoopRef, Outcome, refuse
from mslang.transform.primitive import primitive
from mslang.transform.rewriting.block_moving import (
    LAST,
    Movable,
    loops_to,
    movable,
    placed,
    position,
    ranges_inside,
    require_all_run,
    require_final,
    require_finished,
    require_order,
    require_same_results,
    require_same_values,
    require_sequence,
    room,
)
from mslang.transform.rewriting.nest import without


@primitive(family="compute location")
def compute_at(program: Program, block: BlockRef, loop: Location, *, index: int = LAST) -> Outcome:
    """Move a producer under a loop of its consumers, to compute there what one iteration of the loop needs.

    The block gets new loops, one an axis, over the values for which its consumers under the loop read it: the union
    of what they read, as a box, kept inside the axis by a guard unless it is proved to be inside. Axes that this
    does not narrow, reduction axes among them, run over all of their domains. What several iterations need is
    computed in each; so is all of a block that nobody reads. Its old loops go where nothing else is left under them.

    `index` is the position among the statements of the loop: -1 the last legal one, -2 the first, else counted
    from 0.

    Before:
        for i in 0..64 {
            block a[x: 64 = i] { T[x] = A[x] * 2.0 }
        }
        for j0 in 0..8, j1 in 0..8 {
            block b[x: 62 = j0 * 8 + j1] {
                where j0 * 8 + j1 < 62
                B[x] = T[x] + T[x + 2]
            }
        }

    After:
        # a.compute_at(j0)
        for j0 in 0..8 {
            for x in 0..10 {
                block a[x: 64 = j0 * 8 + x] {
                    where x < 64
                    T[x] = A[x] * 2.0
                }
            }
            for j1 in 0..8 {
                block b[x: 62 = j0 * 8 + j1] {
                    where j0 * 8 + j1 < 62
                    B[x] = T[x] + T[x + 2]
                }
            }
        }

    Rejects:
        - a loop of another scope, above the block itself, or with a vectorized loop at or above it
        - a block that is neither complete nor a reduction block, or whose predicate cannot be said of its axes
        - a block that does not run for all values of its axes, of which several write the same element
        - a block that writes an output of its scope
        - a consumer that is not under the loop, or a producer after it
        - a position that is not before the first consumer
        - another block that writes what it reads after it, or reads what it writes before it
        - reads that its own producers have not provably written by then
        - a loop at or above it whose iterations are concurrent, if several would write the same elements
        - a reduction that combines in an order of its own, if the loops were in another order than the axes

    Source: TVM compute_at
    """
    return _explained(_compute_at, program, block, loop, index)


@primitive(family="compute location")
def reverse_compute_at(program: Program, block: BlockRef, loop: Location, *, index: int = LAST) -> Outcome:
    """Move a consumer under a loop of its producers, to use there what one iteration of the loop has produced.

    The block gets new loops, one an axis, over the values for which it reads what its producers under the loop write
    in one iteration, kept inside the axis by a guard unless it is proved to be inside. Axes that this does not narrow
    run over all of their domains; so do those of a block that reads nothing that is written under the loop: it is done
    again in each iteration. A block that runs for a part of an axis, such as a copy of a part of a buffer, keeps to
    that part. Its old loops go where nothing else is left under them.

    `index` is the position among the statements of the loop: -1 the last legal one, -2 the first, else counted
    from 0.

    Before:
        for i0 in 0..8, i1 in 0..8 {
            block a[x: 64 = i0 * 8 + i1] { T[x] = A[x] * 2.0 }
        }
        for j in 0..64 {
            block b[x: 64 = j] { B[x] = T[x] + 1.0 }
        }

    After:
        # b.reverse_compute_at(i0)
        for i0 in 0..8 {
            for i1 in 0..8 {
                block a[x: 64 = i0 * 8 + i1] { T[x] = A[x] * 2.0 }
            }
            for x in 0..8 {
                block b[x: 64 = i0 * 8 + x] { B[x] = T[x] + 1.0 }
            }
        }

    Rejects:
        - a loop of another scope, above the block itself, or with a vectorized loop at or above it
        - a block that is neither complete nor a reduction block, or whose predicate cannot be said of its axes
        - a producer after the loop, or a consumer before it
        - a loop over which a producer still reduces
        - a position that is not after the last producer
        - another block that writes what it reads after it, or reads what it writes before it
        - reads that are not provably written by then (a halo that the next iteration computes), or that a later
          iteration writes again
        - instances that would not provably run, or a reduction that would do steps twice
        - a loop at or above it whose iterations are concurrent, if several would write the same elements
        - a reduction that would not begin with its init, or lose an order that matters

    Source: TVM reverse_compute_at
    """
    return _explained(_reverse_compute_at, program, block, loop, index)


def legal_loops(program: Program, block: BlockRef, primitive: str) -> tuple[LoopRef, ...]:
    """The loops to which `compute_at` or `reverse_compute_at` can move a block, in program order."""
    path = path_to_block(program, block.name)
    if path is None:
        return ()
    move, others = (_compute_at, consumers) if primitive == "compute_at" else (_reverse_compute_at, producers)
    near: dict[str, None] = {}
    for other in others(program, path):
        found = path_to_block(program, other.name)
        near.update((s.var, None) for s in loops_above(found or ()))
    return tuple(LoopRef(var) for var in near if _works(move, program, block, LoopRef(var)))


def can_compute_at(program: Program, block: BlockRef, loop: LoopRef) -> bool:
    """Can `compute_at` move a block to a loop?"""
    return _works(_compute_at, program, block, loop)


_Move = Callable[[Program, BlockRef, LoopRef, int], Outcome]


def _works(move: _Move, program: Program, block: BlockRef, loop: LoopRef) -> bool:
    try:
        move(program, block, loop, LAST)
    except MsError:
        return False
    return True


def _explained(move: _Move, program: Program, block: BlockRef, loop: LoopRef, index: int) -> Outcome:
    try:
        return move(program, block, loop, index)
    except ScheduleError as error:
        found = error.diagnostic
        if found.code == "MS301":
            raise
        primitive = "compute_at" if move is _compute_at else "reverse_compute_at"
        legal = [called(program, x) for x in legal_loops(program, block, primitive)]
        where = (
            f"loops at which `{block.name}` can be placed: {', '.join(legal)}"
            if legal
            else (f"there is no loop at which `{block.name}` can be placed")
        )
        text = where if found.help is None else f"{found.help}; {where}"
        raise ScheduleError(replace(found, help=text)) from None


# ------------------------------------------------------------------ compute_at
def _compute_at(program: Program, block: BlockRef, loop: LoopRef, index: int) -> Outcome:
    primitive = "compute_at"
    moving = movable(program, block, loop, primitive)
    if is_output(program, moving.path):
        outputs = ", ".join(f"`{b}`" for b in sorted(storages_written(program, moving.block)))
        raise refuse(
            "MS343",
            primitive,
            f"block `{block.name}` is an output block",
            why=f"it writes {outputs}, which is needed as a whole outside",
            help="cache_write the buffer and move that, or reverse_compute_at a consumer",
        )
    users = consumers(program, moving.path)
    outside = [b.name for b in users if b not in leaves(moving.loop)]
    if outside:
        raise refuse(
            "MS341",
            primitive,
            f"not all consumers of block `{block.name}` are under loop `{loop.name}`",
            why=f"block `{outside[0]}` is not",
            help="move the other consumers there first",
        )
    first, last = room(program, moving, primitive)
    require_order(program, moving.path, primitive)
    require_final(program, producers(program, moving.path), moving.around, block.name, primitive)
    served = all(
        produces_for(program, moving.path, path_to_block(program, b.name) or (), r.buffer)
        for b in users
        for r in moving.block.writes
        if r.buffer in buffers_read(b)
    )
    require_same_values(program, moving.path, (moving.target,), primitive, keeps=lambda loop: served)
    domains = domains_of(moving.path)
    if scope_path(moving.path) and not runs_all(moving.path, domains):
        raise refuse(
            "MS348",
            primitive,
            f"block `{block.name}` does not provably run for all values of its axes",
            why="at another place it might access more than its enclosing block declares",
        )

    if not runs_all(moving.path, domains) and not tells_instance(moving.block):
        raise refuse(
            "MS348",
            primitive,
            f"block `{block.name}` does not provably run for all values of its axes",
            why="at another place it would for all, and several of them write the same element",
        )
    reduced = {a.name: domains[a.name] for a in moving.block.axes if a.kind != "spatial"}
    if reduced and not runs_all(moving.path, reduced):
        raise refuse(
            "MS348",
            primitive,
            f"block `{block.name}` does not provably reduce over all values of its axes",
            why="its loops leave values of a reduction axis out, and the new ones would not",
        )

    rest = without(program, moving.path)
    target = path_to_loop(rest, loop.name) or ()
    ranges = ranges_inside(target)
    wanted = [
        (r, box) for r in moving.block.writes if (box := _needed(rest, target, users, r.buffer, ranges)) is not None
    ]
    spans = joined_spans(
        [spans_touching(moving.block, r, box, ranges) for r, box in wanted], domains, ranges, absent_is_whole=True
    )
    # the block around declares accesses for these values only: a tail or a rounded layout could reach others
    at = position(index, first, last, moving, primitive)
    outcome = placed(program, rest, moving, at, spans, primitive, parts=domains)
    path = path_to_block(outcome.program, block.name) or ()
    if not users:
        require_all_run(outcome.program, path, domains, primitive)
    require_same_results(program, moving.path, outcome.program, path, primitive)
    require_finished(program, moving.path, outcome.program, path, primitive)
    require_own_writes(outcome.program, path, primitive)
    require_sequence(moving.path, path, primitive)
    require_nesting(path, primitive)
    return outcome


def _needed(
    program: Program, target: Path, users: Iterable[Block], name: str, ranges: Mapping[str, Range]
) -> Box | None:
    """The box of a buffer that some blocks read in one iteration of the loop at the end of a path."""
    buffer = all_buffers(program)[name]
    boxes = (_shared_by_threads(box, target, buffer) for box in _boxes(program, target, users, name, lambda b: b.reads))
    return _hull(boxes, buffer, ranges)


def _shared_by_threads(box: Box, target: Path, buffer: Buffer) -> Box:
    """A box grown over the loops above that are threads which share the memory of a buffer."""
    over = _SHARING.get(buffer.scope, ())
    threads = loop_ranges(s for s in loops_to(target) if over and s.kind.startswith(over))
    return arith.relax(box, threads) if threads else box


_SHARING = {
    "shared": ("threadIdx.", "vthread"),
    "shared.dyn": ("threadIdx.", "vthread"),
    "warp": ("threadIdx.x",),
}


# ------------------------------------------------------------------ reverse_compute_at
def _reverse_compute_at(program: Program, block: BlockRef, loop: LoopRef, index: int) -> Outcome:
    primitive = "reverse_compute_at"
    moving = movable(program, block, loop, primitive)
    first, last = room(program, moving, primitive)
    makers = producers(program, moving.path)
    under = [b for b in makers if b in leaves(moving.loop)]
    require_order(program, moving.path, primitive)
    require_final(program, makers, moving.around, block.name, primitive)
    domains = provable_domains(moving.path)
    if domains is None:
        raise refuse(
            "MS348",
            primitive,
            f"block `{block.name}` does not provably run for all values of its axes",
            why="its loops and its predicate cover neither the domains of its axes nor a known box of them",
        )

    rest = without(program, moving.path)
    target = path_to_loop(rest, loop.name) or ()
    ranges = ranges_inside(target)
    made = [(r, box) for r in moving.block.reads if (box := _made(rest, target, under, r.buffer, ranges)) is not None]
    spans = joined_spans(
        [spans_touching(moving.block, r, box, ranges) for r, box in made], domains, ranges, absent_is_whole=False
    )
    spans, moving = _kept_to_part(spans, domains, moving, ranges)
    outcome = placed(program, rest, moving, position(index, first, last, moving, primitive), spans, primitive)
    path = path_to_block(outcome.program, block.name) or ()
    _require_each_maker(outcome.program, under, path, primitive)
    require_same_values(
        program,
        moving.path,
        (moving.target,),
        primitive,
        keeps=lambda s: runs_alike(moving.path, path, program, outcome.program, s),
    )
    require_all_run(outcome.program, path, domains, primitive)
    require_same_results(program, moving.path, outcome.program, path, primitive)
    require_finished(program, moving.path, outcome.program, path, primitive)
    require_own_writes(outcome.program, path, primitive)
    require_sequence(moving.path, path, primitive)
    require_nesting(path, primitive)
    return outcome


def _kept_to_part(
    spans: Spans, domains: Spans, moving: Movable, ranges: Mapping[str, Range]
) -> tuple[dict[str, Range], Movable]:
    """The spans of axes of which the block runs for a part only, kept inside of it, with the conditions that this
    takes. Where the block around tells the part, they must provably be inside: all else is for other iterations of that
    block (MS348)."""
    found, guards = dict(spans), list(moving.kept)
    for a in moving.block.axes:
        span, domain = spans[a.name], domains[a.name]
        if domain == Range(ZERO, a.extent):
            continue
        if not free_vars(domain.start) | free_vars(domain.extent):
            inside = kept_inside(span, Var(a.name), domain, ranges)
            found[a.name] = inside.span
            guards.extend(g for g in inside.guards if g not in guards)
        elif span != domain and arith.covers((domain,), (span,), ranges) is not arith.Verdict.PROVED:
            raise refuse(
                "MS348",
                "reverse_compute_at",
                f"block `{moving.block.name}` would run for more values of `{a.name}` than are its own",
                why="the enclosing block determines which part it computes, and the loop may produce more",
            )
    return found, replace(moving, kept=tuple(guards))


def _made(
    program: Program, target: Path, makers: Iterable[Block], name: str, ranges: Mapping[str, Range]
) -> Box | None:
    """The box of a buffer that some blocks write in one iteration of the loop at the end of a path."""
    return _hull(_boxes(program, target, makers, name, lambda b: b.writes), all_buffers(program)[name], ranges)


def _require_each_maker(program: Program, makers: Iterable[Block], path: Path, primitive: str) -> None:
    for maker in makers:
        for buffer in set(buffers_written(maker)) & set(buffers_read(block_at(path))):
            if not produces_for(program, path_to_block(program, maker.name) or (), path, buffer):
                raise refuse(
                    "MS332",
                    primitive,
                    f"block `{block_at(path).name}` would read elements that are not provably written",
                    why=f"block `{maker.name}` does not provably write all elements of `{buffer}` that it reads in one "
                    "iteration of the loop",
                )


# ------------------------------------------------------------------ boxes
def _boxes(
    program: Program, target: Path, blocks: Iterable[Block], name: str, regions: Callable[[Block], Iterable[Region]]
) -> Iterator[Box]:
    buffer = all_buffers(program)[name]
    for block in blocks:
        path = path_to_block(program, block.name) or ()
        yield from (consumed_box(path, r, target, buffer) for r in regions(block) if r.buffer == name)


def _hull(boxes: Iterable[Box], buffer: Buffer, ranges: Mapping[str, Range]) -> Box | None:
    joined: Box | None = None
    for box in boxes:
        joined = box if joined is None else arith.union_box(joined, box, whole_box(buffer), ranges)
    return joined
