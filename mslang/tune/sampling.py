"""Timing while other programs run: samples of a kernel alternate with loops of known work; disturbed ones are dropped.

The speed of a core changes in steps, and other programs take the processor. A sample during which this process was
preempted, had fewer cores than in others or a part of a core, or the core changed its speed says nothing about the
kernel; one on a slow core is comparable once the speed right before and after it is known.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from statistics import median
from typing import NamedTuple

from msgspec.structs import replace

from mslang.runtime.core_speed import Speed
from mslang.runtime.disturbance import Disturbance, disturbance
from mslang.runtime.sharing import ENOUGH, PATIENCE
from mslang.runtime.timing import ALONE, Limits, Timing, median_error

STARVED = 0.9
"""A sample is disturbed if the process had fewer cores than this share of what it had in another one."""

LEAST_SAMPLE = 20e-6
"""Seconds that a sample takes at least, so that the clock's own time does not count."""

FEWEST_CLEAN = 2
"""Where fewer samples are undisturbed, the least disturbed ones count, too."""

LONG_ENOUGH = 1.25
"""A sample may be shorter than wanted by this factor."""

NEEDED_TO_CUT = 3
"""Undisturbed samples that a candidate is cut off by."""

IN_PLACE_RUNS = 64
"""Runs in one sample at most where each run works on the result of the one before."""

WAITED = 0.02
"""A sample is disturbed if threads waited for a core for more than this share of it, and …"""

WAKING = 20e-6
"""… for more than the seconds that a thread takes to wake."""

CHANGED = 1.15
"""A sample is disturbed if the speeds of the core before and after it differ by more than this factor."""

MOST_TAKEN = 3
"""So many times the wanted samples, or the time that is enough, are spent at most where many are disturbed."""

FINAL = 40
"""A finalist may have so many times the samples, …"""

CALM = 0.9
"""… and has them unless this share of them is undisturbed: other programs come and go, …"""

FINAL_SECONDS = 0.3
"""… or so much time is spent at most: there may be a dozen finalists, which are timed in turn afterwards."""

FASTEST = 5
"""One of so many samples counts, the fastest ones: what no loop notices makes a sample slower, never faster."""

SEVERAL = 1.3
"""A kernel that has more cores than this on average runs on several threads."""

CUT_OFF = 3.0
"""A candidate slower than the best by this factor is not timed to the end."""

NEAR = 1.3
"""A candidate slower than the best by this factor is timed by few samples."""


def trial_limits(limits: Limits, best: float | None) -> Limits:
    """How to time a candidate where the best so far takes `best` seconds at the nominal speed (None: it is the first).

    Precision is for those that may be the best.
    """
    return limits if best is None else replace(limits, cutoff=CUT_OFF * best, near=NEAR * best)


def final_limits(limits: Limits, seconds: float = FINAL_SECONDS) -> Limits:
    """How to time a finalist: to the end, with half of the error, waiting so many seconds for undisturbed samples."""
    longer, more = MOST_TAKEN * limits.max_total, FINAL * limits.max_repeats
    ends = replace(limits, max_total=longer, max_repeats=more, enough=seconds, calm=CALM)
    return replace(ends, cutoff=None, near=None, spread=limits.spread / 2)


class Pair(NamedTuple):
    """Seconds of one run, the rate of a core of its speed (0: nobody knows), and how far others disturbed it: the
    share of the sample that threads waited for a core, that the core changed its speed by, that threads lacked of a
    core each, or that another program had of the core; 0 counts as not at all.
    """

    seconds: float
    rate: float
    disturbed: float
    cores: float
    """How many cores the process had on average."""
    alone: float = 1.0
    """The share of the core that this thread had right before and after."""


