"""A pool of worker processes, each with pipes of its own and a thread here that owns it.

No lock is shared between processes, so a worker that is killed at any moment stops no other. Deadlines are on the
monotonic clock. A worker that ends is replaced; a task that it had not begun goes to its successor.
"""

from __future__ import annotations

import os
import pickle
import threading
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from types import TracebackType
from typing import Any, TypeVar

from mslang.diagnostics import MsError, problem
from mslang.workers.outcome import Crashed, Failed, Outcome
from mslang.workers.process import NotBegun, Process
from mslang.workers.task import Task

T = TypeVar("T")

ATTEMPTS = 3
"""A task whose worker ends before it begins the task is given to so many workers."""

TASKS_PER_WORKER = 500
"""A worker is replaced after so many tasks, which bounds what leaks accumulate."""

MEMORY_SHARE = 0.8
"""The usual memory limit of a worker, as a share of the machine's memory."""


def usual_memory() -> int | None:
    """The usual memory limit of one worker in bytes; None where the system does not report its memory."""
    with suppress(AttributeError, ValueError, OSError):
        return int(MEMORY_SHARE * os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE"))
    return None


def most_workers() -> int:
    """The most processes that a pool is sensibly given: all start at once, before there is work."""
    return max(64, 4 * (os.cpu_count() or 1))


class Pool:
    """Worker processes that call functions of modules.

    Tasks start in the order of submission. Use it as a context manager, or call `stop`; if this process dies, its
    workers end, too.

    Args:
        workers: how many processes.
        memory: bytes of address space that each may allocate beyond what it starts with (None: no limit).
        preload: modules that each process imports before its first task.
        tasks_per_worker: after so many tasks a process is replaced.

    Example:
        >>> import math
        >>> with Pool(1) as pool:
        ...     pool.submit(math.sqrt, (4.0,), seconds=60.0).outcome()
        Done(value=2.0)
    """

    def __init__(
        self,
        workers: int = 1,
        *,
        memory: int | None = None,
        preload: Sequence[str] = (),
        tasks_per_worker: int = TASKS_PER_WORKER,
    ) -> None:
        self._memory, self._preload, self._tasks_per_worker = memory, tuple(preload), tasks_per_worker
        self._change = threading.Condition()
        self._waiting: deque[Task[Any]] = deque()
        self._running: set[Task[Any]] = set()
        self._processes: set[Process] = set()
        self._stopped = False
        self._threads = [
            threading.Thread(target=self._serve, name="mslang worker", daemon=True) for _ in range(workers)
        ]
        for thread in self._threads:
            thread.start()

    def submit(
        self, function: Callable[..., T], args: Sequence[object] = (), *, seconds: float | None = None
    ) -> Task[T]:
        """Call a function in a worker.

        Args:
            function: a function of an importable module; it is sent by name.
            args: its arguments, which are pickled.
            seconds: after so long in the worker its process is killed and the outcome is `TimedOut` (None: no limit).

        Raises:
            ValueError: the function stands in `__main__`, which workers do not import; or the pool is stopped.
        """
        if getattr(function, "__module__", None) == "__main__":
            raise ValueError(f"{function.__qualname__} is defined in __main__, which workers do not import")
        task: Task[T] = Task(pickle.dumps((function, tuple(args))), seconds)
        with self._change:
            if self._stopped:
                raise ValueError("the pool is stopped")
            self._waiting.append(task)
            self._change.notify()
        return task

    def stop(self) -> None:
        """Kill the processes and wait for their end; tasks without an outcome become `Cancelled`."""
        with self._change:
            self._stopped = True
            tasks = [*self._waiting, *self._running]
            self._waiting.clear()
            self._change.notify_all()
            processes = list(self._processes)
        for task in tasks:
            task.cancel()
        for process in processes:
            process.kill()
        for thread in self._threads:
            thread.join()

    def __enter__(self) -> Pool:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    # ---------------------------------------------------------------- threads, each of which owns one process
    def _serve(self) -> None:
        process: Process | None = None
        try:
            while True:
                # Started before there is work, so that the next task finds it ready.
                with suppress(OSError, RuntimeError, MemoryError):
                    process = self._usable(process)
                    process.wait_until_ready()
                task = self._next()
                if task is None:
                    return
                process, outcome = self._do(process, task)
                with self._change:
                    self._running.discard(task)
                task.answered(outcome)
        finally:
            self._close(process)

    def _next(self) -> Task[Any] | None:
        """Wait for a task; None when the pool is stopped."""
        with self._change:
            while not self._stopped:
                if self._waiting:
                    task = self._waiting.popleft()
                    self._running.add(task)
                    return task
                self._change.wait()
        return None

    def _do(self, process: Process | None, task: Task[T]) -> tuple[Process | None, Outcome[T]]:
        """The outcome of a task, and the process that is there afterwards."""
        outcome: Outcome[T] | NotBegun = NotBegun(0)
        for _ in range(ATTEMPTS):
            try:
                process = self._usable(process)
            except OSError as error:
                return None, Failed(_cannot_start(error))
            try:
                if not process.wait_until_ready():
                    outcome = NotBegun(process.close())
                elif task.begin(process.kill):
                    outcome = process.call(task)
            except (RuntimeError, MemoryError) as error:
                # The system gives no thread for a deadline, or the answer does not fit here.
                self._close(process)
                return None, Failed(error)
            if not isinstance(outcome, NotBegun) or task.done or self._stopped:
                break
        return process, Crashed(outcome.exit_code) if isinstance(outcome, NotBegun) else outcome

    def _usable(self, process: Process | None) -> Process:
        """The process, or a new one in the place of one that has ended or done its share of tasks."""
        if process is not None and process.alive and process.calls < self._tasks_per_worker:
            return process
        self._close(process)
        new = Process(self._memory, self._preload)
        with self._change:
            self._processes.add(new)
            stopped = self._stopped
        if stopped:
            new.kill()
        return new

    def _close(self, process: Process | None) -> None:
        if process is None:
            return
        with self._change:
            self._processes.discard(process)
        process.close()


def _cannot_start(error: OSError) -> MsError:
    return MsError(
        problem(
            "MS512",
            "cannot start a worker process",
            why=error.strerror or str(error),
            help="close other programs, or raise the limits on processes and memory (`ulimit -a`)",
        )
    )
