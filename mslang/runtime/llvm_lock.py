"""The lock that everything which uses LLVM in this process takes."""

from __future__ import annotations

import os
import threading

ONE_AT_A_TIME = threading.RLock()
"""LLVM's global context must not be used by two threads concurrently."""

# A forked process has only the thread that forked. If another thread were in LLVM at that moment, this lock and those
# inside llvmlite and LLVM would stay taken there: so a fork waits until LLVM is idle.
if hasattr(os, "register_at_fork"):
    os.register_at_fork(
        before=ONE_AT_A_TIME.acquire, after_in_parent=ONE_AT_A_TIME.release, after_in_child=ONE_AT_A_TIME.release
    )
