"""The worker processes of the tuner: some that compile, one that runs candidates.

Only one candidate runs at a time, and nothing is compiled meanwhile, so that timings do not disturb each other.
"""

from __future__ import annotations

import pickle
import time
from collections.abc import Callable
from types import TracebackType
from typing import NoReturn, TypeVar

import msgspec

from mslang.diagnostics import MsError, problem
from mslang.tune import job as jobs
from mslang.tune.builder import Builder, BuildWith
from mslang.tune.comparison import Compared
from mslang.tune.job import BuildJob, Built, CompareJob, MeasureJob, Prepared, PrepareJob
from mslang.tune.record import Outcome, Result
from mslang.tune.runner import Runner, RunWith
from mslang.workers.outcome import Cancelled, Crashed, Done, Failed, OutOfMemory, TimedOut, Unsuccessful
from mslang.workers.pool import Pool, usual_memory
from mslang.workers.task import Task

T = TypeVar("T")

PATIENCE = 0.1
"""Seconds between two looks at whether the wait is to be given up."""

RUN_SECONDS = 30.0
"""The time limit of a candidate where nothing is known of how long the program takes."""

PRELOAD = ("numpy", "llvmlite.binding", "mslang.lower.passes", "mslang.backend.llvm.compile", "mslang.tune.job")
"""What every task needs: imported before the first one, so that no time limit pays for it."""


class Work(msgspec.Struct, frozen=True):
    """What the processes do: functions that can be pickled, from the bytes of a job to the bytes of its answer."""

    prepare: Callable[[bytes], bytes] = jobs.prepare
    build: Callable[[bytes], bytes] = jobs.build
    measure: Callable[[bytes], bytes] = jobs.measure
    compare: Callable[[bytes], bytes] = jobs.compare


Pending = Task[bytes]
"""A candidate that is being compiled."""


class BudgetSpent(Exception):
    """The wait for a task reached the end of the budget; the task was cancelled."""


