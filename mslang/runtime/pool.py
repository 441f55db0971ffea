"""The fork-join pool of parallel loops: a few functions in LLVM IR (`pool_ir.py`), run by ordinary Python threads.

A worker is a `threading.Thread` inside one long native call, so no compiler, no threading library and no second
OpenMP is needed.
"""

from __future__ import annotations

import ctypes
import os
import threading
import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from mslang.runtime.pool_ir import AWAKE, WORD, WORDS, WORKERS, pool_ir

if TYPE_CHECKING:
    from llvmlite.binding import LLJIT

SPINS = 4000
"""Pauses of an idle worker before it sleeps (about 100 µs)."""


class PoolCode:
    """The functions of pools, compiled: `launcher`, `worker`, `rouse` and `stop` are their addresses.

    A forked process needs no compiler to make a pool of its own, as it has the code of its parent.

    Arguments: the linker to compile with.
    """

    def __init__(self, jit: LLJIT) -> None:
        from llvmlite.binding import JITLibraryBuilder

        names = ("pool_launch", "pool_worker", "pool_rouse", "pool_stop")
        builder = JITLibraryBuilder().add_ir(pool_ir()).add_current_process()
        for name in names:
            builder.export_symbol(name)
        self._kept = (jit, builder.link(jit, f"mslang.pool{os.getpid()}"))
        self.launcher, self.worker, self.rouse, self.stop = (int(self._kept[1][name]) for name in names)


class Pool:
    """Workers that run parallel loops; `launcher` and `team(n)` are addresses for compiled kernels.

    Arguments: the code, the number of workers (the calling thread is one of them).
    """

    def __init__(self, code: PoolCode, workers: int) -> None:
        self.workers = workers
        memory = ctypes.create_string_buffer((WORDS + 1) * WORD)
        self.state = -(-ctypes.addressof(memory) // WORD) * WORD
        self._teams = (ctypes.c_int64 * (2 * workers))()
        for n in range(1, workers + 1):
            self._teams[2 * n - 2], self._teams[2 * n - 1] = self.state, n
        _set_workers(self.state, workers)
        self.launcher = code.launcher
        self._rouse = ctypes.CFUNCTYPE(None, ctypes.c_void_p)(code.rouse)
        self._awake = threading.Lock()
        stop = ctypes.CFUNCTYPE(None, ctypes.c_void_p)(code.stop)
        run = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64)(code.worker)
        threads = [
            threading.Thread(target=run, args=(self.state, k, SPINS), name=f"mslang-{k}", daemon=True)
            for k in range(1, workers)
        ]
        for thread in threads:
            thread.start()
        # The workers' code and state must outlive them, also when the process ends.
        self._kept = (code, memory, self._teams)
        self._finalizer = weakref.finalize(self, _end, stop, self.state, threads, self._kept)

    def team(self, threads: int | None = None) -> int:
        """The address of a team of so many workers, of all where there are fewer or None is given."""
        n = self.workers if threads is None else min(threads, self.workers)
        return ctypes.addressof(self._teams) + 16 * (n - 1)

    @contextmanager
    def kept_awake(self) -> Iterator[None]:
        """Within it, idle workers do not sleep: a launch finds them spinning, each on a processor of its own."""
        self._stay_awake(1)
        self._rouse(self.state)
        try:
            yield
        finally:
            self._stay_awake(-1)

    def _stay_awake(self, more: int) -> None:
        with self._awake:
            _word(self.state, AWAKE).value += more

    def close(self) -> None:
        """End the workers; no kernel may be running. Parallel loops run serially from then on."""
        self._finalizer()


def _end(stop: Callable[[int], None], state: int, threads: list[threading.Thread], kept: object) -> None:
    stop(state)
    for thread in threads:
        thread.join()
    _set_workers(state, 1)


def _set_workers(state: int, workers: int) -> None:
    _word(state, WORKERS).value = workers


def _word(state: int, number: int) -> ctypes.c_int64:
    return ctypes.c_int64.from_address(state + number * WORD)
