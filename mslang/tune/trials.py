"""Building and measuring candidates, as a search asks: limits of time, plausibility, machine code kept for later."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from itertools import zip_longest
from statistics import median

from msgspec.structs import replace

from mslang.runtime.timing import Limits
from mslang.schedule.space import Candidate
from mslang.target.limits import known_core_rate
from mslang.tune.comparison import Compared
from mslang.tune.confirm import TRIED_AGAIN
from mslang.tune.job import BuildJob, Built, CompareJob, MeasureJob, Prepared
from mslang.tune.patience import Patience, speed_of
from mslang.tune.record import Outcome, Result
from mslang.tune.roofline import Roofline
from mslang.tune.sampling import FINAL_SECONDS, final_limits, trial_limits
from mslang.tune.task import Task
from mslang.tune.workers import RUN_SECONDS, BudgetSpent, Pending, Workers

SETTLED = 2.0
"""Seconds after which the fastest candidate is measured again, to see whether the core is what it was."""

GRACE = 3.0
"""Seconds that a candidate may take beyond what its timing and the unscheduled program's time account for."""

COMPARING = 2.0
"""Seconds that finalists are timed in turn at most."""

SHORT_FINAL, FINAL_PART = 0.1, 0.05
"""Seconds that suffice for a finalist's samples after a short search; this part of the search's time after others."""

SHORT_COMPARING, COMPARING_PART = 0.5, 0.25
"""The same of the rounds in which finalists are timed in turn."""

TIMES_UNSCHEDULED = 20.0
"""A candidate that takes so many times as long as the unscheduled program is stopped."""


