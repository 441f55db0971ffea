"""The worker process: reads tasks from standard input, answers on what was its standard output.

The parent runs this file as a script, so that no `__main__` module of the user's is imported again. Until the first
task it needs the standard library alone; the module search path comes in the first frame.
"""

from __future__ import annotations

import ctypes
import gc
import importlib
import os
import pickle
import queue
import signal
import struct
import sys
import threading
import traceback
from collections.abc import Callable
from contextlib import suppress
from typing import BinaryIO

READY, STARTED, VALUE, ERROR, MEMORY = b"ready", b"started", b"value", b"error", b"memory"
"""Kinds of answers; a frame is a kind, a space, and a pickle."""

_LENGTH = struct.Struct("!Q")
_CHUNK = 1 << 20
_PR_SET_PDEATHSIG = 1


_TOO_LARGE = b""
"""Stands for a task that did not fit."""


def write_frame(stream: BinaryIO, data: bytes) -> None:
    """Write a frame: its length, then its bytes."""
    stream.write(_LENGTH.pack(len(data)))
    stream.write(data)
    stream.flush()


def read_frame(stream: BinaryIO) -> bytes | None:
    """The next frame, or None at the end of the stream or in the middle of a frame that its writer did not finish.

    Raises:
        MemoryError: the frame does not fit; it is skipped.
    """
    head = stream.read(_LENGTH.size)
    if len(head) < _LENGTH.size:
        return None
    (length,) = _LENGTH.unpack(head)
    try:
        data = stream.read(length)
    except MemoryError:
        while length > 0:
            length -= len(stream.read(min(length, _CHUNK))) or length
        raise
    return data if len(data) == length else None


def main() -> None:
    """Serve tasks until standard input ends."""
    requests, answers = _own_streams()
    setup = read_frame(requests)
    if setup is None:
        return
    parent, path, thresholds, memory, preload = pickle.loads(setup)
    _die_with(parent)
    gc.set_threshold(*thresholds)
    sys.path[:] = path
    for module in preload:
        # The task that needs a missing module fails with a message of its own.
        with suppress(ImportError):
            importlib.import_module(module)
    # What was imported stays: no collection need look at it.
    gc.freeze()
    if memory is not None:
        _limit_memory(memory)
    tasks: queue.SimpleQueue[bytes] = queue.SimpleQueue()
    threading.Thread(target=_receive, args=(requests, tasks), daemon=True).start()
    write_frame(answers, READY + b" ")
    while True:
        task = tasks.get()
        write_frame(answers, STARTED + b" ")
        write_frame(answers, _answer(task))


def _own_streams() -> tuple[BinaryIO, BinaryIO]:
    """Private copies of the two pipes; whatever a task prints goes to standard error, and it reads nothing."""
    requests, answers = os.dup(0), os.dup(1)
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.dup2(2, 1)
    os.close(nothing)
    return os.fdopen(requests, "rb"), os.fdopen(answers, "wb")


def _receive(requests: BinaryIO, tasks: queue.SimpleQueue[bytes]) -> None:
    """Pass tasks on. At the end of the stream the parent is gone; this process ends, even in the middle of a task."""
    while True:
        try:
            task = read_frame(requests)
        except MemoryError:
            task = _TOO_LARGE
        if task is None:
            os._exit(0)
        tasks.put(task)


def _answer(task: bytes) -> bytes:
    if task == _TOO_LARGE:
        return MEMORY + b" " + pickle.dumps("its arguments do not fit")
    try:
        function: Callable[..., object]
        function, args = pickle.loads(task)
        return VALUE + b" " + pickle.dumps(function(*args))
    except MemoryError as error:
        return MEMORY + b" " + pickle.dumps(str(error))
    except BaseException as error:  # noqa: BLE001 - whatever the task raises is its outcome, not the worker's end
        return ERROR + b" " + _pickled(error)


def _pickled(error: BaseException) -> bytes:
    """An exception with its traceback as text; one that cannot be pickled as a RuntimeError that names it."""
    text = "".join(traceback.format_exception(error))
    if isinstance(error, Exception):
        with suppress(Exception):
            data = pickle.dumps((error, text))
            pickle.loads(data)
            return data
    return pickle.dumps((RuntimeError(f"{type(error).__name__}: {error}"), text))


def _die_with(parent: int) -> None:
    """Leave Ctrl-C to the parent, and end when it ends, even by SIGKILL in the middle of a task."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() != parent:
            os._exit(0)


def _limit_memory(more: int) -> None:
    """Make allocations fail beyond `more` bytes of address space above what is mapped now. If the machine runs out of
    memory all the same, the system ends this process first."""
    if sys.platform != "linux":
        return
    import resource

    with suppress(OSError), open("/proc/self/oom_score_adj", "w") as file:
        file.write("1000")
    with suppress(OSError, ValueError), open("/proc/self/statm") as file:
        wanted = int(file.read().split()[0]) * resource.getpagesize() + more
        _, most = resource.getrlimit(resource.RLIMIT_AS)
        resource.setrlimit(resource.RLIMIT_AS, (wanted if most == resource.RLIM_INFINITY else min(wanted, most), most))


if __name__ == "__main__":
    main()
