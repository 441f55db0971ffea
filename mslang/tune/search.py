"""The search: draws distinct candidates, measures them in order, keeps every outcome.

Which candidates are drawn depends on the seed alone: not on the number of workers, nor on what was measured. Some are
compiled at a time, then these are measured in the order of drawing, with nothing beside them. Candidates that are on
record for this machine are not measured again.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

import msgspec

from mslang import __version__
from mslang.backend.backend import BackEnd
from mslang.backend.registry import serving
from mslang.ir.equal import structural_hash
from mslang.ir.program import Program
from mslang.runtime.timing import Limits
from mslang.schedule.space import Candidate, Space
from mslang.target.description import Target
from mslang.target.machine import this_machine
from mslang.target.yardstick import NOMINAL_RATE
from mslang.tune.budget import Budget
from mslang.tune.confirm import REMEASURED, TRIED_AGAIN, confirm
from mslang.tune.database import Database
from mslang.tune.drawing import Distinct, distinct_candidates
from mslang.tune.job import BuildJob, Built, MeasureJob, Prepared
from mslang.tune.progress import Confirming, Finished, Listener, Started, Tally, Trial
from mslang.tune.record import TRIED, Outcome, Record, Result
from mslang.tune.roofline import Roofline
from mslang.tune.verification import DENSE
from mslang.tune.workers import RUN_SECONDS, BudgetSpent, Pending, Workers

CUT_OFF = 3.0
"""A candidate slower than the best by this factor is not timed to the end."""

AHEAD = 2
"""Candidates compiled ahead of the one that runs, for each worker."""

GRACE = 3.0
"""Seconds that a candidate may take beyond what its timing and the unscheduled program's time account for."""

TIMES_UNSCHEDULED = 20.0
"""A candidate that takes so many times as long as the unscheduled program is stopped."""


class Task(msgspec.Struct, frozen=True):
    """What is tuned: a program, the space of its schedules, the machine; `file` is where it stands."""

    program: Program
    space: Space
    target: Target
    file: str
    sources: str = ""
    allow_native: bool = False
    """Whether implementations in a back end's text may do more than compute."""
    backend: BackEnd[Any] | None = None
    """What compiles the candidates (default: what serves the target)."""


class Settings(msgspec.Struct, frozen=True):
    """How: the seed, when to stop, and how to time. `name` is what the best schedule will be called."""

    seed: int = 0
    budget: Budget = Budget()
    limits: Limits = Limits(min_repeat=0.0005)
    name: str = "best"


