"""Scratch memory for kernels: each call has a workspace to itself, and finished calls leave theirs for later ones."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from mslang.runtime.arrays import empty

if TYPE_CHECKING:
    from numpy.typing import NDArray


class Workspaces:
    """The workspaces of one kernel: as many as there have been concurrent calls.

    Args:
        size: bytes of one workspace.
    """

    def __init__(self, size: int) -> None:
        self._size = max(size, 64)
        self._lock = threading.Lock()
        # The one most recently used is handed out first: it is likeliest to be in a cache.
        self._free: list[NDArray[Any]] = [empty((self._size,), "u8")]

    @contextmanager
    def taken(self) -> Iterator[int]:
        """The address of a workspace that no other call has until the context ends."""
        with self._lock:
            found = self._free.pop() if self._free else None
        memory = empty((self._size,), "u8") if found is None else found
        try:
            yield memory.ctypes.data
        finally:
            with self._lock:
                self._free.append(memory)

    def fill(self, byte: int) -> None:
        """Overwrite every workspace that is not in use."""
        with self._lock:
            for memory in self._free:
                memory.fill(byte)
