"""Tuning a task from start to end: the store, the reference results, the workers, the search."""

from __future__ import annotations

import secrets
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType

import msgspec

from mslang.diagnostics import MsError, problem
from mslang.ir.equal import structural_hash
from mslang.ir.print import print_program
from mslang.ir.program import Program
from mslang.target.limits import measured_limits
from mslang.target.machine import this_machine
from mslang.tune.database import Database, Run, Workload
from mslang.tune.job import PrepareJob
from mslang.tune.progress import Event, Finished, Preparing
from mslang.tune.roofline import Roofline
from mslang.tune.scratch import scratch_folder
from mslang.tune.search import Search, Settings, Task
from mslang.tune.workers import Work, Workers


def tune(
    task: Task,
    settings: Settings,
    *,
    database: Path,
    workers: int | None = None,
    resume: bool = False,
    small: Program | None = None,
    work: Work | None = None,
    listen: Callable[[Event], None] = lambda _: None,
) -> Finished:
    """Search the space of a task, measuring on this machine; every outcome is kept in the database.

    Args:
        task: what to tune.
        settings: seed, budget, timing.
        database: the record store's file; made if it is not there.
        workers: processes that compile (default: one for each core but one, at least one).
        resume: go on with the last run of this file, program and space.
        small: the program with small sizes, on which the compiler is held against the interpreter first.
        work: what the worker processes do (default: compile, verify and time here).
        listen: is told of each event.

    Returns the summary, with the best record. Ctrl-C ends the search after the trial at hand; a second one, or
    SIGTERM, at once. All that was found is kept either way.

    Raises:
        MsError: MS501 compiler and interpreter disagree; MS502 the program cannot be compiled or run unscheduled;
            MS503 there is no run to resume; MS6xx the database cannot be used.
    """
    with Database(database) as store:
        run, settings = _run(store, task, settings, resume)
        builders = workers or max(1, task.target.cores - 1)
        roofline = Roofline(task.program, lambda refresh: measured_limits(task.target, refresh=refresh).peak)
        with (
            _interruptible() as interruption,
            scratch_folder() as folder,
            Workers(builders, work=work) as pools,
        ):
            interruption.abandon = pools.abandon
            listen(Preparing(task.program.name))
            pools.prepare(PrepareJob(task.program, task.target, folder, settings.seed, small, task.allow_native))
            search = Search(task, settings, store, pools, folder, run, roofline, listen)
            interruption.stop = search.stop
            return search.run(builders)


def _run(store: Database, task: Task, settings: Settings, resume: bool) -> tuple[str, Settings]:
    """The run that records will belong to: a new one, or the last one like it."""
    hash = structural_hash(task.program)
    if resume:
        wanted = (hash, task.space.name, task.target.name, this_machine().key)
        like = [r for r in store.runs() if (r.workload, r.space, r.target, r.machine) == wanted]
        if not like:
            raise MsError(
                problem(
                    "MS503",
                    f"there is no run of {task.program.name} in {task.space.name} to resume",
                    help=f"{store.path} has none; leave out --resume to start one",
                )
            )
        return like[-1].id, msgspec.structs.replace(settings, seed=like[-1].seed)
    run = Run(
        secrets.token_hex(4),
        task.file,
        task.space.name,
        hash,
        task.target.name,
        settings.seed,
        msgspec.json.encode(settings.budget).decode(),
        machine=this_machine().key,
    )
    store.add_workload(Workload(hash, task.program.name, print_program(task.program)))
    store.add_run(run)
    return run.id, settings


class _Interruption:
    """The handler of Ctrl-C, SIGTERM and SIGHUP: the first Ctrl-C calls `stop`, any other signal `abandon`.

    Without either it raises KeyboardInterrupt.
    """

    def __init__(self) -> None:
        self.stop: Callable[[], None] | None = None
        self.abandon: Callable[[], None] | None = None

    def __call__(self, number: int, frame: FrameType | None) -> None:
        stop, self.stop = self.stop, None
        if stop is not None and number == signal.SIGINT:
            stop()
        elif self.abandon is not None:
            self.abandon()
        else:
            raise KeyboardInterrupt


@contextmanager
def _interruptible() -> Iterator[_Interruption]:
    """Ctrl-C, SIGTERM and SIGHUP end a search in good order while this is open."""
    interruption = _Interruption()
    if threading.current_thread() is not threading.main_thread():
        # Only the main thread may set handlers; elsewhere signals are the caller's business.
        yield interruption
        return
    # Signals that are ignored (SIGHUP under `nohup`) stay so.
    ending = [signal.SIGINT, signal.SIGTERM, *([signal.SIGHUP] if hasattr(signal, "SIGHUP") else [])]
    handled = [number for number in ending if signal.getsignal(number) is not signal.SIG_IGN]
    before = {number: signal.signal(number, interruption) for number in handled}
    try:
        yield interruption
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
