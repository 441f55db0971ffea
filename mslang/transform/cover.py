"""Region cover: does a producer surely write, in the same iteration of the loops around both, what a consumer reads?

What a block *surely writes* is a box only where its indices run over it without gaps, each loop serving one
dimension, and where its predicate does no more than cut off what lies outside its axes.
"""

from __future__ import annotations

from mslang.ir import arith
from mslang.ir.expr import ONE, TRUE, ZERO, Binary, Expr, Unary, Var
from mslang.ir.program import Block, Buffer, For, Program, Range, Region
from mslang.ir.visit import Path, all_buffers, conjuncts, free_vars, substitute, walk_paths
from mslang.transform.dependence import storage_of, writers
from mslang.transform.position import (
    axis_ranges,
    bindings,
    block_at,
    common_path,
    loop_ranges,
    loops_between,
    ranges_above,
    region_outside,
    scope_body,
    whole_box,
    within_scope,
)

Box = tuple[Range, ...]


def consumed_box(path: Path, region: Region, above: Path) -> Box:
    """All that the block at the end of a path may touch of a region in one iteration of the loops of `above`."""
    box = region_outside(block_at(path), region)
    return arith.relax(box, loop_ranges(loops_between(path, above)))


def produced_box(path: Path, region: Region, above: Path) -> Box | None:
    """A box that the block at the end of a path surely touches of a region in one iteration of the loops of `above`;
    None if it is not known to be a box."""
    block = block_at(path)
    if any(not isinstance(s, For | Block) for s in within_scope(path)):
        return None
    box = region_outside(block, region)
    inner = loop_ranges(loops_between(path, above))
    outer = {v: r for v, r in ranges_above(path).items() if v not in inner}
    if _has_guards_only(path) and _fills(box, inner, outer):
        return arith.relax(box, inner)
    if set(inner) >= set().union(*(free_vars(a.binding) for a in block.axes)) and _bijective(path):
        axes = axis_ranges(block)
        if _fills(region.ranges, axes, {}):
            return arith.relax(region.ranges, axes)
    return None


def cuts_only_outside(path: Path) -> bool:
    """Is the predicate of the block at the end of a path false only where an axis would leave its extent?"""
    return _has_guards_only(path) or _bijective(path)


def _has_guards_only(path: Path) -> bool:
    block = block_at(path)
    ranges, values = ranges_above(path), bindings(block)
    return all(_is_guard(substitute(c, values), block, ranges) for c in conjuncts(block.predicate))


def _is_guard(condition: Expr, block: Block, ranges: dict[str, Range]) -> bool:
    if arith.proved(condition, ranges):
        return True
    match condition:
        case Binary("<", value, bound):
            return any(arith.equal(a.extent, bound, ranges) and arith.equal(a.binding, value, ranges)
                       for a in block.axes)
        case Binary("<=", low, value):
            return arith.equal(low, ZERO) and any(arith.equal(a.binding, value, ranges) for a in block.axes)
        case Binary(">=", value, low):
            return arith.equal(low, ZERO) and any(arith.equal(a.binding, value, ranges) for a in block.axes)
    return False


def _bijective(path: Path) -> bool:
    block = block_at(path)
    values = bindings(block)
    found = arith.detect(tuple(values.values()), ranges_above(path), substitute(block.predicate, values))
    if not isinstance(found, arith.IterMap) or found.level != "bijective":
        return False
    domain = tuple(axis_ranges(block).values())
    box = tuple(Range(a, n) for a, n in zip(found.starts, found.extents, strict=True))
    return arith.covers(box, domain) is arith.Verdict.PROVED


# ------------------------------------------------------------------ does a box of indices have gaps?
def _fills(box: Box, inner: dict[str, Range], outer: dict[str, Range]) -> bool:
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


def _contiguous(r: Range, inner: dict[str, Range], outer: dict[str, Range]) -> bool:
    terms = linear_terms(r.start, frozenset(inner))
    if terms is None:
        return False
    ranges = outer | inner
    span, left = r.extent, terms
    while left:
        found = next((v for v, c in left.items() if arith.proved(Binary("<=", c, span), ranges)
                      and arith.proved(Binary("<=", ZERO, c), ranges)), None)
        if found is None:
            return False
        span = arith.add(span, arith.mul(left[found], arith.sub(inner[found].extent, ONE)))
        left = {v: c for v, c in left.items() if v != found}
    return True


def _fills_together(box: list[Range], inner: dict[str, Range]) -> bool:
    """Indices such as `f // 8` and `f % 8`: a bijection of the loops onto a box."""
    if any(not arith.equal(r.extent, ONE) for r in box):
        return False
    parts = [part_over(r.start, frozenset(inner)) for r in box]
    used = {v for e in parts if e is not None for v in free_vars(e)}
    if None in parts:
        return False
    found = arith.detect([e for e in parts if e is not None], {v: r for v, r in inner.items() if v in used}, TRUE)
    return isinstance(found, arith.IterMap) and found.level == "bijective"


