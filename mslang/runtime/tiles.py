"""Permission to use matrix tiles (AMX): Linux gives a process their registers on request."""

from __future__ import annotations

import ctypes
import os
import sys
from functools import lru_cache

from mslang.diagnostics import TargetError, problem

ARCH_PRCTL = 158
ARCH_REQ_XCOMP_PERM = 0x1023
XFEATURE_XTILEDATA = 18


@lru_cache(maxsize=1)
def request_tiles() -> None:
    """Ask the system for the tile registers, for all threads of this process; once.

    Raises:
        TargetError: MS427, the system does not give them.

    Source: Linux, Documentation/arch/x86/xstate.rst
    """
    if sys.platform != "linux":
        raise _refused(f"{sys.platform} has no such request")
    libc = ctypes.CDLL(None, use_errno=True)
    libc.syscall.restype = ctypes.c_long
    words = [ctypes.c_long(x) for x in (ARCH_PRCTL, ARCH_REQ_XCOMP_PERM, XFEATURE_XTILEDATA)]
    if libc.syscall(*words):
        raise _refused(os.strerror(ctypes.get_errno()))


def _refused(why: str) -> TargetError:
    return TargetError(
        problem(
            "MS427",
            "the system does not let this process use matrix tiles (AMX)",
            why=why,
            help="the processor needs AMX, and Linux 5.16 or later",
        )
    )