class Trials:
    """Builds and measures the candidates of a task.

    Args:
        task: what is tuned.
        limits: how to time.
        workers: the processes that compile and measure.
        reference: the folder of inputs and expected results.
        roofline: what times are checked against.
        patience: measures again on a slow core.
        begun: when the search began, by the clock of `patience` (None: now).

    `prepared` says how long the unscheduled program took, once that is known.
    """

    def __init__(
        self,
        task: Task,
        limits: Limits,
        workers: Workers,
        reference: str,
        roofline: Roofline,
        patience: Patience | None = None,
        begun: float | None = None,
    ) -> None:
        self._task, self._limits, self._workers = task, limits, workers
        self._reference, self._roofline = reference, roofline
        self.prepared: Prepared | None = None
        self._fastest = known_core_rate()
        self._patience = patience or Patience()
        self._settled = self._patience.clock()
        self._begun = self._settled if begun is None else begun
        self._cost: Callable[[str], float] = lambda _: math.inf
        self._kept: dict[str, tuple[Candidate, Built]] = {}

    def start(self, candidate: Candidate) -> Pending:
        """Start compiling a candidate."""
        task = self._task
        job = BuildJob(candidate.program, task.target, task.allow_native, task.compiler)
        return self._workers.build(job, task.builder)

    def built(self, pending: Pending, until: float | None = None) -> Built:
        """Wait for a compilation, perhaps not as long as for other things."""
        return self._workers.built(pending, until)

    def built_in_time(self, pending: Mapping[str, Pending], over: Callable[[], bool]) -> dict[str, Built]:
        """Wait for compilations: for the first as long as there is time, for all of them half as long.

        What is not compiled by then, or when it is all over, is cancelled.

        Raises:
            BudgetSpent: there was no time for the first.
        """
        end, now = self._workers.until, time.monotonic()
        half = None if end is None else now + (end - now) / 2
        found: dict[str, Built] = {}
        try:
            for hash, task in pending.items():
                if over():
                    break
                found[hash] = self.built(task, half if found else None)
        except BudgetSpent:
            if not found:
                raise
        finally:
            for hash in pending.keys() - found.keys():
                pending[hash].cancel()
        return found

    def measure(
        self,
        candidate: Candidate,
        built: Built,
        best: float | None = None,
        *,
        final: bool = False,
        expected: float | None = None,
    ) -> Result:
        """Verify and time a compiled candidate, more than once if the core is slow; waits.

        Args:
            candidate: what is measured.
            built: its machine code, or why there is none.
            best: the cost of the best so far: one that is far slower is not timed to the end.
            final: time it to the end whatever it costs, and verify it on dense inputs, too.
            expected: its cost when it was measured before.
        """
        if built.result is not None:
            return built.result
        limits = self._final_limits() if final else trial_limits(self._limits, best)
        job = MeasureJob(candidate.program, built, self._reference, limits, final)
        seconds = self._time_limit(limits)

        def once() -> Result:
            return self._judged(self._workers.measure(job, seconds, self._task.runner))

        return self._patience.measure(once, lambda result: speed_of(result, expected))

    def settle(self) -> None:
        """Wait until the fastest candidate is about as fast as it was, as far as there is patience for it."""
        if not self._kept or self._patience.clock() < self._settled + SETTLED:
            return
        fastest = min(self._kept, key=self._cost)
        cost = self._cost(fastest)
        with suppress(BudgetSpent):
            self.measure(*self._kept[fastest], cost, expected=cost)
        self._settled = self._patience.clock()

    def _time_limit(self, limits: Limits) -> float:
        """Seconds that a candidate timed within `limits` may take, from what is known of the unscheduled program."""
        if self.prepared is None:
            return RUN_SECONDS
        return GRACE + 2.0 * limits.max_total + TIMES_UNSCHEDULED * self.prepared.seconds

    def _judged(self, result: Result) -> Result:
        """The result with the sizes that it is of and its core's share of the best speed known, or `IMPLAUSIBLE` if its
        time is impossible here; a time-out with the caches that it ran with."""
        result = replace(result, instances=self._task.instances)
        timing, cache = result.timing, self._limits.cache
        if result.outcome is Outcome.TIME_OUT and timing is None and cache is not None:
            return replace(result, cold=cache == "cold")
        if timing is not None and timing.yardstick is not None:
            self._fastest = max(self._fastest, timing.yardstick)
            result = replace(result, timing=replace(timing, core=timing.yardstick / self._fastest))
        if result.outcome is not Outcome.MEASURED or result.timing is None:
            return result
        why = self._roofline.broken_by(result.timing.median)
        return result if why is None else replace(result, outcome=Outcome.IMPLAUSIBLE, reason=why)

    # ------------------------------------------------------------------ machine code for the second measurement
    def keep(self, hash: str, candidate: Candidate, built: Built, cost: Callable[[str], float]) -> None:
        """Keep the machine code of a measured candidate, as long as it is among the fastest by `cost` of its hash."""
        self._kept[hash], self._cost = (candidate, built), cost
        if len(self._kept) > 2 * TRIED_AGAIN:
            fastest = sorted(self._kept, key=cost)[:TRIED_AGAIN]
            self._kept = {hash: self._kept[hash] for hash in fastest}

    def measure_again(self, hash: str, candidate: Callable[[], Candidate], expected: float | None = None) -> Result:
        """Measure a candidate to the end, on all inputs; built again where its machine code was not kept."""
        return self.measure(*self._rebuilt(hash, candidate), final=True, expected=expected)

    def compare(
        self, candidates: Mapping[str, Callable[[], Candidate]], expected: Sequence[float | None] = ()
    ) -> tuple[Compared, ...] | None:
        """Time verified candidates, given by hash, in turn in one process; None if it does not survive them.

        `expected` are the costs that they had before, if known.
        """
        built = [self._rebuilt(hash, candidate) for hash, candidate in candidates.items()]
        pairs = tuple((candidate.program, made) for candidate, made in built)
        limits = self._final_limits()
        job = CompareJob(pairs, self._reference, limits, self._part(COMPARING_PART, SHORT_COMPARING, COMPARING))

        def once() -> tuple[Compared, ...] | None:
            found = self._workers.compare(job, len(pairs) * self._time_limit(limits), self._task.runner)
            return None if found is None else tuple(replace(c, result=self._judged(c.result)) for c in found)

        def speed(found: tuple[Compared, ...] | None) -> float:
            shares = [speed_of(c.result, known) for c, known in zip_longest(found or (), expected[: len(found or ())])]
            return median(shares or [1.0])

        return self._patience.measure(once, speed)

    def _final_limits(self) -> Limits:
        return final_limits(self._limits, self._part(FINAL_PART, SHORT_FINAL, FINAL_SECONDS))

    def _part(self, part: float, least: float, most: float) -> float:
        """A part of the time since the search began: finalists should not take longer than all trials did."""
        return min(most, max(least, part * (self._patience.clock() - self._begun)))

    def _rebuilt(self, hash: str, candidate: Callable[[], Candidate]) -> tuple[Candidate, Built]:
        if hash not in self._kept:
            made = candidate()
            self._kept[hash] = made, self.built(self.start(made))
        return self._kept[hash]
