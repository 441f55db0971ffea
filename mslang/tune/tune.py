"""Tuning a task from start to end: the store, the reference results, the workers, the search."""

from __future__ import annotations

import secrets
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from types import FrameType

import msgspec

from mslang.backend.registry import serving
from mslang.diagnostics import Diagnostic, MsError, problem
from mslang.ir.program import Program
from mslang.schedule.space import Candidate
from mslang.target.limits import raise_peak
from mslang.tune.claim import claimed_run
from mslang.tune.database import Database
from mslang.tune.job import Prepared, PrepareJob
from mslang.tune.progress import Event, Finished, Preparing, Warned
from mslang.tune.record import Record, Run
from mslang.tune.roofline import Roofline, rated_dtype
from mslang.tune.scratch import scratch_folder
from mslang.tune.search import Search
from mslang.tune.task import Settings, Task
from mslang.tune.workers import BudgetSpent, Work, Workers


def tune(
    task: Task,
    settings: Settings,
    *,
    database: Path,
    workers: int | None = None,
    resume: bool = False,
    small: Program | None = None,
    work: Work | None = None,
    incumbent: Candidate | None = None,
    started: float | None = None,
    listen: Callable[[Event], None] = lambda _: None,
) -> Finished:
    """Search the space of a task, measuring on this machine; every outcome is kept in the database.

    Args:
        task: what to tune.
        settings: seed, budget, timing.
        database: the record store's file; made if it is not there.
        workers: processes that compile (default: one for each core).
        resume: go on with the last run of this file, program and space on this machine.
        small: the program with small sizes, on which the compiler is compared with the interpreter first.
        work: what the worker processes do (default: compile, verify and time here).
        incumbent: a candidate to be measured beside the best at the end.
        started: when the budget's time began, on the monotonic clock (default: now).
        listen: is called with each event.

    Returns the summary, with the best record. Ctrl-C ends the search after the trial at hand; a second one, SIGTERM, or
    SIGHUP at once. All that was found is kept either way.

    Raises:
        MsError: MS501 compiler and interpreter disagree; MS502 the program cannot be compiled or run unscheduled;
            MS503 there is no run to resume; MS513 the budget is too small; MS6xx the database cannot be used.
        KeyboardInterrupt: the preparation was interrupted.
    """
    begun = time.monotonic() if started is None else started
    with Database(database) as store, ExitStack() as held:
        _warn(listen, store.check())
        run, settings = _run(store, task, settings, resume)
        held.enter_context(claimed_run(store.path, run))
        builders = workers or task.target.cores
        interruption = held.enter_context(_interruptible())
        folder = held.enter_context(scratch_folder())
        pools = held.enter_context(Workers(builders, work=work))
        interruption.abandon = pools.abandon
        listen(Preparing(task.program.name))
        job = PrepareJob(task.program, task.target, folder, settings.seed, small, task.allow_native)
        search = Search(
            task,
            settings,
            store,
            pools,
            folder,
            run,
            _roofline(task),
            listen,
            prepared=_prepare(pools, job, settings, begun),
            started=begun,
            incumbent=incumbent,
        )
        interruption.stop = search.stop
        done = search.run()
        _warn(listen, store.moved)
        _note_speed(store, run)
        return done


def _warn(listen: Callable[[Event], None], diagnostic: Diagnostic | None) -> None:
    if diagnostic is not None:
        listen(Warned(diagnostic))


def _roofline(task: Task) -> Roofline:
    dtype = rated_dtype(task.program) or "f32"
    peak = (task.backend or serving(task.target)).peak
    return Roofline(task.program, None if peak is None else lambda refresh: peak(task.target, dtype, refresh))


def _prepare(pools: Workers, job: PrepareJob, settings: Settings, begun: float) -> Prepared | None:
    """Run the unscheduled program, within the time of the budget."""
    seconds = settings.budget.seconds
    pools.until = None if seconds is None else begun + seconds
    try:
        return pools.prepare(job)
    except BudgetSpent:
        name = job.program.name
        raise MsError(
            problem(
                "MS513",
                f"the budget of {seconds:g} s is spent before the first trial",
                why=f"candidates are compared with the results of the unscheduled {name}, which is not done yet",
                help="give a larger `--budget`, or smaller sizes (`--set`)",
            )
        ) from None


def _note_speed(store: Database, run: str) -> None:
    """Let the peak of this machine be no less than what ran beside the samples."""
    records = (r for r in store.records(run=run) if isinstance(r, Record))
    rates = [r.result.timing.yardstick for r in records if r.result.timing is not None and r.result.timing.yardstick]
    if rates:
        raise_peak(max(rates))


def _run(store: Database, task: Task, settings: Settings, resume: bool) -> tuple[str, Settings]:
    """The run that records will belong to: a new one, or the last one like it."""
    workload = task.workload
    if resume:
        wanted = (workload.source, task.space.name, task.target.name, task.machine.key)
        like = [r for r in store.runs() if (r.source, r.space, r.target, r.machine) == wanted]
        if not like:
            raise MsError(
                problem(
                    "MS503",
                    f"there is no run of {task.program.name} in {task.space.name} to resume",
                    why=f"{store.path} has none of this program, space, target and machine",
                    help="leave out --resume to start one",
                )
            )
        return like[-1].id, msgspec.structs.replace(settings, seed=like[-1].seed)
    run = Run(
        secrets.token_hex(4),
        task.file,
        task.space.name,
        workload.hash,
        task.target.name,
        settings.seed,
        msgspec.json.encode(settings.budget).decode(),
        machine=task.machine.key,
        source=workload.source,
    )
    store.add_workload(workload)
    store.add_machine(task.machine)
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
