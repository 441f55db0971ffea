"""The search: generations of candidates, each built, measured in order, kept, and shown to the strategy.

Which candidates are proposed depends on the strategy, the seed and what was measured: not on the number of workers. A
generation is compiled as a whole, then measured in the order of proposing, with nothing beside it. Candidates that are
on record for this machine are not measured again.
"""

from __future__ import annotations

import time
from collections.abc import Sequence

from mslang import __version__
from mslang.ir.equal import structural_hash
from mslang.schedule.space import Candidate
from mslang.search.registry import strategy_named
from mslang.search.strategy import Factory, Observed, Problem, Proposal
from mslang.tune.comparison import Gap
from mslang.tune.confirm import REMEASURED
from mslang.tune.database import Database
from mslang.tune.finalists import candidate_of, confirm_finalists, with_incumbent
from mslang.tune.job import Prepared
from mslang.tune.progress import Confirming, Finished, Listener, Started, Tally, Trial
from mslang.tune.record import Outcome, Record, Result
from mslang.tune.recording import lower_bound, observed_of, record_of
from mslang.tune.roofline import Roofline
from mslang.tune.sampling import CUT_OFF
from mslang.tune.task import Settings, Task
from mslang.tune.trials import Trials
from mslang.tune.verification import DENSE
from mslang.tune.workers import BudgetSpent, Pending, Workers

GENERATION = 16
"""Candidates that are proposed together, whatever the number of workers."""


