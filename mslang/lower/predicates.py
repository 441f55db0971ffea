"""Guards: those that always hold go, the others are moved out of inner loops by cutting loops into ranges.

A loop whose variable decides whether a guard holds is cut in front, main and tail ranges (a parallel loop: a branch
in its body), so that the main nest has no branch inside; where its extent is a size, at an expression of that. Where
everything is constant the guard of a tail then becomes the bound of an inner loop. A guard that can end an inner loop
(`tails.py`) is no reason to cut.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import chain, pairwise
from typing import NamedTuple

from msgspec.structs import replace

from mslang.ir import arith
from mslang.ir.arith import Verdict, linear
from mslang.ir.arith.linear import Interval
from mslang.ir.expr import COMPARISONS, FALSE, TRUE, Binary, Const, Expr, Var
from mslang.ir.program import Range
from mslang.ir.visit import conjuncts, loads_of, map_expr, substitute
from mslang.kernel.nodes import Body, For, If, Let, Stmt
from mslang.kernel.visit import bodies, map_deep, map_expressions, walk, with_bodies
from mslang.lower.analysis import changes_bounds, has_condition, trips, weight, work
from mslang.lower.copies import Part, copied, resolved
from mslang.lower.cuts import Found, conditions_of, cuts_of, symbolic_cut
from mslang.lower.dead_iterations import live_iterations, without_dead
from mslang.lower.fold import fold, step
from mslang.lower.fused_indices import named_parts, part_bounds
from mslang.lower.registers import register_candidates
from mslang.lower.remainders import Remainder, by_number, by_part, remainder_of, with_left
from mslang.lower.tails import ended, ends_of

MAX_COPIED = 1536
"""How many statements cutting loops may add to a nest, its unrolled loops written out."""


class _Known(NamedTuple):
    """Facts about variables: constant bounds for quick answers, ranges for the arithmetic engine.

    `registers` may become some; `sizes`: there are guards on sizes; `nested`: in a loop, where all share `budget`;
    `plain`: there is no condition here that a loop could be cut for.
    """

    bounds: Mapping[str, Interval]
    ranges: Mapping[str, Range]
    budget: int
    registers: frozenset[str]
    sizes: bool
    nested: bool = False
    plain: bool = False


def resolve(body: Body) -> Body:
    """Statements with guards proved, dropped or hoisted, loops of one iteration gone."""
    sizes = any(linear.condition(c) is None for s in walk(body) if isinstance(s, If) for c in conjuncts(s.condition))
    return _body(body, _Known({}, {}, MAX_COPIED, register_candidates(body), sizes))


def _body(body: Body, known: _Known) -> Body:
    if known.sizes and known.nested:
        cases = _by_remainder(body, known)
        if cases is not None:
            return cases
    if len(body) == 1:
        return _statement(body[0], known)
    return _joined(_beside([(s,) for s in body], known))


def _beside(parts: Sequence[Body], known: _Known) -> list[Body]:
    """Bodies beside each other; in a nest they share its budget."""
    if not known.nested or known.plain:
        return [_body(part, known) for part in parts]
    return resolved([_part(part, known) for part in parts], known.budget)


def _part(body: Body, known: _Known, times: int = 1) -> Part:
    return Part(body, times * work(body), lambda budget: _body(body, known._replace(budget=budget)))


def _joined(parts: Sequence[Body]) -> Body:
    return tuple(chain.from_iterable(parts))


def _statement(s: Stmt, known: _Known) -> Body:
    s = map_expressions(s, lambda e: _expression(e, known))
    match s:
        case For():
            return _loop(s, known._replace(nested=True))
        case If(condition=c, then=then, otherwise=otherwise):
            if c in (TRUE, FALSE):
                return _body(then if c == TRUE else otherwise, known)
            a, b = _beside((then, otherwise), known)
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
            return _cut_at(s, *cut, known._replace(budget=known.budget - weight((s,))))
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
    pieces = list(pairwise([start, *cuts, start + extent]))
    if s.kind == "parallel":
        rest = _branches(s.body, s.var, pieces, known)
        if rest is None:
            return _ended(s, start, extent, known)
        return (replace(s, body=rest),) if rest else ()
    parts = copied([_iterations(s, lo, hi, known) for lo, hi in pieces], (s,), known.budget)
    return _ended(s, start, extent, known) if parts is None else _joined(parts)


def _iterations(s: For, lo: int, hi: int, known: _Known) -> Part:
    body = without_dead((replace(s, start=Const(lo), extent=Const(hi - lo)),), known.bounds)
    return Part(body, work(body), lambda budget: _pieces(body, known._replace(budget=budget)))


def _live(s: For, start: int, extent: int, known: _Known) -> Interval | None:
    whole = start, start + extent - 1
    return whole if known.plain else live_iterations(s, whole, known.bounds)


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


def _pieces(body: Body, known: _Known) -> Body:
    """A part of a loop that was cut; nothing where nothing happens in it."""
    match body:
        case (For(start=Const(value=start), extent=Const(value=extent)) as s,):
            if extent == 1:
                return _body(_substituted(s.body, s.var, int(start)), known)
            return _loop(s, known)
    return ()


def _branches(body: Body, var: str, pieces: Sequence[Interval], known: _Known) -> Body | None:
    """A branch on a variable: a parallel loop stays one loop, so that its parts run side by side.

    None where copies of the body are not affordable.
    """

    def part(lo: int, hi: int) -> Part:
        inside = _with(known, var, lo, hi - lo)
        own = without_dead(body, inside.bounds)
        return _part(_substituted(own, var, lo) if hi - lo == 1 else own, inside, hi - lo)

    done = copied([part(lo, hi) for lo, hi in pieces], body, known.budget)
    if done is None:
        return None
    return _choice([Binary("<", Var(var), Const(hi)) for _, hi in pieces], done)


def _by_remainder(body: Body, known: _Known) -> Body | None:
    """A branch on how many rows are left of a tile, with a nest for each number, or at least one for whole tiles; None
    where no guards are on that, or copies are not affordable."""
    found = remainder_of(body, known.registers)
    if found is None:
        return None
    for ranges in (by_number(found.rows), by_part(found.rows)):
        cases = list(_possible(found.left, ranges, known))
        if all(low < high for _, (low, high) in cases):
            return None
        done = copied([_left(body, found, between, known) for _, between in cases], body, known.budget)
        if done is not None:
            return _choice([condition for condition, _ in cases], done)
    return None


def _left(body: Body, found: Remainder, between: Interval, known: _Known) -> Part:
    """The nest for a range of how many rows are left; where these are several, its guards stay."""
    own = without_dead(with_left(body, found, between), known.bounds)
    return _part(own, known._replace(sizes=known.sizes and between[0] == between[1]))


def _possible(value: Expr, ranges: Sequence[Interval], known: _Known) -> Iterator[tuple[Expr, Interval]]:
    """Those of ascending ranges in which a value may be, each with what holds there, and in none of those behind."""
    for between in ranges:
        below = Binary("<", value, Const(between[1] + 1))
        verdict = True if between == ranges[-1] else _decide(below, known)
        if verdict is not False:
            yield below, between
        if verdict:
            return


def _choice(conditions: Sequence[Expr], cases: Sequence[Body]) -> Body:
    """The first case whose condition holds; the last is for all else."""
    *before, rest = cases
    for condition, own in zip(conditions[-2::-1], reversed(before), strict=True):
        rest = (If(condition, own, rest),) if own or rest else ()
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
        made = _branches(s.body, s.name, pieces, known) if cuts else None
        if made is not None:
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
            left = known._replace(budget=known.budget - cost)
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
    # The others are hardly more than one.
    first, rest = resolved(
        [
            _part(body, known._replace(bounds=bounds, ranges={**known.ranges, s.var: Range(start, extent)}), times)
            for (body, start, extent), times in zip(parts, (trips(s), 1), strict=True)
        ],
        known.budget,
    )
    if s.kind == "parallel":
        return (replace(s, body=(If(Binary("<", Var(s.var), end), first, rest),)),) if first or rest else ()
    return tuple(
        replace(s, start=start, extent=extent, body=body)
        for body, (_, start, extent) in zip((first, rest), parts, strict=True)
        if body
    )
