"""One tuner at a time goes on with a run."""

from __future__ import annotations

import errno
import os
import struct
import sys
import zlib
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import IO, Any

from mslang.diagnostics import MsError, problem
from mslang.tune.connection import MEMORY, faults


@contextmanager
def claimed_run(store: Path, run: str) -> Iterator[None]:
    """Hold a run of a record store; the system lets go of it when this process ends, however that happens.

    The claim is a lock on one byte of a file next to the store; a store in memory needs none.

    Raises:
        MsError: MS607, another tuner, of this process or another, holds the run; MS603, the file cannot be made or
            locked.
    """
    if sys.platform == "win32" or str(store) == MEMORY:
        yield
        return
    with ExitStack() as held:
        with faults(store):
            file = held.enter_context(store.with_name(f"{store.name}-lock").open("a"))
            _claim(file, store, run)
        yield


def _claim(file: IO[Any], store: Path, run: str) -> None:
    try:
        _lock(file, zlib.crc32(run.encode()))
    except OSError as error:
        # Others are that the file system has no locks, say.
        if error.errno not in (errno.EACCES, errno.EAGAIN):
            raise
        raise MsError(
            problem(
                "MS607",
                f"run {run} is in use by another tuner",
                why=f"a tuner that started or resumed it is still at work on {store}",
                help="wait until it is done, or leave out --resume to start a run of your own",
            )
        ) from error


def _lock(file: IO[Any], byte: int) -> None:
    """Lock a byte of an open file, for as long as it is open.

    Raises:
        OSError: another holds the lock (EACCES or EAGAIN), or there are no locks.
    """
    import fcntl

    if sys.platform == "linux":
        # A lock of `lockf` belongs to the process: closing the file of any other claim would end it.
        flock = struct.pack("hhqqi", fcntl.F_WRLCK, os.SEEK_SET, byte, 1, 0)
        try:
            fcntl.fcntl(file, fcntl.F_OFD_SETLK, flock)
            return
        except OSError as error:
            # Systems that emulate Linux may not have it.
            if error.errno != errno.EINVAL:
                raise
    fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB, 1, byte)
