"""Hardware counters of the calling thread, where the system allows: Linux's `perf_event_open`, called by number.

Source: perf_event_open(2).
"""

from __future__ import annotations

import ctypes
import errno
import os
import platform
import struct
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

_CALL = {"x86_64": 298, "aarch64": 241}
"""The number of the system call, by processor."""

_HARDWARE, _SOFTWARE = 0, 1

EVENTS: Mapping[str, tuple[int, int]] = {
    "cycles": (_HARDWARE, 0),
    "instructions": (_HARDWARE, 1),
    "cache references": (_HARDWARE, 2),
    "cache misses": (_HARDWARE, 3),
    "branch misses": (_HARDWARE, 5),
    "page faults": (_SOFTWARE, 2),
    "context switches": (_SOFTWARE, 3),
}
"""What is counted: type and number of each event."""

_DISABLED, _EXCLUDE_KERNEL, _EXCLUDE_HYPERVISOR = 1 << 0, 1 << 5, 1 << 6
_ENABLE, _DISABLE = 0x2400, 0x2401
_TIMES = 1 | 2
"""Read the time that the event was wanted and the time that it was counted: with too many events they take turns."""

_SIZE = 64
"""The size of the first version of the attributes, which every kernel takes."""


class Counted:
    """What was counted: events by name, or why there are none."""

    def __init__(self) -> None:
        self.events: dict[str, float] = {}
        self.refused: str | None = None


@contextmanager
def counting() -> Iterator[Counted]:
    """Count the events of what this thread does inside; the figures are there at the end.

    Where the system refuses, `refused` says why in a line, and what runs inside runs uncounted.
    """
    found = Counted()
    call = _CALL.get(platform.machine())
    if not sys.platform.startswith("linux") or call is None:
        found.refused = f"no hardware counters on {sys.platform} {platform.machine()}"
        yield found
        return
    libc = ctypes.CDLL(None, use_errno=True)
    opened: dict[str, int] = {}
    for name, (kind, number) in EVENTS.items():
        file = _open(libc, call, kind, number)
        if file >= 0:
            opened[name] = file
        elif kind == _HARDWARE and found.refused is None:
            found.refused = _why(-file)
    try:
        for file in opened.values():
            libc.ioctl(file, _ENABLE, 0)
        yield found
    finally:
        for name, file in opened.items():
            libc.ioctl(file, _DISABLE, 0)
            count = _read(file)
            if count is not None:
                found.events[name] = count
            os.close(file)


def _open(libc: ctypes.CDLL, call: int, kind: int, number: int) -> int:
    """A file descriptor that counts an event of this thread on any processor; minus the error number if refused."""
    # type, size, config, sample_period, sample_type, read_format, flags; the rest is zero.
    flags = _DISABLED | _EXCLUDE_KERNEL | _EXCLUDE_HYPERVISOR
    attributes = struct.pack("<IIQQQQQ", kind, _SIZE, number, 0, 0, _TIMES, flags).ljust(_SIZE, b"\0")
    buffer = ctypes.create_string_buffer(attributes, _SIZE)
    file: int = libc.syscall(call, buffer, 0, -1, -1, 0)
    return file if file >= 0 else -ctypes.get_errno()


def _why(number: int) -> str:
    match number:
        case errno.ENOENT | errno.ENODEV | errno.EOPNOTSUPP:
            why = "this machine offers none, as virtual machines do"
        case errno.EPERM | errno.EACCES:
            why = "the system does not permit them (/proc/sys/kernel/perf_event_paranoid)"
        case _:
            why = f"perf_event_open: {os.strerror(number)}"
    return f"no hardware counters: {why}"


def _read(file: int) -> float | None:
    """The count, scaled up if the event was counted for a part of the time; None if it was not counted at all."""
    value, wanted, ran = struct.unpack("<QQQ", os.read(file, 24))
    return None if not ran else value * wanted / ran
