"""A session: searches over several tasks that share one budget, one record store and one pool of workers.

A task scheduler says whose generation is next. Each task has a run of its own, so that records, `--resume` and reports
are those of a task tuned alone.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path

import msgspec

from mslang import profiling
from mslang.attribution import attributed
from mslang.backend.registry import serving
from mslang.diagnostics import Diagnostic, MsError, problem
from mslang.ir.print import print_program
from mslang.ir.program import Program
from mslang.schedule.space import Candidate
from mslang.tune.budget import Budget
from mslang.tune.connection import StoreError
from mslang.tune.database import Database
from mslang.tune.job import Prepared, PrepareJob
from mslang.tune.progress import (
    Ended,
    Event,
    Failed,
    Finished,
    Listener,
    Planned,
    PlannedTask,
    Preparing,
    Tally,
    Warned,
)
from mslang.tune.roofline import Roofline, rated_dtype
from mslang.tune.rows import encodable
from mslang.tune.search import Search
from mslang.tune.task import Settings, Task
from mslang.tune.task_scheduler import TaskScheduler, TaskState
from mslang.tune.workers import BudgetSpent, Workers


class Item(msgspec.Struct, frozen=True):
    """A task of a session.

    Args:
        name: its name, of which there is one in the session.
        task: what to tune.
        best: what its best schedule will be called.
        weight: how much a second of it counts for the task scheduler.
        small: the program with small sizes, on which the compiler is compared with the interpreter first.
        incumbent: a candidate to be measured with the best at the end.
        duplicates: `FILE:PROGRAM` of equal programs, for the views.
    """

    name: str
    task: Task
    best: str = "best"
    weight: float = 1.0
    small: Program | None = None
    incumbent: Candidate | None = None
    duplicates: tuple[str, ...] = ()


class Session:
    """Tunes items until the budget is spent, nothing is left to try, or `stop` is called.

    Args:
        items: what to tune; names differ.
        runs: the run that the records of each item belong to, and the settings of its search.
        budget: what all searches together may use up; `patience` holds for each.
        scheduler: whose generation is next.
        store: the record store.
        workers: the processes that compile and measure.
        folder: where inputs and expected results are kept meanwhile.
        started: when the budget's time began (monotonic).
        listen: is called with each event.

    Raises:
        MsError: MS515, the settings name no strategy.
    """

    def __init__(
        self,
        items: Sequence[Item],
        runs: Sequence[tuple[str, Settings]],
        budget: Budget,
        scheduler: TaskScheduler,
        store: Database,
        workers: Workers,
        folder: str,
        *,
        started: float,
        listen: Listener,
    ) -> None:
        self._items, self._budget, self._scheduler = tuple(items), budget, scheduler
        self._store, self._workers, self._start, self._listen = store, workers, started, listen
        self._stopped = self._preparing = False
        self._searches: list[Search] = []
        self._seeds = [settings.seed for _, settings in runs]
        self._folders: list[str] = []
        for number, (item, (run, settings)) in enumerate(zip(self._items, runs, strict=True)):
            reference = Path(folder) / str(number)
            reference.mkdir()
            self._folders.append(str(reference))
            self._searches.append(
                Search(
                    item.task,
                    settings,
                    store,
                    workers,
                    str(reference),
                    run,
                    roofline_of(item.task),
                    self._named(item.name),
                    started=started,
                    incumbent=item.incumbent,
                )
            )
        self._begun: set[int] = set()
        self._over: dict[int, str] = {}
        """Why nothing is left to do in a task."""
        self._failed: dict[int, MsError] = {}

    def stop(self) -> None:
        """End after the trial at hand."""
        self._stopped = True
        if self._preparing:
            # Nothing is found yet in this task: there is nothing to wait for.
            self._workers.until = 0.0
        for search in self._searches:
            search.stop()

    def run(self) -> tuple[Finished | MsError, ...]:
        """Tune all; the summary of each item, or why it cannot be tuned. A KeyboardInterrupt ends it at once.

        Raises:
            KeyboardInterrupt: before any search began.
        """
        budget = self._budget
        self._listen(
            Planned(
                tuple(map(_planned, self._items)),
                type(self._scheduler).__name__,
                budget.trials,
                budget.seconds,
                self._store.name,
            )
        )
        with profiling.profile() as spent:
            confirm = True
            try:
                reason = self._consume()
            except KeyboardInterrupt:
                self.stop()
                reason, confirm = "interrupted", False
            found = self._finish(reason, confirm)
        self._listen(Ended(time.monotonic() - self._start, self._stopped, spent.scopes()))
        if self._stopped and not self._begun:
            raise KeyboardInterrupt
        return found

    def _consume(self) -> str:
        """One generation after the other; returns why the session is over."""
        self._replay()
        while True:
            states = self._states()
            with attributed("task scheduler", self._scheduler, "next"):
                chosen = self._scheduler.next(states)
                if chosen is not None and not 0 <= chosen < len(states):
                    raise IndexError(f"there is no task {chosen}; they are 0 to {len(states) - 1}")
            if chosen is None or states[chosen].over:
                return "nothing is left to try"
            why = self._spent(chosen)
            if why is not None:
                return why
            if chosen not in self._begun and not self._begin(chosen):
                continue
            why = self._step(chosen)
            if why is not None:
                return why

    def _step(self, chosen: int) -> str | None:
        """A generation of a task; returns why the session is over, if it is."""
        try:
            over = self._searches[chosen].step(self._left(chosen))
        except MsError as error:
            self._fail(chosen, error)
            return self._spent(chosen)
        if over is None:
            return None
        why = self._spent(chosen)
        if why is None and not self._searches[chosen].unfinished:
            self._over[chosen] = over
        return why

    def _replay(self) -> None:
        """Bring the searches of resumed runs to where they were, as far as the time allows.

        All of them come before the first new generation: which task is next depends on what all have measured.
        """
        for number, search in enumerate(self._searches):
            while search.replaying and number not in self._over and self._spent(number) is None:
                if number not in self._begun and not self._begin(number):
                    break
                if self._step(number) is not None:
                    break

    def _begin(self, chosen: int) -> bool:
        """Run the unscheduled program of a task, and begin its search; False if that fails."""
        item = self._items[chosen]
        listen = self._named(item.name)
        listen(Preparing(item.task.program.name))
        job = PrepareJob(
            item.task.program,
            item.task.target,
            self._folders[chosen],
            self._seeds[chosen],
            item.small,
            item.task.allow_native,
            item.task.instances,
        )
        try:
            with profiling.scope("prepare"):
                prepared = self._prepare(job)
            self._searches[chosen].begin(prepared)
        except BudgetSpent:
            # Interrupted: the session ends.
            return False
        except MsError as error:
            self._fail(chosen, error)
            return False
        self._begun.add(chosen)
        return True

    def _fail(self, chosen: int, error: MsError) -> None:
        """End a task that cannot be tuned; the others go on unless nothing more can be kept."""
        if isinstance(error, StoreError):
            raise error
        self._failed[chosen] = error
        self._over[chosen] = error.diagnostic.message
        self._named(self._items[chosen].name)(Failed(error.diagnostic))

    def _prepare(self, job: PrepareJob) -> Prepared | None:
        """Run the unscheduled program, within the time of the budget; BudgetSpent if the session was stopped."""
        seconds = self._budget.seconds
        self._workers.until = None if seconds is None else self._start + seconds
        self._preparing = True
        try:
            return self._workers.prepare(job)
        except BudgetSpent:
            if self._stopped:
                raise
            name = job.program.name
            raise MsError(
                problem(
                    "MS513",
                    f"the budget of {seconds:g} s is spent before the first trial",
                    why=f"candidates are compared with the results of the unscheduled {name}, which has not finished",
                    help="give a larger `--budget`, or smaller sizes (`--set`)",
                )
            ) from None
        finally:
            self._preparing = False

    def _states(self) -> tuple[TaskState, ...]:
        return tuple(
            TaskState(item.name, item.weight, search.curve, search.trials, number in self._over)
            for number, (item, search) in enumerate(zip(self._items, self._searches))
        )

    def _left(self, chosen: int) -> int | None:
        """Trials that are left of the budget for a task's next generation; at first each task has its share of them."""
        if self._budget.trials is None:
            return None
        left = max(self._budget.trials - sum(s.trials for s in self._searches), 0)
        waiting = sum(not s.curve and number not in self._over for number, s in enumerate(self._searches))
        return left if self._searches[chosen].curve else -(-left // max(waiting, 1))

    def _spent(self, chosen: int) -> str | None:
        """Why the session is over, if it is. A resumed task first shows its strategy what is on record."""
        if self._stopped:
            return "interrupted"
        trials = -1 if self._searches[chosen].replaying else sum(s.trials for s in self._searches)
        budget = msgspec.structs.replace(self._budget, patience=None)
        why = budget.spent(trials, time.monotonic() - self._start, 0)
        return why if why is None or len(self._items) == 1 else f"{why} (all tasks)"

    def _finish(self, reason: str, confirm: bool) -> tuple[Finished | MsError, ...]:
        """Measure the best of each task again."""
        seconds = self._budget.seconds
        end = None if seconds is None else self._start + seconds
        begun = len(self._begun - self._failed.keys())
        found: list[Finished | MsError] = []
        for number, search in enumerate(self._searches):
            if number in self._failed:
                found.append(self._failed[number])
                continue
            if number not in self._begun:
                done = Finished(f"{reason}, before the first trial", Tally(), None, 0.0, self._stopped)
                self._named(self._items[number].name)(done)
                found.append(done)
                continue
            # What is left of the time is shared by the tasks that are still to be measured again.
            now = time.monotonic()
            own = None if end is None else now + max(end - now, 0.0) / begun
            begun -= 1
            try:
                done = search.finish(self._over.get(number, reason), own, confirm=confirm)
            except MsError as error:
                self._fail(number, error)
                found.append(error)
                continue
            confirm = confirm and not self._workers.abandoned
            found.append(done)
        return tuple(found)

    def _named(self, name: str) -> Listener:
        """A listener that puts the name of the task on each event."""

        def listen(event: Event) -> None:
            assert not isinstance(event, (Planned, Ended))
            self._listen(msgspec.structs.replace(event, task=name))

        return listen


def _planned(item: Item) -> PlannedTask:
    task = item.task
    return PlannedTask(
        item.name,
        task.program.name,
        task.space.name,
        encodable(task.file),
        task.target.name,
        item.weight,
        item.duplicates,
        print_program(task.program),
    )


def roofline_of(task: Task) -> Roofline:
    """What the times of a task are checked against; nothing where another runner measures something else."""
    if task.runner is not None:
        return Roofline(task.program, None)
    dtype = rated_dtype(task.program) or "f32"
    back_end = task.backend or serving(task.target)
    most = back_end.ceiling or back_end.peak
    return Roofline(task.program, None if most is None else lambda refresh: most(task.target, dtype, refresh))


def warn(listen: Listener, diagnostic: Diagnostic | None) -> None:
    """Report a warning, if there is one."""
    if diagnostic is not None:
        listen(Warned(diagnostic))
