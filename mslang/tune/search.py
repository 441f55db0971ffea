"""The search: draws distinct candidates, measures them in order, keeps every outcome.

Which candidates are drawn depends on the seed alone: not on the number of workers, nor on what was measured. A
candidate is compiled while earlier ones run; results are taken in the order of drawing.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Iterator
from typing import NamedTuple

import msgspec

from mslang import __version__
from mslang.ir.equal import structural_hash
from mslang.ir.program import Program
from mslang.runtime.timing import Limits
from mslang.schedule.space import Candidate, Rejection, Space
from mslang.target.description import Target
from mslang.target.machine import this_machine
from mslang.tune.budget import Budget
from mslang.tune.database import Database
from mslang.tune.job import BuildJob, MeasureJob
from mslang.tune.progress import Confirming, Finished, Listener, Started, Tally, Trial
from mslang.tune.record import TRIED, Outcome, Record, Result
from mslang.tune.roofline import Roofline
from mslang.tune.workers import Pending, Workers

DRAWS_WITHOUT_NEWS = 2000
"""After so many draws in a row that gave nothing new, the space counts as exhausted."""

CUT_OFF = 3.0
"""A candidate slower than the best by this factor is not timed to the end."""

AHEAD = 2
"""Candidates compiled ahead of the one that runs, for each worker."""

REMEASURED = 3
"""So many of the fastest at least are measured again at the end, on dense inputs too."""

TRIED_AGAIN = 12
"""So many of the fastest at most, where some do not stand the second measurement, or do not come near the first."""


class Task(msgspec.Struct, frozen=True):
    """What is tuned: a program, the space of its schedules, the machine; `file` is where it stands."""

    program: Program
    space: Space
    target: Target
    file: str
    sources: str = ""
    allow_native: bool = False
    """Whether implementations in LLVM text may do more than compute."""


class Settings(msgspec.Struct, frozen=True):
    """How: the seed, when to stop, and how to time. `name` is what the best schedule will be called."""

    seed: int = 0
    budget: Budget = Budget()
    limits: Limits = Limits()
    name: str = "best"


class Distinct(NamedTuple):
    """A candidate no equal of which was drawn before, its hash, and its place in the order."""

    candidate: Candidate
    hash: str
    number: int


def distinct_candidates(space: Space, seed: int, tally: Tally, done: frozenset[str]) -> Iterator[Distinct]:
    """Distinct valid candidates in the order that `seed` gives; ends when nothing new comes any more.

    What is drawn and not given out is counted in `tally`, except candidates that are `done` (hashes of programs).
    """
    known: set[str] = set()
    number = without_news = attempt = 0
    while without_news < DRAWS_WITHOUT_NEWS:
        drawn = space.attempt(seed, attempt)
        attempt += 1
        without_news += 1
        if isinstance(drawn, Rejection):
            tally.add(Outcome.ILLEGAL if drawn.illegal else Outcome.CONSTRAINT, drawn.reason)
            continue
        hash = structural_hash(drawn.program)
        if hash in known:
            tally.add(Outcome.DUPLICATE)
            continue
        known.add(hash)
        without_news = 0
        if hash not in done:
            yield Distinct(drawn, hash, number)
        number += 1


class Search:
    """One search over one task.

    `run` does it; `stop` (from a signal handler, say) ends it after the trial at hand, a KeyboardInterrupt at once:
    either way with all that was found.
    """

    def __init__(
        self,
        task: Task,
        settings: Settings,
        database: Database,
        workers: Workers,
        reference: str,
        run: str,
        roofline: Roofline,
        listen: Listener,
    ) -> None:
        self._task, self._settings, self._database = task, settings, database
        self._workers, self._reference, self._run, self._listen = workers, reference, run, listen
        self._roofline = roofline
        self._workload = structural_hash(task.program)
        self._tally = Tally()
        self._best: Record | None = None
        self._since_better = 0
        self._stopped = False
        self._start = time.monotonic()
        self._trials_before = 0

    def stop(self) -> None:
        """End after the trial at hand."""
        self._stopped = True

    def run(self, builders: int = 1) -> Finished:
        """Search until the budget is spent, the space is exhausted, or `stop` is called."""
        done = self._resume()
        self._listen(
            Started(
                self._task.program.name,
                self._task.space.name,
                self._task.target.name,
                self._run,
                str(self._database.path),
                self._settings.budget.trials,
                self._trials_before,
            )
        )
        drawn = distinct_candidates(self._task.space, self._settings.seed, self._tally, done)
        reason, confirmed = "interrupted", False
        try:
            reason = self._consume(drawn, max(1, builders) * AHEAD)
            confirmed = self._confirm(reason)
        except KeyboardInterrupt:
            self._stopped = True
        finished = Finished(reason, self._tally, self._best, time.monotonic() - self._start, self._stopped, confirmed)
        self._listen(finished)
        return finished

    def _resume(self) -> frozenset[str]:
        """What this run has on record already, if it is one that goes on."""
        found = [r for r in self._database.records(run=self._run) if isinstance(r, Record)]
        # Finalists stand twice, being measured again at the end: what came out last counts.
        last = {r.candidate: r for r in found}
        for record in last.values():
            self._tally.add(record.result.outcome, record.result.reason)
            self._trials_before += record.result.outcome in TRIED
            self._take_best(record)
        return frozenset(last)

    def _consume(self, drawn: Iterator[Distinct], ahead: int) -> str:
        """Keep candidates compiling ahead and measure them in order; returns why it ended."""
        compiling: deque[tuple[Distinct, Pending]] = deque()
        exhausted = False
        while True:
            why = self._over()
            if why is not None:
                for _, pending in compiling:
                    pending.future.cancel()
                return why
            while not exhausted and len(compiling) < self._wanted(ahead):
                new = next(drawn, None)
                exhausted = new is None
                if new is not None:
                    compiling.append((new, self._workers.build(self._build_job(new.candidate))))
            if not compiling:
                return "the space is exhausted"
            candidate, pending = compiling.popleft()
            self._measure(candidate, pending)

    def _wanted(self, ahead: int) -> int:
        """How many to compile ahead: no more than trials are left."""
        trials = self._settings.budget.trials
        return ahead if trials is None else max(1, min(ahead, trials - self._tally.trials))

    def _over(self) -> str | None:
        if self._stopped:
            return "interrupted"
        return self._settings.budget.spent(self._tally.trials, time.monotonic() - self._start, self._since_better)

    def _measure(self, drawn: Distinct, pending: Pending) -> None:
        built = self._workers.built(pending)
        result = built.result
        if result is None:
            best = self._best.seconds if self._best is not None else None
            limits = msgspec.structs.replace(self._settings.limits, cutoff=None if best is None else CUT_OFF * best)
            job = MeasureJob(drawn.candidate.program, built, self._reference, limits)
            result = self._doubted(self._workers.measure(job))
        record = self._keep(drawn, result)
        better = self._take_best(record)
        self._since_better = 0 if better else self._since_better + 1
        self._listen(Trial(record, better))

    def _doubted(self, result: Result) -> Result:
        """The result, unless its time cannot be true."""
        if result.outcome is not Outcome.MEASURED or result.timing is None:
            return result
        why = self._roofline.broken_by(result.timing.median)
        return result if why is None else msgspec.structs.replace(result, outcome=Outcome.IMPLAUSIBLE, reason=why)

    def _keep(self, drawn: Distinct, result: Result) -> Record:
        task, trace = self._task, drawn.candidate.trace
        self._tally.add(result.outcome, result.reason)
        pinned = trace.source is not None
        return self._database.add(
            Record(
                workload=self._workload,
                program=task.program.name,
                target=task.target.name,
                device=this_machine().name,
                machine=this_machine().key,
                compiler=_compiler(),
                candidate=drawn.hash,
                schedule=trace.as_ms(self._settings.name, pinned=pinned),
                trace=trace.as_ms(self._settings.name),
                decisions=msgspec.json.encode(drawn.candidate.decisions).decode(),
                result=result,
                run=self._run,
                trial=self._tally.trials - 1,
                seed=self._settings.seed,
                version=__version__,
                sources=task.sources,
            )
        )

    def _take_best(self, record: Record) -> bool:
        seconds, best = record.seconds, None if self._best is None else self._best.seconds
        if seconds is None or (best is not None and seconds >= best):
            return False
        self._best = record
        return True

    def _confirm(self, reason: str) -> bool:
        """Measure the fastest again, one after another with nothing beside them, and verify them on dense inputs.

        One that does not stand it is no longer the best, and the next takes its place; nor is one that was only lucky
        the first time: it goes on until none that is left looks faster. Returns whether one stood it.
        """
        finalists = self._database.top(k=TRIED_AGAIN, run=self._run)
        self._listen(Confirming(reason, min(REMEASURED, len(finalists))))
        confirmed: list[Record] = []
        for record in finalists:
            fastest = min((r.seconds or 0.0 for r in confirmed), default=0.0)
            if len(confirmed) >= REMEASURED and fastest <= (record.seconds or 0.0):
                break
            again = self._measured_again(record)
            if again.seconds is not None:
                confirmed.append(again)
        self._best = min(confirmed, key=lambda r: r.seconds or 0.0, default=None)
        return bool(confirmed)

    def _build_job(self, candidate: Candidate) -> BuildJob:
        return BuildJob(candidate.program, self._task.target, self._task.allow_native)

    def _measured_again(self, record: Record) -> Record:
        candidate = self._task.space.replay(msgspec.json.decode(record.decisions), strict=False)
        built = self._workers.built(self._workers.build(self._build_job(candidate)))
        limits = self._settings.limits
        longer = msgspec.structs.replace(
            limits,
            cutoff=None,
            max_total=4 * limits.max_total,
            repeats=2 * limits.repeats,
            max_repeats=2 * limits.max_repeats,
        )
        job = MeasureJob(candidate.program, built, self._reference, longer, dense=True)
        result = built.result or self._doubted(self._workers.measure(job))
        self._tally.change(record.result, result)
        return self._database.add(msgspec.structs.replace(record, result=result, id=None, created=""))


def _compiler() -> str:
    import llvmlite.binding as llvm

    return "llvm " + ".".join(map(str, llvm.llvm_version_info))
