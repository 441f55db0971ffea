"""Building and measuring candidates, as a search asks: limits of time, plausibility, machine code kept for later."""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from mslang.runtime.timing import Limits
from mslang.schedule.space import Candidate
from mslang.tune.confirm import TRIED_AGAIN
from mslang.tune.job import BuildJob, Built, MeasureJob, Prepared
from mslang.tune.record import Outcome, Result
from mslang.tune.roofline import Roofline
from mslang.tune.task import Task
from mslang.tune.workers import RUN_SECONDS, Pending, Workers

GRACE = 3.0
"""Seconds that a candidate may take beyond what its timing and the unscheduled program's time account for."""

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
        prepared: how long the unscheduled program took.
    """

    def __init__(
        self,
        task: Task,
        limits: Limits,
        workers: Workers,
        reference: str,
        roofline: Roofline,
        prepared: Prepared | None = None,
    ) -> None:
        self._task, self._limits, self._workers = task, limits, workers
        self._reference, self._roofline, self._prepared = reference, roofline, prepared
        self._kept: dict[str, tuple[Candidate, Built]] = {}

    def start(self, candidate: Candidate) -> Pending:
        """Start compiling a candidate."""
        task = self._task
        return self._workers.build(BuildJob(candidate.program, task.target, task.allow_native, task.compiler))

    def built(self, pending: Pending) -> Built:
        """Wait for a compilation."""
        return self._workers.built(pending)

    def measure(
        self, candidate: Candidate, built: Built, cutoff: float | None = None, *, dense: bool = False
    ) -> Result:
        """Verify and time a compiled candidate; waits.

        Args:
            candidate: what is measured.
            built: its machine code, or why there is none.
            cutoff: seconds beyond which it is not timed to the end.
            dense: verify it on dense inputs, too.
        """
        if built.result is not None:
            return built.result
        limits = msgspec.structs.replace(self._limits, cutoff=cutoff)
        job = MeasureJob(candidate.program, built, self._reference, limits, dense)
        return self._plausible(self._workers.measure(job, self._time_limit()))

    def _time_limit(self) -> float:
        """Seconds that a candidate may take, from what is known of the unscheduled program."""
        if self._prepared is None:
            return RUN_SECONDS
        return GRACE + 2.0 * self._limits.max_total + TIMES_UNSCHEDULED * self._prepared.seconds

    def _plausible(self, result: Result) -> Result:
        """The result, or `IMPLAUSIBLE` if its time is impossible on this machine."""
        if result.outcome is not Outcome.MEASURED or result.timing is None:
            return result
        why = self._roofline.broken_by(result.timing.median)
        return result if why is None else msgspec.structs.replace(result, outcome=Outcome.IMPLAUSIBLE, reason=why)

    # ------------------------------------------------------------------ machine code for the second measurement
    def keep(self, hash: str, candidate: Candidate, built: Built, cost: Callable[[str], float]) -> None:
        """Keep the machine code of a measured candidate, as long as it is among the fastest by `cost` of its hash."""
        self._kept[hash] = candidate, built
        if len(self._kept) > 2 * TRIED_AGAIN:
            fastest = sorted(self._kept, key=cost)[:TRIED_AGAIN]
            self._kept = {hash: self._kept[hash] for hash in fastest}

    def measure_again(self, hash: str, candidate: Callable[[], Candidate], *, dense: bool) -> Result:
        """Measure a candidate to the end, built again where its machine code was not kept."""
        if hash not in self._kept:
            made = candidate()
            self._kept[hash] = made, self.built(self.start(made))
        return self.measure(*self._kept[hash], dense=dense)
