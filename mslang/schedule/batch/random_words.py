"""Random numbers by row: the draw of a row depends on the seed, the decision's address and the row's number only.

So a batch is the same on every machine, and the same whether it is drawn at once or in parts. The words are those of
SplitMix64, with the row as the counter (Steele, Lea, Flood: Fast splittable pseudorandom number generators, OOPSLA
2014).
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from itertools import accumulate
from typing import TYPE_CHECKING

import msgspec

from mslang.schedule.seeds import derive

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Words = NDArray[np.uint64]
    Integers = NDArray[np.int64]

_STEP, _MIX_1, _MIX_2 = 0x9E3779B97F4A7C15, 0xBF58476D1CE4E5B9, 0x94D049BB133111EB


class Stream(msgspec.Struct, frozen=True, eq=False):
    """The random words of one decision in some rows, given by their numbers."""

    seed: int
    address: str
    rows: Words

    def __len__(self) -> int:
        """The number of rows."""
        return len(self.rows)

    def words(self, *path: str | int) -> Words:
        """One word of 64 bits for each row; another path gives independent words."""
        import numpy as np

        key = np.uint64(derive(self.seed, "batch", self.address, *path))
        return mixed(self.rows * np.uint64(_STEP) + key)

    def at(self, rows: Integers) -> Stream:
        """The stream of some of the rows, given by their positions."""
        return Stream(self.seed, self.address, self.rows[rows])


def mixed(words: Words) -> Words:
    """SplitMix64's mixing: one to one, and every bit of the result depends on every bit of the word."""
    import numpy as np

    words = (words ^ (words >> np.uint64(30))) * np.uint64(_MIX_1)
    words = (words ^ (words >> np.uint64(27))) * np.uint64(_MIX_2)
    return words ^ (words >> np.uint64(31))


def below(words: Words, bound: int | Integers) -> Integers:
    """Uniform integers `0 <= x < bound` from words: `floor(word · bound / 2**64)`.

    For bounds below 2**32 the probabilities of two values differ by a factor of at most 1 + 2**-31.
    """
    import numpy as np

    m = np.asarray(bound, np.uint64)
    greatest = int(m.max(initial=0))
    if greatest < 1 << 16:
        return _signed((words >> np.uint64(16)) * m >> np.uint64(48))
    half, mask = np.uint64(32), np.uint64(0xFFFFFFFF)
    high, low = words >> half, words & mask
    if greatest < 1 << 32:
        return _signed((high * m + (low * m >> half)) >> half)
    m_high, m_low = m >> half, m & mask
    outer, inner = high * m_low, low * m_high
    carry = (low * m_low >> half) + (outer & mask) + (inner & mask)
    return _signed(high * m_high + (outer >> half) + (inner >> half) + (carry >> half))


def _signed(words: Words) -> Integers:
    return words.astype("int64", copy=False)


def thresholds(weights: Sequence[int | float]) -> Words:
    """Where words begin to choose the next of several alternatives with these weights, all above 0; exact to 2**-64."""
    import numpy as np

    exact = [Fraction(w) for w in weights]
    whole = sum(exact)
    return np.asarray([int(x * (1 << 64) / whole) for x in accumulate(exact[:-1])], np.uint64)


def chosen(words: Words, limits: Words) -> Integers:
    """The alternative that each word chooses, by `thresholds`."""
    import numpy as np

    return np.searchsorted(limits, words, side="right")
