"""Timing beside other programs: samples of a kernel alternate with a loop of known work, disturbed ones are left out.

The speed of a core changes in steps, and other programs take the processor. A sample during which the system
preempted this process says nothing about the kernel; one on a slow core is comparable once the loop that ran right
after it is known. Ranks of candidates by normalised times repeat far better than those by plain times.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from statistics import median
from typing import NamedTuple

from mslang.runtime.timing import Limits, Timing, deviation

LEAST_SAMPLE = 20e-6
"""Seconds that a sample takes at least, so that the clock's own time does not count."""

LONG_ENOUGH = 1.25
"""A sample may be shorter than wanted by this factor."""

NEEDED_TO_CUT = 3
"""Undisturbed samples that a candidate is cut off by."""

IN_PLACE_RUNS = 64
"""Runs in one sample at most where each run works on the result of the one before."""


class _Pair(NamedTuple):
    """Seconds of one run, the rate of the yardstick after it (0: there is none), and whether both were undisturbed."""

    seconds: float
    rate: float
    clean: bool


class Sampler:
    """Takes samples of one kernel.

    Args:
        run: runs the kernel so many times.
        limits: when to stop; `cutoff` is in seconds, or in seconds at the nominal speed where there is a yardstick.
        yardstick: operations a second, just measured (None: samples are not normalised).
        nominal: the rate that `cutoff` is relative to.
        restore: gives the kernel its inputs back, before each sample; for kernels that work in place (None: others).
        clock: nanoseconds.
        switches: how often the system has preempted this process so far.
    """

    def __init__(
        self,
        run: Callable[[int], None],
        limits: Limits,
        *,
        yardstick: Callable[[], float] | None = None,
        nominal: float = 1.0,
        restore: Callable[[], None] | None = None,
        clock: Callable[[], int] = time.perf_counter_ns,
        switches: Callable[[], int] | None = None,
    ) -> None:
        self._run, self._limits, self._yardstick, self._nominal = run, limits, yardstick, nominal
        self._restore, self._clock, self._switches = restore, clock, switches or involuntary_switches
        self._pairs: list[_Pair] = []
        self._spent = 0.0

    def take(self) -> Timing:
        """Samples until their spread is small, the total time is spent, or the kernel proves too slow."""
        limits = self._limits
        self._sample(1)
        if limits.warmup and self._spent < limits.max_total / 4:
            # The first run was a cold one.
            self._pairs.clear()
            self._sample(1)
        runs = self._lengthened(1, LEAST_SAMPLE)
        while self._more_before_cut() and not self._out_of_time():
            self._sample(runs)
        if self._too_slow():
            return self._timing(runs, censored=True)
        runs = self._lengthened(runs, limits.min_repeat)
        while len(self._pairs) < limits.max_repeats and not self._steady() and not self._out_of_time():
            self._sample(runs)
        return self._timing(runs, censored=False)

    def _lengthened(self, runs: int, seconds: float) -> int:
        """How many runs a sample of so many seconds has; samples of far fewer runs are dropped.

        A single run is a bad measure of many, so the number grows until a sample of that many runs is long enough.
        """
        while True:
            one = median(p.seconds for p in self._pairs)
            wanted = -(-int(seconds * 1e9) // max(int(one * 1e9), 1))
            wanted = wanted if self._restore is None else min(wanted, IN_PLACE_RUNS)
            if wanted <= LONG_ENOUGH * runs or self._out_of_time():
                return runs
            runs = wanted
            self._pairs.clear()
            self._sample(runs)

    def _seconds(self, runs: int) -> float:
        if self._restore is not None:
            self._restore()
        before = self._clock()
        self._run(runs)
        seconds = (self._clock() - before) * 1e-9
        self._spent += seconds
        return seconds

    def _sample(self, runs: int) -> None:
        before = self._switches()
        seconds = self._seconds(runs) / runs
        rate = 0.0
        if self._yardstick is not None:
            start = self._clock()
            rate = self._yardstick()
            self._spent += (self._clock() - start) * 1e-9
        self._pairs.append(_Pair(seconds, rate, self._switches() == before))

    def _clean(self) -> list[_Pair]:
        return [p for p in self._pairs if p.clean]

    def _normalised(self, pair: _Pair) -> float:
        return pair.seconds * pair.rate / self._nominal if pair.rate else pair.seconds

    def _more_before_cut(self) -> bool:
        """Whether more samples can tell that the kernel is too slow."""
        cutoff = self._limits.cutoff
        if cutoff is None or len(self._pairs) >= 3 * NEEDED_TO_CUT:
            return False
        clean = [self._normalised(p) for p in self._clean()]
        return len(clean) < NEEDED_TO_CUT and all(seconds > cutoff for seconds in clean)

    def _too_slow(self) -> bool:
        cutoff, clean = self._limits.cutoff, self._clean()
        if cutoff is None or len(clean) < min(NEEDED_TO_CUT, len(self._pairs)) or not clean:
            return False
        # Fewer samples suffice where the time is spent and the kernel is slower by another factor of two.
        return min(map(self._normalised, clean)) > (cutoff if len(clean) >= NEEDED_TO_CUT else 2.0 * cutoff)

    def _steady(self) -> bool:
        times = [self._normalised(p) for p in self._clean()]
        return len(times) >= self._limits.repeats and deviation(times) <= self._limits.spread * median(times)

    def _out_of_time(self) -> bool:
        return self._spent > self._limits.max_total

    def _timing(self, runs: int, censored: bool) -> Timing:
        kept = self._clean() or self._pairs
        rate = median(p.rate for p in kept)
        return Timing(
            tuple(p.seconds for p in kept), runs, censored, rate or None, len(self._pairs) - len(self._clean())
        )


def involuntary_switches() -> int:
    """How often the system has taken the processor from this process; 0 where it does not count that."""
    if sys.platform == "win32":
        return 0
    import resource

    return resource.getrusage(resource.RUSAGE_SELF).ru_nivcsw
