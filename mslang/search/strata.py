"""Points whose decisions have weights, in a random order without a table of earlier draws.

The points of a structure are divided into *strata*: ranges of numbers whose points have the same probability, such as
the points of one register tile. The draws are allocated to the strata by weight; within a stratum they follow a keyed
permutation. So no point is drawn twice, and every point is drawn before the order ends.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import msgspec

from mslang.schedule.seeds import derive
from mslang.search.permutation import Permutations

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Integers = NDArray[np.int64]
    Floats = NDArray[np.float64]

MOST = 4096
"""Points are divided into so many strata at most: each costs a counter, and a key."""

BLOCK = 4096
"""So many draws are allocated at a time; then the strata without points left are put aside."""

GOLDEN = 0x9E3779B97F4A7C15
"""The golden ratio's fraction, in units of 2**-64: the step between the places of two draws."""


class Strata(msgspec.Struct, frozen=True, eq=False):
    """Ranges of numbers, `sizes` numbers from `starts` on, and how probable each of the ranges is, up to a factor.

    Example:
        >>> whole(100).sizes
        array([100])
    """

    starts: Integers
    sizes: Integers
    weights: Floats

    def __len__(self) -> int:
        """How many there are."""
        return len(self.sizes)

    @property
    def wide(self) -> bool:
        """Whether there are several, some of more than one number."""
        return len(self) > 1 and bool((self.sizes > 1).any())


def whole(count: int) -> Strata:
    """One stratum of all numbers below `count`."""
    import numpy as np

    return Strata(np.zeros(1, np.int64), np.full(1, count, np.int64), np.ones(1))


def of_weights(weights: Floats) -> Strata:
    """A stratum for each number, unless all have the same weight."""
    import numpy as np

    n = len(weights)
    return whole(n) if (weights == weights[:1]).all() else Strata(np.arange(n), np.ones(n, np.int64), weights)


def combined(digits: Sequence[tuple[int, Strata]]) -> Strata | None:
    """The strata of numbers in mixed radix, the least significant digit first; None if there are more than `MOST`.

    A stratum is one range only where the digits of one stratum come first, then at most one that is `wide`, then those
    with a stratum for each of their values; None if there are two wide digits.

    Args:
        digits: for each digit how many values it has, and their strata.
    """
    import numpy as np

    out, radix = whole(1), 1
    for count, strata in digits:
        if len(out) * len(strata) > MOST or (len(out) > 1 and (strata.sizes > 1).any()):
            return None
        starts = out.starts + radix * strata.starts[:, None]
        sizes = out.sizes * strata.sizes[:, None]
        weights = out.weights * strata.weights[:, None]
        out, radix = Strata(np.ravel(starts), np.ravel(sizes), np.ravel(weights)), radix * count
    return out


class Order:
    """The numbers of some strata in a random order, each once.

    Draw `t` is at the place `key + t·φ` modulo 1 of the interval from 0 to 1, which the strata share by weight. So of
    any run of draws each stratum gets its share within a few draws (a Weyl sequence; of all steps the golden ratio's
    spreads best). It is the next number in the stratum's own permutation; where there is none, the draw gives none. The
    strata that are used up are left out from the next block of draws on, so their weight passes to the others. How
    many numbers are asked for at a time changes nothing.

    Source: Knuth, The Art of Computer Programming, volume 3, 6.4 (Fibonacci hashing); Niederreiter 1992, chapter 3.

    Args:
        strata: the numbers.
        seed: another seed gives another order.

    Example:
        >>> sorted(Order(whole(5), seed=1).take(10).tolist())
        [0, 1, 2, 3, 4]
    """

    def __init__(self, strata: Strata, seed: int) -> None:
        import numpy as np

        self._strata = strata
        self._permutations = Permutations(strata.sizes, seed)
        self._key = derive(seed, "strata")
        self._draws = 0
        self._used = np.zeros(len(strata), np.int64)
        """How many numbers of each stratum were given."""
        self._ready = np.zeros(0, np.int64)
        """The numbers of the last block that nobody asked for."""

    def take(self, n: int) -> Integers:
        """The next `n` numbers; fewer only where no more are left."""
        import numpy as np

        parts = [self._ready]
        found = len(self._ready)
        while found < n:
            left = np.flatnonzero(self._used < self._strata.sizes)
            if not len(left):
                break
            parts.append(self._block(left))
            found += len(parts[-1])
        whole = np.concatenate(parts)
        self._ready = whole[n:]
        return whole[:n]

    def _block(self, left: Integers) -> Integers:
        """The numbers of the next draws, at least one, in strata that are not used up."""
        import numpy as np

        stratum = left[self._chosen(self._strata.weights[left])]
        self._draws += BLOCK
        place, drawn = _places(stratum, len(self._strata))
        place += self._used[stratum]
        there = place < self._strata.sizes[stratum]
        self._used = np.minimum(self._used + drawn, self._strata.sizes)
        if not there.all():
            stratum, place = stratum[there], place[there]
        return self._strata.starts[stratum] + self._permutations(stratum, place)

    def _chosen(self, weights: Floats) -> Integers:
        """Which of some alternatives with these weights each of the next draws is."""
        import numpy as np

        draws = np.arange(self._draws, self._draws + BLOCK, dtype=np.uint64)
        words = draws * np.uint64(GOLDEN) + np.uint64(self._key)
        ends = np.cumsum(weights)
        # 53 bits are what a double holds exactly.
        places = (words >> np.uint64(11)).astype(np.float64) * (2.0**-53 * ends[-1])
        out: Integers = np.searchsorted(ends[:-1], places, side="right")
        return out


def _places(stratum: Integers, count: int) -> tuple[Integers, Integers]:
    """For each draw how many draws before it are of the same stratum; and how many there are of each stratum."""
    import numpy as np

    drawn = np.bincount(stratum, minlength=count)
    order = np.argsort(stratum.astype(np.uint16), kind="stable")  # of 16 bits it is a radix sort
    out = np.empty(len(stratum), np.int64)
    out[order] = np.arange(len(stratum)) - np.repeat(np.cumsum(drawn) - drawn, drawn)
    return out, drawn
