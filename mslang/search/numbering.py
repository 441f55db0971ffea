"""The decision vectors of a sketch by number: mixed radix over decisions that are independent of each other.

Tiles whose extents depend on other decisions are counted: their vectors are numbered one after the other for each value
of what they depend on. Of decisions that bounds tie together only the vectors within the bounds have numbers. Vectors
with the same values of the decisions that have weights are adjacent (`mslang.search.strata`).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from math import prod
from typing import TYPE_CHECKING, Protocol

import msgspec
from msgspec.structs import replace

from mslang.ir.arith.convert import read_decision
from mslang.ir.arith.table import all_values
from mslang.ir.expr import Choice, Const, Domain, FreeTile, PartitionedTile, PerfectTile, Uniform
from mslang.schedule import distribution
from mslang.schedule.batch import tiles
from mslang.schedule.batch.draw import extents_of
from mslang.schedule.batch.layout import DecisionBatch, Layout, empty, layout_of
from mslang.schedule.decisions import Decision
from mslang.schedule.distribution import Tile
from mslang.search.bounded import Bounded, bounded
from mslang.search.bounds import Bound, relaxed
from mslang.search.permutation import LARGEST
from mslang.search.strata import MOST, Strata, combined, of_weights
from mslang.search.weights import is_weighted, strata_of, weights_of

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Integers = NDArray[np.int64]

TABLE = 1 << 18
"""Domains with more values than this are not numbered."""


class _Digit(Protocol):
    """Some decisions that depend on no others, and how many vectors of values they have."""

    @property
    def count(self) -> int:
        """How many."""

    def fill(self, number: Integers, out: Integers) -> None:
        """Write the vectors of these numbers to their columns of an array of shape (rows, columns of the layout)."""


class Numbering(msgspec.Struct, frozen=True):
    """The decision vectors of a sketch, numbered from 0 to `count - 1`; those that guards or constraints reject too,
    apart from the bounds that were given.

    `strata`: parts of the numbers in which all vectors have the same probability by the distributions of the decisions;
    None if these are not known, or too many.
    """

    layout: Layout
    digits: tuple[_Digit, ...]
    strata: Strata | None

    @property
    def count(self) -> int:
        """How many there are."""
        return prod(d.count for d in self.digits)

    def rows(self, numbers: Integers) -> DecisionBatch:
        """The vectors of some numbers in `range(count)`."""
        import numpy as np

        out = empty(self.layout, len(numbers))
        left = numbers
        for k, digit in enumerate(self.digits):
            if k == len(self.digits) - 1:
                digit.fill(left, out.array)
                break
            rest = left // np.int64(digit.count)
            digit.fill(left - rest * np.int64(digit.count), out.array)
            left = rest
        return out


def numbering_of(decisions: Sequence[Decision], bounds: Sequence[Bound] = ()) -> Numbering | None:
    """The numbering of the vectors of some decisions; None where their number is not known, or is too large.

    Args:
        decisions: the numeric decisions of a sketch, in their order.
        bounds: conditions that vectors which have a number must keep; those that would make too large a table, or
            mention decisions that depend on others, are not looked at.
    """
    layout = layout_of(decisions)
    by_address = {d.address: d for d in decisions}
    alone: dict[str, _Alone] = {}
    digits: list[tuple[_Digit, Strata | None]] = []
    for group in groups(decisions):
        digit: _Alone | _Dependent | None = _alone(group[0], layout) if len(group) == 1 else _dependent(group, layout)
        match digit:
            case None:
                return None
            case _Alone():
                alone[group[0].address] = digit
            case _Dependent():
                digits.append((digit, _strata_of_dependent(digit, group, layout)))
    for joined in _joined([b for b in bounds if b.addresses <= alone.keys()]):
        found = _bounded(alone, by_address, joined, layout)
        if found is not None:
            addresses, tied, strata = found
            digits.append((tied, strata))
            alone = {a: x for a, x in alone.items() if a not in addresses}
    digits += ((x, _strata_of_alone(by_address[a], x)) for a, x in alone.items())
    if prod(d.count for d, _ in digits) >= LARGEST:
        return None
    known = [(d, s) for d, s in digits if s is not None]
    if len(known) < len(digits):
        return Numbering(layout, tuple(d for d, _ in digits), None)
    known.sort(key=lambda x: len(x[1]) > 1)  # so strata are single ranges where that can be
    return Numbering(layout, tuple(d for d, _ in known), combined([s for _, s in known]))


def _joined(bounds: Sequence[Bound]) -> list[list[Bound]]:
    """The bounds, those that mention a decision in common together, in their order."""
    found: list[list[Bound]] = []
    for b in bounds:
        common = [g for g in found if any(b.addresses & x.addresses for x in g)]
        found = [g for g in found if all(g is not c for c in common)]
        found.append([*(x for g in common for x in g), b])
    return found


def _bounded(
    alone: Mapping[str, _Alone], decisions: Mapping[str, Decision], bounds: Sequence[Bound], layout: Layout
) -> tuple[frozenset[str], Bounded, Strata | None] | None:
    """The vectors within some bounds, and their strata; where that makes too large tables, within bounds of fewer
    terms, then within as many bounds as possible, from the first on."""
    fewer = [relaxed(b) for b in bounds]
    for some in (bounds, *(fewer[:n] for n in range(len(bounds), 0, -1))):
        addresses = frozenset().union(*(b.addresses for b in some))
        tables = {a: (x.columns, x.table) for a, x in alone.items() if a in addresses}
        if all(len(table) for _, table in tables.values()):
            weighted = [a for a, (_, table) in tables.items() if is_weighted(decisions[a], table)]
            few = prod(len(tables[a][1]) for a in weighted) <= MOST
            found = bounded(tables, some, LARGEST, weighted if few else ())
            if found is not None:
                tied = [decisions[a] for a in tables]
                return addresses, found, _strata_of_bounded(found, len(weighted), tied, layout) if few else None
    return None


def groups(decisions: Sequence[Decision]) -> Iterator[list[Decision]]:
    """The decisions, those that depend on each other together."""
    found: list[list[Decision]] = []
    for d in decisions:
        needed = distribution.depends_on(d.domain)
        joined = [g for g in found if any(x.address in needed for x in g)]
        found = [g for g in found if all(g is not j for j in joined)]
        found.append([*(x for g in joined for x in g), d])
    yield from found


# ------------------------------------------------------------------ decisions that nothing depends on
class _Alone(msgspec.Struct, frozen=True, eq=False):
    """A decision with a table of its values, of shape (values, columns)."""

    columns: slice
    table: Integers

    @property
    def count(self) -> int:
        return len(self.table)

    def fill(self, number: Integers, out: Integers) -> None:
        for k, column in enumerate(range(self.columns.start, self.columns.stop)):
            self.table[:, k].take(number, out=out[:, column], mode="clip")


def _alone(decision: Decision, layout: Layout) -> _Alone | None:
    if distribution.depends_on(decision.domain):
        return None
    table = values_of(decision)
    return None if table is None else _Alone(layout[decision.address].columns, table)


def values_of(decision: Decision, extent: int | None = None) -> Integers | None:
    """All values of a decision in a fixed order, of shape (values, columns), column by column in memory; None if there
    are too many, or if they are not known.

    Args:
        decision: the decision; one that is pinned has one value, or none.
        extent: the extent of a tile that depends on other decisions.
    """
    import numpy as np

    domain = decision.domain
    if isinstance(domain, Tile):
        known = distribution.extent_of(domain, {}) if extent is None else extent
        if known is None:
            return None
        domain = replace(domain, extent=Const(known))
    if decision.given is not None:
        kept = distribution.kept(domain, decision.given, {})
        rows = [] if kept is None else [kept[0] if isinstance(kept[0], tuple) else (kept[0],)]
        width = domain.n if isinstance(domain, Tile) else 1
        return np.asfortranarray(np.asarray(rows, np.int64).reshape(len(rows), width))
    found = _values(domain)
    return None if found is None else np.asfortranarray(found)


def _values(domain: Domain) -> Integers | None:
    import numpy as np

    match domain:
        case PerfectTile() | PartitionedTile():
            return tiles.table(domain, distribution.known_extent(domain, {}))
        case Choice():
            return np.asarray(domain.drawn, np.int64)[:, None]
        case Uniform(lo=lo, hi=hi):
            return np.arange(lo, hi)[:, None] if hi - lo <= TABLE else None
        case FreeTile(n=n):
            columns = all_values((read_decision("t", domain),))
            return None if columns is None else np.stack([columns[f"t[{k}]"] for k in range(n)], axis=1)
    raise TypeError(f"no decision has this domain: {domain!r}")


# ------------------------------------------------------------------ decisions that depend on each other
class _Leaf(msgspec.Struct, frozen=True, eq=False):
    """A decision on which no other depends: the values for each extent, one after the other.

    Of shape (values of all extents, columns); for each vector of what it depends on, where its values begin, and how
    many they are.
    """

    columns: slice
    table: Integers
    start: Integers
    count: Integers


class _Dependent(msgspec.Struct, frozen=True, eq=False):
    """Vectors of some decisions (`roots`, of shape (vectors, `columns`)), and decisions that depend on them alone.

    `ends`: the number after the last one of each vector's.
    """

    columns: tuple[int, ...]
    roots: Integers
    leaves: tuple[_Leaf, ...]
    ends: Integers

    @property
    def count(self) -> int:
        return int(self.ends[-1]) if len(self.ends) else 0

    def fill(self, number: Integers, out: Integers) -> None:
        import numpy as np

        root = np.searchsorted(self.ends, number, side="right")
        for k, column in enumerate(self.columns):
            out[:, column] = self.roots[root, k]
        left = number - np.where(root > 0, self.ends[root - 1], 0)
        for leaf in self.leaves:
            radix = leaf.count[root]
            out[:, leaf.columns] = leaf.table[leaf.start[root] + left % radix]
            left = left // radix


def _dependent(group: list[Decision], layout: Layout) -> _Dependent | None:
    import numpy as np

    needed = {a for d in group for a in distribution.depends_on(d.domain)}
    inner = [d for d in group if d.address in needed]
    if any(d.given is not None for d in inner):
        return None
    columns = all_values(tuple(read_decision(d.address, distribution.drawn(d.domain)) for d in inner))
    if columns is None:
        return None
    at = tuple(k for d in inner for k in range(layout[d.address].start, layout[d.address].columns.stop))
    roots = np.stack([columns[layout.names[k]] for k in at], axis=1)
    leaves = [_leaf(d, layout, columns, len(roots)) for d in group if d.address not in needed]
    known = [x for x in leaves if x is not None]
    if len(known) < len(leaves):
        return None
    ways = [prod(int(x.count[k]) for x in known) for k in range(len(roots))]
    if sum(ways) >= LARGEST:
        return None
    return _Dependent(at, roots, tuple(known), np.cumsum(np.asarray(ways, np.int64)))


def _leaf(decision: Decision, layout: Layout, columns: Mapping[str, Integers], n: int) -> _Leaf | None:
    import numpy as np

    domain = decision.domain
    assert isinstance(domain, Tile)
    extents = np.broadcast_to(extents_of(domain)(columns), (n,))
    tables: list[Integers] = []
    start, count, length = np.zeros(n, np.int64), np.zeros(n, np.int64), 0
    for extent in np.unique(extents).tolist():
        table = values_of(decision, extent) if extent >= 1 else np.zeros((0, domain.n), np.int64)
        if table is None:
            return None
        here = extents == extent
        start[here], count[here] = length, len(table)
        length += len(table)
        tables.append(table)
    return _Leaf(layout[decision.address].columns, np.concatenate(tables), start, count)


# ------------------------------------------------------------------ what is equally probable
def _strata_of_alone(decision: Decision, digit: _Alone) -> Strata | None:
    weights = weights_of(decision, digit.table)
    return None if weights is None else of_weights(weights)


def _strata_of_bounded(digit: Bounded, weighted: int, decisions: Sequence[Decision], layout: Layout) -> Strata | None:
    """The ranges of the vectors with the same values of the decisions with weights, which are the first ones.

    What the bounds leave of the vectors with some values is as probable as the values, times the number of the vectors.
    """
    found = strata_of(digit, digit.ranges(weighted), digit.count, decisions, layout)
    return None if found is None else replace(found, weights=found.weights * (found.sizes / digit.count))


def _strata_of_dependent(digit: _Dependent, group: Sequence[Decision], layout: Layout) -> Strata | None:
    """The ranges of the vectors with the same values of what the others depend on, if these are not too many and depend
    on nothing."""
    import numpy as np

    needed = {a for d in group for a in distribution.depends_on(d.domain)}
    if len(digit.ends) > MOST or any(distribution.depends_on(d.domain) for d in group if d.address in needed):
        return None
    return strata_of(digit, np.concatenate([[0], digit.ends[:-1]]), digit.count, group, layout)
