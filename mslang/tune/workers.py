"""Worker processes that may crash, hang or be killed: two pebble pools, one that compiles and one that runs.

Only one candidate runs at a time, so that timings do not disturb each other; compiling goes on beside it.
"""

from __future__ import annotations

import multiprocessing
import os
import pickle
import signal
import sys
from collections.abc import Callable
from concurrent.futures import TimeoutError as FutureTimeout
from concurrent.futures import wait
from concurrent.futures.process import BrokenProcessPool
from contextlib import suppress
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, TypeVar

import msgspec

from mslang.diagnostics import MsError, problem
from mslang.tune import job as jobs
from mslang.tune.job import BuildJob, Built, MeasureJob, PrepareJob
from mslang.tune.record import Outcome, Result

if TYPE_CHECKING:
    from pebble import ProcessFuture, ProcessPool

T = TypeVar("T")

TASKS_A_WORKER = 500
"""Workers are renewed after so many jobs, which bounds what a leak can hold."""


PATIENCE = 0.1
"""Seconds between two looks at whether the wait is to be given up."""

MEMORY_SHARE = 0.8
"""How much of the machine's memory one worker may take before its allocations fail."""


class Work(msgspec.Struct, frozen=True):
    """What the processes do: functions of modules, from the bytes of a job to the bytes of its answer."""

    prepare: Callable[[bytes], bytes] = jobs.prepare
    build: Callable[[bytes], bytes] = jobs.build
    measure: Callable[[bytes], bytes] = jobs.measure


class _Pool:
    """Processes of one kind, made anew when the pool that holds them breaks."""

    def __init__(self, make: Callable[[], ProcessPool]) -> None:
        self._make = make
        self._pool = make()

    def schedule(self, work: Callable[[bytes], bytes], job: bytes, seconds: float | None) -> ProcessFuture[bytes]:
        """Start a job, which may take so many seconds (None: any)."""
        try:
            return self._pool.schedule(work, args=[job], timeout=seconds)
        except RuntimeError:  # So pebble says that the pool is broken.
            self.stop()
            self._pool = self._make()
            return self._pool.schedule(work, args=[job], timeout=seconds)

    def stop(self) -> None:
        """Kill whatever still works."""
        self._pool.stop()
        self._pool.join()


class Pending(msgspec.Struct, frozen=True):
    """A job that a pool works on, and what starts it again."""

    pool: _Pool
    work: Callable[[bytes], bytes]
    job: bytes
    seconds: float | None
    future: ProcessFuture[bytes]


