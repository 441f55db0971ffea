"""Tuning from start to end: the store, the reference results, the workers, the searches."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable, Sequence
from contextlib import ExitStack

import msgspec

from mslang.diagnostics import MsError
from mslang.ir.program import Program
from mslang.schedule.space import Candidate
from mslang.search.models.registry import note_of
from mslang.target.limits import raise_peak
from mslang.tune.callbacks import Callback, listener
from mslang.tune.claim import claimed_run
from mslang.tune.database import Database
from mslang.tune.interruption import interruptible
from mslang.tune.logs import log_event
from mslang.tune.mirrored import opened_to_tune
from mslang.tune.progress import Event, Failed, Finished
from mslang.tune.record import Record
from mslang.tune.runs import run_of
from mslang.tune.scratch import scratch_folder
from mslang.tune.session import Item, Session, warn
from mslang.tune.stores import Store
from mslang.tune.task import Settings, Task
from mslang.tune.task_scheduler import Gradient, TaskScheduler
from mslang.tune.workers import Work, Workers


def tune(
    task: Task,
    settings: Settings,
    *,
    database: Store | str | os.PathLike[str],
    workers: int | None = None,
    resume: bool = False,
    small: Program | None = None,
    work: Work | None = None,
    incumbent: Candidate | None = None,
    started: float | None = None,
    listen: Callable[[Event], None] = lambda _: None,
    callbacks: Iterable[tuple[str, Callback]] = (),
) -> Finished:
    """Search the space of a task, measuring on this machine; every outcome is kept in the database.

    Args:
        task: what to tune.
        settings: seed, budget, timing.
        database: the record store, or its name (`opened_to_tune`); a file is made if it is not there.
        workers: processes that compile (default: one for each core).
        resume: go on with the last run of this file, program and space on this machine.
        small: the program with small sizes, on which the compiler is compared with the interpreter first.
        work: what the worker processes do (default: compile, verify and time here).
        incumbent: a candidate to be measured with the best at the end.
        started: when the budget's time began, on the monotonic clock (default: now).
        listen: is called with each event.
        callbacks: names and functions that are called with each event, after `listen`; their errors are warnings.

    Returns the summary, with the best record. Ctrl-C ends the search after the trial at hand; a second one, SIGTERM, or
    SIGHUP at once. All that was found is kept either way.

    Raises:
        MsError: MS501 compiler and interpreter disagree; MS502 the program cannot be compiled or run unscheduled;
            MS503 there is no run to resume; MS513 the budget is too small; MS6xx the database cannot be used.
        KeyboardInterrupt: the preparation was interrupted.
    """
    item = Item(task.program.name, task, settings.name, small=small, incumbent=incumbent)
    [done] = tune_all(
        [item],
        settings,
        database=database,
        workers=workers,
        resume=resume,
        work=work,
        started=started,
        # Why it cannot be tuned is raised.
        listen=lambda event: None if isinstance(event, Failed) else listen(event),
        callbacks=callbacks,
    )
    if isinstance(done, MsError):
        raise done
    return done


def tune_all(
    items: Sequence[Item],
    settings: Settings,
    *,
    database: Store | str | os.PathLike[str],
    scheduler: TaskScheduler | None = None,
    workers: int | None = None,
    resume: bool = False,
    work: Work | None = None,
    started: float | None = None,
    listen: Callable[[Event], None] = lambda _: None,
    callbacks: Iterable[tuple[str, Callback]] = (),
) -> tuple[Finished | MsError, ...]:
    """Tune several tasks with one budget, one database and one pool of workers.

    Args:
        items: what to tune; names differ.
        settings: seed, budget of all together, timing. `patience` holds for each task; `name` is that of each item.
        scheduler: whose generation is next (default: `Gradient()`).

    The other arguments are those of `tune`. Returns the summary of each item, or the error why it cannot be tuned; the
    others are tuned all the same.

    Raises:
        MsError: MS503 there is no run to resume; MS515 there is no such strategy; MS525 there is no such cost model;
            MS271 there are no such features; MS6xx the database cannot be used.
    """
    begun = time.monotonic() if started is None else started
    listen = listener(listen, [("logging", log_event), *callbacks])
    with opened_to_tune(database) as store, ExitStack() as held:
        warn(listen, store.check())
        warn(listen, note_of(settings.strategy, settings.cost_model))
        interruption = held.enter_context(interruptible())
        folder = held.enter_context(scratch_folder())
        builders = workers or max(item.task.target.cores for item in items)
        pools = held.enter_context(Workers(builders, work=work))
        interruption.abandon = pools.abandon
        runs: list[tuple[str, Settings]] = []
        # What a strategy may expect of a task: the session decides how many trials it really gets.
        trials = settings.budget.trials
        share = msgspec.structs.replace(settings.budget, trials=None if trials is None else -(-trials // len(items)))
        for item in items:
            # Times are comparable with earlier ones only where it is known how the caches are.
            limits = msgspec.structs.replace(settings.limits, cache=settings.limits.cache or item.task.compiler.caches)
            own = msgspec.structs.replace(settings, name=item.best, budget=share, limits=limits)
            runs.append(run_of(store, item.task, own, resume, {run for run, _ in runs}))
            held.enter_context(claimed_run(store.path, runs[-1][0]))
        session = Session(
            items,
            runs,
            settings.budget,
            scheduler or Gradient(),
            store,
            pools,
            folder,
            started=begun,
            listen=listen,
        )
        interruption.stop = session.stop
        found = session.run()
        warn(listen, store.moved)
        _note_speed(store, (run for run, _ in runs))
        return found


def _note_speed(store: Database, runs: Iterable[str]) -> None:
    """Let the peak of this machine be no less than what ran between the samples."""
    records = (r for run in runs for r in store.records(run=run) if isinstance(r, Record))
    rates = [r.result.timing.yardstick for r in records if r.result.timing is not None and r.result.timing.yardstick]
    if rates:
        raise_peak(max(rates))