class Search:
    """One search over one task.

    `run` does it; `stop` (from a signal handler, say) ends it after the trial at hand, a KeyboardInterrupt at once:
    either way with all that was found. A run that has records already continues as if it had not been interrupted.

    Args:
        task: what to tune.
        settings: seed, budget, timing, strategy.
        database: where records are kept.
        workers: the processes that compile and measure.
        reference: the folder of inputs and expected results.
        run: the run that records belong to.
        roofline: what times are checked against.
        listen: is called with each event.
        prepared: how long the unscheduled program took.
        started: when the budget's time began (monotonic; default: now).
        incumbent: a candidate to be measured beside the best at the end, such as the schedule in the file.
        strategy: what makes the strategy (default: the one that the settings name).

    Raises:
        MsError: MS515, the settings name no strategy.
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
        strategy: Factory | None = None,
    ) -> None:
        self._task, self._settings, self._database = task, settings, database
        self._workers, self._run, self._listen = workers, run, listen
        self._trials = Trials(task, settings.limits, workers, reference, roofline, prepared)
        self._incumbent = None if incumbent is None else (structural_hash(incumbent.program), incumbent)
        self._make_strategy = strategy_named(settings.strategy) if strategy is None else strategy
        self._tally = Tally()
        self._records: dict[str, Record] = {}
        """The last record of each candidate of this run."""
        self._recorded: dict[str, Record] = {}
        """The first record of each candidate that this run has not proposed again since it was resumed."""
        self._known = database.known(
            task.workload, task.target.name, task.compiler.version(), __version__, task.machine.key
        )
        self._reused: set[str] = set()
        self._best: Record | None = None
        self._ties: tuple[Record, ...] = ()
        self._gaps: tuple[Gap, ...] = ()
        self._extra: str | None = None
        """The incumbent where it was not proposed: it is no trial."""
        self._since_better = 0
        self._stopped = False
        self._start = time.monotonic() if started is None else started

    def stop(self) -> None:
        """End after the trial at hand."""
        self._stopped = True

    def run(self) -> Finished:
        """Search until the budget is spent, the space is exhausted, or `stop` is called."""
        self._resume()
        self._listen(
            Started(
                self._task.program.name,
                self._task.space.name,
                self._task.target.name,
                self._run,
                str(self._database.path),
                self._settings.budget.trials,
                self._tally.trials,
            )
        )
        reason, confirmed = "interrupted", False
        try:
            reason = self._consume()
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
            gaps=self._gaps,
        )
        self._listen(finished)
        return finished

    # ------------------------------------------------------------------ generations
    def _resume(self) -> None:
        """Count what this run has on record already."""
        for record in self._database.records(run=self._run):
            if not isinstance(record, Record) or record.trial < 0:
                continue
            # Finalists have several records, as they are measured again: the strategy was shown the first one, but the
            # last one counts.
            self._recorded.setdefault(record.candidate, record)
            self._records[record.candidate] = record
        for record in self._records.values():
            self._tally.add(record.result.outcome, record.result.reason)
            self._note(record)

    def _consume(self) -> str:
        """Try one generation after the other; returns why it ended."""
        budget, settings = self._settings.budget, self._settings
        self._workers.until = None if budget.searching is None else self._start + budget.searching
        strategy = self._make_strategy(
            Problem(
                self._task.space,
                self._task.target,
                settings.seed,
                budget.trials,
                stopped=lambda: self._over(counting=False) is not None,
            )
        )
        while True:
            why = self._over(counting=not self._recorded)
            if why is not None:
                return why
            # All of a generation even if fewer trials are left: a run that is resumed with more of them continues it.
            proposals = strategy.propose(GENERATION)
            self._tally.reject(strategy.rejections.take())
            if not proposals:
                return self._over() or "the space is exhausted: no draw gives a new candidate"
            try:
                observed = self._try(proposals)
            except BudgetSpent:
                return budget.time_is_up
            if isinstance(observed, str):
                return observed
            strategy.observe(observed)

    def _over(self, *, counting: bool = True) -> str | None:
        """Why the search is over, if it is; without `counting` only the time counts."""
        if self._stopped:
            return "interrupted"
        trials, since = (self._tally.trials, self._since_better) if counting else (-1, -1)
        return self._settings.budget.spent(trials, time.monotonic() - self._start, since)

    def _try(self, proposals: Sequence[Proposal]) -> list[Observed] | str:
        """Build what is new of a generation, then measure it in order; a text says why the search is over."""
        pending: dict[str, Pending] = {}
        try:
            return self._measured(proposals, pending)
        finally:
            for left in pending.values():
                left.cancel()

    def _measured(self, proposals: Sequence[Proposal], pending: dict[str, Pending]) -> list[Observed] | str:
        new = [p for p in proposals if p.hash not in self._recorded and self._reusable(p.hash) is None]
        left = self._settings.budget.trials
        for p in new if left is None else new[: max(left - self._tally.trials, 0)]:
            pending[p.hash] = self._trials.start(p.candidate)
        # All are compiled before the first one runs: compiling beside it would disturb its time.
        built = {hash: self._trials.built(p) for hash, p in pending.items() if self._over() is None}
        observed: list[Observed] = []
        for p in proposals:
            record = self._recorded.pop(p.hash, None)
            if record is None:
                why = self._over()
                if why is not None:
                    return why
                record = self._reusable(p.hash)
                if record is not None:
                    self._reused.add(p.hash)
                else:
                    ready = built.get(p.hash) or self._trials.built(self._trials.start(p.candidate))
                    record = self._keep(p, self._trials.measure(p.candidate, ready, self._best_cost()))
                    if record.result.outcome is Outcome.MEASURED:
                        self._trials.keep(p.hash, p.candidate, ready, self._cost_of)
                self._show(record, known=p.hash in self._reused)
            observed.append(observed_of(record, p.candidate.sketch.structure))
        return observed

    def _keep(self, proposal: Proposal, result: Result) -> Record:
        trial = self._tally.trials
        return self._database.add(
            record_of(self._task, self._settings, self._run, proposal.candidate, proposal.hash, result, trial)
        )

    def _show(self, record: Record, known: bool) -> None:
        self._tally.add(record.result.outcome, record.result.reason)
        self._records[record.candidate] = record
        self._listen(Trial(record, self._note(record), known))

    def _note(self, record: Record) -> bool:
        """Whether a record is better than the best so far."""
        cost, best = record.cost, None if self._best is None else self._best.cost
        better = cost is not None and (best is None or cost < best)
        self._best = record if better else self._best
        self._since_better = 0 if better else self._since_better + 1
        return better

    def _reusable(self, hash: str) -> Record | None:
        """A record of this candidate that another run made on this machine, if it says all that is needed now."""
        known = self._known.get(hash)
        if known is None or not self._same_caches(known):
            return None
        match known.result.outcome:
            case Outcome.MEASURED:
                return known
            case Outcome.CUT_OFF:
                bound, cutoff = lower_bound(known), self._cutoff()
                return known if bound is not None and cutoff is not None and bound > cutoff else None
        return None

    def _same_caches(self, record: Record) -> bool:
        """Whether a record was timed with warm or cold caches as this search does."""
        timing = record.result.timing
        return timing is None or timing.cold == (self._settings.limits.cache == "cold")

    def _cost_of(self, hash: str) -> float:
        record = self._records.get(hash)
        return 0.0 if record is None or record.cost is None else record.cost

    def _cutoff(self) -> float | None:
        best = self._best_cost()
        return None if best is None else CUT_OFF * best

    def _best_cost(self) -> float | None:
        return None if self._best is None else self._best.cost

    # ------------------------------------------------------------------ the second measurement
    def _confirm(self, reason: str) -> bool:
        """Measure the fastest candidates again, and take the fastest of these as the best.

        Returns whether there is one. Records that another run of this machine confirmed are not measured again.
        """
        finalists = sorted((r for r in self._records.values() if r.cost is not None), key=lambda r: r.cost or 0.0)
        if self._incumbent is None and finalists and all(map(self._confirmed_before, finalists[:REMEASURED])):
            self._best = finalists[0]
            return True
        if self._incumbent is not None:
            finalists = with_incumbent(finalists, self._measured_incumbent(*self._incumbent))
        self._listen(Confirming(reason, min(REMEASURED, len(finalists))))
        seconds = self._settings.budget.seconds
        end = None if seconds is None else self._start + seconds
        found = confirm_finalists(finalists, self._trials, self._workers, self._candidate, end, 0.05 * (seconds or 0.0))
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
        self._ties, self._gaps = tuple(ordered[1 : 1 + found.ties]), found.gaps[: found.ties]
        return bool(ordered)

    def _confirmed_before(self, record: Record) -> bool:
        return record.candidate in self._reused and any(v.inputs == DENSE for v in record.result.verified)

    def _measured_incumbent(self, hash: str, incumbent: Candidate) -> Record:
        """The record of the incumbent, which is measured now unless it was proposed."""
        there = self._records.get(hash)
        if there is None:
            self._extra = hash
            result = self._trials.measure_again(hash, lambda: incumbent)
            made = record_of(self._task, self._settings, self._run, incumbent, hash, result, -1)
            there = self._records[hash] = self._database.add(made)
        return there

    def _candidate(self, record: Record) -> Candidate:
        if self._incumbent is not None and self._incumbent[0] == record.candidate:
            return self._incumbent[1]
        return candidate_of(record, self._task.space)
