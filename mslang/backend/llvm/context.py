"""What the whole process shares of LLVM."""

from __future__ import annotations

import threading

ONE_AT_A_TIME = threading.RLock()
"""LLVM's global context must not be used by two threads concurrently."""
