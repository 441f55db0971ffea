"""Guards: those that always hold go, the others are moved out of inner loops by cutting loops into ranges.

A loop whose variable decides whether a guard holds is cut in front, main and tail ranges (a parallel loop: a branch
in its body), so that the main nest has no branch inside. Where everything is constant the guard of a tail then
becomes the bound of an inner loop.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import pairwise
from typing import NamedTuple

from msgspec.structs import replace

from mslang.ir import arith
from mslang.ir.arith import Verdict
from mslang.ir.expr import COMPARISONS, FALSE, LOGICAL, TRUE, Binary, Const, Expr, Load, Select, Var
from mslang.ir.program import For, If, Let, Range, Stmt
from mslang.ir.visit import conjuncts, map_expr, substitute, walk_expr
from mslang.lower import linear
from mslang.lower.analysis import weight
from mslang.lower.fold import fold, step
from mslang.lower.kernel import Body, bodies, expressions, map_deep, map_expressions, walk, with_bodies
from mslang.lower.linear import Condition, Interval

MAX_COPIED = 1024
"""How many statements, unrolled, cutting loops may add."""


_CONDITIONS = COMPARISONS | LOGICAL


class _Known(NamedTuple):
    """What is known of variables: constant bounds for quick answers, ranges for the arithmetic engine."""

    bounds: Mapping[str, Interval]
    ranges: Mapping[str, Range]
    budget: int


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
            inner = _body(s.body, known)
            return (replace(s, body=inner),) if inner else ()
    return (with_bodies(s, tuple(_body(b, known) for b in bodies(s))),)


# ------------------------------------------------------------------ conditions
def _expression(e: Expr, known: _Known) -> Expr:
    """An expression with constants folded and the conditions in it decided where they can be."""
    if not any(isinstance(x, Select) or (isinstance(x, Binary) and x.op in _CONDITIONS) for x in walk_expr(e)):
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
    if any(isinstance(x, Load) for x in walk_expr(e)):
        return None
    verdict = arith.decide(e, known.ranges)
    return True if verdict is Verdict.PROVED else False if verdict is Verdict.REFUTED else None


# ------------------------------------------------------------------ loops
def _loop(s: For, known: _Known) -> Body:
    if not (isinstance(s.start, Const) and isinstance(s.extent, Const)):
        # A range that depends on loops around it is known to the engine alone.
        inner = known._replace(
            bounds={k: v for k, v in known.bounds.items() if k != s.var},
            ranges={**known.ranges, s.var: Range(s.start, s.extent)},
        )
        body = _body(s.body, inner)
        return (replace(s, body=body),) if body else ()
    start, extent = int(s.start.value), int(s.extent.value)
    if extent <= 0:
        return ()
    if extent == 1:
        return _body(_substituted(s.body, s.var, start), known)
    cuts = _cuts(s, start, start + extent)
    if not cuts:
        return _plain(s, start, extent, known)
    edges = [start, *cuts, start + extent]
    pieces = list(pairwise(edges))
    added = (len(pieces) - 1) * weight((s,))
    if added > known.budget:
        return _plain(s, start, extent, known)
    known = known._replace(budget=(known.budget - added) // len(pieces))
    if s.kind == "parallel":
        return _branches(s, pieces, start, extent, known)
    out: list[Stmt] = []
    for lo, hi in pieces:
        out.extend(_piece(s, lo, hi, known))
    return tuple(out)


def _plain(s: For, start: int, extent: int, known: _Known) -> Body:
    body = _body(s.body, _with(known, s.var, start, extent))
    return (replace(s, body=body),) if body else ()


def _piece(s: For, lo: int, hi: int, known: _Known) -> Body:
    if hi - lo == 1:
        return _body(_substituted(s.body, s.var, lo), known)
    return _plain(replace(s, start=Const(lo), extent=Const(hi - lo)), lo, hi - lo, known)


def _branches(s: For, pieces: list[tuple[int, int]], start: int, extent: int, known: _Known) -> Body:
    """A parallel loop stays one loop, so that its parts run side by side."""
    rest: Body = ()
    for lo, hi in reversed(pieces):
        body = _substituted(s.body, s.var, lo) if hi - lo == 1 else s.body
        own = _body(body, _with(known, s.var, lo, hi - lo))
        rest = own if hi == start + extent else (If(Binary("<", Var(s.var), Const(hi)), own, rest),)
    return (replace(s, body=rest),) if rest else ()


def _with(known: _Known, name: str, start: int, extent: int) -> _Known:
    return known._replace(
        bounds={**known.bounds, name: (start, start + extent - 1)},
        ranges={**known.ranges, name: Range(Const(start), Const(extent))},
    )


def _substituted(body: Body, name: str, value: int) -> Body:
    values = {name: Const(value)}
    return map_deep(body, lambda e: fold(substitute(e, values)))


# ------------------------------------------------------------------ where to cut
def _cuts(s: For, start: int, end: int) -> list[int]:
    """Where to cut the loop so that in one of its parts each guard that depends on it holds throughout."""
    inner: dict[str, Interval] = {}
    for x in walk(s.body):
        if isinstance(x, For) and isinstance(x.start, Const) and isinstance(x.extent, Const):
            inner[x.var] = (int(x.start.value), int(x.start.value) + int(x.extent.value) - 1)
    low, high, points = start, end, set[int]()
    for guard in _guards(s.body):
        form = guard.form
        k = form.terms.get(s.var, 0)
        if k == 0 or any(v != s.var and v not in inner for v in form.terms):
            continue
        rest = linear.Linear(form.constant, {v: c for v, c in form.terms.items() if v != s.var})
        bounds = linear.interval(rest, inner)
        if bounds is None:
            continue
        if guard.relation == "<":
            # k·v + rest < 0 holds for every rest exactly below (k > 0) or from (k < 0) an edge.
            if k > 0:
                edge = -(bounds[1] // k)
                high = min(high, edge) if edge > start else high
            else:
                edge = bounds[1] // -k + 1
                low = max(low, edge) if edge < end else low
        else:
            # k·v + rest can be 0 between these only: elsewhere an equality is settled.
            ends = bounds if k > 0 else (-bounds[1], -bounds[0])
            points.update((-(ends[1] // abs(k)), -ends[0] // abs(k) + 1))
    if low < high:
        points.update((low, high))
    return sorted(p for p in points if start < p < end)


def _guards(body: Body) -> Iterator[Condition]:
    """The conditions in branches and selects that are comparisons of linear indices."""
    for s in walk(body):
        conditions = [s.condition] if isinstance(s, If) else []
        for e in expressions(s):
            conditions += [x.condition for x in walk_expr(e) if isinstance(x, Select)]
        for c in conditions:
            for part in conjuncts(c):
                found = linear.condition(part)
                if found is not None:
                    yield found
