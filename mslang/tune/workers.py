"""Worker processes that may crash, hang or be killed: two pebble pools, one that compiles and one that runs.

Only one candidate runs at a time, so that timings do not disturb each other; compiling goes on beside it.
"""

from __future__ import annotations

import multiprocessing
import os
import pickle
import signal
import sys
from concurrent.futures import TimeoutError as FutureTimeout
from types import TracebackType
from typing import TYPE_CHECKING

from mslang.tune import job as jobs
from mslang.tune.job import BuildJob, Built, MeasureJob, PrepareJob
from mslang.tune.record import Outcome, Result

if TYPE_CHECKING:
    from pebble import ProcessFuture, ProcessPool

TASKS_A_WORKER = 500
"""Workers are renewed after so many jobs, which bounds what a leak can hold."""


class Workers:
    """The pools. `build` starts compiling and returns at once; `built` and `measure` wait.

    A job past its time-out has its process killed and is counted as such; a process that dies is a crash.
    """

    def __init__(self, builders: int, build_seconds: float = 30.0, run_seconds: float = 30.0) -> None:
        from pebble import ProcessPool

        context = multiprocessing.get_context("forkserver" if sys.platform == "linux" else "spawn")
        if sys.platform == "linux":
            context.set_forkserver_preload(["mslang.tune.preload"])
        self._build_seconds, self._run_seconds = build_seconds, run_seconds
        self._builders: ProcessPool = ProcessPool(
            max_workers=builders, max_tasks=TASKS_A_WORKER, context=context, initializer=_start_worker
        )
        self._runner: ProcessPool = ProcessPool(
            max_workers=1, max_tasks=TASKS_A_WORKER, context=context, initializer=_start_worker
        )

    def __enter__(self) -> Workers:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.stop()

    def stop(self) -> None:
        """Kill whatever still works."""
        for pool in (self._builders, self._runner):
            pool.stop()
            pool.join()

    def prepare(self, task: PrepareJob) -> None:
        """Compute the reference results; waits. Raises what went wrong there (MsError, or a crash as ProcessExpired)."""
        self._builders.schedule(jobs.prepare, args=[jobs.encode(task)]).result()

    def build(self, task: BuildJob) -> ProcessFuture[bytes]:
        """Start compiling a candidate."""
        return self._builders.schedule(jobs.build, args=[jobs.encode(task)], timeout=self._build_seconds)

    def built(self, future: ProcessFuture[bytes]) -> Built:
        """Wait for a compilation."""
        found = self._outcome(future, "compiling", self._build_seconds)
        return Built(result=found) if isinstance(found, Result) else pickle.loads(found)

    def measure(self, task: MeasureJob) -> Result:
        """Verify and time a compiled candidate; waits."""
        future = self._runner.schedule(jobs.measure, args=[jobs.encode(task)], timeout=self._run_seconds)
        found = self._outcome(future, "running", self._run_seconds)
        return found if isinstance(found, Result) else pickle.loads(found)

    def _outcome(self, future: ProcessFuture[bytes], doing: str, seconds: float) -> bytes | Result:
        from pebble import ProcessExpired

        try:
            answer: bytes = future.result()
        except FutureTimeout:
            return Result(Outcome.TIME_OUT, f"{doing} took more than {seconds:g} s")
        except ProcessExpired as error:
            return Result(Outcome.CRASH, f"{doing}: {_how(error.exitcode)}")
        except MemoryError:
            return Result(Outcome.CRASH, f"{doing}: out of memory")
        return answer


def _how(exit_code: int | None) -> str:
    """Why a process ended, in words."""
    if exit_code is not None and exit_code < 0:
        try:
            return f"the process was ended by {signal.Signals(-exit_code).name}"
        except ValueError:
            return f"the process was ended by signal {-exit_code}"
    return f"the process ended with status {exit_code}"


def _start_worker() -> None:
    """In each worker: leave Ctrl-C to the tuner, and end when the tuner is gone."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    if sys.platform == "linux":
        import ctypes

        set_parent_death_signal = 1
        ctypes.CDLL(None).prctl(set_parent_death_signal, signal.SIGKILL)
        if os.getppid() == 1:
            os._exit(1)
