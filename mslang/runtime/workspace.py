"""Scratch memory for kernels: each call has a workspace to itself, and finished calls leave theirs for later ones."""

from __future__ import annotations

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
        # Single operations on a list are atomic: no lock, which a forked process could inherit taken.
        # The one most recently used is handed out first: it is likeliest to be in a cache.
        self._free: list[NDArray[Any]] = [empty((self._size,), "u8")]

    @contextmanager
    def taken(self) -> Iterator[int]:
        """The address of a workspace that no other call has until the context ends."""
        try:
            memory = self._free.pop()
        except IndexError:
            memory = empty((self._size,), "u8")
        try:
            yield memory.ctypes.data
        finally:
            self._free.append(memory)

    def fill(self, byte: int) -> None:
        """Overwrite every workspace that is not in use."""
        for memory in tuple(self._free):
            memory.fill(byte)
