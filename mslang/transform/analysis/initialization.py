"""Where the init of a block runs, and what an instance reads that its own reduction has not started.

The init runs in the instances in which all reduction axes are 0, wherever the loops put these. A reduction *starts from
scratch* if that instance is the first of its element, runs whenever one of them runs, reads nothing that the block
writes, and overwrites all that the others read.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import pairwise

from msgspec.structs import replace

from mslang.ir import arith
from mslang.ir.expr import ONE, ZERO, Binary, Expr
from mslang.ir.program import Axis, Block, For, Region
from mslang.ir.visit import Path, free_vars, loads_of, substitute, walk_paths
from mslang.transform.analysis.accesses import (
    body_footprint,
    init_footprint,
    updated_regions,
    why_several_names,
    written_by,
)
from mslang.transform.analysis.cover import cuts_only_outside, image, produced_box
from mslang.transform.analysis.definite_writes import (
    Box,
    covered_by,
    init_runs,
    moved,
    provably_initialised,
    viewed,
    why_not_guarded_from_start,
)
from mslang.transform.analysis.position import axis_ranges, block_at, loop_ranges, loops_above, ranges_above


# ------------------------------------------------------------------ what the init overwrites
def why_not_overwritten(block: Block, buffer: str) -> str | None:
    """None if the init of a block stores, unconditionally and without reading what the block writes, all that the block
    reads of a buffer."""
    read = [r.ranges for r in (*block.reads, *body_footprint(block).reads) if r.buffer == buffer]
    before = {r.buffer for r in init_footprint(block).reads} & written_by(block)
    if before:
        return f"the init of block `{block.name}` reads `{min(before)}`, which the block writes"
    if not read:
        return None
    axes = axis_ranges(block)
    boxes = [box for name, box in (*provably_initialised(block), *_initialised_in_blocks(block)) if name == buffer]
    steady = [box for box in boxes if not any(x.buffer in written_by(block) for r in box for x in loads_of(r.start))]
    if all(covered_by(steady, r, axes) for r in read):
        return None
    return f"the init of block `{block.name}` does not provably store all elements of `{buffer}` that its body reads"


def _initialised_in_blocks(block: Block) -> list[tuple[str, Box]]:
    """The boxes that blocks inside of an init provably store, by the axes of the block around them."""
    around: Path = (replace(block, body=block.init or (), init=None),)
    found: list[tuple[str, Box]] = []
    for q in walk_paths(block.init or ()):
        inner = q[-1]
        if not isinstance(inner, Block) or any(isinstance(s, Block) for s in q[:-1]):
            continue
        for r in inner.writes:
            box = produced_box((*around, *q), r, around)
            if box is None:
                continue
            name, starts = viewed(block, r.buffer)
            made = arith.intersect_box(box, image(inner, r), axis_ranges(block))
            found.append((name, moved(made, starts)))
    return found


# ------------------------------------------------------------------ when it runs
def why_not_init_first(path: Path) -> str | None:
    """None if of the instances of a reduction that concern one element the first is provably the one with the init,
    where all of its reduction axes are 0.

    So it is where the axes are 0 as the loops start and no loop serves other axes too, or each is a sum of digits of
    the loops that only grow: of fused loops, where these are nested as their digits are.
    """
    block = block_at(path)
    if block.init is None:
        return None
    loops = loops_above(path)
    ranges = ranges_above(path)
    first: dict[str, Expr] = {s.var: s.start for s in loops}
    for a in block.axes:
        if a.kind == "reduce" and not _begins_at_0(substitute(a.binding, first), a.binding, ranges):
            return f"axis `{a.name}` of block `{block.name}` does not provably begin at 0"
    tangled = _used(path, "reduce") & _used(path, "spatial")
    if not tangled:
        return None
    # Without the predicate: where fewer instances run, the first of all is still the first if it runs.
    found = arith.detect([a.binding for a in block.axes], loop_ranges(loops))
    if isinstance(found, arith.IterMap) and _grow_with_the_loops(found, block.axes, loops):
        return None
    return f"loop `{min(tangled)}` serves spatial and reduction axes of block `{block.name}`"


def _grow_with_the_loops(found: arith.IterMap, axes: Sequence[Axis], loops: Sequence[For]) -> bool:
    """Do the digits of loops that axes are made of only grow while those of the spatial axes stand still?

    No digit falls where its loop rises. A value of a spatial axis has one set of digits (`a + b` with `b` around `a`
    is 1 at `a = 1` before `a = 0`). And of two loops that are fused the outer one has the higher digits (`(j * 7 + i) %
    3` with `i` around `j` is 1 before it is 0).
    """
    if not all(s.separable for s, a in zip(found.sums, axes, strict=True) if a.kind != "reduce"):
        return False
    if any(t.reflected for s in (*found.sums, *found.fused.values()) for t in s.terms):
        return False
    depth = {s.var: k for k, s in enumerate(loops)}
    for s in found.fused.values():
        digits = [t.digit for t in reversed(s.terms) if t.digit.extent.constant != 1]
        levels = [[depth[v] for v in d.mark.vars if v in depth] for d in digits]
        if any(max(outer) >= min(inner) for outer, inner in pairwise(filter(None, levels))):
            return False
    return True


def _begins_at_0(first: Expr, binding: Expr, ranges: arith.Ranges) -> bool:
    """Is `first` the least value of a binding, and 0 where the axes of the block around are 0?"""
    outermost: dict[str, Expr] = dict.fromkeys(free_vars(first), ZERO)
    return (
        arith.proved(Binary("<=", ZERO, first), ranges)
        and arith.proved(Binary("<=", first, binding), ranges)
        and arith.equal(substitute(first, outermost), ZERO)
    )


def why_init_may_not_run(path: Path) -> str | None:
    """None if the init of the block at the end of a path runs for each element for which an instance of it runs."""
    used = _used(path, "reduce")
    if used & _used(path, "spatial") and cuts_only_outside(path):
        return None
    return why_not_guarded_from_start(path, {s.var: s.start for s in loops_above(path) if s.var in used})


def why_may_not_iterate(path: Path, loops: Iterable[For]) -> str | None:
    """None if each of some loops above the block at the end of a path provably has an iteration: where one has none,
    the init does not run either, and must not run after it has left the loop."""
    ranges = ranges_above(path)
    empty = next((s for s in loops if not arith.proved(Binary("<=", ONE, s.extent), ranges)), None)
    if empty is None:
        return None
    return f"loop `{empty.var}` may have no iterations, and then the init of block `{block_at(path).name}` does not run"


def why_not_from_scratch(path: Path) -> str | None:
    """None if the reduction of the block at the end of a path starts from scratch (see the module); a block without an
    init has no such reduction."""
    block = block_at(path)
    several = why_several_names(path)
    if several is not None:
        return several
    for r in updated_regions(block):
        reason = why_not_overwritten(block, r.buffer)
        if reason is not None:
            return reason
    return why_not_init_first(path) or why_init_may_not_run(path)


# ------------------------------------------------------------------ what an instance reads
def regions_read(path: Path, above: Path) -> tuple[Region, ...]:
    """The regions that the block at the end of a path may read in one iteration of the loops of `above`, but for those
    that its own init has started in that iteration."""
    block = block_at(path)
    own = written_by(block)
    found = tuple(dict.fromkeys((*block.reads, *updated_regions(block))))
    if block.init is None or own.isdisjoint(r.buffer for r in found) or not init_runs(path, above):
        return found
    if why_several_names(path) is not None:
        return found
    started = {b for b in own if why_not_overwritten(block, b) is None}
    return tuple(r for r in found if r.buffer not in started)


def declaring_all(path: Path, above: Path) -> Path:
    """The path with a block at its end that declares to read `regions_read` in place of what it declares."""
    return (*path[:-1], replace(block_at(path), reads=regions_read(path, above)))


def reads_only_its_own(path: Path, buffer: str, above: Path) -> bool:
    """Does the block at the end of a path read of a buffer, in one iteration of the loops of `above`, only what its own
    init started in that iteration?"""
    return all(r.buffer != buffer for r in regions_read(path, above))


def _used(path: Path, kind: str) -> frozenset[str]:
    """The loops that axes of a kind depend on."""
    mine = loop_ranges(loops_above(path)).keys()
    used = (free_vars(a.binding) for a in block_at(path).axes if a.kind == kind)
    return frozenset[str]().union(*used) & mine


__all__ = [
    "declaring_all",
    "reads_only_its_own",
    "regions_read",
    "why_init_may_not_run",
    "why_may_not_iterate",
    "why_not_from_scratch",
    "why_not_init_first",
    "why_not_overwritten",
]
