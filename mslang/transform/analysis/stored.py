"""What the statements of a block surely store: what a block declares to write may be more than it writes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache

from mslang.ir import arith
from mslang.ir.expr import ONE, ZERO, Binary, Expr
from mslang.ir.program import Block, Evaluate, For, If, Let, Range, Region, Stmt, Store
from mslang.ir.visit import Path, conjuncts, free_vars, loads_of, substitute, walk
from mslang.transform.analysis.linear import linear_terms
from mslang.transform.analysis.position import axis_ranges, bindings, block_at, loop_ranges, loops_between

Box = tuple[Range, ...]


def surely_stored(path: Path, region: Region, above: Path) -> bool:
    """Do the statements of the block at the end of a path, which holds no other, surely store all of one of the
    regions that it writes, in each instance, or with its init in one iteration of the loops of `above`?

    A call for its effect that mentions the buffer is believed to do what the block declares.
    """
    block = block_at(path)
    return _stores(block, region, block.init is not None and init_runs(path, above))


def reads_what_it_started(block: Block, buffer: str) -> bool:
    """Does a block read of a buffer nothing but what its init surely stores?"""
    axes = axis_ranges(block)
    boxes = [box for name, box in _stored(block, block.init or (), {}, {}, axes) if name == buffer]
    return all(covered_by(boxes, r.ranges, axes) for r in block.reads if r.buffer == buffer)


@lru_cache(maxsize=4096)
def _stores(block: Block, region: Region, init: bool) -> bool:
    calls = (s.value for s in walk(block.body) if isinstance(s, Evaluate))
    if any(viewed(block, x.buffer)[0] == region.buffer for call in calls for x in loads_of(call)):
        return True
    axes = axis_ranges(block)
    body = (*(block.init or ()), *block.body) if init else block.body
    return covered_by(
        [box for name, box in _stored(block, body, {}, {}, axes) if name == region.buffer], region.ranges, axes
    )


def covered_by(boxes: Sequence[Box], whole: Box, ranges: Mapping[str, Range]) -> bool:
    """Do one of several boxes, or some that lie side by side along one dimension, surely hold another?"""
    if any(arith.covers(b, whole, ranges) is arith.Verdict.PROVED for b in boxes):
        return True
    return len(boxes) > 1 and any(paved(boxes, whole, d, ranges) for d in range(len(whole)))


def paved(made: Sequence[Box], box: Box, d: int, ranges: Mapping[str, Range]) -> bool:
    """Do boxes side by side along dimension `d` hold another?"""
    tiles = [
        m
        for m in made
        if all(arith.covers((m[k],), (box[k],), ranges) is arith.Verdict.PROVED for k in range(len(box)) if k != d)
    ]
    reached, stop = box[d].start, arith.add(box[d].start, box[d].extent)
    while tiles:
        following = next((m for m in tiles if arith.proved(Binary("<=", m[d].start, reached), ranges)), None)
        if following is None:
            return False
        end = arith.add(following[d].start, following[d].extent)
        if arith.proved(Binary("<=", stop, end), ranges):
            return True
        if arith.proved(Binary("<=", reached, end), ranges):
            reached = end
        tiles = [m for m in tiles if m is not following]
    return False


def init_runs(path: Path, above: Path) -> bool:
    """Does the init of the block at the end of a path run in each iteration of the loops of `above`, for each value of
    its other axes? So it does if the first iteration of the loops inside is the first of the reduction too."""
    block, inner = block_at(path), loop_ranges(loops_between(path, above))
    first: Mapping[str, Expr] = {v: r.start for v, r in inner.items()}
    reduced = [a.binding for a in block.axes if a.kind == "reduce"]
    used = frozenset(v for e in reduced for v in free_vars(e))
    others = {v for a in block.axes if a.kind != "reduce" for v in free_vars(a.binding)}
    values = bindings(block)
    guarded = {v for c in conjuncts(block.predicate) for v in free_vars(substitute(c, values))}
    return (
        used <= inner.keys()
        and used.isdisjoint(others)
        and used.isdisjoint(guarded)
        and all(arith.equal(substitute(e, first), ZERO) for e in reduced)
    )


def _stored(
    block: Block, body: Sequence[Stmt], lets: Mapping[str, Expr], loops: Mapping[str, Range], axes: Mapping[str, Range]
) -> list[tuple[str, Box]]:
    """The boxes that statements surely store, by the axes alone."""
    found: list[tuple[str, Box]] = []
    for s in body:
        match s:
            case Store(buffer=name, indices=xs):
                where, source = viewed(block, name)
                box = moved(tuple(Range(substitute(i, lets), ONE) for i in xs), source)
                if fills(box, loops, axes):
                    found.append((where, spread(box, loops)))
            case Let(name=name, value=value, body=inner):
                found += _stored(block, inner, {**lets, name: substitute(value, lets)}, loops, axes)
            case For(var=var, start=start, extent=n, body=inner):
                over = Range(substitute(start, lets), substitute(n, lets))
                if arith.proved(Binary("<=", ONE, over.extent), {**axes, **loops}):
                    found += _stored(block, inner, lets, {**loops, var: over}, axes)
            case If(condition=condition, then=then, otherwise=otherwise):
                first = _stored(block, then, lets, loops, axes)
                found += _in_both(first, _stored(block, otherwise, lets, loops, axes), axes)
                if arith.proved(substitute(condition, lets), {**axes, **loops}):
                    found += first
    return found


def _in_both(a: list[tuple[str, Box]], b: list[tuple[str, Box]], axes: Mapping[str, Range]) -> list[tuple[str, Box]]:
    return [
        (name, box)
        for mine, others in ((a, b), (b, a))
        for name, box in mine
        if covered_by([x for n, x in others if n == name], box, axes)
    ]


# ------------------------------------------------------------------ views
def viewed(block: Block, buffer: str) -> tuple[str, Box]:
    """What a name stands for in a block: for a view the buffer and the region that it looks at."""
    found = next((v for v in block.views if v.buffer.name == buffer), None)
    if found is None:
        return buffer, ()
    name, starts = viewed(block, found.source.buffer)
    return name, moved(found.source.ranges, starts)


def moved(box: Box, source: Box) -> Box:
    """A box of a view as one of what it looks at (`source`: the region; empty if it is no view)."""
    if not source:
        return box
    dropped = len(source) - len(box)
    kept = zip(source[dropped:], box, strict=True)
    return (*source[:dropped], *(Range(arith.add(s.start, r.start), r.extent) for s, r in kept))


# ------------------------------------------------------------------ does a box of indices have gaps?
def fills(box: Box, inner: Mapping[str, Range], outer: Mapping[str, Range]) -> bool:
    """Do indices run over a box without gaps while the variables `inner` do?"""
    box, inner = _without_unit_loops(box, inner)
    moving = frozenset(v for r in box for v in free_vars(r.start)) & inner.keys()
    if any(not inner.keys().isdisjoint(free_vars(e)) for v in moving for e in (inner[v].start, inner[v].extent)):
        return False
    seen: set[str] = set()
    tangled: list[Expr] = []
    for r in box:
        used = free_vars(r.start) & set(inner)
        if free_vars(r.extent) & set(inner):
            return False
        if used & seen or not _contiguous(r, inner, outer):
            tangled.append(r.start)
        seen |= used
    return not tangled or _fills_together([r for r in box if free_vars(r.start) & set(inner)], inner)


def spread(box: Box, inner: Mapping[str, Range]) -> Box:
    """The box that indices run over while the variables `inner` do, if it `fills` it: what runs once stands still."""
    return arith.relax(*_without_unit_loops(box, inner))


def _without_unit_loops(box: Box, inner: Mapping[str, Range]) -> tuple[Box, Mapping[str, Range]]:
    once = {v: r.start for v, r in inner.items() if arith.equal(r.extent, ONE) and not free_vars(r.start)}
    if not once:
        return box, inner
    still = tuple(Range(substitute(r.start, once), substitute(r.extent, once)) for r in box)
    return still, {v: r for v, r in inner.items() if v not in once}


def _contiguous(r: Range, inner: Mapping[str, Range], outer: Mapping[str, Range]) -> bool:
    terms = linear_terms(r.start, frozenset(inner))
    if terms is None:
        return False
    ranges = {**outer, **inner}
    span, left = r.extent, terms
    while left:
        found = next(
            (
                v
                for v, c in left.items()
                if arith.proved(Binary("<=", c, span), ranges) and arith.proved(Binary("<=", ZERO, c), ranges)
            ),
            None,
        )
        if found is None:
            return False
        span = arith.add(span, arith.mul(left[found], arith.sub(inner[found].extent, ONE)))
        left = {v: c for v, c in left.items() if v != found}
    return True


def _fills_together(box: list[Range], inner: Mapping[str, Range]) -> bool:
    """Indices such as `f // 8` and `f % 8`: a bijection of the loops onto a box, which has as many elements as the
    loops have iterations (a run that wraps around, as `(i + j) % 8` of a few `j`, does not fill the box around it)."""
    if any(not arith.equal(r.extent, ONE) for r in box):
        return False
    used = {v for r in box for v in free_vars(r.start)}
    loops = {v: r for v, r in inner.items() if v in used}
    found = arith.detect([r.start for r in box], loops)
    if not isinstance(found, arith.IterMap) or found.level != "bijective":
        return False
    reached = arith.relax(tuple(box), loops)
    return arith.equal(
        arith.size_product(r.extent for r in reached), arith.size_product(r.extent for r in loops.values())
    )


__all__ = [
    "Box",
    "covered_by",
    "fills",
    "init_runs",
    "moved",
    "paved",
    "reads_what_it_started",
    "spread",
    "surely_stored",
    "viewed",
]
