"""How fast this core is at the moment, and how much of it this thread has.

Times are compared at the speed of the core. Another program on the other hardware thread of the core does not change
that speed, but takes a part of the core: a kernel then takes up to twice as long, by a factor that is another one for
each kernel, so what was timed beside it is not comparable by any factor.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import NamedTuple

from mslang.target.core_loops import CoreLoops, Pace
from mslang.target.limits import measured_limits

REMEMBERED = 1024
"""Answers that the whole is computed of, about those for 20 candidates."""

WHOLE = 0.98
"""The quantile of the answers that counts as a core of one's own."""

_AGAIN = 32
"""The whole is computed after so many."""


class Speed(NamedTuple):
    """What a core does at the moment.

    `rate`: operations a second that the yardstick makes on a core of this speed of its own. `share`: the part of the
    core that this thread has, at most 1.
    """

    rate: float
    share: float


class CoreSpeed:
    """Watches the core that this thread runs on.

    Args:
        pace: what the core does at the moment.
        operations: those of the yardstick in a cycle.
    """

    def __init__(self, pace: Callable[[], Pace], operations: float) -> None:
        self._pace, self._operations = pace, operations
        self._widths = deque([pace().width for _ in range(_AGAIN)], REMEMBERED)
        self._whole, self._asked = self._quantile(), 0

    def now(self) -> Speed:
        """The speed right now; takes about 30 µs."""
        cycles, width = self._pace()
        self._widths.append(width)
        self._asked += 1
        if self._asked % _AGAIN == 0:
            self._whole = self._quantile()
        return Speed(cycles * self._operations, min(width / self._whole, 1.0))

    def _quantile(self) -> float:
        return sorted(self._widths)[int(WHOLE * len(self._widths))]


def process_core_speed() -> CoreSpeed:
    """Watches the core of this process, by the loops that the machine's limits were measured with."""
    return CoreSpeed(CoreLoops().pace, measured_limits().operations)