class Sampler:
    """Takes samples of one kernel.

    Args:
        run: runs the kernel so many times.
        limits: when to stop; `cutoff` and `near` are in seconds, or in seconds at the nominal speed where the speed of
            the core is known.
        speed: that of the core right now, and how much of it this thread has (None: nobody knows, and samples are not
            normalised).
        nominal: the rate that `cutoff` and `near` are relative to.
        restore: gives the kernel its inputs back, before each sample; for kernels that work in place (None: others).
        flush: empties the caches, before each sample, which then is of one run (None: they stay warm). Its time counts
            as spent, but is in no sample.
        clock: nanoseconds.
        disturbed: what other programs took from this process so far.
        busy: seconds that its threads ran on a core so far.
        share: how much of a core each of several threads has right now, as a part of the usual, where a core has the
            rate given first (None: nobody knows). It may take the seconds given second to give each of them a core. It
            is asked around samples of kernels that run on several threads.
    """

    def __init__(
        self,
        run: Callable[[int], None],
        limits: Limits,
        *,
        speed: Callable[[], Speed] | None = None,
        nominal: float = 1.0,
        restore: Callable[[], None] | None = None,
        flush: Callable[[], None] | None = None,
        clock: Callable[[], int] = time.perf_counter_ns,
        disturbed: Callable[[], Disturbance] = disturbance,
        busy: Callable[[], float] = time.process_time,
        share: Callable[[float, float], float] | None = None,
    ) -> None:
        self._run, self._limits, self._speed, self._nominal = run, limits, speed, nominal
        self._restore, self._flush, self._clock = restore, flush, clock
        self._disturbed, self._busy, self._share = disturbed, busy, share
        self._pairs: list[Pair] = []
        self._several = False
        self._spent = 0.0
        self._waited = 0.0

    def take(self) -> Timing:
        """Samples until the median is known well enough, the time is spent, or the kernel proves too slow."""
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
            return self.timing(runs, censored=True)
        runs = self._lengthened(runs, limits.min_repeat)
        while self._wants_more() and not self._out_of_time():
            self._sample(runs)
        return self.timing(runs)

    def length(self) -> int:
        """How many runs a sample has that is long enough; takes samples to find out."""
        self._sample(1)
        self._pairs.clear()
        self._sample(1)
        return self._lengthened(1, self._limits.min_repeat)

    def sample(self, runs: int) -> Pair:
        """Take one more sample of so many runs."""
        self._sample(runs)
        return self._pairs[-1]

    def timing(self, runs: int, censored: bool = False) -> Timing:
        """The fastest of the undisturbed samples so far, as on a core of the median speed among them.

        Where these are too few, the least disturbed ones.
        """
        kept = self._kept()
        rate = median(p.rate for p in kept)
        samples = tuple(p.seconds * (p.rate / rate if rate else 1.0) for p in kept)
        disturbed = len(self._pairs) - len(self._clean())
        alone = median(p.alone for p in kept) if rate else None
        return Timing(samples, runs, censored, rate or None, disturbed, cold=self._flush is not None, alone=alone)

    def _lengthened(self, runs: int, seconds: float) -> int:
        """How many runs a sample of so many seconds has; samples of far fewer runs are dropped.

        A single run is a bad measure of many, so the number grows until a sample of that many runs is long enough.
        """
        while self._flush is None:
            one = median(p.seconds for p in self._pairs)
            wanted = -(-int(seconds * 1e9) // max(int(one * 1e9), 1))
            wanted = wanted if self._restore is None else min(wanted, IN_PLACE_RUNS)
            if wanted <= LONG_ENOUGH * runs or self._out_of_time():
                return runs
            runs = wanted
            self._pairs.clear()
            self._sample(runs)
        return 1

    def _sample(self, runs: int) -> None:
        if self._restore is not None:
            self._restore()
        if self._flush is not None:
            self._timed(self._flush)
        begun = self._disturbed()
        before = self._speed_now()
        # What the question for the share of cores costs disturbs nothing.
        paused = self._disturbed()
        share = self._share_of_cores(before.rate, PATIENCE)
        resumed = self._disturbed()
        idle = self._busy()
        seconds = self._timed(lambda: self._run(runs))
        cores = (self._busy() - idle) / max(seconds, 1e-9)
        after = self._speed_now()
        ended = self._disturbed()
        share = min(share, self._share_of_cores(after.rate, 0.0))
        waited = ended.waited - resumed.waited + paused.waited - begun.waited
        switches = ended.switches - resumed.switches + paused.switches - begun.switches
        rates, alone = (before.rate, after.rate), min(before.share, after.share)
        changed = max(rates) / min(rates) if all(rates) else 1.0
        calm = not switches and waited <= max(WAKING, WAITED * seconds) and changed <= CHANGED
        apart = share >= ENOUGH and alone >= ALONE
        lacked = waited / max(seconds, 1e-9) + (changed - 1.0) + (1.0 - share) + (1.0 - alone)
        disturbed = 0.0 if calm and apart else lacked + 1e-9
        self._pairs.append(Pair(seconds / runs, sum(rates) / 2, disturbed, cores, alone))
        self._several = self._several or cores > SEVERAL

    def _speed_now(self) -> Speed:
        """The speed of the core now; rate 0 if nobody knows."""
        found = Speed(0.0, 1.0)
        if self._speed is not None:
            speed = self._speed

            def measured() -> None:
                nonlocal found
                found = speed()

            if self._flush is not None:
                # A core that has just waited for memory is slow for a moment: that says nothing of the sample.
                self._timed(measured)
            self._timed(measured)
        return found

    def _share_of_cores(self, rate: float, patience: float) -> float:
        """How much of a core each thread has now; 1 if the kernel has one thread or nobody knows."""
        if self._share is None or not self._several or not rate:
            return 1.0
        found = 1.0
        share = self._share

        def measured() -> None:
            nonlocal found
            found = share(rate, patience)

        self._waited += self._timed(measured)
        return found

    def _timed(self, work: Callable[[], None]) -> float:
        before = self._clock()
        work()
        seconds = (self._clock() - before) * 1e-9
        self._spent += seconds
        return seconds

    def is_clean(self, pair: Pair) -> bool:
        """Whether nothing disturbed a pair, as far as that is known yet."""
        return pair.disturbed == 0.0 and pair.cores >= STARVED * self._most_cores()

    def _clean(self) -> list[Pair]:
        fewest = STARVED * self._most_cores()
        return [p for p in self._pairs if p.disturbed == 0.0 and p.cores >= fewest]

    def _most_cores(self) -> float:
        return max((p.cores for p in self._pairs), default=0.0)

    def _kept(self) -> list[Pair]:
        clean, most = self._clean(), max(self._most_cores(), 1e-9)
        if len(clean) >= min(FEWEST_CLEAN, len(self._pairs)):
            return sorted(clean, key=self._normalised)[: max(self._limits.repeats, len(clean) // FASTEST)]
        return sorted(self._pairs, key=lambda p: p.disturbed + 1.0 - p.cores / most)[: self._limits.repeats]

    def _normalised(self, pair: Pair) -> float:
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

    def _wants_more(self) -> bool:
        limits = self._limits
        times = [self._normalised(p) for p in self._clean()]
        if len(times) >= limits.max_repeats or (
            len(times) >= FEWEST_CLEAN and len(self._pairs) >= MOST_TAKEN * limits.max_repeats
        ):
            return False
        if len(times) < limits.repeats:
            return limits.enough is None or self._spent - self._waited < MOST_TAKEN * limits.enough
        if limits.near is not None and min(times) > limits.near:
            return False
        if limits.enough is not None and self._spent >= limits.enough:
            return False
        return len(times) < limits.calm * len(self._pairs) or median_error(times) > limits.spread * median(times)

    def _out_of_time(self) -> bool:
        return self._spent > self._limits.max_total
