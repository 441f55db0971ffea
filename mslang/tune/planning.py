"""What a search gives its strategy to begin with."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from mslang.search.strategy import Observed, Problem
from mslang.tune.record import Outcome, Record
from mslang.tune.recording import observed_of
from mslang.tune.task import Settings, Task

KNOWN = 256
"""So many candidates of other runs are known to a strategy at most, the fastest ones."""


def problem_of(
    task: Task, settings: Settings, known: Mapping[str, Record], run: str, stopped: Callable[[], bool]
) -> Problem:
    """The problem of a search.

    Args:
        task: what is tuned.
        settings: the seed, and how many trials there will be.
        known: the records of this machine by candidate. Those of this run, and those made after it began, do not count:
            a resumed run is to propose what it would have proposed.
        run: this run.
        stopped: whether to give up.
    """
    first = min((r.id for r in known.values() if r.run == run and r.id is not None), default=None)
    before = [r for r in known.values() if r.run != run and (first is None or (r.id or 0) < first)]
    trials = settings.budget.trials if settings.planned is None else settings.planned
    return Problem(task.space, task.target, settings.seed, trials, _observations(before), stopped)


def _observations(records: list[Record]) -> tuple[Observed, ...]:
    useful = [r for r in records if r.result.outcome in (Outcome.MEASURED, Outcome.CUT_OFF)]
    fastest = sorted(useful, key=lambda r: (r.cost is None, r.cost or 0.0, r.candidate))[:KNOWN]
    return tuple(observed_of(r, ()) for r in fastest)
