"""Functions for worker processes: well-behaved and otherwise."""

import ctypes
import os
import signal
import sys
import time
from pathlib import Path

from mslang.diagnostics import MsError, problem


def square(n: int) -> int:
    return n * n


def square_slowly(n: int) -> int:
    time.sleep(0.005)
    return n * n


def sleep(seconds: float) -> float:
    time.sleep(seconds)
    return seconds


def sleep_deaf(seconds: float) -> None:
    """Deaf to polite requests."""
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    time.sleep(seconds)


def sleep_in_native_code(seconds: int) -> None:
    """Without the interpreter's help."""
    ctypes.PyDLL(None).sleep(seconds)


def sleep_and_name_process(folder: str, seconds: float) -> None:
    (Path(folder) / f"{os.getpid()}.pid").touch()
    time.sleep(seconds)


def leave_a_child(folder: str) -> None:
    """Fork a process that holds this one's pipes open, then end."""
    if os.fork() == 0:
        (Path(folder) / f"{os.getpid()}.pid").touch()
        time.sleep(600)
    os.abort()


def crash() -> None:
    ctypes.string_at(0)


def end(status: int) -> None:
    os._exit(status)


def refuse() -> None:
    raise MsError(problem("MS401", "too odd"))


def fail() -> None:
    raise ZeroDivisionError("by zero")


class Unfit(Exception):
    """An exception that cannot be made again from its arguments."""

    def __init__(self, one: int, two: int) -> None:
        super().__init__(f"{one} and {two}")


def fail_unfit() -> None:
    raise Unfit(1, 2)


def unpicklable() -> object:
    return lambda: 0


def allocate(bytes_: int) -> int:
    return len(bytearray(bytes_))


def count_to(n: int) -> int:
    return len(list(range(n)))


def speak(text: str) -> str:
    print(text)
    os.write(1, b"raw")
    return sys.stdin.read() + text
