"""Measuring again what ran on a slow core.

The host of a virtual machine may run another program on the same core. Both then share its caches and units: a kernel
that is bound by these slows down far more than the yardstick, whose speed its time is compared at. Such times last for
seconds, and pass. Where the yardstick hardly notices, a candidate does that was fast before.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

from mslang.tune.record import Result, cost_of
from mslang.tune.workers import BudgetSpent

T = TypeVar("T")

SLOW = 0.75
"""A core below this share of its best speed is shared. In an afternoon on a virtual Sapphire Rapids, undisturbed
cores were at 0.86 to 0.97, shared ones at 0.60 to 0.68, where a kernel on matrix tiles took 2.6 times as long."""

SHARE = 0.25
"""The share of the time that goes into waiting at most: the core may be as slow for good."""

PAUSE = 0.2
"""Seconds between two attempts."""


class Patience:
    """Measures again on a slow core, as long as that has not taken too much of the time since this was made.

    Args:
        clock: seconds.
        pause: waits for so many of them.
    """

    def __init__(
        self, clock: Callable[[], float] = time.monotonic, pause: Callable[[float], None] = time.sleep
    ) -> None:
        self.clock, self._pause = clock, pause
        self._begun = clock()
        self._spent = 0.0

    def measure(self, measured: Callable[[], T], speed: Callable[[T], float]) -> T:
        """What the fastest core of all attempts gave.

        Args:
            measured: measures once.
            speed: the core's share of its best speed meanwhile.

        Raises:
            BudgetSpent: there was no time for the first attempt.
        """
        best = measured()
        while speed(best) < SLOW and self._spent < SHARE * (self.clock() - self._begun):
            start = self.clock()
            self._pause(PAUSE)
            try:
                best = max(best, measured(), key=speed)
            except BudgetSpent:
                return best
            self._spent += self.clock() - start
        return best


def speed_of(result: Result, expected: float | None = None) -> float:
    """The core's share of its best speed; 1 where that is not known.

    Args:
        result: what ran on it.
        expected: the cost that the same candidate had before (None: it is new).
    """
    timing = result.timing
    if timing is None:
        return 1.0
    share = 1.0 if timing.core is None else timing.core
    # Of one that was cut off it is a lower bound, which says enough.
    return share if expected is None else min(share, expected / cost_of(timing))
