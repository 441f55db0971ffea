"""Decisions that bounds tie together, numbered: only the vectors of values that keep the bounds have numbers.

The decisions are looked at one after the other. What the bounds need to know of those before is a *state*: the partial
product of each term. Values of a decision that contribute the same are one class; a state and a class make a transition
to a state of the next decision, and each state has so many ways to be completed. A number is read off these counts
from the first decision to the last, as a word is found in a dictionary.

Source: counting and unranking by dynamic programming (Nijenhuis, Wilf: Combinatorial Algorithms, chapter 13).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import lcm, prod
from typing import TYPE_CHECKING

import msgspec
from msgspec.structs import replace

from mslang.ir.arith import compile_arrays
from mslang.schedule.batch.random_words import mixed
from mslang.search.bounds import Bound, Term

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Integers = NDArray[np.int64]

MOST = 1 << 21
"""States times classes of one decision that are looked at: 2 million take half a second."""

LARGE = 1 << 63
"""From here on integers do not fit into arrays."""


class _Values(msgspec.Struct, frozen=True, eq=False):
    """The values of a decision: those of each class one after the other in `table`, of shape (values, columns)."""

    columns: slice
    table: Integers
    start: Integers
    size: Integers


class _Step(msgspec.Struct, frozen=True, eq=False):
    """The transitions at one decision, those of each state together.

    For each transition its class, the next state, its ways (how often that state's), and the sum of the ways of the
    transitions before it; for each state where its transitions begin, the end of the last included, and the sum of the
    ways before its first.
    """

    values: _Values
    chosen: Integers
    following: Integers
    each: Integers
    before: Integers
    edges: Integers
    first: Integers


class Bounded(msgspec.Struct, frozen=True, eq=False):
    """The vectors of values of some decisions that keep some bounds; `bounded` makes it."""

    steps: tuple[_Step, ...]
    count: int

    def fill(self, number: Integers, out: Integers) -> None:
        """Write the vectors of some numbers in `range(count)` to their columns of an array."""
        import numpy as np

        state = np.zeros(len(number), np.int64)
        left = number
        for step in self.steps:
            place = step.first[state] + left
            at = np.searchsorted(step.before, place, side="right") - 1
            left = place - step.before[at]
            each = step.each[at]
            member = left // each
            left = left - member * each
            values = step.values
            out[:, values.columns] = values.table[values.start[step.chosen[at]] + member]
            state = step.following[at]

    def ranges(self, n: int) -> Integers:
        """Where the ranges of numbers begin in which the first `n` decisions have the same values, in ascending order.

        The decisions in their order are those that were to be first, then the others.
        """
        import numpy as np

        start, state = np.zeros(1, np.int64), np.zeros(1, np.int64)
        for step in self.steps[:n]:
            of, k = _expanded(step.edges[state + 1] - step.edges[state])
            at = step.edges[state[of]] + k
            start = start[of] + step.before[at] - step.first[state[of]]
            of, member = _expanded(np.where(step.each[at] > 0, step.values.size[step.chosen[at]], 0))
            start, state = start[of] + member * step.each[at[of]], step.following[at[of]]
        return start


def _expanded(counts: Integers) -> tuple[Integers, Integers]:
    """For each of `counts[k]` elements of each `k` the `k`, and which of its elements it is."""
    import numpy as np

    of = np.repeat(np.arange(len(counts)), counts)
    return of, np.arange(len(of)) - np.repeat(np.cumsum(counts) - counts, counts)


def bounded(
    tables: Mapping[str, tuple[slice, Integers]], bounds: Sequence[Bound], largest: int, first: Sequence[str] = ()
) -> Bounded | None:
    """The vectors of values of some decisions that keep some bounds, by number.

    Args:
        tables: the columns of each decision, and its values, of shape (values, columns).
        bounds: the bounds, which mention no other decisions.
        largest: counts from this on are not made.
        first: the decisions of which vectors with the same values have adjacent numbers.

    Returns:
        None where there are too many states, or too many vectors.
    """
    terms = [t for b in bounds for t in b.terms]
    given = {a: _contributions(a, table, terms) for a, (_, table) in tables.items()}
    classes = {a: _classes(*tables[a], found) for a, found in given.items()}
    order = _order({a: len(found[1]) for a, found in classes.items()}, bounds, first)
    levels = _levels([(a, classes[a][1]) for a in order], _with_limits(bounds, given))
    return None if levels is None else _counted([classes[a][0] for a in order], levels, largest)


def _order(classes: Mapping[str, int], bounds: Sequence[Bound], first: Sequence[str]) -> list[str]:
    """The decisions, after those that are to be first those of most classes last: that makes the fewest transitions.

    Those that only divide something follow what they divide, so that this is settled at once.
    """
    dividing = {b.terms[1].parts[0][0]: b for b in bounds if b.kind == "multiple" and len(b.terms[1].parts) == 1}
    for b in bounds:
        for a in b.addresses & dividing.keys():
            if dividing[a] != b or a in first:
                del dividing[a]
    rest = classes.keys() - dividing.keys() - set(first)
    out = [*first, *sorted(rest, key=lambda a: (classes[a], a))]
    for a, b in dividing.items():
        last = max((out.index(x) for x in b.addresses if x in out), default=-1)
        out.insert(last + 1, a)
    return out


def _contributions(address: str, table: Integers, terms: Sequence[Term]) -> Integers:
    """What each value of a decision contributes to each term, of shape (values, terms)."""
    import numpy as np

    columns = {f"{address}[{k}]": table[:, k] for k in range(table.shape[1])} | {address: table[:, 0]}
    out = np.ones((len(table), len(terms)), np.int64)
    for k, t in enumerate(terms):
        part = dict(t.parts).get(address)
        if part is not None:
            out[:, k] = compile_arrays([part])(columns)[0]
    return out


def _classes(columns: slice, table: Integers, given: Integers) -> tuple[_Values, Integers]:
    """The values of a decision by class, and what each class contributes."""
    import numpy as np

    unique, of, size = np.unique(given, axis=0, return_inverse=True, return_counts=True)
    order = np.argsort(of.ravel(), kind="stable")
    start = np.concatenate([[0], np.cumsum(size)[:-1]]).astype(np.int64)
    return _Values(columns, np.asfortranarray(table[order]), start, size.astype(np.int64)), unique


_Level = tuple["Integers", "Integers", "Integers", int]
"""Of the transitions: their states, classes and next states, sorted by state; and how many next states there are."""


def _levels(classes: Sequence[tuple[str, Integers]], bounds: Sequence[Bound]) -> list[_Level] | None:
    """The transitions at each decision that may be completed; None where there are too many."""
    import numpy as np

    states = np.ones((1, classes[0][1].shape[1]), np.int64)
    out: list[_Level] = []
    for k, (_, own) in enumerate(classes):
        if len(states) * len(own) > MOST:
            return None
        left = frozenset(a for a, _ in classes[k + 1 :])
        rest = [c for _, c in classes[k + 1 :]]
        low = np.prod([c.min(axis=0) for c in rest], axis=0, dtype=np.float64)
        high = np.prod([c.max(axis=0) for c in rest], axis=0, dtype=np.float64)
        made = (states[:, None, :] * own[None, :, :]).reshape(-1, own.shape[1])
        possible, made = _within(made, low, high, bounds, left)
        at = np.flatnonzero(possible)
        keys, first, following = np.unique(_keys(made[at]), return_index=True, return_inverse=True)
        states = made[at][first]
        out.append((at // len(own), at % len(own), following.ravel().astype(np.int64), len(keys)))
    return out


def _within(
    made: Integers,
    low: NDArray[np.float64],
    high: NDArray[np.float64],
    bounds: Sequence[Bound],
    left: frozenset[str],
) -> tuple[NDArray[np.bool_], Integers]:
    """Which partial products may be completed within the bounds, and the products, with what bounds need of them.

    `low` and `high` are the smallest and the largest product of what the decisions that are left contribute. The terms
    of a bound that every completion keeps are set to 0, so that states that differ in no other are one.
    """
    import numpy as np

    possible = np.ones(len(made), np.bool_)
    low, high = (np.broadcast_to(x, made.shape[1:]) for x in (low, high))
    at = 0
    for b in bounds:
        mine = slice(at, at + len(b.terms))
        at += len(b.terms)
        part = made[:, mine]
        settled = ~part.any(axis=1)
        if b.kind == "multiple":
            kept, broken = _divided(part, b, unfinished=bool(b.addresses & left))
        else:
            factors = np.asarray([t.coefficient for t in b.terms], np.float64)
            least, most = part @ (factors * low[mine]), part @ (factors * high[mine])
            kept, broken = (
                (least >= b.limit, most < b.limit) if b.kind == "least" else (most <= b.limit, least > b.limit)
            )
        possible &= settled | ~broken
        made[kept | settled, mine] = 0
    return possible, made


def _divided(part: Integers, bound: Bound, *, unfinished: bool) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
    """Where the second of two terms divides the first, and where not; neither while decisions are left.

    Until then only what of the first the `limit`, a multiple of all second ones, has in common with it is kept, unless
    that multiple is too large for arrays.
    """
    import numpy as np

    if unfinished:
        if bound.limit < LARGE:
            part[:, 0] = np.gcd(part[:, 0], bound.limit)
        none = np.zeros(len(part), np.bool_)
        return none, none
    whole, divisor = (part[:, k] * bound.terms[k].coefficient for k in (0, 1))
    divides = whole % np.maximum(divisor, 1) == 0
    return divides, ~divides


def _with_limits(bounds: Sequence[Bound], given: Mapping[str, Integers]) -> list[Bound]:
    """The bounds; as the limit of one that says what divides something, a multiple of all possible divisors."""
    import numpy as np

    out: list[Bound] = []
    at = 0
    for b in bounds:
        if b.kind == "multiple":
            divisor = b.terms[1]
            found = prod(lcm(*np.unique(given[a][:, at + 1]).tolist()) for a, _ in divisor.parts)
            b = replace(b, limit=divisor.coefficient * found)
        out.append(b)
        at += len(b.terms)
    return out


def _keys(rows: Integers) -> NDArray[np.uint64]:
    """A word for each row; those of different rows are equal with a probability of 2**-64."""
    import numpy as np

    out = np.zeros(len(rows), np.uint64)
    for k in range(rows.shape[1]):
        out = mixed(out ^ (rows[:, k].view(np.uint64) + np.uint64(k + 1)))
    return out


def _counted(values: Sequence[_Values], levels: Sequence[_Level], largest: int) -> Bounded | None:
    """The steps with their counts, from the last decision to the first."""
    import numpy as np

    steps: list[_Step] = []
    ways = np.ones(levels[-1][3], np.int64)
    for of, (state, chosen, following, _), states in zip(
        reversed(values), reversed(levels), reversed([1, *(level[3] for level in levels[:-1])]), strict=True
    ):
        each = ways[following]
        if float(of.size[chosen].astype(np.float64) @ each) >= largest:
            return None
        whole = of.size[chosen] * each
        ends = np.cumsum(whole)
        before = ends - whole
        edges = np.searchsorted(state, np.arange(states + 1))
        total = np.concatenate([before, ends[-1:] if len(ends) else np.zeros(1, np.int64)])
        first = total[edges]
        ways = first[1:] - first[:-1]
        steps.append(_Step(of, chosen, following, each, before, edges, first[:-1]))
    return Bounded(tuple(reversed(steps)), int(ways[0]))
