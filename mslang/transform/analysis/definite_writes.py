"""What the statements of a block provably store: what a block declares to write may be more than it writes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache

from mslang.diagnostics import MsError
from mslang.ir import arith
from mslang.ir.arith.linear import coefficients
from mslang.ir.expr import ONE, ZERO, Binary, Expr
from mslang.ir.find import blocks_of
from mslang.ir.program import Block, Evaluate, For, If, Let, Range, Region, Stmt, Store
from mslang.ir.visit import Path, conjuncts, free_vars, loads_of, substitute, walk
from mslang.transform.analysis.position import (
    axis_ranges,
    bindings,
    block_at,
    loop_ranges,
    loops_between,
    memory_at,
    ranges_above,
)

Box = tuple[Range, ...]


def provably_stored(path: Path, region: Region, above: Path) -> bool:
    """Do the statements of the block at the end of a path, which holds no other, provably store all of one of the
    regions that it writes, in each instance, or with its init in one iteration of the loops of `above`?

    A call for its effect that mentions the buffer is believed to do what the block declares.
    """
    block = block_at(path)
    return _stores(block, region, block.init is not None and init_runs(path, above))


def provably_initialised(block: Block) -> tuple[tuple[str, Box], ...]:
    """The buffers and boxes that the init of a block provably stores, by its axes; without blocks in the init."""
    return tuple(_stored(block, block.init or (), {}, {}, axis_ranges(block)))


@lru_cache(maxsize=4096)
def _stores(block: Block, region: Region, init: bool) -> bool:
    calls = (s.value for s in walk(block.body) if isinstance(s, Evaluate))
    if any(viewed(block, x.buffer)[0] == region.buffer for call in calls for x in loads_of(call)):
        return True
    axes = axis_ranges(block)
    found = _stored(block, block.body, {}, {}, axes)
    if init:
        found += provably_initialised(block)
    return covered_by([box for name, box in found if name == region.buffer], region.ranges, axes)


def covered_by(boxes: Sequence[Box], whole: Box, ranges: Mapping[str, Range]) -> bool:
    """Do one of several boxes, or some that lie side by side along one dimension, provably hold another?"""
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
    """Does the init of the block at the end of a path run first in each iteration of the loops of `above`, for each
    value of its other axes for which an instance runs?

    So it does if the first iteration of the loops inside is the first of the reduction too, and the predicate holds
    there wherever it holds later.
    """
    block, inner = block_at(path), loop_ranges(loops_between(path, above))
    first: Mapping[str, Expr] = {v: r.start for v, r in inner.items()}
    reduced = [a.binding for a in block.axes if a.kind == "reduce"]
    used = frozenset(v for e in reduced for v in free_vars(e))
    others = {v for a in block.axes if a.kind != "reduce" for v in free_vars(a.binding)}
    return (
        used <= inner.keys()
        and used.isdisjoint(others)
        and all(arith.equal(substitute(e, first), ZERO) for e in reduced)
        and why_not_guarded_from_start(path, {v: first[v] for v in used}) is None
    )


def why_not_guarded_from_start(path: Path, first: Mapping[str, Expr]) -> str | None:
    """None if the predicate of the block at the end of a path holds where some loops are at given values wherever it
    holds for other values of them."""
    block, ranges = block_at(path), ranges_above(path)
    values = bindings(block)
    for c in conjuncts(block.predicate):
        plain = substitute(c, values)
        asked = memory_at(path, (x.buffer for x in loads_of(plain)))
        changing = asked & memory_at(path, stored_under(path[0])) if first else frozenset[str]()
        if changing:
            return f"the predicate of block `{block.name}` reads `{min(changing)}`, which changes meanwhile"
        if not _holds_before(plain, first, ranges):
            return f"the predicate of block `{block.name}` may leave out the iteration of its init"
    return None


def _holds_before(condition: Expr, first: Mapping[str, Expr], ranges: Mapping[str, Range]) -> bool:
    """Does a condition hold where variables have given values wherever it holds for other values of them?"""
    if free_vars(condition).isdisjoint(first):
        return True
    if any(loads_of(condition)):
        return False
    at = substitute(condition, first)
    if arith.proved(at, ranges):
        return True
    match condition, at:
        case Binary("and" | "or", a, b), _:
            return _holds_before(a, first, ranges) and _holds_before(b, first, ranges)
        case Binary("<" | "<=", low, high), Binary(left=before, right=limit):
            pass
        case Binary(">" | ">=", high, low), Binary(left=limit, right=before):
            pass
        case _:
            return False
    return arith.proved(Binary("<=", before, low), ranges) and arith.proved(Binary("<=", high, limit), ranges)


@lru_cache(maxsize=4096)
def stored_under(s: Stmt) -> frozenset[str]:
    """The buffers to which a statement, or one under it, may store; of a view also the buffer that it views."""
    found = {x.buffer for x in walk((s,)) if isinstance(x, Store)}
    for block in reversed(blocks_of((s,))):
        found |= {r.buffer for r in block.writes}
        found |= {v.source.buffer for v in reversed(block.views) if v.buffer.name in found}
    return frozenset(found)


def _stored(
    block: Block, body: Sequence[Stmt], lets: Mapping[str, Expr], loops: Mapping[str, Range], axes: Mapping[str, Range]
) -> list[tuple[str, Box]]:
    """The boxes that statements provably store, by the axes alone."""
    found: list[tuple[str, Box]] = []
    for s in body:
        match s:
            case Store(buffer=name, indices=xs):
                where, source = viewed(block, name)
                box = moved(tuple(Range(substitute(i, lets), ONE) for i in xs), source)
                filled = filled_box(box, loops, axes)
                if filled is not None:
                    found.append((where, filled))
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
    """A box of a view as one of what it looks at (`source`: the region; empty if it is not a view)."""
    if not source:
        return box
    dropped = len(source) - len(box)
    kept = zip(source[dropped:], box, strict=True)
    return (*source[:dropped], *(Range(arith.add(s.start, r.start), r.extent) for s, r in kept))


# ------------------------------------------------------------------ does a box of indices have gaps?
def filled_box(box: Box, inner: Mapping[str, Range], outer: Mapping[str, Range]) -> Box | None:
    """The box that indices run over without gaps while the variables `inner` do; None if it may have gaps, or its
    bounds are not known. What runs once stands still."""
    if not _fills(box, inner, outer):
        return None
    try:
        return arith.relax(*_without_unit_loops(box, inner))
    except MsError:
        return None


def _fills(box: Box, inner: Mapping[str, Range], outer: Mapping[str, Range]) -> bool:
    """Do indices run over a box without gaps while the variables `inner` do?"""
    whole, loops = box, inner
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
    # A decision that is always 1 may still be a factor of the strides of other loops.
    return not tangled or any(
        _fills_together([r for r in b if free_vars(r.start) & set(i)], i, outer)
        for b, i in (((box, inner), (whole, loops)) if loops is not inner else ((box, inner),))
    )


def _without_unit_loops(box: Box, inner: Mapping[str, Range]) -> tuple[Box, Mapping[str, Range]]:
    once = {v: r.start for v, r in inner.items() if arith.equal(r.extent, ONE) and not free_vars(r.start)}
    if not once:
        return box, inner

    def still(r: Range) -> Range:
        return Range(substitute(r.start, once), substitute(r.extent, once))

    # How often other loops run may depend on those that run once, and then they may run once, too.
    rest = {v: still(r) for v, r in inner.items() if v not in once}
    return _without_unit_loops(tuple(map(still, box)), rest)


def _contiguous(r: Range, inner: Mapping[str, Range], outer: Mapping[str, Range]) -> bool:
    terms = coefficients(r.start, frozenset(inner))
    if terms is None:
        return False
    ranges = {**outer, **inner}
    span, left = r.extent, terms
    empty = {v for v in terms if not arith.proved(Binary("<=", ONE, inner[v].extent), ranges)}
    while left:
        found = next(
            (
                v
                for v, c in sorted(left.items(), key=lambda term: term[0] in empty)
                if arith.proved(Binary("<=", c, span), ranges) and arith.proved(Binary("<=", ZERO, c), ranges)
            ),
            None,
        )
        if found is None:
            return False
        if found in empty and (len(left) > 1 or not arith.proved(Binary("<=", span, left[found]), ranges)):
            return False  # where it runs not at all, the box must have nothing left
        span = arith.add(span, arith.mul(left[found], arith.sub(inner[found].extent, ONE)))
        left = {v: c for v, c in left.items() if v != found}
    return True


def tile_numbers(box: Iterable[Range], ranges: Mapping[str, Range]) -> tuple[Expr, ...] | None:
    """For each dimension of a tile how many tiles of its size come before it; None if it may lie across two."""
    numbers: list[Expr] = []
    for r in box:
        number = r.start if r.extent == ONE else arith.simplify(arith.floordiv(r.start, r.extent), ranges)
        if number is not r.start and not arith.equal(arith.mul(number, r.extent), r.start, ranges):
            return None
        numbers.append(number)
    return tuple(numbers)


def _fills_together(box: list[Range], inner: Mapping[str, Range], outer: Mapping[str, Range]) -> bool:
    """Indices such as `f // 8` and `f % 8`, of elements or of tiles: a bijection of the loops onto a box, which has as
    many elements as the loops have iterations (a run that wraps around, as `(i + j) % 8` of a few `j`, does not fill
    the box around it)."""
    numbers = tile_numbers(box, {**outer, **inner})
    if numbers is None:
        return False
    used = {v for e in numbers for v in free_vars(e)}
    loops = {v: r for v, r in inner.items() if v in used}
    found = arith.detect(numbers, loops)
    if not isinstance(found, arith.IterMap) or found.level != "bijective":
        return False
    reached = arith.relax(tuple(Range(e, ONE) for e in numbers), loops)
    return arith.equal(
        arith.size_product(r.extent for r in reached), arith.size_product(r.extent for r in loops.values())
    )


__all__ = [
    "Box",
    "covered_by",
    "filled_box",
    "init_runs",
    "moved",
    "paved",
    "provably_initialised",
    "provably_stored",
    "stored_under",
    "tile_numbers",
    "viewed",
    "why_not_guarded_from_start",
]
