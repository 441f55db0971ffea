"""What other programs took from this process: how often it was preempted, how long its threads waited for a core."""

from __future__ import annotations

import os
import sys
from contextlib import suppress
from typing import NamedTuple

_TASKS = "/proc/self/task"


class Disturbance(NamedTuple):
    """Totals since the process began: involuntary context switches, and seconds that threads could have run but did
    not. Either is 0 where the system does not count it."""

    switches: int = 0
    waited: float = 0.0


def disturbance() -> Disturbance:
    """What this process has suffered so far."""
    if sys.platform == "win32":
        return Disturbance()
    import resource

    return Disturbance(resource.getrusage(resource.RUSAGE_SELF).ru_nivcsw, _waited())


def _waited() -> float:
    """Seconds in the run queue, of all threads: what a thread that wakes late on a busy core costs is no switch."""
    total = 0
    with suppress(OSError, ValueError, IndexError):
        for task in os.listdir(_TASKS):  # noqa: PTH208 - called between samples
            with open(f"{_TASKS}/{task}/schedstat", "rb") as file:
                total += int(file.read().split()[1])
    return total * 1e-9
