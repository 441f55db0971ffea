"""The tables of the record store, their versions, and the checksums of their rows."""

from __future__ import annotations

import hashlib
import sqlite3
from collections.abc import Sequence

from mslang.diagnostics import MsError, problem
from mslang.tune.record import Workload

SCHEMA_VERSION = 4

TABLES = {
    "workload": ("hash", "name", "text"),
    "run": ("id", "file", "space", "workload", "target", "seed", "arguments", "created", "machine", "source"),
    "machine": ("key", "name", "cpu", "features", "threads", "device"),
    "pruned": ("record",),
    "lesson": ("run", "workload", "machine", "columns", "created", "data"),
    "record": (
        "workload",
        "program",
        "target",
        "device",
        "compiler",
        "candidate",
        "schedule",
        "trace",
        "decisions",
        "run",
        "trial",
        "seed",
        "version",
        "sources",
        "created",
        "machine",
        "source",
        "schema",
        "outcome",
        "seconds",
        "cost",
        "result",
    ),
}
"""The columns of each table that its `checksum` covers, in order."""

_MIGRATIONS = (
    """
    CREATE TABLE workload (hash TEXT PRIMARY KEY, name TEXT NOT NULL, text TEXT NOT NULL);
    CREATE TABLE run (
        id TEXT PRIMARY KEY, file TEXT NOT NULL, space TEXT NOT NULL, workload TEXT NOT NULL, target TEXT NOT NULL,
        seed INTEGER NOT NULL, arguments TEXT NOT NULL, created TEXT NOT NULL
    );
    CREATE TABLE record (
        id INTEGER PRIMARY KEY, workload TEXT NOT NULL, program TEXT NOT NULL, target TEXT NOT NULL,
        device TEXT NOT NULL, compiler TEXT NOT NULL, candidate TEXT NOT NULL, schedule TEXT NOT NULL,
        trace TEXT NOT NULL, decisions TEXT NOT NULL, outcome TEXT NOT NULL, seconds REAL, result TEXT NOT NULL,
        run TEXT NOT NULL, trial INTEGER NOT NULL, seed INTEGER NOT NULL, version TEXT NOT NULL,
        sources TEXT NOT NULL, created TEXT NOT NULL
    );
    CREATE INDEX record_by_workload ON record (workload, target, seconds);
    CREATE INDEX record_by_run ON record (run, trial);
    CREATE INDEX record_by_candidate ON record (workload, target, run, candidate);
    """,
    # The machine of older records is unknown (an empty key): their times are compared with no others.
    """
    ALTER TABLE workload ADD COLUMN checksum TEXT NOT NULL DEFAULT '';
    ALTER TABLE run ADD COLUMN machine TEXT NOT NULL DEFAULT '';
    ALTER TABLE run ADD COLUMN checksum TEXT NOT NULL DEFAULT '';
    ALTER TABLE record ADD COLUMN machine TEXT NOT NULL DEFAULT '';
    ALTER TABLE record ADD COLUMN cost REAL;
    ALTER TABLE record ADD COLUMN checksum TEXT NOT NULL DEFAULT '';
    DROP INDEX record_by_workload;
    DROP INDEX record_by_candidate;
    CREATE INDEX record_by_cost ON record (workload, machine, target, cost);
    CREATE INDEX record_by_candidate ON record (workload, machine, target, candidate);
    UPDATE record SET cost = seconds;
    """,
    # A program has a text for each set of names; which records are gone because a user removed them is kept.
    """
    CREATE TABLE machine (
        key TEXT PRIMARY KEY, name TEXT NOT NULL, cpu TEXT NOT NULL, features TEXT NOT NULL, threads INTEGER NOT NULL,
        device TEXT NOT NULL, checksum TEXT NOT NULL
    );
    CREATE TABLE pruned (record INTEGER PRIMARY KEY, checksum TEXT NOT NULL);
    ALTER TABLE workload RENAME TO workload_2;
    CREATE TABLE workload (
        hash TEXT NOT NULL, name TEXT NOT NULL, text TEXT NOT NULL, checksum TEXT NOT NULL, UNIQUE (hash, text)
    );
    INSERT INTO workload SELECT hash, name, text, checksum FROM workload_2 ORDER BY rowid;
    DROP TABLE workload_2;
    ALTER TABLE run ADD COLUMN source TEXT NOT NULL DEFAULT '';
    ALTER TABLE record ADD COLUMN source TEXT NOT NULL DEFAULT '';
    ALTER TABLE record ADD COLUMN schema INTEGER NOT NULL DEFAULT 2;
    UPDATE record SET sources = '{"space":"","rules":"","library":""}';
    """,
    # What runs teach the searches of other programs.
    """
    CREATE TABLE lesson (
        run TEXT PRIMARY KEY, workload TEXT NOT NULL, machine TEXT NOT NULL, columns TEXT NOT NULL,
        created TEXT NOT NULL, data BLOB NOT NULL, checksum TEXT NOT NULL
    );
    """,
)
"""Step k brings version k to k + 1."""


