"""Guards: those that always hold go, the others are moved out of inner loops by cutting loops into ranges.

A loop whose variable decides whether a guard holds is cut in front, main and tail ranges (a parallel loop: a branch
in its body), so that the main nest has no branch inside; where its extent is a size, at an expression of that. Where
everything is constant the guard of a tail then becomes the bound of an inner loop.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import pairwise
from typing import NamedTuple

from msgspec.structs import replace

from mslang.ir import arith
from mslang.ir.arith import Verdict, linear
from mslang.ir.arith.convert import write
from mslang.ir.arith.linear import Condition, Interval
from mslang.ir.expr import COMPARISONS, FALSE, TRUE, Binary, Const, Expr, Var
from mslang.ir.program import Range
from mslang.ir.visit import conjuncts, free_vars, loads_of, map_expr, substitute
from mslang.kernel.nodes import Body, For, If, Let, Stmt
from mslang.kernel.visit import bodies, expressions, map_deep, map_expressions, walk, with_bodies
from mslang.lower.analysis import has_condition, selected_by, trips, weight, work
from mslang.lower.dead_iterations import live_iterations
from mslang.lower.fold import fold, step
from mslang.lower.fused_indices import named_parts, part_bounds

MAX_COPIED = 1024
"""How many statements, unrolled, cutting loops may add."""


_MINOR = 8
"""Guards in less than this part of a loop's work are not worth cutting it."""


class _Known(NamedTuple):
    """Facts about variables: constant bounds for quick answers, ranges for the arithmetic engine.

    `plain`: there is no condition here that a loop could be cut for.
    """

    bounds: Mapping[str, Interval]
    ranges: Mapping[str, Range]
    budget: int
    plain: bool = False


def resolve(body: Body) -> Body:
    """Statements with guards proved, dropped or hoisted, loops of one iteration gone."""
    return _body(body, _Known({}, {}, MAX_COPIED))


def _body(body: Body, known: _Known) -> Body:
    out: list[Stmt] = []
    for s in body:
        out.extend(_statement(s, known))
    return tuple(out)


def _statement(s: Stmt, known: _Known) -> Body:
    s = map_expressions(s, lambda e: _expression(e, known))
    match s:
        case For():
            return _loop(s, known)
        case If(condition=c, then=then, otherwise=otherwise):
            if c in (TRUE, FALSE):
                return _body(then if c == TRUE else otherwise, known)
            a, b = _body(then, known), _body(otherwise, known)
            return (If(c, a, b),) if a or b else ()
        case Let():
            return _let(s, known)
    return (with_bodies(s, tuple(_body(b, known) for b in bodies(s))),)


# ------------------------------------------------------------------ conditions
def _expression(e: Expr, known: _Known) -> Expr:
    """An expression with constants folded and the conditions in it decided where they can be."""
    if not has_condition(e):
        return e

    def change(x: Expr) -> Expr | None:
        folded = step(x)
        if folded is not None or not isinstance(x, Binary):
            return folded
        verdict = _decide(x, known)
        return None if verdict is None else TRUE if verdict else FALSE

    return map_expr(e, change)


def _decide(e: Binary, known: _Known) -> bool | None:
    if e.op not in COMPARISONS:
        return None
    quick = linear.condition(e)
    if quick is not None and all(v in known.bounds for v in quick.form.terms):
        return linear.decide(quick, known.bounds)
    if loads_of(e):
        return None
    verdict = arith.decide(e, known.ranges)
    return True if verdict is Verdict.PROVED else False if verdict is Verdict.REFUTED else None


