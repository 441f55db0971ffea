"""Permutations of whole numbers keyed by a seed: the points of a space in a random order, without a table.

The n-th element is computed of n alone. So draws are distinct without a set of what was drawn, do not depend on who
draws them, and continue from one counter.
"""

from __future__ import annotations

from math import isqrt
from typing import TYPE_CHECKING

import msgspec

from mslang.schedule.seeds import derive

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

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

        out = self._once(numbers.astype(np.uint64))
        outside = np.flatnonzero(out >= self.count)
        while len(outside):
            out[outside] = self._once(out[outside])
            outside = outside[out[outside] >= self.count]
        return out.view(np.int64)

    def _once(self, numbers: NDArray[np.uint64]) -> NDArray[np.uint64]:
        import numpy as np

        a = max(isqrt(self.count), 1)
        b = -(-max(self.count, 1) // a)
        left = numbers // np.uint64(b)
        right = numbers - left * np.uint64(b)
        for k in range(ROUNDS):
            key = np.uint64(derive(self.seed, "permutation", k))
            if k % 2:
                right = _added(right, left, key, b)
            else:
                left = _added(left, right, key, a)
        return left * np.uint64(b) + right


def _added(x: NDArray[np.uint64], other: NDArray[np.uint64], key: np.uint64, bound: int) -> NDArray[np.uint64]:
    """`x` plus a random function of `other`, modulo `bound` (below 2**32)."""
    import numpy as np

    words = (other + key) * np.uint64(0xBF58476D1CE4E5B9)
    words ^= words >> np.uint64(32)
    words *= np.uint64(0x94D049BB133111EB)
    words >>= np.uint64(32)
    words *= np.uint64(bound)
    words >>= np.uint64(32)
    words += x
    out: NDArray[np.uint64] = np.minimum(words, words - np.uint64(bound))  # what is less than `bound` wraps around
    return out
