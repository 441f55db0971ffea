"""Object code to callable addresses in this process, and the pool that its parallel loops run on."""

from __future__ import annotations

import os
from functools import lru_cache
from itertools import count
from typing import Any

from mslang.diagnostics import MsError, problem
from mslang.runtime.llvm_lock import ONE_AT_A_TIME
from mslang.runtime.pool import Pool, PoolCode
from mslang.target.detect import cores


class Linker:
    """A JIT linker with a pool of `workers` (made when the first parallel kernel is loaded)."""

    def __init__(self, workers: int | None = None) -> None:
        import llvmlite.binding as llvm

        llvm.initialize_native_target()
        llvm.initialize_native_asmprinter()
        # JITLink puts a kernel's code and constants side by side. LLVM's other linker lets the system choose a place
        # for each, and ends the process where these are more than 2 GiB apart.
        self.jit = llvm.create_lljit_compiler(use_jit_link=True)
        self.workers = cores() if workers is None else workers
        self._pool: Pool | None = None
        self._pool_code: PoolCode | None = None
        self._inherited: Pool | None = None  # kept, as ending it would wait for threads that do not exist here
        self._process = os.getpid()
        self._numbers = count()

    def link(self, code: bytes, names: tuple[str, ...]) -> Any:
        """A library (a mapping of the names to addresses) that lives as long as it is referred to.

        Raises MsError MS416 if the object cannot be linked here.
        """
        import llvmlite.binding as llvm

        builder = llvm.JITLibraryBuilder().add_object_img(code).add_current_process()
        for name in names:
            builder.export_symbol(name)
        with ONE_AT_A_TIME:
            try:
                return builder.link(self.jit, f"kernel{next(self._numbers)}")
            except RuntimeError as error:
                found = problem("MS416", "the object cannot be linked into this process", why=str(error))
                raise MsError(found) from error

    @property
    def pool(self) -> Pool:
        """The pool of workers; a process that was forked makes a new one, as threads are not inherited."""
        known = self._pool
        if known is not None and self._process == os.getpid():
            return known
        with ONE_AT_A_TIME:
            if self._pool is None or self._process != os.getpid():
                self._pool_code = self._pool_code or PoolCode(self.jit)
                self._inherited, made = self._pool, Pool(self._pool_code, self.workers)
                # In this order, so that who does not take the lock finds no pool of the parent with its own number.
                self._pool, self._process = made, os.getpid()
            return self._pool

    def close(self) -> None:
        """End the pool's workers."""
        with ONE_AT_A_TIME:
            if self._pool is not None:
                self._pool.close()


@lru_cache(maxsize=1)
def process_linker() -> Linker:
    """The linker that kernels of this process share."""
    return Linker()
