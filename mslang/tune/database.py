"""The record store: one SQLite file, safe under kill -9 and under several tuners at once.

A record is committed before it is shown. The write-ahead log lets readers and one writer work side by side, and
a busy writer is waited for. `PRAGMA user_version` is the schema's version: older files are migrated step by
step, newer ones refused. A record that cannot be read is reported and skipped, never the whole file.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from types import TracebackType

import msgspec

from mslang.diagnostics import Diagnostic, MsError, Severity, problem
from mslang.ir.program import Program
from mslang.tune.record import Outcome, Record, Result

SCHEMA_VERSION = 1

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
)
"""Step k brings version k to k + 1."""

_LAST = "id IN (SELECT max(id) FROM record GROUP BY workload, target, run, candidate)"
"""Finalists are measured again: what counts is how a candidate fared last."""

_COLUMNS = (
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
)


class Workload(msgspec.Struct, frozen=True):
    """An unscheduled program that records belong to: its structural hash, name, and long-form text."""

    hash: str
    name: str
    text: str


class Run(msgspec.Struct, frozen=True):
    """One tuning run: what was searched, with which seed and arguments."""

    id: str
    file: str
    space: str
    workload: str
    target: str
    seed: int
    arguments: str
    created: str = ""


class Database:
    """An open record store. Use it as a context manager; any number may be open on one file.

    Raises MsError: MS601 not a database or damaged, MS602 made by a newer version, MS603 cannot be opened or written.
    """

    def __init__(self, path: Path | str, read_only: bool = False) -> None:
        self.path = Path(path)
        with self._faults():
            if not read_only:
                self.path.parent.mkdir(parents=True, exist_ok=True)
            elif not self.path.exists():
                raise MsError(
                    problem(
                        "MS603",
                        f"there is no record store {self.path}",
                        help="`mslang tune` makes one beside the file; name another with --db",
                    )
                )
            mode = "ro" if read_only else "rwc"
            self._connection = sqlite3.connect(
                f"{self.path.resolve().as_uri()}?mode={mode}", uri=True, timeout=60, isolation_level=None
            )
            try:
                self._open(read_only)
            except BaseException:
                self._connection.close()
                raise

    def _open(self, read_only: bool) -> None:
        version = self._version()
        if version > SCHEMA_VERSION:
            raise MsError(
                problem(
                    "MS602",
                    f"{self.path} was made by a newer mslang",
                    why=f"its schema has version {version}, this mslang knows up to {SCHEMA_VERSION}",
                    help="upgrade mslang, or name another file with --db",
                )
            )
        if read_only and version == 0:
            raise MsError(problem("MS603", f"{self.path} is no record store", why="it is empty"))
        if read_only:
            return
        self._connection.execute("PRAGMA journal_mode = WAL")
        self._connection.execute("PRAGMA synchronous = FULL")
        if version < SCHEMA_VERSION:
            self._migrate()

    def _version(self) -> int:
        return int(self._connection.execute("PRAGMA user_version").fetchone()[0])

    def _migrate(self) -> None:
        with self._transaction():
            # Another process may have migrated while this one waited for the lock: ask again inside.
            for version in range(self._version(), SCHEMA_VERSION):
                for statement in filter(None, map(str.strip, _MIGRATIONS[version].split(";"))):
                    self._connection.execute(statement)
                self._connection.execute(f"PRAGMA user_version = {version + 1}")

    @contextmanager
    def _transaction(self) -> Iterator[None]:
        self._connection.execute("BEGIN IMMEDIATE")
        try:
            yield
        except BaseException:
            self._connection.execute("ROLLBACK")
            raise
        self._connection.execute("COMMIT")

    @contextmanager
    def _faults(self) -> Iterator[None]:
        """Turn SQLite's and the file system's errors into diagnostics."""
        try:
            yield
        except sqlite3.OperationalError as error:
            raise MsError(
                problem(
                    "MS603",
                    f"cannot use the database {self.path}",
                    why=str(error),
                    help="check that the folder exists, is writable and has room, or name another file with --db",
                )
            ) from error
        except sqlite3.DatabaseError as error:
            raise MsError(
                problem(
                    "MS601",
                    f"{self.path} is not a record store, or is damaged",
                    why=str(error),
                    help="move it away and start anew, or restore it from a copy; `sqlite3 FILE .recover` may help",
                )
            ) from error
        except OSError as error:
            raise MsError(
                problem(
                    "MS603",
                    f"cannot use the database {self.path}",
                    why=error.strerror or str(error),
                    help="check that the folder exists, is writable and has room, or name another file with --db",
                )
            ) from error

    def close(self) -> None:
        """Close the file; records are safe without it."""
        self._connection.close()

    def __enter__(self) -> Database:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    # ---------------------------------------------------------------- writing
    def add_workload(self, workload: Workload) -> None:
        """Keep a program's text under its hash; known ones stay as they are."""
        with self._faults(), self._transaction():
            self._connection.execute(
                "INSERT OR IGNORE INTO workload VALUES (?, ?, ?)", (workload.hash, workload.name, workload.text)
            )

    def add_run(self, run: Run) -> None:
        """Keep what a run searches."""
        with self._faults(), self._transaction():
            self._connection.execute(
                "INSERT INTO run VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
                (run.id, run.file, run.space, run.workload, run.target, run.seed, run.arguments, run.created or _now()),
            )

    def add(self, record: Record) -> Record:
        """Keep a record; it is on disk when this returns. Gives it back with its id."""
        record = record if record.created else msgspec.structs.replace(record, created=_now())
        values = [getattr(record, c) for c in _COLUMNS]
        columns = ", ".join((*_COLUMNS, "outcome", "seconds", "result"))
        marks = ", ".join("?" * (len(_COLUMNS) + 3))
        with self._faults(), self._transaction():
            cursor = self._connection.execute(
                f"INSERT INTO record ({columns}) VALUES ({marks})",
                (*values, record.result.outcome.value, record.seconds, msgspec.json.encode(record.result).decode()),
            )
        return msgspec.structs.replace(record, id=cursor.lastrowid)

    # ---------------------------------------------------------------- reading
    def records(
        self,
        *,
        workload: str | None = None,
        target: str | None = None,
        run: str | None = None,
        outcome: Outcome | None = None,
    ) -> Iterator[Record | Diagnostic]:
        """Records in the order they were made; one that cannot be read comes as a warning in its place."""
        yield from self._select(_where(workload=workload, target=target, run=run, outcome=outcome), "id")

    def top(
        self, program: Program | str | None = None, k: int = 10, *, target: str | None = None, run: str | None = None
    ) -> list[Record]:
        """The `k` fastest candidates, fastest first; of one measured several times the last outcome counts.

        Args:
            program: whose candidates (the program itself or its structural hash; None: all programs').
            k: how many.
            target: only those measured for this target, by name.
            run: only those of this run.
        """
        condition, values = _where(workload=_hash_of(program), target=target, run=run)
        found = self._select((f"seconds IS NOT NULL AND {_LAST} AND {condition}", values), "seconds, id", k)
        return [r for r in found if isinstance(r, Record)]

    def best(self, program: Program | str, target: str | None = None) -> Record | None:
        """The fastest record of a program (or of a structural hash), or None."""
        return next(iter(self.top(program, 1, target=target)), None)

    def record(self, id: int) -> Record:
        """One record by id; MS604 if there is none or it cannot be read."""
        found = next(self._select(("id = ?", [id]), "id"), None)
        if isinstance(found, Record):
            return found
        raise MsError(
            found
            or problem(
                "MS604",
                f"no record {id} in {self.path}",
                help="`mslang db top` and `mslang db export` list the records",
            )
        )

    def counts(self, run: str | None = None) -> dict[Outcome, int]:
        """How many records ended in each outcome."""
        condition, values = _where(run=run)
        with self._faults():
            rows = self._connection.execute(
                f"SELECT outcome, count(*) FROM record WHERE {condition} GROUP BY outcome", values
            ).fetchall()
        known = {o.value: o for o in Outcome}
        return {known[name]: n for name, n in rows if name in known}

    def workloads(self) -> list[tuple[Workload, int, float | None]]:
        """Every program with its number of records and best time in seconds."""
        with self._faults():
            rows = self._connection.execute(
                "SELECT w.hash, w.name, w.text, "
                "(SELECT count(*) FROM record WHERE workload = w.hash), "
                f"(SELECT min(seconds) FROM record WHERE workload = w.hash AND {_LAST}) "
                "FROM workload w ORDER BY w.name, w.hash"
            ).fetchall()
        return [(Workload(h, n, t), count, best) for h, n, t, count, best in rows]

    def runs(self) -> list[Run]:
        """Every run, oldest first."""
        with self._faults():
            rows = self._connection.execute("SELECT * FROM run ORDER BY created, rowid").fetchall()
        return [Run(*row) for row in rows]

    def _select(self, where: tuple[str, list[object]], order: str, limit: int = -1) -> Iterator[Record | Diagnostic]:
        condition, values = where
        columns = ", ".join(("id", "result", *_COLUMNS))
        with self._faults():
            rows = self._connection.execute(
                f"SELECT {columns} FROM record WHERE {condition} ORDER BY {order} LIMIT ?", [*values, limit]
            ).fetchall()
        for id, result, *rest in rows:
            try:
                fields = dict(zip(_COLUMNS, rest, strict=True))
                msgspec.json.decode(fields["decisions"], type=dict)
                yield Record(**fields, result=msgspec.json.decode(result, type=Result), id=id)
            except (msgspec.MsgspecError, TypeError) as error:
                yield Diagnostic(
                    "MS605",
                    f"record {id} of {self.path} cannot be read",
                    severity=Severity.WARNING,
                    why=str(error),
                    help="it is skipped; the others are not touched",
                )


def _hash_of(program: Program | str | None) -> str | None:
    if program is None or isinstance(program, str):
        return program
    from mslang.ir.equal import structural_hash

    return structural_hash(program)


def _where(**wanted: object) -> tuple[str, list[object]]:
    given = {k: v for k, v in wanted.items() if v is not None}
    condition = " AND ".join(f"{k} = ?" for k in given) or "1"
    return condition, [v.value if isinstance(v, Outcome) else v for v in given.values()]


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="milliseconds")
