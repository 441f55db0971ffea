"""Unions, intersections and covering of boxes whose ends are expressions."""

from __future__ import annotations

from functools import reduce

from mslang.ir.arith.bounds import Box
from mslang.ir.arith.convert import read
from mslang.ir.arith.divide import choice, merge
from mslang.ir.arith.interval import Scope, not_negative, sign_verdict
from mslang.ir.arith.scope import Ranges, scope_for
from mslang.ir.arith.simplify import NO_RANGES
from mslang.ir.arith.size import Poly
from mslang.ir.arith.verdict import Verdict, both
from mslang.ir.arith.write import write
from mslang.ir.nodes import Range


class _Ends:
    """A range as polynomials: `low <= x < end`."""

    __slots__ = ("end", "low")

    def __init__(self, r: Range, scope: Scope) -> None:
        self.low = read(r.start, scope)
        self.end = merge(self.low + read(r.extent, scope))


def _scope_of(ranges: Ranges, *rs: Range) -> Scope:
    return scope_for([x for r in rs for x in (r.start, r.extent)], ranges)


def union_box(a: Box, b: Box, whole: Box, ranges: Ranges = NO_RANGES) -> Box:
    """The smallest box that provably holds both.

    Where the symbols alone decide which end comes first it is a `min` or `max` of sizes; where that depends on
    variables and is not provable the dimension widens to that of `whole`.
    """
    return tuple(_union(x, y, w, ranges) for x, y, w in zip(a, b, whole, strict=True))


def _union(a: Range, b: Range, whole: Range, ranges: Ranges) -> Range:
    if a == b:
        return a
    scope = _scope_of(ranges, a, b)
    x, y = _Ends(a, scope), _Ends(b, scope)
    low, end = _pick("min", x.low, y.low, scope), _pick("max", x.end, y.end, scope)
    return whole if low is None or end is None else Range(write(low), write(merge(end - low)))


def _pick(op: str, a: Poly, b: Poly, scope: Scope) -> Poly | None:
    """The smaller or larger of two ends that differ by a size, or whose order is provable."""
    if (b - a).is_size:
        return choice(op, a, b, scope)
    if not_negative(b - a, scope):
        return a if op == "min" else b
    if not_negative(a - b, scope):
        return b if op == "min" else a
    return None


def intersect_box(a: Box, b: Box, ranges: Ranges = NO_RANGES) -> Box:
    """What both hold: an end whose order is not provable is a `min` or `max`, so an extent may be `<= 0` (empty)."""
    return tuple(_intersect(x, y, ranges) for x, y in zip(a, b, strict=True))


def _intersect(a: Range, b: Range, ranges: Ranges) -> Range:
    if a == b:
        return a
    scope = _scope_of(ranges, a, b)
    x, y = _Ends(a, scope), _Ends(b, scope)
    low, end = choice("max", x.low, y.low, scope), choice("min", x.end, y.end, scope)
    return Range(write(low), write(merge(end - low)))


def covers(outer: Box, inner: Box, ranges: Ranges = NO_RANGES) -> Verdict:
    """Whether `outer` holds all of `inner`, for all values of the variables in `ranges` and of the symbols."""
    return reduce(both, (_covers(o, i, ranges) for o, i in zip(outer, inner, strict=True)), Verdict.PROVED)


def _covers(outer: Range, inner: Range, ranges: Ranges) -> Verdict:
    if outer == inner:
        return Verdict.PROVED
    scope = _scope_of(ranges, outer, inner)
    o, i = _Ends(outer, scope), _Ends(inner, scope)
    return both(sign_verdict(merge(i.low - o.low), scope), sign_verdict(merge(o.end - i.end), scope))
