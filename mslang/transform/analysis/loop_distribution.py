"""Two bodies of one loop, run in turn or one after the other: does it come to the same?

Iteration `v` of the second body comes before a later iteration `w` of the first where one loop runs both in turn, and
after it where each has a loop of its own. That makes a difference only if the two access the same element, and one of
them writes it; unless both only add to it (or take the maximum of it, …), or what the later iteration writes is what
stands there already.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import msgspec

from mslang.diagnostics import MsError
from mslang.ir import arith
from mslang.ir.arith.linear import coefficients
from mslang.ir.expr import ONE, ZERO, Binary, Expr, Var
from mslang.ir.find import all_buffers
from mslang.ir.program import Block, For, Program, Range, Region, Store
from mslang.ir.reducers import combines_in_any_order
from mslang.ir.reduction import update_of
from mslang.ir.visit import Path, free_vars, fresh, loads_of, stmt_exprs, substitute, walk
from mslang.transform.analysis.accesses import why_several_names
from mslang.transform.analysis.carried_dependence import storages_of
from mslang.transform.analysis.cover import consumed_box, covers, image, produced_box
from mslang.transform.analysis.definite_writes import Box
from mslang.transform.analysis.dependence import storage_of, storages_read, storages_written
from mslang.transform.analysis.formula import formula_of
from mslang.transform.analysis.position import (
    axis_ranges,
    block_at,
    loop_at,
    loop_range,
    ranges_above,
    region_outside,
)

Pair = tuple[Path, Path]


class Under(msgspec.Struct, frozen=True):
    """Leaf blocks, and the loops above them that are meant, at the ends of paths, outermost first."""

    blocks: tuple[Path, ...]
    loops: tuple[Path, ...]


def why_order_matters(program: Program, first: Under, second: Under) -> str | None:
    """None if no iteration of the second accesses what a later iteration of the first accesses, where either writes.

    The loops of the two have equal ranges, pair by pair; "later" is meant in the order in which they are nested.
    """
    written = {*storages_of(program, first.blocks), *storages_of(program, second.blocks)}
    for a in first.blocks:
        for b in second.blocks:
            alike = _combined(a, b)
            for x, y in _meeting(program, a, b, written):
                if x.buffer == y.buffer and x.buffer in alike:
                    continue
                if x.buffer != y.buffer or storage_of(program, x.buffer) != x.buffer:
                    return f"`{storage_of(program, x.buffer)}` is accessed through a view"
                one, other = _Side(a, x, first), _Side(b, y, second)
                if not (_apart(one, other) or _element_each(one, other) or _written_again(program, one, other)):
                    return (
                        f"block `{block_at(b).name}` may access elements of `{x.buffer}` that block "
                        f"`{block_at(a).name}` accesses in a later iteration"
                    )
    return None


def _meeting(program: Program, a: Path, b: Path, written: set[str]) -> Iterator[tuple[Region, Region]]:
    """The pairs of regions of two blocks that may meet in memory, one of them written."""
    one, other = block_at(a), block_at(b)
    for x, x_writes in (*((r, False) for r in one.reads), *((r, True) for r in one.writes)):
        for y, y_writes in (*((r, False) for r in other.reads), *((r, True) for r in other.writes)):
            storage = storage_of(program, x.buffer)
            if storage in written and (x_writes or y_writes) and storage == storage_of(program, y.buffer):
                yield x, y


class _Side(msgspec.Struct, frozen=True):
    path: Path
    region: Region
    under: Under


def _apart(first: _Side, second: _Side) -> bool:
    """Do the boxes differ for each later iteration of the first, whichever loop it is that is further?"""
    loops = [path[-1] for path in second.under.loops]
    others = [path[-1] for path in first.under.loops]
    try:
        one = consumed_box(first.path, first.region, first.under.loops[-1])
        two = consumed_box(second.path, second.region, second.under.loops[-1])
    except MsError:  # where they are has no bounds
        return False
    for level, loop in enumerate(loops):
        ranges: dict[str, Range] = {**ranges_above(second.under.loops[0])}
        ranges |= {s.var: loop_range(s) for s in loops if isinstance(s, For)}
        later: dict[str, Expr] = {}
        for k, (mine, its) in enumerate(zip(others, loops, strict=True)):
            assert isinstance(mine, For) and isinstance(its, For) and isinstance(loop, For)
            if k < level:
                later[mine.var] = Var(its.var)
                continue
            name = fresh(f"{its.var}_more", set(ranges) | free_vars_of(one, two))
            if k == level:
                # from 1 to the extent - 1 iterations further
                ranges[name] = Range(ONE, arith.sub(its.extent, ONE))
                later[mine.var] = arith.add(Var(its.var), Var(name))
            else:
                ranges[name] = loop_range(its)
                later[mine.var] = Var(name)
        moved = tuple(Range(substitute(r.start, later), substitute(r.extent, later)) for r in one)
        if not any(_disjoint(p, q, ranges) for p, q in zip(moved, two, strict=True)):
            return False
    return True


def _element_each(first: _Side, second: _Side) -> bool:
    """Are both in each iteration at an element of its own, given by the same map of the loops?"""
    ones = [d for d, (x, y) in enumerate(_extents(first, second)) if x == y == ONE]
    mine, its = ([r.start for r in region_outside(block_at(s.path), s.region)] for s in (first, second))
    others = _loops_under(first)
    same: dict[str, Expr] = {}
    used: set[str] = set()
    for loop in _loops_under(second):
        if not any(loop.var in free_vars(its[d]) for d in ones):
            if arith.proved(Binary("<=", loop.extent, ONE)) or not any(loop is p[-1] for p in second.under.loops):
                continue
            return False
        pair = next((x for x in others if x.var not in same and _alike(x, loop, first, second, mine, its, ones)), None)
        if pair is None:
            return False
        same[pair.var] = Var(loop.var)
        used.add(loop.var)
    ranges = ranges_above(second.path)
    if not ones or not all(arith.equal(substitute(mine[d], same), its[d], ranges) for d in ones):
        return False
    found = arith.detect([its[d] for d in ones], {v: ranges[v] for v in ranges if v in used})
    return isinstance(found, arith.IterMap) and found.level in ("injective", "bijective")


def _extents(first: _Side, second: _Side) -> list[tuple[Expr, Expr]]:
    return [(a.extent, b.extent) for a, b in zip(first.region.ranges, second.region.ranges, strict=True)]


def _loops_under(side: _Side) -> tuple[For, ...]:
    """The loops that are meant, and those inside of them, above the block."""
    return tuple(s for s in side.path[len(side.under.loops[0]) - 1 :] if isinstance(s, For))


def _alike(
    a: For, b: For, first: _Side, second: _Side, mine: Sequence[Expr], its: Sequence[Expr], ones: Sequence[int]
) -> bool:
    """Do two loops go the same way along all dimensions, the ones meant each with the one that it is to run with?"""
    place = next((k for k, p in enumerate(first.under.loops) if p[-1] is a), None)
    if place != next((k for k, p in enumerate(second.under.loops) if p[-1] is b), None):
        return False
    steps = [(coefficients(mine[d], frozenset({a.var})), coefficients(its[d], frozenset({b.var}))) for d in ones]
    return (
        arith.equal(a.start, b.start)
        and arith.equal(a.extent, b.extent)
        and all(
            x is not None and y is not None and arith.equal(x.get(a.var, ZERO), y.get(b.var, ZERO)) for x, y in steps
        )
    )


def _written_again(program: Program, first: _Side, second: _Side) -> bool:
    """Does the first write, in the iteration in which the second reads, all that is read, and only the same again in
    later ones?"""
    block, buffer = block_at(first.path), first.region.buffer
    formula, axes = formula_of(block), axis_ranges(block)
    blocks = (*first.under.blocks, *second.under.blocks)
    changed = {s for q in blocks if q is not first.path for s in storages_written(program, block_at(q))}
    if (
        formula is None
        or first.region not in block.writes
        or any(a.kind != "spatial" for a in block.axes)
        or not changed.isdisjoint((buffer, *storages_read(program, block)))
        or storage_of(program, buffer) in storages_read(program, block)
    ):
        return False
    told = arith.detect(formula.indices, axes)
    if not isinstance(told, arith.IterMap) or told.level == "affine":
        return False
    made = produced_box(first.path, first.region, first.under.loops[-1])
    if made is None:
        return False
    same: dict[str, Expr] = {
        loop_at(a).var: Var(loop_at(b).var) for a, b in zip(first.under.loops, second.under.loops, strict=True)
    }
    here = tuple(Range(substitute(r.start, same), substitute(r.extent, same)) for r in made)
    box = consumed_box(second.path, second.region, second.under.loops[-1])
    ranges = ranges_above(second.under.loops[-1])
    ranges[loop_at(second.under.loops[-1]).var] = loop_range(loop_at(second.under.loops[-1]))
    shape = all_buffers(program)[buffer]
    return covers(here, box, shape, ranges) and covers(image(block, first.region), box, shape, ranges)


def _combined(a: Path, b: Path) -> frozenset[str]:
    """The buffers that two blocks only update, by the same operator and without a start: in any order."""
    one, other = block_at(a), block_at(b)
    if one.init or other.init or not all(combines_in_any_order(x) for x in (one, other)):
        return frozenset()
    if why_several_names(a) is not None or why_several_names(b) is not None:
        return frozenset()
    mine, its = _operators(one), _operators(other)
    return frozenset(n for n in mine.keys() & its.keys() if mine[n] is not None and mine[n] == its[n])


def _operators(block: Block) -> dict[str, str | None]:
    """By which operator a block updates each buffer that it stores; None: otherwise, or it reads it besides."""
    found: dict[str, str | None] = {}
    for s in walk(block.body):
        if isinstance(s, Store):
            how = update_of(s)
            op = None if how is None or any(x.buffer == s.buffer for x in loads_of(how.value)) else how.op
            found[s.buffer] = op if found.setdefault(s.buffer, op) == op else None
    elsewhere = {
        x.buffer
        for s in walk(block.body)
        for e in stmt_exprs(s)
        for x in loads_of(e)
        if not isinstance(s, Store) or x.buffer != s.buffer
    }
    return {n: None if n in elsewhere else op for n, op in found.items()}


def free_vars_of(*boxes: Box) -> set[str]:
    """The variables in some boxes."""
    return {v for box in boxes for r in box for v in free_vars(r.start) | free_vars(r.extent)}


def _disjoint(a: Range, b: Range, ranges: Mapping[str, Range]) -> bool:
    return any(arith.proved(Binary("<=", arith.add(p.start, p.extent), q.start), ranges) for p, q in ((a, b), (b, a)))


def under(blocks: Sequence[Path], *loops: Path) -> Under:
    """Some leaf blocks under loops, outermost first."""
    return Under(tuple(blocks), loops)
