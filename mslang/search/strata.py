"""Points whose decisions have weights, in a random order without a table of earlier draws.

The points of a structure are divided into *strata* of points with the same probability, such as those of one register
tile. Draws are allocated to the strata by weight; within a stratum they follow a keyed permutation. So no point is
drawn twice, and every point is drawn before the order ends.
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


class Ranges(msgspec.Struct, frozen=True, eq=False):
    """For each stratum a range of the numbers below `count`: `sizes` numbers from `starts` on."""

    count: int
    starts: Integers
    sizes: Integers


class Strata(msgspec.Struct, frozen=True, eq=False):
    """Parts of the numbers in mixed radix, by the ranges that their digits have, the least significant digit first.

    `weights`: the probability of each stratum as a whole, up to a common factor.

    Example:
        >>> whole(100).sizes
        array([100])
    """

    digits: tuple[Ranges, ...]
    weights: Floats

    def __len__(self) -> int:
        """How many there are."""
        return len(self.weights)

    @property
    def sizes(self) -> Integers:
        """How many numbers each has."""
        out = self.digits[0].sizes
        for digit in self.digits[1:]:
            out = out * digit.sizes
        return out

    @property
    def single(self) -> bool:
        """Whether each has one number only."""
        return bool((self.sizes == 1).all())

    def numbers(self, strata: Integers, places: Integers) -> Integers:
        """The numbers at some places of some strata, row by row."""
        *digits, last = self.digits
        scale = 1
        out: Integers | int = 0
        for digit in digits:
            sizes = digit.sizes[strata]
            rest = places // sizes
            out = out + scale * (digit.starts[strata] + places - rest * sizes)
            scale, places = scale * digit.count, rest
        return out + scale * (last.starts[strata] + places)


def whole(count: int) -> Strata:
    """One stratum of all numbers below `count`."""
    import numpy as np

    return Strata((Ranges(count, np.zeros(1, np.int64), np.full(1, count, np.int64)),), np.ones(1))


def of_weights(weights: Floats) -> Strata:
    """A stratum for each number, unless all have the same weight."""
    import numpy as np

    n = len(weights)
    if (weights == weights[:1]).all():
        return whole(n)
    return Strata((Ranges(n, np.arange(n), np.ones(n, np.int64)),), weights)


def combined(parts: Sequence[Strata]) -> Strata | None:
    """The strata of numbers whose digits are numbers of some strata; None if there are more than `MOST`.

    A digit that has one number in each stratum, or follows an undivided one, makes one digit with the one before it.
    So the strata are single ranges if undivided digits come first, then at most one with more numbers in a stratum.
    """
    import numpy as np

    first = Ranges(1, np.zeros(1, np.int64), np.ones(1, np.int64))
    digits, weights = [first], np.ones(1)
    for part in parts:
        n, of = len(weights), len(part)
        if n * of > MOST:
            return None
        digits = [Ranges(d.count, np.tile(d.starts, of), np.tile(d.sizes, of)) for d in digits]
        own = [Ranges(d.count, np.repeat(d.starts, n), np.repeat(d.sizes, n)) for d in part.digits]
        if part.single or (len(digits) == 1 and (digits[0].sizes == digits[0].count).all()):
            low, high = digits.pop(), own.pop(0)
            starts = low.starts + low.count * high.starts
            own = [Ranges(low.count * high.count, starts, low.sizes * high.sizes), *own]
        digits += own
        weights = np.tile(weights, of) * np.repeat(part.weights, n)
    return Strata(tuple(digits), weights)


class Order:
    """The numbers of some strata in a random order, each once.

    Draw `t` is at the place `key + t·φ` modulo 1 of an interval that the strata share by weight. So of any run of draws
    each stratum has its share, to within a few draws (a Weyl sequence; of all steps the golden ratio `φ` spreads the
    places best). A draw gives the next number in the order of its stratum's permutation, or none if the stratum is used
    up. From the next block of draws on, such strata have no part of the interval, so their weight passes to the others.
    The order does not depend on how many numbers are asked for at a time.

    Source: Knuth, The Art of Computer Programming, volume 3, 6.4, theorem S; Niederreiter, Random Number Generation and
    Quasi-Monte Carlo Methods, 1992, chapter 3.

    Args:
        strata: the numbers.
        seed: another seed gives another order.

    Example:
        >>> sorted(Order(whole(5), seed=1).take(10).tolist())
        [0, 1, 2, 3, 4]
    """

    def __init__(self, strata: Strata, seed: int) -> None:
        import numpy as np

        self._strata, self._sizes = strata, strata.sizes
        self._permutations = Permutations(self._sizes, seed)
        self._key = derive(seed, "strata")
        self._draws = 0
        self._used = np.zeros(len(strata), np.int64)
        """How many numbers of each stratum were given."""
        self._ready = np.zeros(0, np.int64)
        """The numbers of the last block that were not asked for yet."""

    def take(self, n: int) -> Integers:
        """The next `n` numbers; fewer only where no more are left."""
        import numpy as np

        parts = [self._ready]
        found = len(self._ready)
        while found < n:
            left = np.flatnonzero(self._used < self._sizes)
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
        there = place < self._sizes[stratum]
        self._used = np.minimum(self._used + drawn, self._sizes)
        if not there.all():
            stratum, place = stratum[there], place[there]
        return self._strata.numbers(stratum, self._permutations(stratum, place))

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
