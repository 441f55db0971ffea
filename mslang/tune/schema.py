"""The tables of the record store, their versions, and the checksums of their rows."""

from __future__ import annotations

import hashlib
import sqlite3
from collections.abc import Sequence

from mslang.diagnostics import MsError, problem

SCHEMA_VERSION = 2

TABLES = {
    "workload": ("hash", "name", "text"),
    "run": ("id", "file", "space", "workload", "target", "seed", "arguments", "created", "machine"),
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
)
"""Step k brings version k to k + 1."""


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
    """Bring the tables to the present version, inside a transaction of the caller's."""
    # Another process may have migrated while this one waited for the lock.
    before = schema_version(connection)
    for version in range(before, SCHEMA_VERSION):
        for statement in filter(None, map(str.strip, _MIGRATIONS[version].split(";"))):
            connection.execute(statement)
        connection.execute(f"PRAGMA user_version = {version + 1}")
    if before < SCHEMA_VERSION:
        for table, columns in TABLES.items():
            rows = connection.execute(f"SELECT rowid, {', '.join(columns)} FROM {table}").fetchall()
            for row, *values in rows:
                connection.execute(f"UPDATE {table} SET checksum = ? WHERE rowid = ?", (checksum(table, values), row))
