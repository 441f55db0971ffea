"""Footprints: how many distinct elements and cache lines accesses cover while some of their loops run.

Along one dimension an index `Σ c·v + o` takes at most as many values as its loops have iterations together, and at
most as many as lie between its least and its greatest. The smaller of the two is the number of values wherever tiles of
one dimension nest and windows slide by one (all of dense linear algebra and convolution); otherwise it is an upper
bound. The formula does not depend on decisions, so that numbers may be put in before or after.

Digits `x // n`, `x % n` of fused loops cover what a run of consecutive values does from the worst beginning. How bad
that can be depends on common divisors, which numbers have and open sizes need not: with decisions open these footprints
are upper bounds of those with numbers put in.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from typing import NamedTuple

from mslang.diagnostics import MsError
from mslang.ir.arith import relax
from mslang.ir.arith.convert import read_size
from mslang.ir.arith.divide import choice
from mslang.ir.arith.linear import symbolic
from mslang.ir.arith.sign import at_least_0
from mslang.ir.arith.size import Mono, Poly, collect, number
from mslang.ir.arith.write import write
from mslang.ir.expr import ONE, Binary, Const, Expr
from mslang.ir.program import Range
from mslang.ir.visit import free_vars, loads_of

Term = tuple[Poly, Poly]
"""A coefficient, not negative, and the trip count of its loop."""


class Span(NamedTuple):
    """What an index covers along one dimension: `reach` from the smallest to the largest, `values` different ones."""

    reach: Poly
    values: Poly
    exact: bool


class Dimension(NamedTuple):
    """The indices along one dimension of accesses that differ by constants.

    `first` is one of them and `names` are its loops; `terms` are coefficients by loop, None where it is not linear.
    `spread` is how far the constants lie apart, `size` the extent of the dimension where accesses are guarded, else
    None.
    """

    first: Expr
    names: frozenset[str]
    terms: Mapping[str, Poly] | None
    spread: Poly
    size: Poly | None


def varying(index: Expr) -> tuple[frozenset[tuple[Mono, Poly]], Poly]:
    """What of an index varies with the loops, and its constant."""
    parts = collect(read_size(index))
    constant = parts.pop((), number(0))
    return frozenset(parts.items()), constant


def dimension(indices: Sequence[Expr], names: frozenset[str], size: Expr | None) -> Dimension:
    """One dimension of accesses; `names` are the loops around, `size` the dimension's if they are guarded."""
    first = indices[0]
    form = None if any(loads_of(first)) else symbolic(first, names)
    low = high = varying(first)[1]
    for e in indices[1:]:
        low, high = choice("min", low, varying(e)[1]), choice("max", high, varying(e)[1])
    limit = None if size is None else read_size(size)
    return Dimension(first, free_vars(first) & names, None if form is None else form.terms, high - low, limit)


def span(d: Dimension, loops: Mapping[str, Range], members: int) -> Span | None:
    """What a dimension covers while `loops` run; `members` is the number of accesses. None: all of the dimension."""
    found = _irregular(d, loops) if d.terms is None else _linear(d.terms, loops)
    if found is None:
        return None
    if members > 1:
        reach = found.reach + d.spread
        found = Span(reach, _smaller(reach, found.values.scaled(members)), False)
    return found if d.size is None else _limited(found, d.size)


def _linear(terms: Mapping[str, Poly], loops: Mapping[str, Range]) -> Span:
    running = [(_magnitude(c), read_size(loops[v].extent)) for v, c in terms.items() if v in loops]
    return _linear_span(tuple(running))


def _steps(trips: Poly) -> Poly:
    """The steps from the first iteration to the last: none where a loop does not run at all."""
    return _at_least_1(trips) - 1


def _once(r: Range) -> Range:
    """A loop that runs at least once, so that what it covers is never less than nothing."""
    extent = read_size(r.extent)
    return r if _at_least_1(extent) == extent else Range(r.start, write(_at_least_1(extent)))


def _at_least_1(trips: Poly) -> Poly:
    return trips if at_least_0(trips - 1) else choice("max", trips, number(1))


def _limited(s: Span, size: Poly) -> Span:
    return Span(_smaller(s.reach, size), _smaller(s.values, size), False)


@lru_cache(maxsize=16384)
def _linear_span(terms: tuple[Term, ...]) -> Span:
    reach, trips = number(1), number(1)
    for c, n in terms:
        reach, trips = reach + c * _steps(n), trips * n
    return Span(reach, _smaller(reach, trips), is_exact(terms))