class Search:
    """One search over one task.

    `run` does it; `stop` (from a signal handler, say) ends it after the trial at hand, a KeyboardInterrupt at once:
    either way with all that was found.

    Args:
        task: what to tune.
        settings: seed, budget, timing.
        database: where records are kept.
        workers: the processes that compile and measure.
        reference: the folder of inputs and expected results.
        run: the run that records belong to.
        roofline: what times are checked against.
        listen: is called with each event.
        prepared: how long the unscheduled program took.
        started: when the budget's time began (monotonic; default: now).
        incumbent: a candidate to be measured beside the best at the end, such as the schedule in the file.
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
        *,
        prepared: Prepared | None = None,
        started: float | None = None,
        incumbent: Candidate | None = None,
    ) -> None:
        self._task, self._settings, self._database = task, settings, database
        self._workers, self._reference, self._run, self._listen = workers, reference, run, listen
        self._roofline, self._prepared, self._incumbent = roofline, prepared, incumbent
        self._workload = structural_hash(task.program)
        self._tally = Tally()
        self._records: dict[str, Record] = {}
        """The last record of each candidate of this run."""
        self._built: dict[str, tuple[Candidate, Built]] = {}
        self._known = database.known(self._workload, task.target.name, _compiler(task), __version__)
        self._reused: set[str] = set()
        self._best: Record | None = None
        self._ties: tuple[Record, ...] = ()
        self._extra: str | None = None
        """The incumbent where it was not drawn: it is no trial."""
        self._since_better = 0
        self._stopped = False
        self._start = time.monotonic() if started is None else started
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
        drawn = distinct_candidates(
            self._task.space, self._settings.seed, self._tally, done, lambda: self._over() is not None
        )
        reason, confirmed = "interrupted", False
        try:
            reason = self._consume(drawn, max(1, builders) * AHEAD)
            confirmed = self._confirm(reason)
        except KeyboardInterrupt:
            self._stopped = True
        finished = Finished(
            reason,
            self._tally,
            self._best,
            time.monotonic() - self._start,
            self._stopped,
            confirmed,
            self._ties,
            len(self._reused),
        )
        self._listen(finished)
        return finished

    def _resume(self) -> frozenset[str]:
        """The candidates that this run has on record already."""
        found = [r for r in self._database.records(run=self._run) if isinstance(r, Record)]
        # Finalists have two records, as they are measured again: the last one counts.
        last = {r.candidate: r for r in found}
        for record in last.values():
            self._tally.add(record.result.outcome, record.result.reason)
            self._trials_before += record.result.outcome in TRIED
            self._take_best(record)
        self._records |= last
        return frozenset(last)

    def _consume(self, drawn: Iterator[Distinct], ahead: int) -> str:
        """Compile some candidates, then measure them in order, and so on; returns why it ended."""
        budget = self._settings.budget
        self._workers.until = None if budget.searching is None else self._start + budget.searching
        while True:
            batch: list[tuple[Distinct, Pending | Record]] = []
            while len(batch) < self._wanted(ahead) and self._over() is None:
                new = next(drawn, None)
                if new is None:
                    break
                batch.append((new, self._reusable(new.hash) or self._start_build(new.candidate)))
            try:
                why = self._over() or ("" if batch else "the space is exhausted: no draw gives a new candidate")
                why = why or self._measure_all(batch)
            except BudgetSpent:
                why = budget.time_is_up
            if why:
                for _, pending in batch:
                    if not isinstance(pending, Record):
                        pending.cancel()
                return why

    def _wanted(self, ahead: int) -> int:
        """How many to compile together: no more than trials are left."""
        trials = self._settings.budget.trials
        return ahead if trials is None else max(1, min(ahead, trials - self._tally.trials))

    def _over(self) -> str | None:
        if self._stopped:
            return "interrupted"
        return self._settings.budget.spent(self._tally.trials, time.monotonic() - self._start, self._since_better)

    def _start_build(self, candidate: Candidate) -> Pending:
        task = self._task
        return self._workers.build(BuildJob(candidate.program, task.target, task.allow_native, _back_end(task)))

    def _reusable(self, hash: str) -> Record | None:
        """A record of this candidate that another run made on this machine, if it says all that is needed now."""
        known = self._known.get(hash)
        if known is None:
            return None
        match known.result.outcome:
            case Outcome.MEASURED:
                return known
            case Outcome.CUT_OFF:
                bound, cutoff = lower_bound(known), self._cutoff()
                return known if bound is not None and cutoff is not None and bound > cutoff else None
        return None

    def _measure_all(self, batch: list[tuple[Distinct, Pending | Record]]) -> str:
        """Measure compiled candidates; returns why the search is over, if it is."""
        # All are compiled before the first one runs: compiling beside it would disturb its time.
        ready = [(d, p if isinstance(p, Record) else self._workers.built(p)) for d, p in batch]
        for drawn, built in ready:
            why = self._over()
            if why is not None:
                return why
            if isinstance(built, Record):
                self._reused.add(drawn.hash)
                self._tally.add(built.result.outcome, built.result.reason)
                self._show(built, known=True)
            else:
                result = self._measure(drawn.candidate, built)
                self._remember(drawn, built, result)
                self._tally.add(result.outcome, result.reason)
                self._show(self._keep(drawn.candidate, drawn.hash, result), known=False)
        return ""

    def _show(self, record: Record, known: bool) -> None:
        self._records[record.candidate] = record
        better = self._take_best(record)
        self._since_better = 0 if better else self._since_better + 1
        self._listen(Trial(record, better, known))

    def _measure(self, candidate: Candidate, built: Built, *, final: bool = False, dense: bool = False) -> Result:
        if built.result is not None:
            return built.result
        limits = msgspec.structs.replace(self._settings.limits, cutoff=None if final else self._cutoff())
        job = MeasureJob(candidate.program, built, self._reference, limits, dense)
        return self._plausible(self._workers.measure(job, self._time_limit()))

    def _remember(self, drawn: Distinct, built: Built, result: Result) -> None:
        """Keep the machine code of the fastest candidates, which are measured again at the end."""
        if result.outcome is not Outcome.MEASURED:
            return
        self._built[drawn.hash] = drawn.candidate, built
        if len(self._built) > 2 * TRIED_AGAIN:
            fastest = sorted(self._built, key=lambda hash: self._cost_of(hash))[:TRIED_AGAIN]
            self._built = {hash: self._built[hash] for hash in fastest}

    def _cost_of(self, hash: str) -> float:
        record = self._records.get(hash)
        return 0.0 if record is None or record.cost is None else record.cost

    def _cutoff(self) -> float | None:
        return None if self._best is None or self._best.cost is None else CUT_OFF * self._best.cost

    def _time_limit(self) -> float:
        """Seconds that a candidate may take, from what is known of the unscheduled program."""
        if self._prepared is None:
            return RUN_SECONDS
        return GRACE + 2.0 * self._settings.limits.max_total + TIMES_UNSCHEDULED * self._prepared.seconds

    def _plausible(self, result: Result) -> Result:
        """The result, or `IMPLAUSIBLE` if its time is impossible on this machine."""
        if result.outcome is not Outcome.MEASURED or result.timing is None:
            return result
        why = self._roofline.broken_by(result.timing.median)
        return result if why is None else msgspec.structs.replace(result, outcome=Outcome.IMPLAUSIBLE, reason=why)

    def _keep(self, candidate: Candidate, hash: str, result: Result) -> Record:
        task, trace = self._task, candidate.trace
        # A schedule that refers to itself means nothing.
        pinned = trace.source not in (None, self._settings.name)
        return self._database.add(
            Record(
                workload=self._workload,
                program=task.program.name,
                target=task.target.name,
                device=this_machine().name,
                machine=this_machine().key,
                compiler=_compiler(task),
                candidate=hash,
                schedule=trace.as_ms(self._settings.name, pinned=pinned),
                trace=trace.as_ms(self._settings.name),
                decisions=msgspec.json.encode(candidate.decisions).decode(),
                result=result,
                run=self._run,
                trial=self._tally.trials - 1,
                seed=self._settings.seed,
                version=__version__,
                sources=task.sources,
            )
        )

    def _take_best(self, record: Record) -> bool:
        cost, best = record.cost, None if self._best is None else self._best.cost
        if cost is None or (best is not None and cost >= best):
            return False
        self._best = record
        return True

    def _confirm(self, reason: str) -> bool:
        """Measure the fastest candidates again, verify them on dense inputs, and take the fastest of these as the best.

        Returns whether there is one. Records that another run of this machine confirmed are not measured again.
        """
        finalists = sorted((r for r in self._records.values() if r.cost is not None), key=lambda r: r.cost or 0.0)
        if self._incumbent is None and finalists and all(map(self._confirmed_before, finalists[:REMEASURED])):
            self._best = finalists[0]
            return True
        finalists = self._with_incumbent(finalists)
        self._listen(Confirming(reason, min(REMEASURED, len(finalists))))
        budget = self._settings.budget.seconds
        end = None if budget is None else self._start + budget
        # The first of them is measured even if that takes a little longer than the budget.
        self._workers.until = None if budget is None or end is None else end + 0.05 * budget

        def measure(record: Record, dense: bool) -> Result | None:
            try:
                if record.candidate not in self._built:
                    candidate = self._candidate(record)
                    self._built[record.candidate] = candidate, self._workers.built(self._start_build(candidate))
                return self._measure(*self._built[record.candidate], final=True, dense=dense)
            except BudgetSpent:
                return None
            finally:
                self._workers.until = end

        found = confirm(finalists, measure, lambda: end is not None and time.monotonic() >= end)
        if not (found.failed or found.ordered):
            return False
        before = {r.candidate: r for r in finalists}
        kept = {}
        for record in (*found.failed, *found.ordered):
            if record.candidate != self._extra:
                self._tally.change(before[record.candidate].result, record.result)
            kept[record.candidate] = self._records[record.candidate] = self._database.add(record)
        ordered = [kept[r.candidate] for r in found.ordered]
        self._best = ordered[0] if ordered else None
        self._ties = tuple(ordered[1 : 1 + found.ties])
        return bool(ordered)

    def _confirmed_before(self, record: Record) -> bool:
        return record.candidate in self._reused and any(v.inputs == DENSE for v in record.result.verified)

    def _with_incumbent(self, finalists: list[Record]) -> list[Record]:
        """The finalists, the incumbent among the first of them."""
        if self._incumbent is None:
            return finalists
        hash = structural_hash(self._incumbent.program)
        there = self._records.get(hash)
        if there is None:
            result = self._measure(self._incumbent, self._workers.built(self._start_build(self._incumbent)), final=True)
            there = self._records[hash] = self._keep(self._incumbent, hash, result)
            self._extra = hash
        if there.cost is None:
            return finalists
        rest = [r for r in finalists if r.candidate != hash]
        return sorted([there, *rest[: REMEASURED - 1]], key=lambda r: r.cost or 0.0) + rest[REMEASURED - 1 :]

    def _candidate(self, record: Record) -> Candidate:
        if self._incumbent is not None and structural_hash(self._incumbent.program) == record.candidate:
            return self._incumbent
        return self._task.space.replay(msgspec.json.decode(record.decisions), strict=False)


def lower_bound(record: Record) -> float | None:
    """The least that a candidate costs which was cut off, at the nominal speed."""
    timing = record.result.timing
    return None if timing is None else timing.min * (timing.yardstick or NOMINAL_RATE) / NOMINAL_RATE


def _compiler(task: Task) -> str:
    return _back_end(task).version()


def _back_end(task: Task) -> BackEnd[Any]:
    return task.backend or serving(task.target)
