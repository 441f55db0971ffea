"""Scratch memory for kernels: each call has a workspace to itself, and finished calls leave theirs for later ones."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from mslang.runtime.arrays import address_of, empty

if TYPE_CHECKING:
    from numpy.typing import NDArray

Workspace = tuple[int, "NDArray[Any]"]
"""The address of a workspace, and its memory. The address is kept: to ask an array for it takes two microseconds."""


class Workspaces:
    """The workspaces of one kernel: as many as there have been concurrent calls.

    Args:
        size: bytes of one workspace.
    """

    def __init__(self, size: int) -> None:
        self._size = max(size, 64)
        # Single operations on a list are atomic: no lock, which a forked process could inherit taken.
        # The one most recently used is handed out first: it is likeliest to be in a cache.
        self._free = [self._new()]

    def _new(self) -> Workspace:
        memory = empty((self._size,), "u8")
        return address_of(memory), memory

    def take(self) -> Workspace:
        """A workspace that no other call has until it is given back."""
        try:
            return self._free.pop()
        except IndexError:
            return self._new()

    def give(self, held: Workspace) -> None:
        """Leave a workspace for later calls."""
        self._free.append(held)

    def fill(self, byte: int) -> None:
        """Overwrite every workspace that is not in use."""
        for _, memory in tuple(self._free):
            memory.fill(byte)