def _irregular(d: Dimension, loops: Mapping[str, Range]) -> Span | None:
    if any(loads_of(d.first)):
        return None
    running = {v: _once(r) for v, r in loops.items() if v in d.names}
    if not running:
        return Span(number(1), number(1), True)
    try:
        # What a run of consecutive indices needs, wherever it begins: the loops around may decide where.
        (box,) = relax((d.first,), running)
    except MsError:
        return None
    reach = read_size(box.extent)
    if reach.vars or any(loads_of(box.extent)):
        return None
    trips = number(1)
    for v in running:
        trips = trips * read_size(loops[v].extent)
    return Span(reach, _smaller(reach, trips), False)


def _smaller(a: Poly, b: Poly) -> Poly:
    return a if a == b else choice("min", a, b)


def _magnitude(c: Poly) -> Poly:
    k = c.constant
    if k is not None:
        return number(abs(k))
    return c if at_least_0(c) else -c if at_least_0(-c) else choice("max", c, -c)


# ------------------------------------------------------------------ exactness
def is_exact(terms: tuple[Term, ...]) -> bool:
    """Whether the smaller of reach and trips is provably the number of values of `Σ c·v`.

    Terms are joined to progressions `step, length` where they provably make one. Where none overlap it is exact for one
    progression, for one of step 1 and any other, and for any that step over one another; else for one of step 1.
    """
    groups, overlap = list(terms), False
    while (joined := _join_any(groups)) is not None:
        groups, again = joined
        overlap |= again
    if overlap:
        return len(groups) == 1 and groups[0][0].constant == 1
    return len(groups) < 2 or (len(groups) == 2 and any(c.constant == 1 for c, _ in groups)) or _apart(groups)


def _join_any(groups: list[Term]) -> tuple[list[Term], bool] | None:
    """The groups with two of them joined, and whether these have values in common; tiles first."""
    for join in (_tiles, _overlapping):
        for i, a in enumerate(groups):
            for j, b in enumerate(groups):
                if i != j and (joined := join(a, b)) is not None:
                    rest = [g for k, g in enumerate(groups) if k not in (i, j)]
                    return [joined, *rest], join is _overlapping
    return None


def _tiles(a: Term, b: Term) -> Term | None:
    """The progression that two make of which one continues where the other ends."""
    return (a[0], a[1] * b[1]) if b[0] == a[0] * a[1] else None


def _overlapping(a: Term, b: Term) -> Term | None:
    """The progression that two make which have values in common."""
    (c, n), (d, m) = a, b
    if d == c:
        return c, n + m - 1
    return (c, n + d * (m - 1)) if c.constant == 1 and at_least_0(n - d) else None


def _apart(groups: list[Term]) -> bool:
    """Whether each progression provably steps over all before it."""
    rest, reach = list(groups), number(1)
    while rest:
        nearest = next((g for g in rest if all(at_least_0(h[0] - g[0]) for h in rest)), None)
        if nearest is None or not at_least_0(nearest[0] - reach):
            return False
        rest.remove(nearest)
        reach = reach + nearest[0] * (nearest[1] - 1)
    return True


# ------------------------------------------------------------------ several dimensions
def product(xs: Iterable[Poly]) -> Expr:
    """A product of sizes. Sums are not multiplied out, so that expressions stay small."""
    whole, factors = number(1), list[Poly]()
    for x in xs:
        if len(x.terms) <= 1:
            whole = whole * x
        else:
            factors.append(x)
    out = write(whole)
    for e in sorted((write(f) for f in factors), key=repr):
        out = times(out, e)
    return out


def times(a: Expr, b: Expr) -> Expr:
    """`a * b`, neutral factors dropped."""
    if isinstance(a, Const) and isinstance(b, Const):
        return Const(int(a.value) * int(b.value))
    return b if a == ONE else a if b == ONE else Binary("*", a, b)


def least(a: Expr, b: Expr) -> Expr:
    """`min(a, b)`, decided where both are numbers."""
    if isinstance(a, Const) and isinstance(b, Const):
        return Const(min(int(a.value), int(b.value)))
    return a if a == b else Binary("min", a, b)


def over(a: Expr, by: int) -> Expr:
    """`a / by`, rounded up."""
    if isinstance(a, Const):
        return Const(-(-int(a.value) // by))
    return a if by == 1 else Binary("//", Binary("+", a, Const(by - 1)), Const(by))
