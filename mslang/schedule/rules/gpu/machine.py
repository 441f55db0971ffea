"""What rules for GPUs ask of the machine."""

from __future__ import annotations

from mslang.target.description import Target

WARP = 32
MOST_THREADS = 1024
SHARED = 48 * 1024
"""Bytes of shared memory that a block of every GPU has."""
CP_ASYNC = 80
"""The compute capability from which on threads copy to shared memory asynchronously."""
TENSOR_CORES = 75
"""The compute capability from which on the rules use tensor cores."""


def warp(target: Target) -> int:
    """Threads of a warp."""
    return _field(target, "warp", WARP)


def most_threads(target: Target) -> int:
    """The maximal number of threads of a block."""
    return _field(target, "max_threads", MOST_THREADS)


def registers(target: Target) -> int:
    """The registers of a thread, each of 4 bytes."""
    return target.registers


def shared_memory(target: Target) -> int:
    """The maximal bytes of shared memory of a block."""
    return _field(target, "shared", SHARED)


def capability(target: Target) -> int:
    """The compute capability of a GPU as one number; 0 if the target does not say.

    >>> from mslang.target.description import CUDA, SM_80
    >>> capability(SM_80), capability(CUDA)
    (80, 0)
    """
    digits = "".join(c for c in str(target.fields.get("arch", "")) if c.isdigit())
    return int(digits or 0)


def _field(target: Target, name: str, default: int) -> int:
    value = target.fields.get(name)
    return value if isinstance(value, int) else default