NAMED = 2
"""The last version whose hashes of programs counted the names of buffers and blocks."""

_COLUMNS_2 = {
    "workload": TABLES["workload"],
    "run": tuple(c for c in TABLES["run"] if c != "source"),
    "record": tuple(c for c in TABLES["record"] if c not in ("source", "schema")),
}
"""What the checksums of version 2 covered."""

DAMAGED = "damaged"
"""The checksum of a row that was damaged when its store was migrated: it matches nothing."""


def checksum(table: str, values: Sequence[object]) -> str:
    """The checksum of a row: of the table's name and its columns, in the order of `TABLES`."""
    return hashlib.blake2b(repr((table, *values)).encode(errors="surrogatepass"), digest_size=16).hexdigest()


def schema_version(connection: sqlite3.Connection) -> int:
    """The version that a file has; 0 for an empty one."""
    return int(connection.execute("PRAGMA user_version").fetchone()[0])


def refuse_newer(version: int, path: object) -> None:
    """MS602 if the file was made by a newer mslang."""
    if version > SCHEMA_VERSION:
        raise MsError(
            problem(
                "MS602",
                f"{path} was made by a newer mslang",
                why=f"its schema has version {version}, this mslang knows up to {SCHEMA_VERSION}",
                help="upgrade mslang, or name another file with --db",
            )
        )


def migrate(connection: sqlite3.Connection) -> None:
    """Bring the tables to the present version, inside a transaction of the caller's; damaged rows stay damaged."""
    # Another process may have migrated while this one waited for the lock.
    before = schema_version(connection)
    if before == SCHEMA_VERSION:
        return
    damaged = _damaged(connection) if before == NAMED else frozenset()
    for version in range(before, SCHEMA_VERSION):
        for statement in filter(None, map(str.strip, _MIGRATIONS[version].split(";"))):
            connection.execute(statement)
        if version == NAMED:
            _forget_names(connection)
        connection.execute(f"PRAGMA user_version = {version + 1}")
    if before > NAMED:
        # Only tables were added: the rows that there are stay as they are, and so do their checksums.
        return
    connection.execute("UPDATE record SET schema = ?", (before,))
    for table, columns in TABLES.items():
        rows = connection.execute(f"SELECT rowid, {', '.join(columns)} FROM {table}").fetchall()
        for row, *values in rows:
            sum = DAMAGED if (table, row) in damaged else checksum(table, values)
            connection.execute(f"UPDATE {table} SET checksum = ? WHERE rowid = ?", (sum, row))


def _damaged(connection: sqlite3.Connection) -> frozenset[tuple[str, int]]:
    """Table and number of each row of a store of version 2 whose checksum does not match."""
    found: set[tuple[str, int]] = set()
    for table, columns in _COLUMNS_2.items():
        rows = connection.execute(f"SELECT rowid, checksum, {', '.join(columns)} FROM {table}").fetchall()
        found |= {(table, row) for row, sum, *values in rows if sum != checksum(table, values)}
    return frozenset(found)


def _forget_names(connection: sqlite3.Connection) -> None:
    """Give the workloads of an older store the hashes in which no name counts, and records the name of their text."""
    from mslang.ir.equal import workload_hash
    from mslang.sema.program import parse_program

    found = connection.execute("SELECT hash, name, text FROM workload ORDER BY rowid").fetchall()
    for old, name, text in found:
        workload = Workload(old, name, text)
        try:
            new = workload_hash(parse_program(text))
        except MsError:
            # A text that this version does not read: its records stay under the hash that they have.
            new = old
        connection.execute("UPDATE workload SET hash = ? WHERE hash = ? AND text = ?", (new, old, text))
        for table in ("run", "record"):
            connection.execute(
                f"UPDATE {table} SET workload = ?, source = ? WHERE workload = ?", (new, workload.source, old)
            )
