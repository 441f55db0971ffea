"""The end of a search: the fastest candidates are measured again, together with an incumbent."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from functools import partial

from mslang.diagnostics import MsError
from mslang.schedule.space import Candidate
from mslang.tune.comparison import Compared
from mslang.tune.confirm import REMEASURED, Confirmed, confirm
from mslang.tune.record import Outcome, Record, Result
from mslang.tune.trials import Trials
from mslang.tune.workers import BudgetSpent, Workers


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
            return trials.measure_again(record.candidate, lambda: candidate(record))
        except BudgetSpent:
            return None
        except MsError as error:
            # The record is of a program that can no longer be made.
            return Result(Outcome.ILLEGAL, error.diagnostic.message)
        finally:
            workers.until = end

    def compare(records: Sequence[Record]) -> Sequence[Compared] | None:
        try:
            return trials.compare({r.candidate: partial(candidate, r) for r in records})
        except BudgetSpent:
            return None

    return confirm(finalists, measure, compare, lambda: end is not None and time.monotonic() >= end)
