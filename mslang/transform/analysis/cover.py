"""Region cover: does a producer provably write, in the same iteration of the loops around both, what a consumer reads?

What a block *provably writes* is a box only where its indices run over it without gaps, each loop serving one
dimension, and where its predicate does no more than cut off what lies outside its axes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec
from msgspec.structs import replace

from mslang.diagnostics import MsError
from mslang.ir import arith
from mslang.ir.arith.linear import coefficients
from mslang.ir.expr import ONE, TRUE, ZERO, Binary, Const, Expr, Var
from mslang.ir.find import all_buffers, block_paths
from mslang.ir.program import Axis, Block, Buffer, For, Let, Program, Range, Region
from mslang.ir.region import resolved
from mslang.ir.visit import Path, conjuncts, free_vars, fresh, loads_of, substitute, walk
from mslang.transform.analysis.accesses import guard_regions
from mslang.transform.analysis.axis_bounds import narrowed
from mslang.transform.analysis.definite_writes import Box as Box
from mslang.transform.analysis.definite_writes import filled_box, moved, paved, provably_stored, stored_under, viewed
from mslang.transform.analysis.dependence import storage_of, writers
from mslang.transform.analysis.position import (
    axis_ranges,
    bindings,
    block_at,
    common_path,
    loop_ranges,
    loops_above,
    loops_between,
    memory_at,
    ranges_above,
    region_outside,
    scope_body,
    whole_box,
    within_scope,
)
from mslang.transform.analysis.predicated_indices import Indices, collapsed, detect
from mslang.transform.analysis.steady_boxes import is_steady, loaded_by


class _Inside(msgspec.Struct, frozen=True):
    """What a block accesses in one iteration of the loops outside, over the loops inside (guards made loops)."""

    box: Box
    axes: tuple[tuple[Expr, Expr], ...]
    """The binding and the extent of each axis."""
    conditions: tuple[Expr, ...]
    inner: Mapping[str, Range]
    outer: Mapping[str, Range]


def _inside(path: Path, region: Region, above: Path) -> _Inside:
    block, values = block_at(path), bindings(block_at(path))
    inner = loop_ranges(loops_between(path, above))
    box = region_outside(block, region)
    conditions = tuple(substitute(c, values) for c in conjuncts(block.predicate))
    exprs = (*(r.start for r in box), *(r.extent for r in box), *values.values())
    found = collapsed(Indices(exprs, inner, conditions))
    n = len(box)
    return _Inside(
        tuple(map(Range, found.exprs[:n], found.exprs[n : 2 * n])),
        tuple(zip(found.exprs[2 * n :], (a.extent for a in block.axes), strict=True)),
        found.conditions,
        found.ranges,
        {v: r for v, r in ranges_above(path).items() if v not in inner},
    )


def consumed_box(path: Path, region: Region, above: Path, buffer: Buffer | None = None) -> Box:
    """All that the block at the end of a path may access of a region in one iteration of the loops of `above`: a
    dimension of the buffer whole, where its index cannot be bounded or a `let` in these loops gives it (without the
    buffer: MS390)."""
    found = _inside(path, region, above)
    whole = None if buffer is None else whole_box(buffer)
    box = arith.relax(found.box, found.inner, whole)
    told = {s.name for s in path[len(above) :] if isinstance(s, Let)}
    if not told:
        return box
    return tuple(_untold(r, told, None if whole is None else whole[k]) for k, r in enumerate(box))


def _untold(r: Range, told: set[str], whole: Range | None) -> Range:
    """A range that does not depend on these values, which have no meaning where the box is asked for."""
    if told.isdisjoint(free_vars(r.start) | free_vars(r.extent)):
        return r
    if whole is None:
        raise MsError(arith.unbounded(f"it depends on `{min(told)}`, which is told anew inside"))
    return whole


def steady_box(program: Program, path: Path, axes: Sequence[Axis], above: Path) -> Box:
    """The values that some axes of a block take in one iteration of the loops of `above`: all that they can have, where
    bounds that the program writes, or a `let`, would tell less."""
    domain = tuple(Range(ZERO, a.extent) for a in axes)
    fixed = {q.buffer.name for q in program.params if q.direction == "in"}
    region = Region("", tuple(Range(Var(a.name), ONE) for a in axes))
    found = consumed_box(path, region, above, Buffer("", "i64", tuple(a.extent for a in axes)))
    return tuple(
        r if all(storage_of(program, b) in fixed for b in loaded_by((r,))) else d
        for r, d in zip(found, domain, strict=True)
    )


def produced_box(path: Path, region: Region, above: Path) -> Box | None:
    """A box that the block at the end of a path provably accesses of a region in one iteration of the loops of `above`,
    but for elements outside of its `image`; None if it is not known to be a box.

    What it accesses while loops that the region does not depend on are at their starts is accessed.
    """
    if any(not isinstance(s, For | Block) for s in within_scope(path)):
        return None
    short = narrowed(path)
    box = _provably_touched(short, region, above)
    if box is None or memory_at(path, loaded_by(box)) & memory_at(path, stored_under(path[len(above)])):
        return None
    if short is path:
        return box
    return arith.intersect_box(box, image(block_at(short), region), ranges_above(path))


def _provably_touched(path: Path, region: Region, above: Path) -> Box | None:
    if region in block_at(path).writes and not _writes_all(path, region, above):
        return None
    found = _produced(path, region, above)
    if found is not None or block_at(path).predicate == TRUE:
        return found
    begun = _begun(path, region, above)
    return None if begun is path else _produced(begun, region, above)


def _produced(path: Path, region: Region, above: Path) -> Box | None:
    block = block_at(path)
    if _may_be_idle(path, region, above):
        return None
    found = _inside(path, region, above)
    ranges = {**found.outer, **found.inner}
    filled = filled_box(found.box, found.inner, found.outer)
    if filled is not None:
        loose = [c for c in found.conditions if not arith.proved(c, ranges)]
        cut = [
            {a.name for a, pair in zip(block.axes, found.axes, strict=True) if _guards(c, *pair, ranges)} for c in loose
        ]
        if all(cut):
            named = {v for r in region.ranges for e in (r.start, r.extent) for v in free_vars(e)}
            apart = [c for c, names in zip(loose, cut, strict=True) if names.isdisjoint(named)]
            runs = all(_holds_first(c, found, ranges) for c in apart)
            return filled if runs and _leave_image(frozenset[str]().union(*cut), block, region) else None
    inner = loop_ranges(loops_between(path, above)).keys()
    if inner >= frozenset[str]().union(*(free_vars(a.binding) for a in block.axes)) and _bijective(path):
        return filled_box(region.ranges, axis_ranges(block), {})
    return None


def _holds_first(condition: Expr, found: _Inside, ranges: Mapping[str, Range]) -> bool:
    """Does a condition hold where the loops begin on which a box does not depend? Else it, which keeps other axes than
    the box names in their domains, may be false in all of them."""
    moving = {v for r in found.box for e in (r.start, r.extent) for v in free_vars(e)}
    return arith.proved(substitute(condition, {v: r.start for v, r in found.inner.items() if v not in moving}), ranges)


def _may_be_idle(path: Path, region: Region, above: Path) -> bool:
    """May a loop that the region does not depend on run not at all?"""
    used = {v for r in region_outside(block_at(path), region) for e in (r.start, r.extent) for v in free_vars(e)}
    ranges = ranges_above(path)
    return any(
        s.var not in used and not arith.proved(Binary("<=", ONE, s.extent), ranges) for s in loops_between(path, above)
    )


def _begun(path: Path, region: Region, above: Path) -> Path:
    """The path with the loops at their starts that the region does not depend on; the path itself if it depends on
    all."""
    block = block_at(path)
    used = {v for r in region_outside(block, region) for e in (r.start, r.extent) for v in free_vars(e)}
    starts: dict[str, Expr] = {s.var: s.start for s in loops_between(path, above) if s.var not in used}
    if not starts:
        return path
    # The block's axes hide loops of their names, and so do those of what stands for a loop.
    own = {a.name for a in block.axes}
    hidden = {n: e for n, e in starts.items() if n not in own and own.isdisjoint(free_vars(e))}
    axes = tuple(replace(a, binding=substitute(a.binding, starts)) for a in block.axes)
    return (*path[:-1], replace(block, axes=axes, predicate=substitute(block.predicate, hidden)))


def _writes_all(path: Path, region: Region, above: Path) -> bool:
    """Does the block at the end of a path, or a block inside of it, provably write all that it declares to?"""
    block, ranges = block_at(path), axis_ranges(block_at(path))
    if not any(isinstance(s, Block) for s in walk(block.body)):
        return provably_stored(path, region, above)
    for q in block_paths(block.body):
        if any(isinstance(s, Block) for s in q[:-1]):
            continue
        for r in block_at(q).writes:
            box = produced_box((*path, *q), r, path) if viewed(block, r.buffer)[0] == region.buffer else None
            if box is not None:
                _, starts = viewed(block, r.buffer)
                if arith.covers(moved(box, starts), region.ranges, ranges) is arith.Verdict.PROVED:
                    return True
    return False


def image(block: Block, region: Region) -> Box:
    """All that a block can access of a region, its axes running over their extents."""
    return arith.relax(region.ranges, axis_ranges(block))


def _leave_image(cut: frozenset[str], block: Block, region: Region) -> bool:
    """Do axes beyond their extents access only what lies outside of the image? (`j` = 8 in `i * 8 + j` does not.)"""
    axes = axis_ranges(block)
    for r, reached in zip(region.ranges, image(block, region), strict=True):
        end = arith.add(reached.start, reached.extent)
        for name in free_vars(r.start) & cut:
            others = {n: x for n, x in axes.items() if n != name}
            over = arith.bounds(substitute(r.start, {name: axes[name].extent}), others)
            under = arith.bounds(arith.add(substitute(r.start, {name: Const(-1)}), r.extent), others)
            if (
                over is None
                or under is None
                or not (
                    arith.proved(Binary("<=", end, over[0])) and arith.proved(Binary("<=", under[1], reached.start))
                )
            ):
                return False
    return True


def cuts_only_outside(path: Path) -> bool:
    """Does the predicate of the block at the end of a path leave out no instance: is it false only where an axis would
    leave its extent, or where the same instance runs elsewhere?"""
    return only_guards(path) or _bijective(path)


def only_guards(path: Path) -> bool:
    """Is the predicate of the block at the end of a path false only where an axis would leave its extent?"""
    block = block_at(path)
    ranges, values = ranges_above(path), bindings(block)
    axes = tuple((a.binding, a.extent) for a in block.axes)
    conditions = [substitute(c, values) for c in conjuncts(block.predicate)]
    others = [c for c in conditions if not _is_guard(c, axes, ranges)]
    return not others or _hold_inside(others, path)


def _hold_inside(conditions: Sequence[Expr], path: Path) -> bool:
    """Do conditions hold wherever the axes of the block at the end of a path keep to their extents, as what these tell
    of the loops proves?"""
    block, around = block_at(path), ranges_above(path)
    bound = tuple(bindings(block).values())
    used = frozenset(v for e in (*conditions, *bound) for v in free_vars(e))
    loops = {v: r for v, r in loop_ranges(loops_above(path)).items() if v in used}
    taken = {*around, *used}
    axes: dict[str, Range] = {}
    for a in block.axes:
        axes[fresh(a.name, taken | axes.keys())] = Range(ZERO, a.extent)
    told = arith.invert(bound, tuple(map(Var, axes)), loops, axes)
    return told is not None and all(arith.proved(substitute(c, told), {**around, **axes}) for c in conditions)


def _is_guard(condition: Expr, axes: tuple[tuple[Expr, Expr], ...], ranges: Mapping[str, Range]) -> bool:
    return arith.proved(condition, ranges) or any(_guards(condition, *a, ranges) for a in axes)


def _guards(condition: Expr, binding: Expr, extent: Expr, ranges: Mapping[str, Range]) -> bool:
    """Is a condition false only where an axis would not stay below its extent, or would go below 0, as far as its
    binding alone tells?"""
    plain = arith.simplify(condition, ranges)
    return _keeps(condition, binding, extent, ranges) or (plain != condition and _keeps(plain, binding, extent, ranges))


def _keeps(condition: Expr, binding: Expr, extent: Expr, ranges: Mapping[str, Range]) -> bool:
    match condition:
        case Binary("<", value, bound):
            same = arith.equal(binding, value, ranges) and arith.proved(Binary("<=", extent, bound), ranges)
            return same or _bounds_a_part(value, bound, binding, extent, ranges)
        case Binary("<=", low, value) | Binary(">=", value, low):
            return arith.equal(binding, value, ranges) and arith.proved(Binary("<=", low, ZERO), ranges)
    return False


def _bounds_a_part(value: Expr, bound: Expr, binding: Expr, extent: Expr, ranges: Mapping[str, Range]) -> bool:
    """Is `binding = value * c + rest`, with nothing negative, or `value // c`, so that `value >= bound` means
    `binding >= extent`? So it is where a tile that runs over was split again, and where fused loops were."""
    match binding:
        case Binary("//", part, by) if arith.equal(part, value, ranges):
            return arith.proved(Binary("<=", extent, arith.floordiv(bound, by)), ranges)
    for v in sorted(free_vars(value)):
        terms, within = coefficients(value, frozenset({v})), coefficients(binding, frozenset({v}))
        scale = None if terms is None or within is None or not arith.equal(terms.get(v, ZERO), ONE) else within.get(v)
        if scale is None or free_vars(scale) or not arith.proved(Binary("<=", ONE, scale), ranges):
            continue
        rest = arith.simplify(arith.sub(binding, arith.mul(scale, value)), ranges)
        if arith.proved(Binary("<=", ZERO, rest), ranges) and arith.proved(
            Binary("<=", extent, arith.mul(bound, scale)), ranges
        ):
            return True
    return False


def _bijective(path: Path) -> bool:
    block = block_at(path)
    values = bindings(block)
    ranges, predicate = ranges_above(path), substitute(block.predicate, values)
    still = [c for c in conjuncts(predicate) if free_vars(c).isdisjoint(ranges) or any(loads_of(c))]
    if not all(arith.proved(c, ranges) for c in still):
        return False
    found = detect(tuple(values.values()), ranges, predicate)
    if not isinstance(found, arith.IterMap) or found.level != "bijective":
        return False
    domain = tuple(axis_ranges(block).values())
    box = tuple(Range(a, n) for a, n in zip(found.starts, found.extents, strict=True))
    return arith.covers(box, domain) is arith.Verdict.PROVED


# ------------------------------------------------------------------ cover
def covers(outer: Box | None, inner: Box, buffer: Buffer, ranges: dict[str, Range]) -> bool:
    """Does a box provably hold the part of another that lies in the buffer?"""
    if outer is None:
        return False
    clipped = arith.intersect_box(inner, whole_box(buffer), ranges)
    return all(
        any(
            arith.covers((a,), (b,), ranges) is arith.Verdict.PROVED
            for a, b in ((own, wanted), (own, inside), (_uncut(own, n, ranges), wanted))
        )
        for own, wanted, inside, n in zip(outer, inner, clipped, buffer.shape, strict=True)
    )


def _uncut(r: Range, n: Expr, ranges: Mapping[str, Range]) -> Range:
    """A range of at most the `n` elements of a dimension, as long as it was before it was cut to that: what is cut off
    lies outside of the buffer."""
    match r.extent:
        case Binary("min", a, b) if arith.proved(Binary("<=", ZERO, r.start), ranges):
            kept = [x for x, cut in ((a, b), (b, a)) if arith.equal(cut, n)]
            return Range(r.start, kept[0]) if kept else r
    return r


def produces_for(program: Program, producer: Path, consumer: Path, buffer: str) -> bool:
    """Does one producer provably write, in each iteration of the loops around both, all that a consumer, or its
    predicate, reads of a buffer?"""
    return _together(program, (producer,), consumer, buffer)


def _together(program: Program, makers: tuple[Path, ...], consumer: Path, buffer: str) -> bool:
    """The same of several producers, which may each write a part, side by side along one dimension.

    A producer that shares a loop with the consumer counts with what it writes in the same iteration: later iterations
    come after the read.
    """
    shared = {block_at(q).name: common_path(consumer[:-1], q[:-1]) for q in makers}
    above = max(shared.values(), key=len)
    ranges = {v: r for v, r in ranges_above(consumer).items() if v not in loop_ranges(loops_between(consumer, above))}
    made = [
        (box, image(block_at(q), w))
        for q in makers
        for w in block_at(q).writes
        if w.buffer == buffer
        for common in (shared[block_at(q).name],)
        for box in (produced_box(q, w, common),)
        if box is not None and is_steady(program, box, q, consumer, common)
    ]
    shape = all_buffers(program)[buffer]
    read = [consumed_box(consumer, r, above, shape) for r in block_at(consumer).reads if r.buffer == buffer]
    inner = loop_ranges(loops_between(consumer, above))
    read += [
        arith.relax(resolved(r.ranges, shape), inner, whole_box(shape))
        for r in guard_regions(block_at(consumer))
        if r.buffer == buffer
    ]
    inside = [arith.intersect_box(m, reached, ranges) for m, reached in made] if len(makers) > 1 else []
    return all(
        any(covers(m, box, shape, ranges) and covers(reached, box, shape, ranges) for m, reached in made)
        or any(
            paved(inside, arith.intersect_box(box, whole_box(shape), ranges), d, ranges)
            for d in range(len(box) if len(makers) > 1 else 0)
        )
        for box in read
    )


def why_not_covered(
    program: Program, path: Path, regions: tuple[Region, ...] | None = None, *, under: For | None = None
) -> str | None:
    """None if for each buffer that the block at the end of a path reads and earlier blocks of its scope write, one of
    them, or all of them side by side, have provably written all that is read.

    Args:
        program: the program.
        path: the reader.
        regions: only these of what is read.
        under: a loop above the reader: only the blocks under it count, which write it again in each iteration.
    """
    block, body = block_at(path), scope_body(program, path) if under is None else (under,)
    asked = path if regions is None else (*path[:-1], replace(block, reads=regions))
    paths = {block_at(q).name: q for q in block_paths(program.body)}
    order = list(paths)
    for region in block_at(asked).reads:
        storage = storage_of(program, region.buffer)
        before = tuple(
            paths[b.name]
            for b in writers(program, body, storage)
            if b is not block and order.index(b.name) < order.index(block.name)
        )
        if not before or any(produces_for(program, q, asked, region.buffer) for q in before):
            continue
        if len(before) > 1 and _together(program, before, asked, region.buffer):
            continue
        names = ", ".join(f"`{block_at(q).name}`" for q in before)
        return (
            f"not all elements of `{region.buffer}` that block `{block.name}` reads are provably written before "
            f"by {names} in the same iteration of their common loops"
        )
    return None
