"""Which task of a session gets the next generation of trials."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Protocol, runtime_checkable

import msgspec

from mslang.attribution import attributed
from mslang.diagnostics import MsError, problem
from mslang.extensions import Function, allowed, declared, load
from mslang.suggestions import did_you_mean

GROUP = "mslang.task_schedulers"
"""The group of entry points that name task schedulers: classes or functions without arguments that make one."""

TRIES = 2
"""A task without a valid candidate comes after all others once it has had so many generations."""


class TaskState(msgspec.Struct, frozen=True):
    """How far a task is.

    Args:
        name: its name in the session.
        weight: how much a second of it counts, such as how often it is called.
        best: the lowest cost found so far after each of its generations, in seconds; infinite where nothing is valid.
        trials: candidates that it measured.
        over: whether nothing is left to try in it.
    """

    name: str
    weight: float = 1.0
    best: tuple[float, ...] = ()
    trials: int = 0
    over: bool = False


@runtime_checkable
class TaskScheduler(Protocol):
    """Shares the trials of a session among its tasks, a generation at a time.

    Example:
        class Slowest:
            def next(self, tasks):
                alive = [k for k, task in enumerate(tasks) if not task.over]
                return max(alive, key=lambda k: tasks[k].best[-1] if tasks[k].best else float("inf"), default=None)
    """

    def next(self, tasks: Sequence[TaskState]) -> int | None:
        """The task whose generation is next, as an index; None ends the session. It must not be `over`."""


class RoundRobin:
    """One generation of each task in turn, in the order given."""

    def next(self, tasks: Sequence[TaskState]) -> int | None:
        """The task with the fewest generations that is not over."""
        alive = [k for k, task in enumerate(tasks) if not task.over]
        return min(alive, key=lambda k: len(tasks[k].best), default=None)


class Gradient(msgspec.Struct, frozen=True):
    """The task whose next generation promises the largest weighted gain; one of each first.

    The expected gain of a task of `n` generations is `alpha` times the mean gain of its last `window` generations (the
    mean time by generation where there are fewer) plus `1 - alpha` times `best / n`, times its weight. A task without a
    valid candidate in its first generation has a second one next; without one in both it comes after all others. Equal
    gains: the task with the fewest generations, then the first.

    Source: Ansor (OSDI 2020, section 6), with the constants of TVM's `GradientBased` task scheduler.
    """

    alpha: float = 0.2
    window: int = 3

    def next(self, tasks: Sequence[TaskState]) -> int | None:
        """The task of the largest expected gain that is not over."""
        alive = [k for k, task in enumerate(tasks) if not task.over]
        fresh = [k for k in alive if len(tasks[k].best) < TRIES and not any(map(math.isfinite, tasks[k].best))]
        if fresh:
            return min(fresh, key=lambda k: len(tasks[k].best))
        return max(alive, key=lambda k: (self.gain(tasks[k]), -len(tasks[k].best), -k), default=None)

    def gain(self, task: TaskState) -> float:
        """The seconds that the next generation is expected to save, weighted; minus infinity where nothing is valid."""
        best, n, window = task.best, len(task.best), self.window
        if not math.isfinite(best[-1]):
            return -math.inf
        before = best[n - 1 - window] if n > window else math.inf
        recent = (before - best[-1]) / window if math.isfinite(before) else best[-1] / n
        return task.weight * (self.alpha * recent + (1 - self.alpha) * best[-1] / n)


BUILT_IN: Mapping[str, Callable[[], TaskScheduler]] = MappingProxyType(
    {"gradient": Gradient, "round-robin": RoundRobin}
)
"""The task schedulers by name."""


def scheduler_named(name: str) -> TaskScheduler:
    """A task scheduler by name: a built-in one, or an extension's from an allowed package.

    Raises:
        MsError: MS546, there is none of that name, or what an extension makes is none; MS272, its package is not
            allowed; MS212 or MS213, it cannot be loaded.

    Example:
        >>> scheduler_named("gradient").alpha
        0.2
    """
    if name in BUILT_IN:
        return BUILT_IN[name]()
    if name not in declared(GROUP):
        known = [*BUILT_IN, *declared(GROUP)]
        raise MsError(
            problem(
                "MS546",
                f"unknown task scheduler `{name}`",
                why=f"the task schedulers are {', '.join(known)}",
                help=did_you_mean(name, known),
            )
        )
    make = load(GROUP, name, allowed(), Function)
    assert isinstance(make, Function)
    with attributed("task scheduler", make):
        made = make()
    if not isinstance(made, TaskScheduler):
        why = f"`next(tasks)` is missing: {type(made).__name__} is not a TaskScheduler"
        raise MsError(problem("MS546", f"the extension `{name}` makes no task scheduler", why=why))
    return made
