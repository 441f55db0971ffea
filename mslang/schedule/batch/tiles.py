"""Tiles as arrays: all values of a perfect or partitioned tile in one table, and draws of tiles too large for one."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from itertools import combinations, pairwise
from math import comb
from typing import TYPE_CHECKING

from mslang.caching import cached
from mslang.ir.arith import factorings
from mslang.ir.expr import PartitionedTile, PerfectTile
from mslang.schedule.batch.random_words import Stream, below, chosen, thresholds

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Integers = NDArray[np.int64]
    Words = NDArray[np.uint64]

TABLE = 1 << 16
"""Tiles with at most this many factorings are drawn from a table of all values."""
KEPT = 1 << 26
"""So many bytes of tables are kept."""

Perfect = PerfectTile | PartitionedTile


def _bytes(found: Integers | None, domain: Perfect, extent: int) -> int:
    return 64 if found is None else found.nbytes + 64


@cached(KEPT, _bytes)
def table(domain: Perfect, extent: int) -> Integers | None:
    """Every value of a tile of an extent in lexicographic order, of shape (values, factors).

    None if there are more than `TABLE` factorings.
    """
    import numpy as np

    if factorings.count(extent, domain.n) > TABLE:
        return None
    rows = np.ones((1, domain.n), np.int64)
    for p, exponent in factorings.primes(extent):
        powers = np.asarray([[p**k for k in ks] for ks in _spreads(exponent, domain.n)], np.int64)
        rows = (rows[:, None, :] * powers[None, :, :]).reshape(-1, domain.n)
    rows = rows[_allowed(domain, rows)]
    return rows[np.lexsort(rows.T[::-1])]


def _allowed(domain: Perfect, rows: Integers) -> NDArray[np.bool_]:
    import numpy as np

    match domain:
        case PartitionedTile(at=at, factor=factor):
            return np.asarray(rows[:, at:].prod(axis=1) % factor == 0)
        case PerfectTile(max_inner=int(cap)):
            return np.asarray(rows[:, -1] <= cap)
    return np.ones(len(rows), np.bool_)


def _spreads(exponent: int, n: int) -> Sequence[tuple[int, ...]]:
    """Every way to distribute an exponent over `n` positions."""
    ends = ((-1, *bars, exponent + n - 1) for bars in combinations(range(exponent + n - 1), n - 1))
    return [tuple(b - a - 1 for a, b in pairwise(e)) for e in ends]


def draw(domain: Perfect, extent: int, stream: Stream) -> Integers:
    """Uniformly drawn values, one a row of the stream, of shape (rows, factors); zeros if there is none."""
    import numpy as np

    all_of_them = table(domain, extent)
    if all_of_them is None:
        return _drawn(domain, extent, stream)
    if not len(all_of_them):
        return np.zeros((len(stream), domain.n), np.int64)
    return all_of_them[below(stream.words(), len(all_of_them))]


# ------------------------------------------------------------------ too large for a table
def _drawn(domain: Perfect, extent: int, stream: Stream) -> Integers:
    """As `factorings.draw`, but what a cap or a partition decides is drawn first, then each part freely."""
    import numpy as np

    match domain:
        case PartitionedTile(n=n, at=at, factor=factor):
            inner = [d for d in factorings.divisors(extent) if d % factor == 0 and (at > 0 or d == extent)]
            ways = [_count(extent // d, at) * factorings.count(d, n - at) for d in inner]
            size = _divisor(inner, ways, stream)
            if size is None:
                return np.zeros((len(stream), n), np.int64)
            head = _spread(extent, extent // size, at, stream, "head")
            return np.concatenate([head, _spread(extent, size, n - at, stream, "tail")], axis=1)
        case PerfectTile(n=n, max_inner=cap):
            if cap is None or cap >= extent:
                return _spread(extent, np.full(len(stream), extent), n, stream, "all")
            last = [d for d in factorings.divisors(extent) if d <= cap]
            size = _divisor(last, [_count(extent // d, n - 1) for d in last], stream)
            if size is None:
                return np.zeros((len(stream), n), np.int64)
            return np.concatenate([_spread(extent, extent // size, n - 1, stream, "all"), size[:, None]], axis=1)


def _count(extent: int, n: int) -> int:
    return factorings.count(extent, n) if n else int(extent == 1)


def _divisor(divisors: Sequence[int], ways: Sequence[int], stream: Stream) -> Integers | None:
    """A divisor for each row, drawn by the number of factorings that it leaves."""
    import numpy as np

    possible = [(d, w) for d, w in zip(divisors, ways, strict=True) if w]
    if not possible:
        return None
    limits = thresholds([w for _, w in possible])
    return np.asarray([d for d, _ in possible], np.int64)[chosen(stream.words("divisor"), limits)]


def _spread(extent: int, sizes: Integers, n: int, stream: Stream, part: str) -> Integers:
    """Factorings of divisors of an extent, one a row, all of one divisor equally likely: each prime's exponent is
    distributed over the positions, from the first on, by the number of ways that are left."""
    import numpy as np

    factors = np.ones((len(sizes), n), np.int64)
    for p, most in factorings.primes(extent):
        left = _exponents(sizes, p, most)
        for k in range(n):
            here = left if k == n - 1 else _first(left, most, n - k, stream.words(part, p, k))
            factors[:, k] *= np.asarray([p**e for e in range(most + 1)], np.int64)[here]
            left = left - here
    return factors


def _exponents(sizes: Integers, p: int, most: int) -> Integers:
    import numpy as np

    found = np.zeros(len(sizes), np.int64)
    for k in range(1, most + 1):
        found += sizes % p**k == 0
    return found


def _first(left: Integers, most: int, n: int, words: Words) -> Integers:
    """The exponent at the first of `n` positions, where `left` is to be distributed over them."""
    import numpy as np

    limits = _first_limits(most, n)
    found = np.zeros(len(left), np.int64)
    for k in range(most):
        found += (k < left) & (words >= limits[left, k])
    return found


@lru_cache(maxsize=256)
def _first_limits(most: int, n: int) -> Words:
    """Row `e`: the thresholds among 0 to `e` at the first of `n` positions that share the exponent `e`."""
    import numpy as np

    limits = np.zeros((most + 1, most), np.uint64)
    for e in range(1, most + 1):
        limits[e, :e] = thresholds([comb(e - k + n - 2, n - 2) for k in range(e + 1)])
    return limits
