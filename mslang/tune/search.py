"""The search: generations of candidates, each built, measured in order, kept, and shown to the strategy.

Which candidates are proposed depends on the strategy, the seed and what was measured: not on the number of workers. A
generation is compiled as a whole, or as far as half of the remaining time allows, then measured in the order of
proposing, with nothing else running. Candidates that are on record for this machine are not measured again.
"""

from __future__ import annotations

import math
import time
from collections.abc import Sequence

import msgspec

from mslang import __version__, profiling
from mslang.attribution import attributed
from mslang.schedule.space import Candidate
from mslang.search.estimates import Models
from mslang.search.lessons import Teacher
from mslang.search.models.begun import names_file
from mslang.search.models.boosting import is_installed
from mslang.search.models.registry import TREES, default_models
from mslang.search.registry import strategy_of
from mslang.search.strategy import MODELS, Observed, Proposal, Strategy, uses
from mslang.tune.database import Database
from mslang.tune.finalists import Finals
from mslang.tune.generation import Measured
from mslang.tune.history import History
from mslang.tune.job import Prepared
from mslang.tune.lessons import Taught, packed, taught
from mslang.tune.planning import problem_of
from mslang.tune.progress import Confirming, Finished, Listener, Sketched, Started, Trial
from mslang.tune.record import Outcome, Record, Result
from mslang.tune.recording import Recorder, Texts, observed_of
from mslang.tune.roofline import Roofline
from mslang.tune.task import Settings, Task
from mslang.tune.trials import Trials
from mslang.tune.workers import BudgetSpent, Pending, Workers

GENERATION = 16
"""Candidates that are proposed together, whatever the number of workers."""

GRACE = 0.05
"""The share of the budget's time by which the second measurement may exceed it."""


