"""A submitted call and its outcome."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import Future, InvalidStateError
from contextlib import suppress
from typing import Generic, TypeVar

from mslang.workers.outcome import Cancelled, Outcome

T = TypeVar("T")


class Task(Generic[T]):
    """A submitted call.

    `future` holds the outcome, for `concurrent.futures.wait` and `asyncio.wrap_future`; cancelling the future cancels
    the task. `call` is what is sent, `seconds` the time limit.
    """

    def __init__(self, call: bytes, seconds: float | None) -> None:
        self.call, self.seconds = call, seconds
        self.future: Future[Outcome[T]] = Future()
        self.future.add_done_callback(self._cancel_with)
        self._lock = threading.Lock()
        self._ended = False
        self._kill: Callable[[], None] | None = None

    def outcome(self, timeout: float | None = None) -> Outcome[T]:
        """Wait for the outcome.

        Raises:
            TimeoutError: there is none after `timeout` seconds; the task goes on.
        """
        return Cancelled() if self.future.cancelled() else self.future.result(timeout)

    @property
    def done(self) -> bool:
        """Whether there is an outcome."""
        return self.future.done()

    def cancel(self) -> None:
        """End the task: a waiting one is not started, a running one has its process killed. An outcome stays."""
        self.end(Cancelled())

    def end(self, outcome: Outcome[T]) -> None:
        """Set the outcome if there is none yet, and kill the process if one still works on the task."""
        with self._lock:
            if self._ended:
                return
            self._ended = True
            if self._kill is not None:
                # Under the lock: the process must not be given another task before it is killed.
                self._kill()
                self._kill = None
        with suppress(InvalidStateError):
            self.future.set_result(outcome)

    def begin(self, kill: Callable[[], None]) -> bool:
        """Note how to kill the process that works on the task; False if the task has ended already."""
        with self._lock:
            self._kill = None if self._ended else kill
            return not self._ended

    def answered(self, outcome: Outcome[T]) -> None:
        """Set the outcome that came from the process, which is free for the next task."""
        with self._lock:
            self._kill = None
        self.end(outcome)

    def _cancel_with(self, future: Future[Outcome[T]]) -> None:
        if future.cancelled():
            self.cancel()
