"""Guards: those that always hold go, the others are moved out of inner loops by cutting loops into ranges.

A loop whose variable decides whether a guard holds is cut in front, main and tail ranges (a parallel loop: a branch
in its body), so that the main nest has no branch inside; where its extent is a size, at an expression of that. Where
everything is constant the guard of a tail then becomes the bound of an inner loop. A guard that can end an inner loop
(`tails.py`) is no reason to cut.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import pairwise
from typing import NamedTuple

from msgspec.structs import replace

from mslang.ir import arith
from mslang.ir.arith import Verdict, linear
from mslang.ir.arith.linear import Interval
from mslang.ir.expr import COMPARISONS, FALSE, TRUE, Binary, Const, Expr, Var
from mslang.ir.program import Range
from mslang.ir.visit import loads_of, map_expr, substitute
from mslang.kernel.nodes import Body, For, If, Let, Stmt
from mslang.kernel.visit import bodies, map_deep, map_expressions, walk, with_bodies
from mslang.lower.analysis import changes_bounds, has_condition, weight
from mslang.lower.cuts import Found, conditions_of, cuts_of, symbolic_cut
from mslang.lower.dead_iterations import live_iterations
from mslang.lower.fold import fold, step
from mslang.lower.fused_indices import named_parts, part_bounds
from mslang.lower.registers import register_candidates
from mslang.lower.tails import ended, ends_of

MAX_COPIED = 1024
"""How many statements, unrolled, cutting loops may add."""


class _Known(NamedTuple):
    """Facts about variables: constant bounds for quick answers, ranges for the arithmetic engine.

    `registers` may become some; `plain`: there is no condition here that a loop could be cut for.
    """

    bounds: Mapping[str, Interval]
    ranges: Mapping[str, Range]
    budget: int
    registers: frozenset[str]
    plain: bool = False


def resolve(body: Body) -> Body:
    """Statements with guards proved, dropped or hoisted, loops of one iteration gone."""
    return _body(body, _Known({}, {}, MAX_COPIED, register_candidates(body)))


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
        cut = symbolic_cut(s, known.budget)
        if cut is not None:
            return _cut_at(s, *cut, known._replace(budget=(known.budget - weight((s,))) // 2))
        # A range that depends on loops around it is known to the engine alone; and nothing is known of one that
        # depends on what the loop changes.
        ranges = {k: v for k, v in known.ranges.items() if k != s.var}
        if not changes_bounds(s):
            ranges[s.var] = Range(s.start, s.extent)
        inner = known._replace(bounds={k: v for k, v in known.bounds.items() if k != s.var}, ranges=ranges)
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
    conditions = () if known.plain else tuple(conditions_of(s.body))
    if not conditions and not any(isinstance(x, Let) for x in s.body):
        return _plain(s, start, extent, known._replace(plain=True))
    settled = _settled_outside(s, conditions, known)
    if settled is not None:
        return _statement(*settled)
    cuts = cuts_of(s, conditions, start, start + extent, known.registers)
    if not cuts:
        return _ended(s, start, extent, known)
    edges = [start, *cuts, start + extent]
    pieces = list(pairwise(edges))
    added = (len(pieces) - 1 - _empty(s, pieces, known)) * weight((s,))
    if added > known.budget:
        return _ended(s, start, extent, known)
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


def _ended(s: For, start: int, extent: int, known: _Known) -> Body:
    """A loop that is not cut: it ends where guards do."""
    inside = _with(known, s.var, start, extent)
    guards = tuple(guard for guard in ends_of(s, known.registers) if _decide(guard, inside) is None)
    return _plain(ended(s, guards, _holding), start, extent, known)


def _holding(guard: Binary, body: Body) -> Body:
    return map_deep(body, _assuming(guard, TRUE))


def _piece(s: For, lo: int, hi: int, known: _Known) -> Body:
    if hi - lo == 1:
        return _body(_substituted(s.body, s.var, lo), known)
    return _ended(replace(s, start=Const(lo), extent=Const(hi - lo)), lo, hi - lo, known)


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
        conditions = () if known.plain else tuple(conditions_of(s.body))
        loop = For(s.name, Const(end - start), s.body, start=Const(start))
        cuts = cuts_of(loop, conditions, start, end, known.registers)
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


def _settled_outside(s: For, conditions: Sequence[Found], known: _Known) -> tuple[If, _Known] | None:
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


def _cut_at(s: For, count: Expr, guards: tuple[Binary, ...], known: _Known) -> Body:
    """A loop as its first iterations, in which guards hold, and the others; a parallel loop as a branch in its body."""
    main = s.body
    for guard in guards:
        main = _holding(guard, main)
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
