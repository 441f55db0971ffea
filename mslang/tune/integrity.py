"""Damage to a record store: rows whose checksum does not match, and records that are missing."""

from __future__ import annotations

import sqlite3
from pathlib import Path
from typing import Any

from mslang.diagnostics import Diagnostic, Severity
from mslang.tune.schema import TABLES, checksum


def undamaged_rows(connection: sqlite3.Connection, table: str, order: str) -> list[list[Any]]:
    """The rows of a table whose checksums match."""
    query = f"SELECT {', '.join(TABLES[table])}, checksum FROM {table} ORDER BY {order}"
    rows = connection.execute(query).fetchall()
    return [values for *values, sum in rows if sum == checksum(table, values)]


def missing_records(connection: sqlite3.Connection) -> list[int]:
    """The numbers of records that were lost: they were neither deleted nor left out."""
    ids = {row[0] for row in connection.execute("SELECT id FROM record")}
    ids |= {row[0] for row in connection.execute("SELECT record FROM pruned")}
    return [id for id in range(1, max(ids, default=0) + 1) if id not in ids]


def find_damage(connection: sqlite3.Connection, path: Path, damaged: list[str]) -> Diagnostic | None:
    """A warning that lists damaged and missing records, or None.

    Args:
        connection: the open file.
        path: its name.
        damaged: the numbers of damaged records.

    Raises:
        sqlite3.DatabaseError: the file as a whole is damaged.
    """
    # Not `quick_check`: a record that an index has lost would not be found by queries.
    faults = [str(row[0]) for row in connection.execute("PRAGMA integrity_check(3)")]
    if faults != ["ok"]:
        raise sqlite3.DatabaseError("; ".join(faults))
    missing = [str(id) for id in missing_records(connection)]
    others = sum(
        len(connection.execute(f"SELECT 1 FROM {table}").fetchall()) - len(undamaged_rows(connection, table, "rowid"))
        for table in ("run", "workload", "machine", "pruned", "lesson")
    )
    found = [
        *([f"damaged: {_listed(damaged)}"] if damaged else []),
        *([f"missing: {_listed(missing)}"] if missing else []),
        *([f"damaged runs, programs, machines or lessons: {others}"] if others else []),
    ]
    if not found:
        return None
    return Diagnostic(
        "MS605",
        f"records of {path} are damaged",
        severity=Severity.WARNING,
        why="; ".join(found),
        help="they are skipped; the others are not affected",
    )


def _listed(numbers: list[str]) -> str:
    return ", ".join(numbers[:10]) + (f" and {len(numbers) - 10} more" if len(numbers) > 10 else "")