class Workers:
    """The pools. `build` starts compiling and returns at once; `built` and `measure` wait.

    A job past its time limit has its process killed and is counted as such; a process that dies is a crash, and so is
    one that fails or gives an answer of the wrong type. Waiting ends with `BudgetSpent` at `until` (monotonic time).

    Args:
        builders: processes that compile; one more runs candidates.
        build_seconds: the time limit of a compilation.
        run_seconds: the time limit of a candidate (default: what `measure` is given).
        work: what the processes do.
        memory: bytes of address space that one process may allocate beyond what it starts with.
    """

    def __init__(
        self,
        builders: int,
        build_seconds: float = 30.0,
        run_seconds: float | None = None,
        work: Work | None = None,
        memory: int | None = None,
    ) -> None:
        self._build_seconds, self._run_seconds = build_seconds, run_seconds
        self._work = Work() if work is None else work
        self._abandoned = False
        limit = usual_memory() if memory is None else memory
        self._builders = Pool(builders, memory=limit, preload=PRELOAD)
        self._runner = Pool(1, memory=limit, preload=PRELOAD)
        self.until: float | None = None

    def __enter__(self) -> Workers:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def stop(self) -> None:
        """Kill the processes."""
        self._builders.stop()
        self._runner.stop()

    def abandon(self) -> None:
        """End waits with a KeyboardInterrupt, now or when next waiting; for signal handlers.

        A handler must not raise by itself: it may interrupt code that holds a lock.
        """
        self._abandoned = True

    @property
    def abandoned(self) -> bool:
        """Whether `abandon` was called."""
        return self._abandoned

    def _wait(self, task: Task[T], until: float | None = None) -> Done[T] | Unsuccessful:
        while not self._abandoned:
            end = min((t for t in (until, self.until) if t is not None), default=None)
            if end is not None and time.monotonic() >= end and not task.done:
                task.cancel()
                raise BudgetSpent
            try:
                return task.outcome(PATIENCE)
            except TimeoutError:
                continue
        raise KeyboardInterrupt

    def prepare(self, task: PrepareJob) -> Prepared | None:
        """Compute the reference results; waits. None if the work does not say how long it took.

        Raises:
            MsError: MS502, the unscheduled program does not run; MS501 or why it cannot be compiled.
            BudgetSpent: it did not end in time.
        """
        outcome = self._wait(self._runner.submit(self._work.prepare, (jobs.encode(task),)))
        if not isinstance(outcome, Done):
            _refuse_program(task.program.name, outcome)
        answer = pickle.loads(outcome.value) if outcome.value else None
        return answer if isinstance(answer, Prepared) else None

    def build(self, task: BuildJob, builder: Builder | None = None) -> Pending:
        """Start compiling a candidate, with a builder of the user's own if one is given."""
        work = self._work.build if builder is None else BuildWith(builder).build
        return self._builders.submit(work, (jobs.encode(task),), seconds=self._build_seconds)

    def built(self, pending: Pending, until: float | None = None) -> Built:
        """Wait for a compilation, perhaps not as long as for other things."""
        found = self._answer(pending, Built, "compiling", until)
        return Built(result=found) if isinstance(found, Result) else found

    def measure(self, task: MeasureJob, seconds: float = RUN_SECONDS, runner: Runner | None = None) -> Result:
        """Verify and time a compiled candidate, which may take so many seconds; waits.

        `runner` is one of the user's own.
        """
        limit = seconds if self._run_seconds is None else self._run_seconds
        work = self._work.measure if runner is None else RunWith(runner).measure
        return self._answer(self._runner.submit(work, (jobs.encode(task),), seconds=limit), Result, "running")

    def compare(
        self, task: CompareJob, seconds: float = RUN_SECONDS, runner: Runner | None = None
    ) -> tuple[Compared, ...] | None:
        """Time verified candidates in turn; waits. None if the process did not survive them, or gave no answer."""
        work = self._work.compare if runner is None else RunWith(runner).compare
        found = self._answer(self._runner.submit(work, (jobs.encode(task),), seconds=seconds), tuple, "comparing")
        return found if isinstance(found, tuple) and len(found) == len(task.candidates) else None

    def _answer(self, pending: Pending, wanted: type[T], doing: str, until: float | None = None) -> T | Result:
        outcome = self._wait(pending, until)
        if not isinstance(outcome, Done):
            return _as_result(outcome, doing)
        try:
            answer = pickle.loads(outcome.value)
        except Exception as error:  # noqa: BLE001 - whatever a candidate brings about is its outcome, not the tuner's end
            return Result(Outcome.CRASH, f"{doing}: {type(error).__name__}: {error}")
        if not isinstance(answer, wanted):
            return Result(Outcome.CRASH, f"{doing}: the answer is not a {wanted.__name__}")
        return answer


def _as_result(outcome: Unsuccessful, doing: str) -> Result:
    match outcome:
        case TimedOut(seconds=seconds):
            return Result(Outcome.TIME_OUT, f"{doing} took more than {seconds:.3g} s")
        case OutOfMemory():
            return Result(Outcome.CRASH, f"{doing}: out of memory")
        case Crashed():
            return Result(Outcome.CRASH, f"{doing}: {outcome.text}")
        case Failed(error=MsError() as error):
            return Result(Outcome.CRASH, f"{doing}: {error.diagnostic.message}")
        case Failed(error=other):
            return Result(Outcome.CRASH, f"{doing}: {type(other).__name__}: {other}")
        case Cancelled():
            raise KeyboardInterrupt


def _refuse_program(name: str, outcome: Unsuccessful) -> NoReturn:
    """Raise why the reference results of a program cannot be computed."""
    match outcome:
        case Failed(error=error):
            raise error
        case OutOfMemory(why=why):
            raise MsError(
                problem(
                    "MS502",
                    f"there is not enough memory for the arrays of {name}",
                    why=why or None,
                    help="give smaller sizes: `--set`",
                )
            )
        case Cancelled():
            raise KeyboardInterrupt
        case Crashed():
            raise MsError(
                problem(
                    "MS502",
                    f"the unscheduled {name} crashes when it runs",
                    why=outcome.text,
                    help="an access may be out of bounds, or the memory does not suffice: give smaller sizes (`--set`)",
                )
            )
        case TimedOut(seconds=seconds):
            raise MsError(problem("MS502", f"the unscheduled {name} runs for more than {seconds:g} s"))