def part_over(e: Expr, inner: frozenset[str]) -> Expr | None:
    """The summands of an index over some variables only; None if a summand mixes them with others."""
    free = free_vars(e)
    if not free & inner:
        return ZERO
    if free <= inner:
        return e
    match e:
        case Binary("+" | "-" as op, left, right):
            a, b = part_over(left, inner), part_over(right, inner)
            return None if a is None or b is None else Binary(op, a, b)
        case Unary("-", x):
            part = part_over(x, inner)
            return None if part is None else Unary("-", part)
    return None


def linear_terms(e: Expr, inner: frozenset[str]) -> dict[str, Expr] | None:
    """The coefficients of an index that is linear in the variables `inner`; None if it is not."""
    if not free_vars(e) & inner:
        return {}
    match e:
        case Var(name=n):
            return {n: ONE}
        case Unary("-", x):
            return _scaled(linear_terms(x, inner), arith.sub(ZERO, ONE))
        case Binary("+" | "-" as op, left, right):
            a, b = linear_terms(left, inner), linear_terms(right, inner)
            if a is None or b is None:
                return None
            combine = arith.add if op == "+" else arith.sub
            return {v: combine(a.get(v, ZERO), b.get(v, ZERO)) for v in dict.fromkeys((*a, *b))}
        case Binary("*", left, right) if not free_vars(right) & inner:
            return _scaled(linear_terms(left, inner), right)
        case Binary("*", left, right) if not free_vars(left) & inner:
            return _scaled(linear_terms(right, inner), left)
    return None


def _scaled(terms: dict[str, Expr] | None, by: Expr) -> dict[str, Expr] | None:
    return None if terms is None else {v: arith.mul(c, by) for v, c in terms.items()}


# ------------------------------------------------------------------ cover
def covers(outer: Box | None, inner: Box, buffer: Buffer, ranges: dict[str, Range]) -> bool:
    """Does a box surely hold the part of another that lies in the buffer?"""
    if outer is None:
        return False
    if arith.covers(outer, inner, ranges) is arith.Verdict.PROVED:
        return True
    clipped = arith.intersect_box(inner, whole_box(buffer), ranges)
    return arith.covers(outer, clipped, ranges) is arith.Verdict.PROVED


def produces_for(program: Program, producer: Path, consumer: Path, buffer: str) -> bool:
    """Does one producer surely write, in each iteration of the loops around both, all that a consumer reads of a
    buffer?"""
    return _together(program, (producer,), consumer, buffer)


def _together(program: Program, makers: tuple[Path, ...], consumer: Path, buffer: str) -> bool:
    """The same of several producers, which may each write a part, side by side along one dimension."""
    above = common_path(consumer[:-1], *(q[:-1] for q in makers))
    ranges = {v: r for v, r in ranges_above(consumer).items()
              if v not in loop_ranges(loops_between(consumer, above))}
    made = [box for q in makers for w in block_at(q).writes if w.buffer == buffer
            for box in (produced_box(q, w, above),) if box is not None]
    shape = all_buffers(program)[buffer]
    read = [consumed_box(consumer, r, above) for r in block_at(consumer).reads if r.buffer == buffer]
    return all(any(covers(m, box, shape, ranges) for m in made)
               or any(_paved(made, arith.intersect_box(box, whole_box(shape), ranges), d, ranges)
                      for d in range(len(box) if len(makers) > 1 else 0))
               for box in read)


def _paved(made: list[Box], box: Box, d: int, ranges: dict[str, Range]) -> bool:
    """Do boxes side by side along dimension `d` hold another?"""
    tiles = [m for m in made if all(
        arith.covers((m[k],), (box[k],), ranges) is arith.Verdict.PROVED for k in range(len(box)) if k != d)]
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


def why_not_covered(program: Program, path: Path) -> str | None:
    """None if for each buffer that the block at the end of a path reads and earlier blocks of its scope write, one of
    them, or all of them side by side, have surely written all that is read."""
    block, body = block_at(path), scope_body(program, path)
    paths = {q[-1].name: q for q in walk_paths(program.body) if isinstance(q[-1], Block)}
    order = list(paths)
    for region in block.reads:
        storage = storage_of(program, region.buffer)
        before = tuple(paths[b.name] for b in writers(program, body, storage)
                       if b is not block and order.index(b.name) < order.index(block.name))
        if not before or any(produces_for(program, q, path, region.buffer) for q in before):
            continue
        if len(before) > 1 and _together(program, before, path, region.buffer):
            continue
        names = ", ".join(f"`{block_at(q).name}`" for q in before)
        return (f"what block `{block.name}` reads of `{region.buffer}` is not surely written before by {names} "
                "in the same iteration of the loops around both")
    return None
