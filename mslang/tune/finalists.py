"""The end of a search: the fastest candidates are measured again, together with an incumbent."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from functools import partial

from msgspec.structs import replace

from mslang.diagnostics import MsError
from mslang.ir.equal import structural_hash
from mslang.schedule.space import Candidate, Space
from mslang.tune.comparison import Compared, Gap
from mslang.tune.confirm import REMEASURED, Confirmed, confirm
from mslang.tune.history import History
from mslang.tune.record import INCUMBENT, Outcome, Record, Result
from mslang.tune.recording import Recorder, candidate_of
from mslang.tune.trials import Trials
from mslang.tune.workers import BudgetSpent, Workers


class Finals:
    """The second measurement of one search. Its records are kept, and are what the history knows of the finalists.

    Args:
        space: the space that was searched.
        history: what the search has found.
        trials: what builds and measures.
        workers: the processes that do it.
        recorder: keeps records.
        incumbent: a candidate to be measured with the best, such as the schedule in the file.

    `ties` and `gaps` say how the next candidates compare with the best; `extra` is the incumbent's hash where it was
    not proposed.
    """

    def __init__(
        self,
        space: Space,
        history: History,
        trials: Trials,
        workers: Workers,
        recorder: Recorder,
        incumbent: Candidate | None,
    ) -> None:
        self._space, self._history, self._trials = space, history, trials
        self._workers, self._recorder = workers, recorder
        self._incumbent = None if incumbent is None else (structural_hash(incumbent.program), incumbent)
        self.ties: tuple[Record, ...] = ()
        self.gaps: tuple[Gap, ...] = ()
        self.extra: str | None = None

    def confirm(self, end: float | None, first_end: float | None, begin: Callable[[int], None]) -> bool:
        """Measure the fastest candidates again, and take the fastest of these as the best.

        Args:
            end: when it must be done (monotonic).
            first_end: when the first of them must be done.
            begin: is called with the number of finalists before they are measured.

        Returns whether there is a best one. Records that another run of this machine confirmed are not measured again.
        """
        self._workers.until = first_end
        finalists = self._history.fastest_first()
        incumbent = None if self._incumbent is None else self._measured_incumbent(*self._incumbent)
        if incumbent is not None:
            finalists = with_incumbent(finalists, incumbent)
        if finalists and all(map(self._history.confirmed_before, finalists[:REMEASURED])):
            self._history.best = self._beside_own(finalists[0])
            return True
        begin(min(REMEASURED, len(finalists)))
        found = confirm_finalists(finalists, self._trials, self._workers, self._candidate, end)
        if not (found.failed or found.ordered):
            return False
        before = {r.candidate: r for r in finalists}
        kept = {}
        for record in (*found.failed, *found.ordered):
            if record.candidate != self.extra:
                self._history.tally.change(before[record.candidate].result, record.result)
            kept[record.candidate] = self._history.records[record.candidate] = self._recorder.keep(self._marked(record))
        ordered = [kept[r.candidate] for r in found.ordered]
        self._history.best = ordered[0] if ordered else None
        self.ties, self.gaps = tuple(ordered[1 : 1 + found.ties]), found.gaps[: found.ties]
        return bool(ordered)

    def _beside_own(self, record: Record) -> Record:
        """A record that was taken over, kept beside those that this run made, if there are any, which it is faster
        than."""
        if self._history.records.keys() <= self._history.reused:
            return record
        return self._recorder.keep(self._marked(replace(record, id=None, created="")))

    def _measured_incumbent(self, hash: str, incumbent: Candidate) -> Record | None:
        """The record of the incumbent, which is measured now unless it was proposed or is on record; None if there is
        no time for that."""
        there = self._history.records.get(hash)
        if there is not None:
            return there
        self.extra = hash
        known = self._history.reusable(hash)
        if known is not None and known.cost is not None:
            self._history.reused.add(hash)
            self._history.records[hash] = self._recorder.reused(known, incumbent, INCUMBENT)
            return self._history.records[hash]
        try:
            result = self._trials.measure_again(hash, lambda: incumbent)
        except BudgetSpent:
            return None
        made = self._recorder.record(hash, self._recorder.texts(incumbent), result, INCUMBENT)
        self._history.records[hash] = self._recorder.keep(made)
        return self._history.records[hash]

    def _marked(self, record: Record) -> Record:
        """A finalist's second record, which says of the incumbent that it is that, though it was proposed, too."""
        if self._incumbent is None or self._incumbent[0] != record.candidate:
            return record
        return replace(record, trial=INCUMBENT)

    def _candidate(self, record: Record) -> Candidate:
        if self._incumbent is not None and self._incumbent[0] == record.candidate:
            return self._incumbent[1]
        return candidate_of(record, self._space)


def with_incumbent(finalists: list[Record], incumbent: Record) -> list[Record]:
    """The finalists, the record of the incumbent among the first of them if it is valid."""
    if incumbent.cost is None:
        return finalists
    rest = [r for r in finalists if r.candidate != incumbent.candidate]
    first = sorted([incumbent, *rest[: REMEASURED - 1]], key=lambda r: r.cost or 0.0)
    return first + rest[REMEASURED - 1 :]


def confirm_finalists(
    finalists: list[Record],
    trials: Trials,
    workers: Workers,
    candidate: Callable[[Record], Candidate],
    end: float | None,
) -> Confirmed:
    """Measure the fastest candidates again, and verify them on dense inputs.

    Args:
        finalists: records, fastest first.
        trials: what builds and measures.
        workers: the processes that do it.
        candidate: the candidate of a record.
        end: when the budget's time is over (monotonic); the first of them may take as long as `workers` waits.
    """

    def measure(record: Record) -> Result | None:
        try:
            return trials.measure_again(record.candidate, lambda: candidate(record), record.cost)
        except BudgetSpent:
            return None
        except MsError as error:
            # The record is of a program that can no longer be made.
            return Result(Outcome.ILLEGAL, error.diagnostic.message)
        finally:
            workers.until = end

    def compare(records: Sequence[Record]) -> Sequence[Compared] | None:
        try:
            return trials.compare({r.candidate: partial(candidate, r) for r in records}, [r.cost for r in records])
        except BudgetSpent:
            return None

    return confirm(finalists, measure, compare, lambda: end is not None and time.monotonic() >= end)
