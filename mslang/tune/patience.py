"""Measuring again what ran on a slow core.

The host of a virtual machine may run another program on the same core. Both then share its front end, caches and
units, and a kernel takes up to twice as long. Such times last for seconds, and pass. What shares caches beyond the
core, no loop shows, but a candidate does that was fast before.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

from mslang.tune.record import Result, cost_of
from mslang.tune.workers import BudgetSpent

T = TypeVar("T")

SLOW = 0.75
"""A core below this share of its best speed, or a smaller share of a core, counts as slow. On a virtual Sapphire
Rapids, threads with a core of their own had 0.92 to 1 of it, others 0.45 to 0.65."""

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
    share = min(1.0 if known is None else known for known in (timing.core, timing.alone))
    # Of one that was cut off it is a lower bound, which says enough.
    return share if expected is None else min(share, expected / cost_of(timing))
