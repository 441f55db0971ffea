"""The state of a session as views show it: one value a task, brought up to date by events."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from types import MappingProxyType

import msgspec

from mslang.brevity import seconds_text
from mslang.tune.progress import (
    Confirming,
    Event,
    Failed,
    Finished,
    Generation,
    Planned,
    Preparing,
    Started,
    Trial,
)
from mslang.tune.record import TRIED, Outcome, Record
from mslang.tune.scale import Scale

UNRATED = Scale(None, None)
"""The scale of a task that is not rated."""


class Standing(msgspec.Struct):
    """How one task stands.

    `failed` counts candidates that were tried and gave no time (wrong, crashed, …), `rejected` those that a constraint
    ruled out before.
    """

    name: str
    scale: Scale
    state: str = "waiting"
    trials: int = 0
    rejected: int = 0
    failed: int = 0
    best: Record | None = None

    @property
    def time(self) -> str:
        """The best time, for people."""
        seconds = None if self.best is None else self.best.seconds
        return "none yet" if seconds is None else seconds_text(seconds)

    @property
    def best_text(self) -> str:
        """The best time and its rate."""
        timing = None if self.best is None else self.best.result.timing
        return self.time if timing is None else f"{self.time}  {self.scale.rate(timing)}".rstrip()

    @property
    def gflops(self) -> str:
        """Billions of operations a second of the best; empty where the program is not rated."""
        timing = None if self.best is None else self.best.result.timing
        count = self.scale.operations
        return "" if timing is None or not count else f"{count / timing.median / 1e9:.4g}"

    @property
    def share(self) -> str:
        """The part of the machine's peak that the best reaches."""
        timing = None if self.best is None else self.best.result.timing
        share = None if timing is None else self.scale.share(timing)
        return "" if share is None else f"{100 * share:.0f} %"


class Board:
    """All tasks of a session, and the budget that they share.

    Args:
        scales: what the times of each task are worth, by name.
        clock: seconds.
    """

    def __init__(
        self, scales: Mapping[str, Scale] = MappingProxyType({}), clock: Callable[[], float] = time.monotonic
    ) -> None:
        self.tasks: dict[str, Standing] = {}
        self.active: str | None = None
        self.wanted: int | None = None
        self.seconds: float | None = None
        self._scales, self._clock = scales, clock
        self._start = clock()
        self._resumed = 0

    def take(self, event: Event) -> None:
        """Bring the board up to date."""
        match event:
            case Planned(tasks=tasks, trials=trials, seconds=seconds):
                self.wanted, self.seconds = trials, seconds
                for planned in tasks:
                    self.of(planned.name)
            case Preparing(task=name):
                self._now(name, "preparing")
            case Started(task=name, resumed=resumed, best=best, trials=trials):
                task = self._now(name, "searching")
                task.trials, task.best = resumed, best
                self._resumed += resumed
                if len(self.tasks) == 1:
                    self.wanted = trials
            case Trial(task=name, record=record, better=better):
                task = self._now(name, "searching")
                outcome = record.result.outcome
                task.trials += outcome in TRIED
                task.failed += outcome not in (Outcome.MEASURED, Outcome.CUT_OFF)
                task.best = record if better else task.best
            case Generation(task=name, rejected=rejected):
                self.of(name).rejected += sum(rejected.values())
            case Confirming(task=name):
                self._now(name, "measuring the best again")
            case Finished(task=name, best=best):
                task = self._now(name, "done")
                task.best = best
            case Failed(task=name):
                self._now(name, "failed")

    def of(self, name: str) -> Standing:
        """The standing of a task."""
        if name not in self.tasks:
            self.tasks[name] = Standing(name, self._scales.get(name, UNRATED))
        return self.tasks[name]

    def _now(self, name: str, state: str) -> Standing:
        self.active = name
        task = self.of(name)
        task.state = state
        return task

    @property
    def trials(self) -> int:
        """Trials of all tasks."""
        return sum(t.trials for t in self.tasks.values())

    @property
    def elapsed(self) -> float:
        """Seconds since the view was opened."""
        return self._clock() - self._start

    @property
    def rate(self) -> float:
        """Trials a second."""
        return (self.trials - self._resumed) / max(self.elapsed, 1e-9)

    @property
    def left(self) -> float | None:
        """Seconds to go, by the trials or the time that are left; None where that is not known."""
        by_trials = max(self.wanted - self.trials, 0) / self.rate if self.wanted is not None and self.rate > 0 else None
        by_time = None if self.seconds is None else max(self.seconds - self.elapsed, 0.0)
        return min((s for s in (by_trials, by_time) if s is not None), default=None)