# ------------------------------------------------------------------ loops
def _loop(s: For, known: _Known) -> Body:
    if not (isinstance(s.start, Const) and isinstance(s.extent, Const)):
        cut = _symbolic_cut(s, known)
        if cut is not None:
            return _cut_at(s, *cut, known._replace(budget=(known.budget - weight((s,))) // 2))
        # A range that depends on loops around it is known to the engine alone.
        inner = known._replace(
            bounds={k: v for k, v in known.bounds.items() if k != s.var},
            ranges={**known.ranges, s.var: Range(s.start, s.extent)},
        )
        body = _body(s.body, inner)
        return (replace(s, body=body),) if body else ()
    start, extent = int(s.start.value), int(s.extent.value)
    live = None if extent <= 0 else _live(s, start, extent, known)
    if live is None:
        return ()
    if live != (start, start + extent - 1):
        start, extent = live[0], live[1] - live[0] + 1
        s = replace(s, start=Const(start), extent=Const(extent))
    if extent == 1:
        return _body(_substituted(s.body, s.var, start), known)
    if s.kind == "parallel" and not known.plain:
        s = replace(s, body=named_parts(s.body, s.var))
    conditions = () if known.plain else tuple(_conditions(s.body))
    if not conditions and not any(isinstance(x, Let) for x in s.body):
        return _plain(s, start, extent, known._replace(plain=True))
    settled = _settled_outside(s, conditions, known)
    if settled is not None:
        return _statement(*settled)
    cuts = _cuts(s, conditions, start, start + extent)
    if not cuts:
        return _plain(s, start, extent, known)
    edges = [start, *cuts, start + extent]
    pieces = list(pairwise(edges))
    added = (len(pieces) - 1 - _empty(s, pieces, known)) * weight((s,))
    if added > known.budget:
        return _plain(s, start, extent, known)
    known = known._replace(budget=(known.budget - added) // len(pieces))
    if s.kind == "parallel":
        rest = _branches(s.body, s.var, pieces, known)
        return (replace(s, body=rest),) if rest else ()
    out: list[Stmt] = []
    for lo, hi in pieces:
        out.extend(_piece(s, lo, hi, known))
    return tuple(out)


def _live(s: For, start: int, extent: int, known: _Known) -> Interval | None:
    whole = start, start + extent - 1
    return whole if known.plain else live_iterations(s, whole, known.bounds)


def _empty(s: For, pieces: Sequence[tuple[int, int]], known: _Known) -> int:
    """In how many parts of an innermost loop nothing happens: they cost nothing."""
    if any(isinstance(x, For) for x in walk(s.body)):
        return 0
    return sum(not _piece(s, lo, hi, known) for lo, hi in pieces)


def _plain(s: For, start: int, extent: int, known: _Known) -> Body:
    body = _body(s.body, _with(known, s.var, start, extent))
    return (replace(s, body=body),) if body else ()


def _piece(s: For, lo: int, hi: int, known: _Known) -> Body:
    if hi - lo == 1:
        return _body(_substituted(s.body, s.var, lo), known)
    return _plain(replace(s, start=Const(lo), extent=Const(hi - lo)), lo, hi - lo, known)


def _branches(body: Body, var: str, pieces: Sequence[tuple[int, int]], known: _Known) -> Body:
    """A branch on a variable: a parallel loop stays one loop, so that its parts run side by side."""
    rest: Body = ()
    for n, (lo, hi) in reversed(list(enumerate(pieces))):
        own = _body(_substituted(body, var, lo) if hi - lo == 1 else body, _with(known, var, lo, hi - lo))
        last = n == len(pieces) - 1
        rest = own if last or not (own or rest) else (If(Binary("<", Var(var), Const(hi)), own, rest),)
    return rest


def _let(s: Let, known: _Known) -> Body:
    """A part of an index with its body, in branches where conditions depend on it."""
    bounds = part_bounds(s.value, known.bounds)
    if bounds is not None:
        start, end = bounds[0], bounds[1] + 1
        if end - start == 1:
            return _body(_substituted(s.body, s.name, start), known)
        known = _with(known, s.name, start, end - start)
        conditions = () if known.plain else tuple(_conditions(s.body))
        cuts = _cuts(For(s.name, Const(end - start), s.body, start=Const(start)), conditions, start, end)
        pieces = list(pairwise([start, *cuts, end]))
        added = (len(pieces) - 1) * weight(s.body)
        if cuts and added <= known.budget:
            known = known._replace(budget=(known.budget - added) // len(pieces))
            made = _branches(s.body, s.name, pieces, known)
            return (replace(s, body=made),) if made else ()
    inner = _body(s.body, known)
    return (replace(s, body=inner),) if inner else ()


def _with(known: _Known, name: str, start: int, extent: int) -> _Known:
    return known._replace(
        bounds={**known.bounds, name: (start, start + extent - 1)},
        ranges={**known.ranges, name: Range(Const(start), Const(extent))},
    )


def _substituted(body: Body, name: str, value: int) -> Body:
    values = {name: Const(value)}
    return map_deep(body, lambda e: fold(substitute(e, values)))


def _settled_outside(s: For, conditions: Sequence[_Found], known: _Known) -> tuple[If, _Known] | None:
    """A branch around the loop on a condition in it that the loop does not change, where copying it is affordable."""
    cost = weight((s,))
    if s.kind == "parallel" or cost > known.budget:
        return None
    inside = {s.var}
    for x in walk(s.body):
        match x:
            case For(var=name) | Let(name=name):
                inside.add(name)
    for guard in conditions:
        if inside.isdisjoint(guard.form.form.terms) and _decide(guard.text, known) is None:
            left = known._replace(budget=(known.budget - cost) // 2)
            then, otherwise = (map_deep((s,), _assuming(guard.text, value)) for value in (TRUE, FALSE))
            return If(guard.text, then, otherwise), left
    return None


def _assuming(condition: Expr, value: Expr) -> Callable[[Expr], Expr]:
    def change(x: Expr) -> Expr | None:
        return value if x == condition else step(x)

    return lambda e: map_expr(e, change)


# ------------------------------------------------------------------ where to cut
def _cuts(s: For, conditions: Sequence[_Found], start: int, end: int) -> list[int]:
    """Where to cut the loop so that in one of its parts the guards that depend on it hold throughout.

    Guards in a small part of the loop's work do not count: for them the whole body would be copied.
    """
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


def _symbolic_cut(s: For, known: _Known) -> tuple[Expr, tuple[Binary, ...]] | None:
    """How many iterations of a loop whose extent is a size run with guards that hold throughout, and these guards.

    None where there is none worth it, or copying the body is not affordable.
    """
    if not isinstance(s.start, Const) or free_vars(s.extent) or weight((s,)) > known.budget:
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
    """The value of a loop's variable below which `guard` holds for all values of inner ones: an expression of sizes."""
    if guard.op != "<" or not free_vars(guard) <= {var, *inner}:
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


def _cut_at(s: For, count: Expr, guards: tuple[Binary, ...], known: _Known) -> Body:
    """A loop as its first iterations, in which guards hold, and the others; a parallel loop as a branch in its body."""
    main = s.body
    for guard in guards:
        main = map_deep(main, _assuming(guard, TRUE))
    end = fold(Binary("+", s.start, count))
    parts = ((main, s.start, count), (s.body, end, fold(Binary("-", s.extent, count))))
    bounds = {k: v for k, v in known.bounds.items() if k != s.var}
    done = [
        (
            _body(body, known._replace(bounds=bounds, ranges={**known.ranges, s.var: Range(start, extent)})),
            start,
            extent,
        )
        for body, start, extent in parts
    ]
    if s.kind == "parallel":
        (first, *_), (rest, *_) = done
        return (replace(s, body=(If(Binary("<", Var(s.var), end), first, rest),)),) if first or rest else ()
    return tuple(replace(s, start=start, extent=extent, body=body) for body, start, extent in done if body)


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


class _Found(NamedTuple):
    """A comparison as it is written and in normal form, and about how many statements wait for it."""

    text: Binary
    form: Condition
    amount: int


def _conditions(body: Body, times: int = 1) -> Iterator[_Found]:
    """The conditions in branches and selects that are comparisons of linear indices."""
    for s in body:
        if isinstance(s, If):
            yield from _comparisons(s.condition, times * (work(s.then) + work(s.otherwise)))
        for e in expressions(s):
            for condition in selected_by(e):
                yield from _comparisons(condition, times)
        inner = times * trips(s) if isinstance(s, For) else times
        for b in bodies(s):
            yield from _conditions(b, inner)


def _comparisons(condition: Expr, amount: int) -> Iterator[_Found]:
    for part in conjuncts(condition):
        form = linear.condition(part)
        if form is not None and isinstance(part, Binary):
            yield _Found(part, form, amount)
