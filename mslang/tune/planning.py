"""What a search gives its strategy to begin with."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from mslang.search.estimates import NO_MODELS, Models
from mslang.search.strategy import Problem
from mslang.tune.record import Outcome, Record
from mslang.tune.recording import observed_of
from mslang.tune.task import Settings, Task

KNOWN = 256
"""So many candidates of other runs are known to a strategy at most, the fastest ones."""


def problem_of(
    task: Task,
    settings: Settings,
    known: Iterable[Record],
    stopped: Callable[[], bool],
    models: Models = NO_MODELS,
) -> Problem:
    """The problem of a search.

    Args:
        task: what is tuned.
        settings: the seed, how many trials there will be, and with which caches they are timed: times with others say
            nothing.
        known: the records of this machine when the run began: a resumed run is to propose what it would have proposed.
        stopped: whether to give up.
        models: what ranks candidates.
    """
    trials = settings.budget.trials if settings.planned is None else settings.planned
    timed = [r for r in known if r.result.outcome in (Outcome.MEASURED, Outcome.CUT_OFF)]
    useful = [r for r in timed if r.cold == (settings.limits.cache == "cold")]
    fastest = sorted(useful, key=lambda r: (r.cost is None, r.cost or 0.0, r.candidate))[:KNOWN]
    return Problem(
        task.space,
        task.target,
        settings.seed,
        trials,
        tuple(observed_of(r, ()) for r in fastest),
        stopped,
        models,
        settings.mutators,
    )
