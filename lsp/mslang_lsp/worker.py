"""A process that schedules run in: it may hang, crash or be killed, and the server goes on."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TypeVar

from mslang.diagnostics import Diagnostic
from mslang.workers.outcome import Cancelled, Crashed, Done, Outcome, explanation
from mslang.workers.pool import Pool, usual_memory
from mslang.workers.task import Task

T = TypeVar("T")

MEMORY = 2 << 30
"""Bytes that a process may allocate."""

GRACE = 1.0
"""Seconds that a job goes on after it was cancelled. Most end in that time, and the process keeps its caches."""


class WorkerFailed(Exception):
    """A job that gave no answer. `transient` says that the same job may succeed: its process was ended from outside."""

    def __init__(self, diagnostic: Diagnostic, transient: bool) -> None:
        super().__init__(f"{diagnostic.message}{f': {diagnostic.why}' if diagnostic.why else ''}")
        self.diagnostic = diagnostic
        self.transient = transient


class Worker:
    """One process, started with the first job and again after one that had to be killed. Jobs wait for each other.

    Args:
        seconds: the time limit of a job.
        memory: bytes that the process may allocate (None: no limit).
    """

    def __init__(self, seconds: float, memory: int | None = MEMORY) -> None:
        self._seconds = seconds
        self._memory = memory
        self._pool: Pool | None = None
        self._turn = asyncio.Lock()

    async def run(self, doing: str, job: Callable[..., T], *args: object, patience: float | None = None) -> T:
        """The result of a job. Cancelling drops a job that waits, and ends a running one within `GRACE`.

        Args:
            doing: what the job is, as the subject of a sentence: "the preview".
            job: a function of a module.
            args: its arguments, which are pickled.
            patience: how many seconds it waits for its turn at most (None: as long as it takes).

        Raises:
            WorkerFailed: it raised, took more than its time or memory, or the process died.
            TimeoutError: its turn did not come in `patience`.
        """
        async with asyncio.timeout(patience):
            await self._turn.acquire()
        try:
            task = self.start().submit(job, args, seconds=self._seconds)
            outcome = await _outcome(task)
        finally:
            self._turn.release()
        if isinstance(outcome, Done):
            return outcome.value
        raise WorkerFailed(explanation(outcome, doing)[0], isinstance(outcome, Crashed | Cancelled))

    def start(self) -> Pool:
        """Have the process start, if it has not."""
        if self._pool is None:
            limits = [limit for limit in (self._memory, usual_memory()) if limit is not None]
            self._pool = Pool(1, memory=min(limits, default=None), preload=("mslang_lsp.tasks",))
        return self._pool

    def stop(self) -> None:
        """Kill the process."""
        if self._pool is not None:
            self._pool.stop()
            self._pool = None


async def _outcome(task: Task[T]) -> Outcome[T]:
    try:
        return await asyncio.shield(asyncio.wrap_future(task.future))
    except asyncio.CancelledError:
        asyncio.get_running_loop().call_later(GRACE, task.cancel)
        raise
