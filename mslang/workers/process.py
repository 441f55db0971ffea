"""One worker process, seen from the thread that owns it."""

from __future__ import annotations

import gc
import os
import pickle
import signal
import subprocess
import sys
import threading
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import BinaryIO, TypeVar, cast

import msgspec

from mslang.workers import child
from mslang.workers.child import read_frame, write_frame
from mslang.workers.outcome import Crashed, Done, Failed, Outcome, OutOfMemory, TimedOut
from mslang.workers.task import Task

T = TypeVar("T")

START_SECONDS = 120.0
"""A process that is not ready after so long is killed."""


class NotBegun(msgspec.Struct, frozen=True):
    """The process ended before it began the task."""

    exit_code: int


class Process:
    """A started worker process. It collects garbage as seldom as this process does.

    Args:
        memory: bytes of address space that it may allocate beyond what it starts with (None: no limit).
        preload: modules that it imports before its first task.

    Raises:
        OSError: the system cannot start a process.
    """

    def __init__(self, memory: int | None, preload: Sequence[str]) -> None:
        self._memory = memory
        flags = ["-P", *(["-B"] if sys.dont_write_bytecode else []), *(["-I"] if sys.flags.isolated else [])]
        self._process = subprocess.Popen(
            [sys.executable, *flags, str(Path(child.__file__))],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=None if _is_open(2) else subprocess.DEVNULL,
            # A group of its own: Ctrl-C in a terminal is the parent's business, and what a task forks ends with it.
            start_new_session=True,
        )
        self._requests = cast("BinaryIO", self._process.stdin)
        self._answers = cast("BinaryIO", self._process.stdout)
        self._lock = threading.Lock()
        self._ready = False
        self.calls = 0
        setup = (os.getpid(), sys.path, gc.get_threshold(), memory, tuple(preload))
        with suppress(OSError):
            write_frame(self._requests, pickle.dumps(setup))

    def kill(self) -> None:
        """Kill the process and what it started. Any thread may call this."""
        with self._lock:
            if self._process.returncode is not None:
                return
            if sys.platform == "win32":
                self._process.kill()
            else:
                with suppress(OSError):
                    os.killpg(self._process.pid, signal.SIGKILL)

    def close(self) -> int:
        """Kill the process if it still runs, and return its exit status."""
        self.kill()
        with self._lock:
            status = self._process.wait()
        for stream in (self._requests, self._answers):
            with suppress(OSError):
                stream.close()
        return status

    def wait_until_ready(self) -> bool:
        """Wait until the process takes tasks; False if it ended, or was killed because it was not ready in time."""
        if not self._ready:
            timer = _started_timer(START_SECONDS, self.kill)
            self._ready = self._next_answer() is not None
            timer.cancel()
        return self._ready

    def call(self, task: Task[T]) -> Outcome[T] | NotBegun:
        """Do a task. Afterwards `alive` says whether the process can do another."""
        self.calls += 1
        try:
            write_frame(self._requests, task.call)
        except OSError:
            return NotBegun(self.close())
        timer = None
        if task.seconds is not None:
            timer = _started_timer(task.seconds, lambda: task.end(TimedOut(task.seconds or 0.0)))
        try:
            begun = self._next_answer()
            answer = self._next_answer() if begun is not None else None
        finally:
            if timer is not None:
                timer.cancel()
        if begun is None:
            return NotBegun(self.close())
        return Crashed(self.close()) if answer is None else self._outcome(*answer)

    @property
    def alive(self) -> bool:
        """Whether the process still runs."""
        with self._lock:
            if self._process.returncode is not None:
                return False
            if sys.platform == "win32":
                return self._process.poll() is None
            # The process stays a zombie until `close`, so that its number, and its group's, cannot be another's.
            return os.waitid(os.P_PID, self._process.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is None

    def _next_answer(self) -> tuple[bytes, bytes] | None:
        frame = read_frame(self._answers)
        if frame is None:
            return None
        kind, _, data = frame.partition(b" ")
        return kind, data

    def _outcome(self, kind: bytes, data: bytes) -> Outcome[T]:
        try:
            content = pickle.loads(data)
        except Exception as error:  # noqa: BLE001 - unpickling runs code of the value's class
            return Failed(error)
        match kind:
            case child.VALUE:
                return Done(content)
            case child.MEMORY:
                return OutOfMemory(self._memory, content)
            case _:
                return Failed(*content)


def _started_timer(seconds: float, end: object) -> threading.Timer:
    timer = threading.Timer(seconds, end)  # type: ignore[arg-type]
    timer.daemon = True
    timer.start()
    return timer


def _is_open(descriptor: int) -> bool:
    try:
        os.fstat(descriptor)
    except OSError:
        return False
    return True
