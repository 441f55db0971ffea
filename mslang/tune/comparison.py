"""How candidates that were timed in the same rounds compare: the ratio of their times, and how well it is known."""

from __future__ import annotations

import math
from collections.abc import Sequence
from statistics import median

import msgspec

from mslang.runtime.timing import median_error
from mslang.tune.record import Result

SURE = 2.0
"""So many standard errors a difference must exceed (95 % of those that chance makes do not)."""

LEAST_CLEAN = 5
"""Rounds without a disturbance that suffice; where there are fewer, all rounds count."""


class Sample(msgspec.Struct, frozen=True):
    """One sample of a candidate: seconds at the nominal speed, and whether nothing disturbed it."""

    cost: float
    clean: bool = True


class Compared(msgspec.Struct, frozen=True):
    """A candidate among others: its result, and its sample of each round (none if it failed)."""

    result: Result
    samples: tuple[Sample, ...] = ()


class Gap(msgspec.Struct, frozen=True):
    """How many times as long a candidate takes as another, and the half width of the interval of that ratio; infinite
    where there is one sample of each, so that no interval is known.

    Source: the median of paired ratios; its standard error from the median absolute deviation.
    """

    ratio: float
    noise: float

    @property
    def is_known(self) -> bool:
        """Whether there is an interval."""
        return math.isfinite(self.noise)

    @property
    def within_noise(self) -> bool:
        """Whether the two may as well be equally fast."""
        return abs(self.ratio - 1.0) <= self.noise


def ratios(a: Sequence[Sample], b: Sequence[Sample]) -> list[float]:
    """The ratios of `a` to `b`, round by round: of rounds without a disturbance, if there are enough of them."""
    pairs = list(zip(a, b, strict=False))
    clean = [(x, y) for x, y in pairs if x.clean and y.clean]
    return [x.cost / y.cost for x, y in (clean if len(clean) >= LEAST_CLEAN else pairs)]


def gap(a: Sequence[Sample], b: Sequence[Sample]) -> Gap:
    """How much slower `a` is than `b`.

    >>> one, other = [Sample(2.0), Sample(4.4)] * 4, [Sample(1.0), Sample(2.0)] * 4
    >>> found = gap(one, other)
    >>> round(found.ratio, 2), found.within_noise
    (2.1, False)
    """
    found = ratios(a, b)
    if len(found) < 2:
        return Gap(found[0] if found else 1.0, math.inf)
    return Gap(median(found), SURE * median_error(found))
