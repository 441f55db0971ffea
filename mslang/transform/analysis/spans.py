"""Spans: the values of a block's axes for which it accesses a box of a buffer, and how they keep to their domains.

A span that depends on nothing but symbols has the same form for every value of them: where it is not proved that a
span stays inside its axis, a guard is kept, whatever the values.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec

from mslang.ir import arith
from mslang.ir.arith.linear import coefficients
from mslang.ir.expr import ONE, ZERO, Binary, Const, Expr, Var
from mslang.ir.program import Block, Range, Region
from mslang.ir.visit import free_vars, substitute
from mslang.transform.analysis.definite_writes import Box
from mslang.transform.analysis.position import axis_ranges

Spans = Mapping[str, Range]
"""Values of axes by name."""


def spans_touching(block: Block, region: Region, box: Box, ranges: Mapping[str, Range]) -> dict[str, Range]:
    """The values of the axes for which a region of a block may access a box; axes that this does not narrow are absent.

    `ranges` are those of the variables around the block, which the box may mention.
    """
    axes = axis_ranges(block)
    mine = tuple(Range(arith.simplify(r.start, axes), r.extent) for r in region.ranges)
    inverted = _inverted(mine, box, axes, ranges)
    if inverted is not None:
        return inverted
    found: dict[str, Range] = {}
    for own, wanted in zip(mine, box, strict=True):
        for name in sorted(free_vars(own.start) & set(axes) - set(found)):
            span = _solved(name, own, wanted, axes, ranges)
            if span is not None:
                found[name] = span
    return found


def _solved(
    axis: str, own: Range, wanted: Range, axes: Mapping[str, Range], ranges: Mapping[str, Range]
) -> Range | None:
    match own.start:
        case Binary("//", inside, by) if not free_vars(by) and arith.equal(own.extent, ONE):
            scaled = Range(arith.mul(wanted.start, by), arith.mul(wanted.extent, by))
            return _solved(axis, Range(inside, ONE), scaled, axes, ranges)
    terms = coefficients(own.start, frozenset(axes))
    if terms is None or axis not in terms or free_vars(own.extent) & set(axes):
        return None
    stride = terms[axis]
    if arith.proved(Binary("<=", stride, Const(-1)), ranges):
        return _mirrored(axis, own, wanted, axes, ranges)
    others = {n: r for n, r in axes.items() if n != axis}
    rest = arith.simplify(arith.sub(own.start, arith.mul(stride, Var(axis))), axes)
    limits = arith.bounds(rest, others)
    if limits is None or not arith.proved(Binary("<=", ONE, stride), ranges):
        return None
    low, high = limits
    spread = arith.simplify(arith.sub(high, low), ranges)
    width = arith.add(spread, own.extent)
    if free_vars(rest) & set(others) and not arith.proved(Binary("<=", width, stride), ranges):
        return None
    first = arith.sub(arith.sub(wanted.start, high), arith.sub(own.extent, ONE))
    last = arith.sub(arith.add(wanted.start, arith.sub(wanted.extent, ONE)), low)
    start = arith.simplify(arith.ceildiv(first, stride), ranges)
    exact = arith.simplify(arith.add(arith.sub(arith.floordiv(last, stride), start), ONE), ranges)
    if not free_vars(exact):
        return Range(start, exact)
    several = arith.sub(arith.add(wanted.extent, width), ONE)
    return Range(start, arith.simplify(arith.ceildiv(several, stride), ranges))


def _mirrored(
    axis: str, own: Range, wanted: Range, axes: Mapping[str, Range], ranges: Mapping[str, Range]
) -> Range | None:
    """The values of an axis that goes down as the index goes up: those of its negative, turned round."""
    n = axes[axis].extent
    turned = Range(substitute(own.start, {axis: arith.sub(ZERO, Var(axis))}), own.extent)
    span = _solved(axis, turned, wanted, {**axes, axis: Range(arith.sub(ONE, n), n)}, ranges)
    return span and Range(arith.simplify(arith.sub(ONE, arith.add(span.start, span.extent)), ranges), span.extent)


def _inverted(own: Box, wanted: Box, axes: Mapping[str, Range], ranges: Mapping[str, Range]) -> dict[str, Range] | None:
    """The values of the axes that access just a box, where the indices share axes among them, as `x // 8, x % 8` do;
    None if that cannot be determined."""
    starts = [r.start for r in own]
    used = frozenset[str]().union(*(free_vars(e) for e in starts)) & axes.keys()
    if all(isinstance(e, Var | Const) for e in starts) or any(not arith.equal(r.extent, ONE) for r in own):
        return None
    inner = {n: axes[n] for n in axes if n in used}
    ends = [arith.sub(arith.add(r.start, r.extent), ONE) for r in wanted]
    low, high = (arith.invert(starts, x, inner, ranges) for x in ([r.start for r in wanted], ends))
    if low is None or high is None:
        return None
    found = {
        n: Range(arith.simplify(low[n], ranges), arith.simplify(arith.add(arith.sub(high[n], low[n]), ONE), ranges))
        for n in inner
    }
    mine, its = (arith.size_product(r.extent for r in box) for box in (found.values(), wanted))
    if free_vars(mine) or not arith.equal(mine, its):
        return None
    reached = arith.relax(own, found)
    return found if arith.covers(wanted, reached, ranges) is arith.Verdict.PROVED else None


def joined_spans(
    several: Sequence[Spans], domains: Spans, ranges: Mapping[str, Range], *, absent_is_whole: bool
) -> dict[str, Range]:
    """For each axis of `domains` a span that holds all of several spans.

    An axis absent from some runs over its domain (`absent_is_whole`), or as in the others.
    """
    found: dict[str, Range] = {}
    for name, domain in domains.items():
        mine = [s[name] for s in several if name in s]
        if not mine or (absent_is_whole and len(mine) < len(several)):
            found[name] = domain
            continue
        box: Box = (mine[0],)
        for span in mine[1:]:
            box = arith.union_box(box, (span,), (domain,), ranges)
        found[name] = box[0]
    return found


class Kept(msgspec.Struct, frozen=True):
    """A span kept inside `low <= value < high`: the values to run over, and the conditions on `value` that are left
    to be checked in each iteration."""

    span: Range
    guards: tuple[Expr, ...] = ()


def kept_inside(span: Range, value: Expr, limit: Range, ranges: Mapping[str, Range]) -> Kept:
    """A span kept inside a limit.

    Args:
        span: the values wanted.
        value: what the guards are to be written on.
        limit: the values allowed.
        ranges: of the variables that the span mentions.
    """
    end = arith.add(limit.start, limit.extent)
    above = arith.proved(Binary("<=", limit.start, span.start), ranges)
    below = arith.proved(Binary("<=", arith.add(span.start, span.extent), end), ranges)
    if above and below:
        return Kept(span)
    if arith.proved(Binary("<=", span.start, limit.start), ranges):
        reach = arith.simplify(arith.sub(arith.add(span.start, span.extent), limit.start), ranges)
        return Kept(Range(limit.start, _shorter(reach, limit.extent, ranges)))
    over = (Binary("<", value, end),)
    if above:
        # a `min` in the extent would hide that tiles follow each other; the guard cuts off what is over
        return Kept(span, over)
    under = (Binary("<=", limit.start, value),)
    return Kept(span, under if below else (*under, *over))


def _shorter(a: Expr, b: Expr, ranges: Mapping[str, Range]) -> Expr:
    if arith.proved(Binary("<=", a, b), ranges):
        return a
    return b if arith.proved(Binary("<=", b, a), ranges) else arith.simplify(arith.minimum(a, b), ranges)
