"""One process at a time goes on with a run."""

from __future__ import annotations

import sys
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from mslang.diagnostics import MsError, problem


@contextmanager
def claimed_run(store: Path, run: str) -> Iterator[None]:
    """Hold a run of a record store; the system lets go of it when this process ends, however that happens.

    The claim is a lock on one byte of a file next to the store.

    Raises:
        MsError: MS607, another process holds the run.
    """
    if sys.platform == "win32":
        yield
        return
    import fcntl

    path = store.with_name(f"{store.name}-lock")
    with path.open("a") as file:
        try:
            fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB, 1, zlib.crc32(run.encode()))
        except OSError as error:
            raise MsError(
                problem(
                    "MS607",
                    f"run {run} is in use by another process",
                    why=f"a tuner that started or resumed it is still at work on {store}",
                    help="wait until it is done, or leave out --resume to start a run of your own",
                )
            ) from error
        yield
