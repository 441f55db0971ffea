"""Where loops are cut for guards: at the edges from which, or below which, a guard holds whatever inner loops do."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from mslang.ir.arith import linear
from mslang.ir.arith.linear import Condition, Interval
from mslang.ir.arith.write import write
from mslang.ir.expr import Binary, Const, Expr
from mslang.ir.visit import conjuncts, free_vars, loads_of
from mslang.kernel.nodes import Body, For, If, Let
from mslang.kernel.visit import bodies, expressions, walk
from mslang.lower.analysis import changes_bounds, selected_by, trips, weight, work
from mslang.lower.fold import fold
from mslang.lower.tails import bounding

_MINOR = 8
"""Guards in less than this part of a loop's work are not worth cutting it."""


def cuts_of(s: For, conditions: Sequence[Found], start: int, end: int, registers: frozenset[str]) -> list[int]:
    """Where to cut the loop so that in one of its parts the guards that depend on it hold throughout.

    Guards in a small part of the loop's work do not count, for the whole body would be copied for them; nor do those
    that end inner loops.
    """
    cuts = _cuts(s, conditions, start, end)
    if not cuts:
        return []
    bounds = bounding(s.body, registers)
    return cuts if not bounds else _cuts(s, [c for c in conditions if c.text not in bounds], start, end)


def _cuts(s: For, conditions: Sequence[Found], start: int, end: int) -> list[int]:
    inner: dict[str, Interval] = {}
    for x in walk(s.body):
        if isinstance(x, For) and isinstance(x.start, Const) and isinstance(x.extent, Const):
            inner[x.var] = (int(x.start.value), int(x.start.value) + int(x.extent.value) - 1)
    share: dict[_Edge, int] = {}
    for found in conditions:
        for edge in _edges(found.form, s.var, inner):
            share[edge] = share.get(edge, 0) + found.amount
    total = work(s.body)
    kept = [e for e, amount in share.items() if amount * _MINOR >= total and start < e.at < end]
    low = max((e.at for e in kept if e.side == "low"), default=start)
    high = min((e.at for e in kept if e.side == "high"), default=end)
    points = {e.at for e in kept if e.side == "point"}
    if low < high:
        points.update(p for p in (low, high) if start < p < end)
    return sorted(points)


def symbolic_cut(s: For, budget: int) -> tuple[Expr, tuple[Binary, ...]] | None:
    """How many iterations of a loop whose extent is a size run with guards that hold throughout, and these guards.

    None where there is none worth it, or copying the body is not affordable.
    """
    if not isinstance(s.start, Const) or free_vars(s.extent) or changes_bounds(s) or weight((s,)) > budget:
        return None
    inner = _inner_ranges(s.body)
    amounts: dict[Binary, int] = {}
    for guard, amount in _guards(s.body):
        amounts[guard] = amounts.get(guard, 0) + amount
    edges = {guard: edge for guard in amounts if (edge := _symbolic_edge(guard, s.var, inner)) is not None}
    if sum(amounts[guard] for guard in edges) * _MINOR < work(s.body):
        return None
    whole: Expr = s.extent
    for edge in dict.fromkeys(edges.values()):
        whole = Binary("min", whole, Binary("-", edge, s.start))
    return fold(Binary("max", whole, Const(0))), tuple(edges)


def _inner_ranges(body: Body) -> dict[str, Interval]:
    """The values that the variables of inner loops with constant ranges take; none of a variable with others, too."""
    found: dict[str, Interval] = {}
    open_ranges: set[str] = set()
    for x in walk(body):
        match x:
            case For(var=name, start=Const(value=start), extent=Const(value=extent)):
                low, high = found.get(name, (int(start), int(start) + int(extent) - 1))
                found[name] = min(low, int(start)), max(high, int(start) + int(extent) - 1)
            case For(var=name) | Let(name=name):
                open_ranges.add(name)
    return {name: r for name, r in found.items() if name not in open_ranges}


def _guards(body: Body, times: int = 1) -> Iterator[tuple[Binary, int]]:
    """The comparisons that branches are made of, and about how many statements wait for each."""
    for s in body:
        if isinstance(s, If):
            amount = times * (work(s.then) + work(s.otherwise))
            yield from ((part, amount) for part in conjuncts(s.condition) if isinstance(part, Binary))
        for b in bodies(s):
            yield from _guards(b, times * trips(s) if isinstance(s, For) else times)


def _symbolic_edge(guard: Binary, var: str, inner: Mapping[str, Interval]) -> Expr | None:
    """The value of a loop's variable below which `guard` holds for all values of inner ones: an expression of sizes.

    What a guard loads may change in the loop, or be out of bounds before another guard holds.
    """
    if guard.op != "<" or loads_of(guard) or not free_vars(guard) <= {var, *inner}:
        return None
    names = frozenset({var, *inner})
    form = linear.symbolic(Binary("-", guard.left, guard.right), names)
    terms = None if form is None else {name: write(c) for name, c in form.terms.items()}
    if form is None or terms is None or not all(isinstance(c, Const) for c in terms.values()):
        return None
    step_of = {name: int(c.value) for name, c in terms.items() if isinstance(c, Const)}
    k = step_of.pop(var, 0)
    if k <= 0:
        return None
    most = sum(max(c * inner[name][0], c * inner[name][1]) for name, c in step_of.items())
    # k·v + most + constant < 0 holds exactly below this.
    left = Binary("-", Const(k - 1 - most), write(form.constant))
    return fold(Binary("//", left, Const(k)))


class _Edge(NamedTuple):
    """A place where a guard changes: it holds from a "low" edge, below a "high" one; a "point" is where it may."""

    side: str
    at: int


def _edges(guard: Condition, var: str, inner: Mapping[str, Interval]) -> list[_Edge]:
    form = guard.form
    k = form.terms.get(var, 0)
    if k == 0 or any(v != var and v not in inner for v in form.terms):
        return []
    rest = linear.Linear(form.constant, {v: c for v, c in form.terms.items() if v != var})
    bounds = linear.interval(rest, inner)
    if bounds is None:
        return []
    if guard.relation == "<":
        # k·v + rest < 0 holds for every rest exactly below (k > 0) or from (k < 0) an edge.
        return [_Edge("high", -(bounds[1] // k)) if k > 0 else _Edge("low", bounds[1] // -k + 1)]
    # k·v + rest can be 0 between these only: elsewhere an equality is settled.
    ends = bounds if k > 0 else (-bounds[1], -bounds[0])
    return [_Edge("point", -(ends[1] // abs(k))), _Edge("point", -ends[0] // abs(k) + 1)]


class Found(NamedTuple):
    """A comparison as it is written and in normal form, and about how many statements wait for it."""

    text: Binary
    form: Condition
    amount: int


def conditions_of(body: Body, times: int = 1) -> Iterator[Found]:
    """The conditions in branches and selects that are comparisons of linear indices."""
    for s in body:
        if isinstance(s, If):
            yield from _comparisons(s.condition, times * (work(s.then) + work(s.otherwise)))
        for e in expressions(s):
            for condition in selected_by(e):
                yield from _comparisons(condition, times)
        inner = times * trips(s) if isinstance(s, For) else times
        for b in bodies(s):
            yield from conditions_of(b, inner)


def _comparisons(condition: Expr, amount: int) -> Iterator[Found]:
    for part in conjuncts(condition):
        form = linear.condition(part)
        if form is not None and isinstance(part, Binary):
            yield Found(part, form, amount)