class Search:
    """One search over one task, a generation at a time.

    `run` does all of it. A session of several tasks calls `begin`, then `step` as often as the task is chosen, then
    `finish`. `stop` (from a signal handler, say) ends it after the trial at hand, with all that was found. A run that
    has records already continues as if it had not been interrupted.

    Args:
        task: what to tune.
        settings: seed, budget, timing, strategy.
        database: where records are kept.
        workers: the processes that compile and measure.
        reference: the folder of inputs and expected results.
        run: the run that records belong to.
        roofline: what times are checked against.
        listen: is called with each event.
        started: when the budget's time began (monotonic; default: now).
        incumbent: a candidate to be measured with the best at the end, such as the schedule in the file.

    Raises:
        MsError: MS515, MS525 or MS271, the settings name an unknown strategy, cost model or features.
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
        started: float | None = None,
        incumbent: Candidate | None = None,
    ) -> None:
        self._task, self._settings, self._database = task, settings, database
        self._workers, self._run, self._listen = workers, run, listen
        self._trials = Trials(task, settings.limits, workers, reference, roofline)
        self._make = strategy_of(settings.strategy)
        default_models(settings.cost_model, settings.features)
        self._taught: Taught | None = None
        self._strategy: Strategy | None = None
        self._history = History(settings.limits.cache)
        self._recorder = Recorder(task, settings, run, database)
        self._finals = Finals(task.space, self._history, self._trials, workers, self._recorder, incumbent)
        self._sketches: dict[object, int] = {}
        self._stopped = False
        self._start = time.monotonic() if started is None else started
        self._limit = settings.budget.trials
        self._unfinished = Measured()
        """A generation of which the last step measured a part."""
        self._generations = 0
        """How many were reported."""
        self.curve: tuple[float, ...] = ()
        """The lowest cost after each generation; infinite where nothing was valid."""
        self._history.resume(database.records(run=run))

    def stop(self) -> None:
        """End after the trial at hand."""
        self._stopped = True

    @property
    def trials(self) -> int:
        """Candidates that used up a trial, of the whole run."""
        return self._history.tally.trials

    @property
    def replaying(self) -> bool:
        """Whether records of a resumed run were not shown to the strategy yet."""
        return bool(self._history.unseen)

    @property
    def unfinished(self) -> bool:
        """Whether the last step ran out of trials within a generation; the next one goes on with it."""
        return bool(self._unfinished.proposals)

    def run(self) -> Finished:
        """Search until the budget is spent, the space is exhausted, or `stop` is called, or a KeyboardInterrupt."""
        self.begin()
        reason = None
        trials = self._settings.budget.trials
        try:
            while reason is None:
                reason = self.step(None if trials is None else trials - self.trials)
        except KeyboardInterrupt:
            self._stopped = True
            return self.finish("interrupted", confirm=False)
        return self.finish(reason)

    def begin(self, prepared: Prepared | None = None) -> None:
        """Report that the search begins. `prepared` says how long the unscheduled program took."""
        task, self._trials.prepared = self._task, prepared
        self._history.known = self._database.known(
            task.workload,
            task.target.name,
            task.compiled_by,
            __version__,
            task.machine.key,
            self._run,
            task.instances,
        )
        names = task.program.name, task.space.name, task.target.name
        strategy = self._begun()
        with attributed("strategy", strategy, "explanation"):
            explained = [x for x in (strategy.explanation(), self._correction()) if x]
        about = self._settings.budget.trials, self.trials, "; ".join(explained)
        self._listen(Started(*names, self._run, self._database.name, *about, best=self._history.best))

    def _correction(self) -> str:
        """What corrects the draft; empty if nothing does."""
        saved = self._settings.cost_model
        if names_file(saved) and uses(self._make, MODELS):
            return f"the draft is corrected by {saved}"
        return str(self._taught or "")

    def _begun(self) -> Strategy:
        """The strategy, made when first needed, as it may look at the whole space."""
        if self._strategy is None:
            known, models = self._history.known.values(), self._models()
            problem = problem_of(self._task, self._settings, known, self._given_up, models)
            with profiling.scope("draw"), attributed("strategy", self._make):
                self._strategy = self._make(problem)
        return self._strategy

    def _models(self) -> Models:
        """What ranks candidates, with what other programs of the store teach."""
        settings, machine = self._settings, self._task.machine.key
        if settings.cost_model in (None, *TREES) and uses(self._make, MODELS):
            begun = next((r.created for r in self._database.runs() if r.id == self._run), "")
            with profiling.scope("model"):
                self._taught = taught(
                    self._database.lessons(),
                    self._task.workload.hash,
                    machine,
                    begun,
                    cold=self._is_cold,
                    features=settings.extractor,
                )
        correction = None if self._taught is None else self._taught.correction
        return default_models(settings.cost_model, settings.features, correction).models

    @property
    def _is_cold(self) -> bool:
        return self._settings.limits.cache == "cold"

    def _teach(self) -> None:
        """Keep what the search teaches those of other programs."""
        if not isinstance(self._strategy, Teacher) or not is_installed():
            return
        with profiling.scope("model"):
            kept = packed(
                self._strategy.lessons(),
                self._run,
                self._task.workload.hash,
                self._task.machine.key,
                cold=self._is_cold,
                features=self._settings.extractor,
            )
        if kept is not None:
            self._database.add_lesson(kept)

    def step(self, left: int | None = None) -> str | None:
        """Try one generation of candidates.

        Args:
            left: trials that it may use up; what a resumed run has on record costs none.

        Returns why the search of this task is over, or None.
        """
        budget, strategy = self._settings.budget, self._begun()
        self._limit = None if left is None else self.trials + left
        self._workers.until = None if budget.searching is None else self._start + budget.searching
        why = self._over(counting=not self._history.unseen)
        if why is not None:
            self._end_unfinished()
            return why
        generation = self._unfinished
        if not generation.proposals:
            # All of a generation even if fewer trials are left: a run that is resumed with more of them continues it.
            with profiling.scope("draw"):
                proposals = _proposed(strategy)
            generation = Measured(proposals, (), strategy.rejections.take())
            self._history.tally.reject(generation.rejections)
        if not generation.proposals:
            return self._over() or "the space is exhausted: no draw gives a new candidate"
        try:
            observed, why = self._try(generation.left)
        except BudgetSpent:
            return budget.time_is_up
        generation = msgspec.structs.replace(generation, observed=(*generation.observed, *observed))
        self.curve = (*self.curve, min((*generation.costs, *self.curve[-1:]), default=math.inf))
        cut = why is not None and self._limit is not None and self.trials >= self._limit
        self._unfinished = generation if cut else Measured()
        if not cut:
            self._report(generation)
        if why is None:
            with profiling.scope("model"), attributed("strategy", strategy, "observe"):
                strategy.observe(generation.observed)
        return why

    def _report(self, generation: Measured) -> None:
        """Report a generation, once in this process: a resumed run reports those again that it replays."""
        self._listen(generation.event(self._generations))
        self._generations += 1

    def _end_unfinished(self) -> None:
        """Report a generation of which a part was measured, and go on with it no more."""
        if self.unfinished:
            self._report(self._unfinished)
            self._unfinished = Measured()

    def finish(self, reason: str, end: float | None = None, *, confirm: bool = True) -> Finished:
        """Measure the best again and sum up; the search is over.

        Args:
            reason: why.
            end: when the second measurement must be done (monotonic; default: when the time of the budget is over).
            confirm: whether there is a second measurement.
        """
        confirmed = False
        self._end_unfinished()
        try:
            if confirm:
                with profiling.scope("confirm"):
                    confirmed = self._finals.confirm(*self._until(end), lambda n: self._listen(Confirming(reason, n)))
            self._teach()
        except KeyboardInterrupt:
            self._stopped = True
        finished = Finished(
            reason,
            self._history.tally,
            self._history.best,
            time.monotonic() - self._start,
            self._stopped,
            confirmed,
            self._finals.ties,
            len(self._history.reused - {self._finals.extra}),
            gaps=self._finals.gaps,
        )
        self._listen(finished)
        return finished

    def _until(self, end: float | None) -> tuple[float | None, float | None]:
        """When the second measurement must be done, and its first candidate, which may exceed the budget a little."""
        seconds = self._settings.budget.seconds
        end = self._start + seconds if end is None and seconds is not None else end
        return end, None if end is None else end + GRACE * (seconds or 0.0)

    # ------------------------------------------------------------------ generations
    def _given_up(self) -> bool:
        return self._over(counting=False) is not None

    def _over(self, *, counting: bool = True) -> str | None:
        """Why the search is over, if it is; without `counting` only the time counts."""
        if self._stopped:
            return "interrupted"
        trials, since = (self.trials, self._history.since_better) if counting else (-1, -1)
        budget = msgspec.structs.replace(self._settings.budget, trials=self._limit)
        return budget.spent(trials, time.monotonic() - self._start, since)

    def _try(self, proposals: Sequence[Proposal]) -> tuple[list[Observed], str | None]:
        """Build and measure a generation, all at once or as much at a time as the budget's time allows; a text says why
        the search is over."""
        observed: list[Observed] = []
        while len(observed) < len(proposals):
            pending: dict[str, Pending] = {}
            try:
                more, why = self._measured(proposals[len(observed) :], pending)
            finally:
                for left in pending.values():
                    left.cancel()
            observed += more
            if why is not None:
                return observed, why
        return observed, None

    def _measured(
        self, proposals: Sequence[Proposal], pending: dict[str, Pending]
    ) -> tuple[list[Observed], str | None]:
        """Build as many of these as half of the remaining time allows, and measure them in order."""
        new = [p for p in proposals if self._history.needs_measuring(p.hash)]
        for p in new if self._limit is None else new[: max(self._limit - self.trials, 0)]:
            pending[p.hash] = self._trials.start(p.candidate)
        # Written while the builders work, so that no timing waits for it.
        with profiling.scope("text"):
            texts = {p.hash: self._recorder.texts(p.candidate) for p in new if p.hash in pending}
        # They are compiled before the first one runs: compiling meanwhile would disturb its time.
        with profiling.scope("build"):
            built = self._trials.built_in_time(pending, lambda: self._over() is not None)
        late = next((n for n, p in enumerate(proposals) if p.hash in pending and p.hash not in built), len(proposals))
        proposals = proposals[: late or 1]
        observed: list[Observed] = []
        for p in proposals:
            record = self._history.replayed(p.hash)
            if record is None:
                known = self._history.reusable(p.hash)
                if known is None:
                    # A resumed run that proposes something new has caught up, or its space or model is another now.
                    self._history.catch_up()
                # Until it has, what it takes over was counted before it was interrupted.
                why = self._over(counting=not self._history.unseen)
                if why is not None:
                    return observed, why
                self._introduce(p)
                if known is not None:
                    self._history.reused.add(p.hash)
                    record = self._recorder.reused(known, p.candidate, self._history.proposed)
                else:
                    ready = built.get(p.hash) or self._trials.built(self._trials.start(p.candidate))
                    with profiling.scope("measure"):
                        self._trials.settle()
                        result = self._trials.measure(p.candidate, ready, self._history.best_cost)
                    record = self._keep(p.hash, texts.get(p.hash) or self._recorder.texts(p.candidate), result)
                    if record.result.outcome is Outcome.MEASURED:
                        self._trials.keep(p.hash, p.candidate, ready, self._history.cost_of)
                self._show(record, p.predicted)
            observed.append(observed_of(record, p.candidate.sketch.structure))
        return observed, None

    def _introduce(self, proposal: Proposal) -> None:
        """Report the sketch of a candidate that is the first of it."""
        sketch = proposal.candidate.sketch
        if sketch.structure in self._sketches:
            return
        number = self._sketches[sketch.structure] = len(self._sketches)
        self._listen(Sketched(number, sketch.trace.as_ms(f"sketch_{number}", unpinned=True)))

    def _keep(self, hash: str, texts: Texts, result: Result) -> Record:
        for stage, seconds in result.stages.items():
            profiling.add(stage, seconds)
        made = self._recorder.record(hash, texts, result, self._history.proposed)
        with profiling.scope("commit"):
            return self._recorder.keep(made)

    def _show(self, record: Record, predicted: float | None) -> None:
        better = self._history.add(record)
        self._listen(Trial(record, better, record.candidate in self._history.reused, predicted))


def _proposed(strategy: Strategy) -> Sequence[Proposal]:
    """The next generation of a strategy."""
    with attributed("strategy", strategy, "propose"):
        found = strategy.propose(GENERATION)
        other = next((p for p in found if not isinstance(p, Proposal)), None)
        if other is not None:
            raise TypeError(f"it gives a {type(other).__name__}, not a Proposal")
    return found
