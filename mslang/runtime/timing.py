"""Timing: many runs inside one native call, repeated until the spread is small; slow candidates are cut off."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from statistics import median
from typing import Literal

import msgspec
from msgspec.structs import replace

SLOW_CORE = 0.9
"""A core counts as slow below this share of the best rate known of it."""

ALONE = 0.85
"""A thread with this share of its core has it to itself: the loop that tells so is short, and its clock coarse."""

_NORMAL = 1.4826 * 1.2533
"""Standard deviation over median absolute deviation, times error of a median over that of a mean."""


class Limits(msgspec.Struct, frozen=True):
    """When to stop; in seconds unless noted.

    `cutoff`: a first run slower than this ends the measurement with a lower bound. `spread`: the wanted ratio of the
    median absolute deviation to the median; of a sampler, that of the standard error of the median. `near`: `repeats`
    samples suffice for a kernel slower than this. `enough`: after so much time `repeats` samples suffice. `calm`: of a
    sampler, the share of samples that must be undisturbed to end before that. `cache`: whether each run finds the
    caches as the run before left them, or emptied (None: as is usual where it runs: warm on a CPU, cold on a GPU).
    """

    repeats: int = 5
    max_repeats: int = 25
    min_repeat: float = 0.002
    max_total: float = 0.5
    spread: float = 0.02
    cutoff: float | None = None
    warmup: bool = True
    near: float | None = None
    enough: float | None = None
    cache: Literal["warm", "cold"] | None = None
    calm: float = 0.0

    def for_calls(self, calls: int) -> Limits:
        """Limits of a run that makes so many calls."""
        cutoff, near = (None if t is None else t * calls for t in (self.cutoff, self.near))
        return self if calls == 1 else replace(self, cutoff=cutoff, near=near)


class Timing(msgspec.Struct, frozen=True):
    """Seconds of one run.

    `censored`: it was cut off, and the figures are lower bounds. `yardstick`: operations a second that a loop of known
    work makes on one core of the speed between the samples. `disturbed`: samples left out because another program took
    the processor meanwhile. `core`: the yardstick as a share of the best known of this machine. `alone`: the share of
    the core that its thread had, as another program may run on the other hardware thread. `cold`: each run found the
    caches empty.
    """

    samples: tuple[float, ...]
    runs: int
    censored: bool = False
    yardstick: float | None = None
    disturbed: int = 0
    core: float | None = None
    cold: bool = False
    alone: float | None = None

    def of_one(self, calls: int) -> Timing:
        """The time of one of so many calls that were timed as one run."""
        return self if calls == 1 else self.scaled(1 / calls)

    def scaled(self, factor: float) -> Timing:
        """The same of something that takes so many times as long."""
        return replace(self, samples=tuple(s * factor for s in self.samples))

    @property
    def slow_core(self) -> bool:
        """Whether the core ran so far below its best, or another program had so much of it, that the time is of less
        worth, although it is normalised."""
        return (self.core is not None and self.core < SLOW_CORE) or self.shared_core

    @property
    def shared_core(self) -> bool:
        """Whether another program had a part of the core."""
        return self.alone is not None and self.alone < ALONE

    @property
    def min(self) -> float:
        """The fastest repeat."""
        return min(self.samples)

    @property
    def median(self) -> float:
        """The median repeat."""
        return median(self.samples)

    @property
    def mad(self) -> float:
        """The median absolute deviation from the median."""
        return deviation(self.samples)


def deviation(samples: Sequence[float]) -> float:
    """The median absolute deviation from the median."""
    middle = median(samples)
    return median(abs(x - middle) for x in samples)


def median_error(samples: Sequence[float]) -> float:
    """The standard error of the median, from the median absolute deviation as of a normal distribution."""
    return _NORMAL * deviation(samples) / math.sqrt(len(samples))


def measure(run: Callable[[int], None], limits: Limits, clock: Callable[[], int] = time.perf_counter_ns) -> Timing:
    """Time `run(n)`, which does the work n times.

    Returned: at least `repeats` samples unless the cut-off or the total time ends it; all of equally many runs.
    """
    first = _seconds(run, 1, clock)
    total = first
    if limits.cutoff is not None and first > limits.cutoff:
        # A cold first run counts only if the second one is as slow.
        first = min(first, _seconds(run, 1, clock))
        if first > limits.cutoff:
            return Timing((first,), 1, censored=True)
    if limits.warmup and total < limits.max_total / 4:
        first = min(first, _seconds(run, 1, clock))
    runs = max(1, round(limits.min_repeat / max(first, 1e-9)))
    samples: list[float] = []
    while len(samples) < limits.max_repeats:
        samples.append(_seconds(run, runs, clock) / runs)
        total += samples[-1] * runs
        steady = len(samples) >= limits.repeats and deviation(samples) <= limits.spread * median(samples)
        if steady or total > limits.max_total:
            break
    return Timing(tuple(samples), runs)


def _seconds(run: Callable[[int], None], times: int, clock: Callable[[], int]) -> float:
    before = clock()
    run(times)
    return (clock() - before) * 1e-9
