"""The values of a decision with their neighbours, as tables: what `distribution.neighbours` gives, built once."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import permutations
from typing import TYPE_CHECKING

import msgspec

from mslang.ir.arith import factorings
from mslang.ir.expr import Choice, FreeTile, PartitionedTile, PerfectTile, Uniform
from mslang.schedule import distribution
from mslang.schedule.batch.random_words import below, mixed
from mslang.schedule.decisions import Decision
from mslang.search.numbering import values_of

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Integers = NDArray[np.int64]
    Words = NDArray[np.uint64]

MOST_FREE = 2048
"""Free tiles of more values have no table: their neighbours are found one by one."""


class Neighbours(msgspec.Struct, frozen=True, eq=False):
    """A table of values, of shape (values, columns), and of the neighbours of each, by number.

    The neighbours of value `k` are `others[starts[k]:starts[k + 1]]`. Values are found by `keys`, which are sorted, and
    `order`, the number of the value with each key.
    """

    values: Integers
    starts: Integers
    others: Integers
    keys: Words
    order: Integers

    def find(self, numbers: Integers) -> Integers:
        """The number of the value in each row, of shape (rows, columns); all rows must hold values of the table."""
        import numpy as np

        found: Integers = self.order[np.searchsorted(self.keys, _keys(numbers))]
        return found

    def step(self, numbers: Integers, words: Words) -> Integers:
        """A random neighbour of the value in each row; the value itself where there is none."""
        import numpy as np

        at = self.find(numbers)
        start = self.starts[at]
        degree = self.starts[at + 1] - start
        chosen = start + below(words, np.maximum(degree, 1))
        to = np.where(degree > 0, self.others[np.minimum(chosen, len(self.others) - 1)] if len(self.others) else at, at)
        return self.values[to]

    def another(self, numbers: Integers, words: Words) -> Integers:
        """A random other value for each row; the value itself where there is only one."""
        n = len(self.values)
        if n < 2:
            return numbers
        found: Integers = self.values[(self.find(numbers) + 1 + below(words, n - 1)) % n]
        return found


def neighbours_of(decision: Decision) -> Neighbours | None:
    """The neighbours of a decision's values; None if it depends on others, is pinned, or has too many values."""
    import numpy as np

    domain = decision.domain
    if decision.given is not None or distribution.depends_on(domain):
        return None
    values = values_of(decision)
    if values is None or not len(values) or (isinstance(domain, FreeTile) and len(values) > MOST_FREE):
        return None
    keys = _keys(values)
    order = np.argsort(keys, kind="stable")
    bare = Neighbours(values, np.zeros(0, np.int64), np.zeros(0, np.int64), keys[order], order)
    pairs = list(_pairs(decision, bare))
    sources = np.concatenate([p[0] for p in pairs]) if pairs else np.zeros(0, np.int64)
    others = np.concatenate([p[1] for p in pairs]) if pairs else np.zeros(0, np.int64)
    both = np.unique(sources * np.int64(len(values)) + others)
    sources, others = both // len(values), both % len(values)
    starts = np.searchsorted(sources, np.arange(len(values) + 1))
    return msgspec.structs.replace(bare, starts=starts, others=others)


def _pairs(decision: Decision, table: Neighbours) -> Iterator[tuple[Integers, Integers]]:
    """Numbers of values, and of a neighbour of each."""
    import numpy as np

    values = table.values
    match decision.domain:
        case PerfectTile(n=n) | PartitionedTile(n=n) as domain:
            extent = distribution.known_extent(domain, {})
            for x, y in permutations(range(n), 2):
                for p, _ in factorings.primes(extent):
                    at = np.flatnonzero(values[:, x] % p == 0)
                    moved = values[at]
                    moved[:, x] //= p
                    moved[:, y] *= p
                    there = _has(table, moved)
                    yield at[there], table.find(moved[there])
        case Choice() | Uniform():
            order = np.argsort(values[:, 0], kind="stable")
            yield order[:-1], order[1:]
            yield order[1:], order[:-1]
        case FreeTile() as domain:
            for k, row in enumerate(values.tolist()):
                moved = np.asarray(list(distribution.neighbours(domain, tuple(row), {})), np.int64)
                if len(moved):
                    yield np.full(len(moved), k), table.find(moved)


def _has(table: Neighbours, rows: Integers) -> NDArray[np.bool_]:
    """Whether rows are values of a table."""
    import numpy as np

    keys = _keys(rows)
    at = np.minimum(np.searchsorted(table.keys, keys), len(table.keys) - 1)
    found: NDArray[np.bool_] = table.keys[at] == keys
    return found


def _keys(rows: Integers) -> Words:
    """A key for each row, which different values share with a probability of 2**-64 only."""
    import numpy as np

    out = np.zeros(len(rows), np.uint64)
    for k in range(rows.shape[1]):
        out = mixed(out) + rows[:, k].astype(np.uint64)
    return out
