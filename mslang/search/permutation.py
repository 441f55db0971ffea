"""Permutations of whole numbers keyed by a seed: the points of a space in a random order, without a table.

The n-th element is computed of n alone. So draws are distinct without a set of what was drawn, do not depend on who
draws them, and continue from one counter.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import isqrt
from typing import TYPE_CHECKING

import msgspec

from mslang.schedule.batch.random_words import mixed
from mslang.schedule.seeds import derive

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Words = np.uint64 | NDArray[np.uint64]

ROUNDS = 4
"""Rounds of the Feistel network: four of random functions are a pseudorandom permutation (Luby, Rackoff 1988)."""

LARGEST = 1 << 62
"""Permutations are of fewer numbers than this."""


class Permutation(msgspec.Struct, frozen=True):
    """A permutation of `range(count)`.

    A number is a pair `(left, right)` of `range(a) × range(b)` with `a·b` barely above `count`; each round adds a
    random function of one half to the other. What falls outside of `range(count)` is permuted again (cycle walking).

    Source: Black, Rogaway: Ciphers with arbitrary finite domains, CT-RSA 2002 (generalized Feistel).

    Args:
        count: how many numbers, below 2**62.
        seed: another seed gives another permutation.

    Example:
        >>> import numpy as np
        >>> sorted(Permutation(10, seed=1)(np.arange(10)).tolist())
        [0, 1, 2, 3, 4, 5, 6, 7, 8, 9]
    """

    count: int
    seed: int

    def __post_init__(self) -> None:
        """Check the range."""
        if not 0 <= self.count < LARGEST:
            raise ValueError(f"no permutation of {self.count} numbers")

    def __call__(self, numbers: NDArray[np.int64]) -> NDArray[np.int64]:
        """The elements at some places of the order, all in `range(count)`."""
        import numpy as np

        a, b = _sides(self.count)
        keys = [np.uint64(key) for key in _keys(self.seed)]
        return _walked(numbers, np.uint64(self.count), np.uint64(a), np.uint64(b), keys)


class Permutations:
    """A permutation of `range(counts[k])` for each `k`; the first is `Permutation(counts[0], seed)`.

    Args:
        counts: of how many numbers each is, below 2**62.
        seed: another seed gives other permutations.

    Example:
        >>> which, numbers = np.array([0, 0, 1, 1, 1]), np.array([0, 1, 0, 1, 2])
        >>> Permutations(np.array([2, 3]), seed=1)(which, numbers)
        array([1, 0, 2, 0, 1])
    """

    def __init__(self, counts: NDArray[np.int64], seed: int) -> None:
        import numpy as np

        self._counts = counts.astype(np.uint64)
        sides = np.asarray([_sides(n) for n in counts.tolist()], np.uint64).reshape(len(counts), 2)
        self._a, self._b = sides[:, 0].copy(), sides[:, 1].copy()
        own = mixed(np.arange(len(counts), dtype=np.uint64))
        self._keys: list[NDArray[np.uint64]] = [own + np.uint64(key) for key in _keys(seed)]

    def __call__(self, which: NDArray[np.int64], numbers: NDArray[np.int64]) -> NDArray[np.int64]:
        """The elements at some places of the orders of some of the permutations, row by row."""
        if len(self._counts) == 1:
            return _walked(numbers, self._counts[0], self._a[0], self._b[0], [k[0] for k in self._keys])
        keys = [k[which] for k in self._keys]
        return _walked(numbers, self._counts[which], self._a[which], self._b[which], keys)


def _sides(count: int) -> tuple[int, int]:
    """`a` and `b`, whose product is barely above `count`."""
    a = max(isqrt(count), 1)
    return a, -(-max(count, 1) // a)


def _keys(seed: int) -> list[int]:
    """The key of each round."""
    return [derive(seed, "permutation", k) for k in range(ROUNDS)]


def _walked(numbers: NDArray[np.int64], count: Words, a: Words, b: Words, keys: Sequence[Words]) -> NDArray[np.int64]:
    """The elements at some places of the order; what determines it is for all places the same, or an array."""
    import numpy as np

    out = _once(numbers.astype(np.uint64), a, b, keys)
    outside = np.flatnonzero(out >= count)
    while len(outside):
        own = [x[outside] if isinstance(x, np.ndarray) else x for x in (count, a, b, *keys)]
        out[outside] = _once(out[outside], own[1], own[2], own[3:])
        outside = outside[out[outside] >= own[0]]
    return out.view(np.int64)


def _once(numbers: NDArray[np.uint64], a: Words, b: Words, keys: Sequence[Words]) -> NDArray[np.uint64]:
    left = numbers // b
    right = numbers - left * b
    for k, key in enumerate(keys):
        if k % 2:
            right = _added(right, left, key, b)
        else:
            left = _added(left, right, key, a)
    return left * b + right


def _added(x: NDArray[np.uint64], other: NDArray[np.uint64], key: Words, bound: Words) -> NDArray[np.uint64]:
    """`x` plus a random function of `other`, modulo `bound` (below 2**32)."""
    import numpy as np

    words = (other + key) * np.uint64(0xBF58476D1CE4E5B9)
    words ^= words >> np.uint64(32)
    words *= np.uint64(0x94D049BB133111EB)
    words >>= np.uint64(32)
    words *= bound
    words >>= np.uint64(32)
    words += x
    out: NDArray[np.uint64] = np.minimum(words, words - bound)  # what is less than `bound` wraps around
    return out
