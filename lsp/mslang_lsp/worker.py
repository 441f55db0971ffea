"""A process that schedules run in: it may hang, crash or be killed, and the server goes on."""

from __future__ import annotations

import asyncio
import multiprocessing
import os
import signal
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, ParamSpec, TypeVar

if TYPE_CHECKING:
    from pebble import ProcessPool

P = ParamSpec("P")
T = TypeVar("T")


class WorkerFailed(Exception):
    """A job that gave no answer: it took too long, or its process died."""


class Worker:
    """One process, started with the first job and again after one that had to be killed; jobs wait for each other."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._pool: ProcessPool | None = None

    async def run(self, job: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """The result of a job, which must be a function of a module.

        Raises:
            WorkerFailed: it took more than the worker's time, or the process died.
        """
        from pebble import ProcessExpired

        future = self._started().schedule(job, args=list(args), kwargs=kwargs, timeout=self._seconds)
        try:
            answer: T = await asyncio.wrap_future(future)
        except TimeoutError as error:
            raise WorkerFailed(f"it takes more than {self._seconds:g} s") from error
        except ProcessExpired as error:
            raise WorkerFailed(f"its process ended with status {error.exitcode}") from error
        return answer

    def stop(self) -> None:
        """Kill the process."""
        if self._pool is not None:
            self._pool.stop()
            self._pool.join()
            self._pool = None

    def _started(self) -> ProcessPool:
        if self._pool is None:
            from pebble import ProcessPool

            # A fresh interpreter: this process has threads and an event loop, which a fork would copy half.
            context = multiprocessing.get_context("spawn")
            self._pool = ProcessPool(max_workers=1, context=context, initializer=_start)
        return self._pool


def _start() -> None:
    """In the process: nothing that it prints may reach the client, and it ends with the server."""
    os.dup2(2, 1)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    if sys.platform == "linux":
        import ctypes

        set_parent_death_signal = 1
        ctypes.CDLL(None).prctl(set_parent_death_signal, signal.SIGKILL)
        if os.getppid() == 1:
            os._exit(1)
