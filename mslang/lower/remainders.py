"""Rows that are left of a tile: a nest for each number of them, where loops that are written out end at a size.

`for k in 0..K { for i in 0..6 @ unrolled { if t * 6 + i < M { … } } }` has a branch around each row in the loop over
`k`. How many rows run, `M - t * 6`, is the same in all of its iterations: outside of it, a branch for each number leads
to a nest of so many rows.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import NamedTuple

from mslang.ir.arith import linear
from mslang.ir.arith.linear import Interval
from mslang.ir.arith.size import Poly
from mslang.ir.arith.write import write
from mslang.ir.expr import FALSE, TRUE, Binary, Const, Expr
from mslang.ir.visit import conjuncts, free_vars, loads_of, map_expr
from mslang.kernel.nodes import Body, For, If, Let
from mslang.kernel.visit import bodies, map_deep, walk
from mslang.lower.analysis import indexes, trips, work
from mslang.lower.fold import step

_MINOR = 8
"""Guards of less than this part of a body's work are not worth copies of it."""

_MOST = 32
"""Rows of a tile that may have a nest each."""


class Remainder(NamedTuple):
    """What guards compare rows of a tile with.

    `left`: how many rows run; `rows`: the least and the greatest row, both 0 where guards are on no row; `guards`: each
    guard, and the row that it compares.
    """

    left: Expr
    rows: Interval
    guards: Mapping[Binary, Expr]


def remainder_of(body: Body, registers: frozenset[str]) -> Remainder | None:
    """The remainder that guards in loops of a body compare written-out rows with, and that does not change in it.

    None where there is none worth copies of the body. Of several, it is that of the fewest rows. Guards that compare
    numbers are for cuts.

    Args:
        body: statements of a nest.
        registers: buffers of which each index is to be a number: loops over them are written out.
    """
    found: dict[Poly, list[_Guard]] = {}
    for guard in _guards(body, _names(body, registers)):
        found.setdefault(guard.left, []).append(guard)
    return next((r for left, guards in sorted(found.items(), key=_span) if (r := _worth(left, guards, body))), None)


def _span(each: tuple[Poly, list[_Guard]]) -> int:
    first, last = _rows(each[1])
    return last - first


def _rows(guards: list[_Guard]) -> Interval:
    return min(g.rows[0] for g in guards), max(g.rows[1] for g in guards)


def _worth(left: Poly, guards: list[_Guard], body: Body) -> Remainder | None:
    """The remainder of guards, if loops evaluate enough of them."""
    written, rows = write(left), _rows(guards)
    amount = sum(g.amount for g in guards if g.repeated)
    if written is None or amount * _MINOR < work(body) or rows[1] - rows[0] >= _MOST:
        return None
    return Remainder(written, rows, {g.text: g.row for g in guards})


def by_number(rows: Interval) -> list[Interval]:
    """Ranges of how many rows are left, of which each has a nest: none, each number of them, all of the tile."""
    first, last = rows
    return [(n, n) for n in range(first, last + 2)]


def by_part(rows: Interval) -> list[Interval]:
    """As `by_number`, but one nest for all numbers between none and all; in it the guards stay."""
    first, last = rows
    return [(first, first), *([(first + 1, last)] if first < last else []), (last + 1, last + 1)]


def with_left(body: Body, remainder: Remainder, between: Interval) -> Body:
    """The body where the number of rows that are left is in a range."""
    (first, last), (low, high) = remainder.rows, between
    if low < high:
        return body

    def change(e: Expr) -> Expr | None:
        row = remainder.guards.get(e) if isinstance(e, Binary) else None
        if row is None:
            return step(e)
        return TRUE if low > last else FALSE if low <= first else Binary("<", row, Const(low))

    return map_deep(body, lambda e: map_expr(e, change))


class _Guard(NamedTuple):
    """`row < left` as it is written, the values of the row, about how many statements wait for it, and whether it is
    evaluated repeatedly, in a loop of which it does not depend."""

    text: Binary
    row: Expr
    left: Poly
    rows: Interval
    amount: int
    repeated: bool


class _Names(NamedTuple):
    """What a body binds: `rows`, the values of variables of loops that are written out; `others`, the other names."""

    rows: Mapping[str, Interval]
    others: frozenset[str]
    registers: frozenset[str]


def _names(body: Body, registers: frozenset[str]) -> _Names:
    """A name that several loops bind has the values of all of them: a guard is replaced wherever it stands."""
    rows: dict[str, Interval] = {}
    others: set[str] = set()
    for s in walk(body):
        match s:
            case For(var=name, start=Const(value=start), extent=Const(value=extent)) if _written_out(s, registers):
                first, last = int(start), int(start) + int(extent) - 1
                known = rows.get(name, (first, last))
                rows[name] = min(first, known[0]), max(last, known[1])
            case For(var=name) | Let(name=name):
                others.add(name)
    return _Names({name: r for name, r in rows.items() if name not in others}, frozenset(others), registers)


def _written_out(s: For, registers: frozenset[str]) -> bool:
    return s.kind == "unrolled" or (s.kind != "vectorized" and indexes(s, registers))


def _guards(body: Body, names: _Names, times: int = 1, repeated: bool = False) -> Iterator[_Guard]:
    """The guards in a body that runs so many times, in a loop that stays one or not."""
    for s in body:
        match s:
            case If(condition=c):
                amount = times * (work(s.then) + work(s.otherwise))
                for part in conjuncts(c):
                    if isinstance(part, Binary) and (guard := _guard(part, amount, names, repeated)) is not None:
                        yield guard
                inner = times, repeated
            case For():
                stays = s.kind != "vectorized" and not _written_out(s, names.registers)
                inner = times * trips(s), repeated or stays
            case _:
                inner = times, repeated
        for b in bodies(s):
            yield from _guards(b, names, *inner)


def _guard(e: Binary, amount: int, names: _Names, repeated: bool) -> _Guard | None:
    variables = free_vars(e)
    if e.op != "<" or loads_of(e) or variables & names.others or linear.condition(e) is not None:
        return None
    form = linear.symbolic(Binary("-", e.left, e.right), frozenset(variables & names.rows.keys()))
    terms = None if form is None else {name: write(k) for name, k in form.terms.items()}
    if form is None or terms is None:
        return None
    row = linear.Linear(0, {name: int(k.value) for name, k in terms.items() if isinstance(k, Const)})
    values = linear.interval(row, names.rows)
    if len(row.terms) < len(terms) or values is None:
        return None
    return _Guard(e, linear.expression(row), form.constant * -1, values, amount, repeated)
