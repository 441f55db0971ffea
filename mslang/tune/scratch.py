"""Temporary folders that are deleted even if their process is killed: by the next process that makes one.

A process that is killed cannot delete its folder. Each folder contains a file that its owner keeps locked. The lock
ends with the process, and the next process that makes a folder deletes those without a lock.
"""

from __future__ import annotations

import shutil
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO

PREFIX = "mslang-tune-"
_LOCK = "owner.lock"


@contextmanager
def scratch_folder(parent: Path | None = None) -> Iterator[str]:
    """A new folder, deleted at the end; folders of processes that were killed are deleted first.

    Args:
        parent: where it is made (default: the system's folder for temporary files).
    """
    where = Path(tempfile.gettempdir()) if parent is None else parent
    with suppress(OSError):
        remove_stale(where)
    made = Path(tempfile.mkdtemp(prefix=f".{PREFIX}", dir=where))
    folder = made.with_name(made.name.removeprefix("."))
    try:
        with (made / _LOCK).open("w") as lock:
            # Locked before it has the name by which others find it.
            _lock(lock)
            made.rename(folder)
            yield str(folder)
    finally:
        for path in (made, folder):
            shutil.rmtree(path, ignore_errors=True)


def remove_stale(parent: Path) -> None:
    """Delete the folders in `parent` whose owners are gone."""
    for folder in parent.glob(f"{PREFIX}*"):
        with suppress(OSError), (folder / _LOCK).open("r+") as lock:
            if _lock(lock):
                shutil.rmtree(folder, ignore_errors=True)


def _lock(file: IO[str]) -> bool:
    """Lock a file until it is closed; False if another process holds it, or the system has no such locks."""
    if sys.platform == "win32":
        return False
    import fcntl

    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    return True
