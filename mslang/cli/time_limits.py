"""How long kernels may run in a worker process before that is given up: scaled by what is known of their times."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from mslang.runtime.timing import Limits
    from mslang.tune.job import Prepared

CALLS_TOGETHER = 10
"""Calls that a kernel among others is given time for, beyond the seconds that all are timed: it makes four at least."""


def seconds_alone(limits: Limits, prepared: Prepared | None) -> float:
    """Seconds that a kernel timed within `limits` may run: as while tuning, but no fewer than where nothing is known.

    Args:
        limits: how it is timed.
        prepared: how long the unscheduled program took, if that is known.
    """
    from mslang.tune.trials import GRACE, TIMES_UNSCHEDULED
    from mslang.tune.workers import RUN_SECONDS

    if prepared is None:
        return RUN_SECONDS
    return max(RUN_SECONDS, GRACE + 2.0 * limits.max_total + TIMES_UNSCHEDULED * prepared.seconds)


def seconds_together(seconds: float, calls: Sequence[float]) -> float:
    """Seconds that kernels timed in turn for `seconds` may run.

    Args:
        seconds: how long they are to be timed.
        calls: the seconds of a call of each.
    """
    from mslang.tune.workers import RUN_SECONDS

    return RUN_SECONDS + 3.0 * seconds + CALLS_TOGETHER * sum(calls)
