"""Connections to a record store: opened, brought up to date, transactions, and SQLite's errors as diagnostics."""

from __future__ import annotations

import os
import sqlite3
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from mslang.diagnostics import MsError, problem
from mslang.tune.rows import decoded
from mslang.tune.schema import SCHEMA_VERSION, migrate, refuse_newer, schema_version

MEMORY = ":memory:"
"""The path of a store that is not in a file."""

PATIENCE = 60.0
"""Seconds for which a busy writer is waited for."""

_PAUSE = 0.02


class StoreError(MsError):
    """The record store cannot be used: nothing more can be kept."""


def connect(path: Path, read_only: bool) -> sqlite3.Connection:
    """A connection to a store of the present version; an older one is migrated, in memory if it is only read.

    Raises:
        MsError: MS602, a newer version made it; MS603, it is not a record store.
        sqlite3.Error: as `faults` turns into diagnostics.
    """
    place = _uri(path, read_only)
    connection = _with_text(sqlite3.connect(place, uri=True, timeout=PATIENCE, isolation_level=None))
    try:
        version = schema_version(connection)
        refuse_newer(version, path)
        if not read_only:
            _prepare(connection)
            return connection
        if version == 0:
            raise MsError(problem("MS603", f"{path} is not a record store", why="it is empty"))
        return connection if version == SCHEMA_VERSION else _copied(connection)
    except BaseException:
        connection.close()
        raise


def _uri(path: Path, read_only: bool) -> str:
    if str(path) == MEMORY:
        return f"file:{MEMORY}"
    uri = path.resolve().as_uri()
    if not read_only:
        return f"{uri}?mode=rwc"
    # To read a file with a write-ahead log SQLite makes files next to it, even where the log is not there.
    sealed = not os.access(path.resolve().parent, os.W_OK) and not Path(f"{path.resolve()}-wal").exists()
    return f"{uri}?mode=ro&immutable=1" if sealed else f"{uri}?mode=ro"


def _prepare(connection: sqlite3.Connection) -> None:
    """Make a connection ready for writing."""
    _write_ahead(connection)
    connection.execute("PRAGMA synchronous = FULL")
    if schema_version(connection) < SCHEMA_VERSION:
        with transaction(connection):
            migrate(connection)


def _write_ahead(connection: sqlite3.Connection) -> None:
    """Turn the write-ahead log on.

    SQLite does not wait for others here as it does elsewhere, since two that both changed the mode could wait for each
    other: so this waits, and tries again.
    """
    end = time.monotonic() + PATIENCE
    while True:
        try:
            connection.execute("PRAGMA journal_mode = WAL")
            return
        except sqlite3.OperationalError as error:
            if "locked" not in str(error) or time.monotonic() > end:
                raise
        time.sleep(_PAUSE)


def _copied(connection: sqlite3.Connection) -> sqlite3.Connection:
    """A file that may not be written to, brought up to date in memory."""
    memory = _with_text(sqlite3.connect(MEMORY, isolation_level=None))
    connection.backup(memory)
    connection.close()
    migrate(memory)
    return memory


def _with_text(connection: sqlite3.Connection) -> sqlite3.Connection:
    # Text that a damaged file has in it may not be UTF-8: the checksum finds that, not reading it.
    connection.text_factory = decoded
    return connection


@contextmanager
def transaction(connection: sqlite3.Connection) -> Iterator[None]:
    """All that is written inside, or, on an error, nothing; other writers are waited for at its start."""
    connection.execute("BEGIN IMMEDIATE")
    try:
        yield
        connection.execute("COMMIT")
    except BaseException:
        # SQLite itself has rolled back where the disk is full.
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        raise


@contextmanager
def faults(path: Path) -> Iterator[None]:
    """Turn SQLite's and the file system's errors into diagnostics.

    Raises:
        StoreError: MS601, the file is damaged or something else; MS603, it cannot be used, or is closed.
    """
    try:
        yield
    except sqlite3.OperationalError as error:
        raise _unusable(path, str(error)) from error
    except sqlite3.ProgrammingError as error:
        raise _misused(path, str(error)) from error
    except (sqlite3.Error, OverflowError, UnicodeError) as error:
        # UnicodeError: SQLite's own message quotes damaged text.
        raise StoreError(
            problem(
                "MS601",
                f"{path} is not a record store, or is damaged",
                why=str(error),
                help="move it away and start over, or restore it from a copy; `sqlite3 FILE .recover` may help",
            )
        ) from error
    except OSError as error:
        raise _unusable(path, error.strerror or str(error)) from error


def _misused(path: Path, why: str) -> MsError:
    """The error of a connection that is closed, or used by another thread than its own: the file is not to blame."""
    if "closed" in why:
        return StoreError(
            problem("MS603", f"the database {path} is closed", help="open it again; `with` closes it at its end")
        )
    return StoreError(problem("MS603", f"the database {path} cannot be used here", why=why))


def _unusable(path: Path, why: str) -> MsError:
    return StoreError(
        problem(
            "MS603",
            f"cannot use the database {path}",
            why=why,
            help="check that the folder exists, is writable and has room, or name another file with --db",
        )
    )