class Workers:
    """The pools. `build` starts compiling and returns at once; `built` and `measure` wait.

    A job past its time-out has its process killed and is counted as such; a process that dies is a crash, and so is
    one that fails or answers what cannot be understood.

    Args:
        builders: processes that compile; one more runs candidates.
        build_seconds: after so long a compilation is given up.
        run_seconds: after so long a candidate is given up.
        work: what the processes do.
        memory: bytes of address space that one process may take beyond what it starts with.
    """

    def __init__(
        self,
        builders: int,
        build_seconds: float = 30.0,
        run_seconds: float = 30.0,
        work: Work | None = None,
        memory: int | None = None,
    ) -> None:
        from pebble import ProcessPool

        context = multiprocessing.get_context("forkserver" if sys.platform == "linux" else "spawn")
        if sys.platform == "linux":
            context.set_forkserver_preload(["mslang.tune.preload"])
        self._build_seconds, self._run_seconds = build_seconds, run_seconds
        self._work = Work() if work is None else work
        self._abandoned = False
        limit = memory_limit() if memory is None else memory

        def pool(processes: int) -> ProcessPool:
            return ProcessPool(
                max_workers=processes,
                max_tasks=TASKS_A_WORKER,
                context=context,
                initializer=_start_worker,
                initargs=[limit],
            )

        self._builders, self._runner = _Pool(partial(pool, builders)), _Pool(partial(pool, 1))

    def __enter__(self) -> Workers:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def stop(self) -> None:
        """Kill whatever still works."""
        self._builders.stop()
        self._runner.stop()

    def abandon(self) -> None:
        """Let whoever waits for a job get a KeyboardInterrupt, now or when next waiting; for signal handlers.

        A handler must not raise by itself: it may stand in the middle of what holds a pool's lock.
        """
        self._abandoned = True

    def _start(self, pool: _Pool, work: Callable[[bytes], bytes], job: bytes, seconds: float | None = None) -> Pending:
        return Pending(pool, work, job, seconds, pool.schedule(work, job, seconds))

    def _wait(self, pending: Pending) -> bytes:
        """The answer. A process that ends before its pool knows what it works on breaks the pool, and the jobs of its
        other processes are lost with it: each is done once more."""
        try:
            return self._patiently(pending.future)
        except BrokenProcessPool:
            return self._patiently(pending.pool.schedule(pending.work, pending.job, pending.seconds))

    def _patiently(self, future: ProcessFuture[bytes]) -> bytes:
        while not self._abandoned:
            done, _ = wait((future,), timeout=PATIENCE)
            if done:
                return future.result()
        raise KeyboardInterrupt

    def prepare(self, task: PrepareJob) -> None:
        """Compute the reference results; waits.

        Raises:
            MsError: MS502, the unscheduled program does not run; or why it cannot be compiled.
        """
        from pebble import ProcessExpired

        name = task.program.name
        try:
            self._wait(self._start(self._builders, self._work.prepare, jobs.encode(task)))
        except (ProcessExpired, BrokenProcessPool) as error:
            why = _how(error.exitcode) if isinstance(error, ProcessExpired) else "the process ended at once"
            raise MsError(
                problem(
                    "MS502",
                    f"the unscheduled {name} crashes when it runs",
                    why=why,
                    help="is there enough memory for its arrays?",
                )
            ) from error
        except MemoryError as error:
            raise MsError(
                problem(
                    "MS502",
                    f"there is not enough memory for the arrays of {name}",
                    why=str(error) or None,
                    help="give smaller sizes: `--set`",
                )
            ) from error

    def build(self, task: BuildJob) -> Pending:
        """Start compiling a candidate."""
        return self._start(self._builders, self._work.build, jobs.encode(task), self._build_seconds)

    def built(self, pending: Pending) -> Built:
        """Wait for a compilation."""
        found = self._answer(pending, Built, "compiling", self._build_seconds)
        return Built(result=found) if isinstance(found, Result) else found

    def measure(self, task: MeasureJob) -> Result:
        """Verify and time a compiled candidate; waits."""
        pending = self._start(self._runner, self._work.measure, jobs.encode(task), self._run_seconds)
        return self._answer(pending, Result, "running", self._run_seconds)

    def _answer(self, pending: Pending, wanted: type[T], doing: str, seconds: float) -> T | Result:
        from pebble import ProcessExpired

        try:
            answer = pickle.loads(self._wait(pending))
        except FutureTimeout:
            return Result(Outcome.TIME_OUT, f"{doing} took more than {seconds:g} s")
        except ProcessExpired as error:
            return Result(Outcome.CRASH, f"{doing}: {_how(error.exitcode)}")
        except MemoryError:
            return Result(Outcome.CRASH, f"{doing}: out of memory")
        except Exception as error:  # noqa: BLE001 - whatever a candidate brings about is its outcome, not the tuner's end
            return Result(Outcome.CRASH, f"{doing}: {type(error).__name__}: {error}")
        if not isinstance(answer, wanted):
            return Result(Outcome.CRASH, f"{doing}: the answer is no {wanted.__name__}")
        return answer


def _how(exit_code: int | None) -> str:
    """Why a process ended, in words."""
    if exit_code is not None and exit_code < 0:
        try:
            return f"the process was ended by {signal.Signals(-exit_code).name}"
        except ValueError:
            return f"the process was ended by signal {-exit_code}"
    return f"the process ended with status {exit_code}"


def memory_limit() -> int | None:
    """Bytes that one worker may take, or None where the system does not say how much it has."""
    with suppress(AttributeError, ValueError, OSError):
        return int(MEMORY_SHARE * os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE"))
    return None


def _start_worker(memory: int | None) -> None:
    """In each worker: leave Ctrl-C to the tuner, end when the tuner is gone, take no more than a share of memory."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    if memory is not None:
        _bound_memory(memory)
    if sys.platform == "linux":
        import ctypes

        set_parent_death_signal = 1
        ctypes.CDLL(None).prctl(set_parent_death_signal, signal.SIGKILL)
        if os.getppid() == 1:
            os._exit(1)


def _bound_memory(more: int) -> None:
    """Let allocations beyond `more` bytes fail, and if memory runs out all the same, let this process go first."""
    if sys.platform != "linux":
        return
    import resource

    with suppress(OSError, ValueError):
        Path("/proc/self/oom_score_adj").write_text("1000")
    with suppress(OSError, ValueError):
        taken = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
        _, most = resource.getrlimit(resource.RLIMIT_AS)
        wanted = taken + more
        resource.setrlimit(resource.RLIMIT_AS, (wanted if most == resource.RLIM_INFINITY else min(wanted, most), most))
