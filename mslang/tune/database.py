"""The record store: one SQLite file, safe under kill -9 and under several tuners at once.

A record is committed before it is shown. The write-ahead log lets readers and one writer work side by side, and
a busy writer is waited for. Older files are migrated, newer ones refused (`schema.py`). Every row has a checksum: a
damaged one is reported and skipped, never the whole file.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from itertools import islice
from pathlib import Path
from types import TracebackType
from typing import Any

import msgspec

from mslang.backend.backend import BackEnd
from mslang.backend.registry import back_end, back_end_names
from mslang.diagnostics import Diagnostic, MsError, Severity, problem
from mslang.ir.program import Program
from mslang.target.machine import Machine, this_machine
from mslang.tune.connection import MEMORY, connect, faults, transaction
from mslang.tune.instances import Instance, instances_text
from mslang.tune.integrity import find_damage, missing_records, undamaged_rows
from mslang.tune.ranking import ranked, require_count
from mslang.tune.record import Outcome, Record, Run, RunLesson, Workload, dated
from mslang.tune.rows import (
    BRIEF,
    NEXT,
    brief_from,
    columns_of,
    encodable,
    hash_of,
    identity,
    insertion,
    record_from,
    where,
)
from mslang.tune.schema import SCHEMA_VERSION, TABLES, checksum


class Database:
    """An open record store. Use it as a context manager; any number may be open on one file.

    `":memory:"` as the path is a store that lives as long as it is open.

    `path` may be removed or renamed while it is open: `add` then writes a copy of everything to `path`, and `moved` has
    the warning.

    Raises MsError: MS601 not a database or damaged, MS602 made by a newer version, MS603 cannot be opened or written.
    """

    def __init__(self, path: Path | str, read_only: bool = False) -> None:
        self.path = Path(path)
        self.moved: Diagnostic | None = None
        self._together = False
        with self._faults():
            if str(path) == MEMORY:
                pass
            elif not read_only:
                self.path.parent.mkdir(parents=True, exist_ok=True)
            elif not self.path.exists():
                raise MsError(
                    problem(
                        "MS603",
                        f"there is no record store {self.path}",
                        help="`mslang tune` makes one next to the file; name another with --db",
                    )
                )
            self._connect(read_only)

    keeps_runs = True
    """Whether runs that are kept can be resumed."""

    @property
    def name(self) -> str:
        """What messages call it."""
        return str(self.path)

    def _connect(self, read_only: bool) -> None:
        self._connection = connect(self.path, read_only)
        self._identity = identity(self.path)

    @contextmanager
    def together(self) -> Iterator[None]:
        """What is added meanwhile is added as one: all of it is on disk at the end, or, on an error, none."""
        with self._faults(), self._transaction():
            self._together = True
            try:
                yield
            finally:
                self._together = False

    @contextmanager
    def _transaction(self) -> Iterator[None]:
        if self._together:
            yield
            return
        with transaction(self._connection):
            yield

    def _faults(self) -> AbstractContextManager[None]:
        """Turn SQLite's and the file system's errors into diagnostics."""
        return faults(self.path)

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
        self._insert("workload", [workload.hash, workload.name, workload.text], "OR IGNORE")

    def add_machine(self, machine: Machine) -> None:
        """Keep what a machine is under its key."""
        features = ",".join(machine.features)
        values = [machine.key, machine.name, machine.cpu, features, machine.threads, machine.device]
        self._insert("machine", values, "OR IGNORE")

    def add_run(self, run: Run) -> None:
        """Keep what a run searches."""
        run = dated(run)
        self._insert("run", [getattr(run, c) for c in TABLES["run"]], "OR IGNORE")

    def add_lesson(self, lesson: RunLesson) -> None:
        """Keep what a run teaches, in place of what it taught before."""
        lesson = dated(lesson)
        self._insert("lesson", [getattr(lesson, c) for c in TABLES["lesson"]], "OR REPLACE")

    def add(self, record: Record) -> Record:
        """Keep a record; it is on disk when this returns. Gives it back with its id.

        A record that has an id keeps it, unless another has it already.
        """
        record = dated(record)
        record = record if record.schema else msgspec.structs.replace(record, schema=SCHEMA_VERSION)
        id = self._insert("record", columns_of(record), wanted=record.id)
        return msgspec.structs.replace(record, id=id)

    def remove(self, ids: Sequence[int]) -> None:
        """Delete records; their numbers are not given again."""
        with self.together():
            for id in ids:
                self._connection.execute("DELETE FROM record WHERE id = ?", [id])
            self._connection.execute("DELETE FROM lesson WHERE run NOT IN (SELECT run FROM record)")
            self.leave_out(ids)

    def missing(self) -> list[int]:
        """The numbers of records that were lost."""
        with self._faults():
            return missing_records(self._connection)

    def leave_out(self, ids: Sequence[int]) -> None:
        """Give no record these numbers; they are not missing."""
        with self._faults(), self._transaction():
            for id in ids:
                self._connection.execute(insertion("pruned", "OR IGNORE"), [id, checksum("pruned", [id])])

    def _insert(self, table: str, values: list[Any], conflict: str = "", wanted: int | None = None) -> int | None:
        row = [encodable(v) for v in values]
        row.append(checksum(table, row))
        with self._faults():
            with self._transaction():
                id = self._connection.execute(insertion(table, conflict, self._number(table, wanted)), row).lastrowid
            if not self._together and identity(self.path) != self._identity:
                self._write_anew()
                found = self._connection.execute(f"SELECT rowid FROM {table} WHERE checksum = ?", row[-1:]).fetchone()
                id = found and found[0]
        return id

    def _number(self, table: str, wanted: int | None) -> str | None:
        """The number of a new row, as SQL; None: any."""
        if table != "record":
            return None
        used = (
            wanted is None
            or self._connection.execute(
                "SELECT 1 FROM record WHERE id = ? UNION ALL SELECT 1 FROM pruned WHERE record = ?", [wanted, wanted]
            ).fetchone()
        )
        return NEXT if used else str(wanted)

    def _write_anew(self) -> None:
        """Copy all rows of the open file, which is no longer at `path`, into the file at `path` (a new one if there is
        none)."""
        left = self._connection
        self.path.parent.mkdir(parents=True, exist_ok=True)
        self._connect(read_only=False)
        with self._transaction():
            for table, columns in TABLES.items():
                if table == "pruned":
                    continue
                known = {row[0] for row in self._connection.execute(f"SELECT checksum FROM {table}")}
                rows = left.execute(f"SELECT {', '.join(columns)}, checksum FROM {table} ORDER BY rowid").fetchall()
                for r in rows:
                    if r[-1] not in known:
                        self._connection.execute(insertion(table, "OR IGNORE", self._number(table, None)), r)
        left.close()
        self.moved = Diagnostic(
            "MS606",
            f"{self.path} was removed, renamed or replaced while it was in use",
            severity=Severity.WARNING,
            why="all records of the file that was opened are in the one that is there now; their numbers may differ",
        )

    # ---------------------------------------------------------------- reading
    def records(
        self,
        program: Program | str | None = None,
        *,
        target: str | None = None,
        run: str | None = None,
        outcome: Outcome | None = None,
        machine: str | None = None,
    ) -> Iterator[Record | Diagnostic]:
        """Records in the order they were made; one that cannot be read comes as a warning in its place.

        Args:
            program: only this program's (or those of a workload hash).
            target: only those for this target, by name.
            run: only those of this run.
            outcome: only those that ended so.
            machine: only those of the machine of this key.

        >>> from mslang.diagnostics import Diagnostic
        >>> with Database(":memory:") as db:
        ...     [r.program for r in db.records() if not isinstance(r, Diagnostic)]
        []
        """
        hash = hash_of(program)
        yield from self._select(where(workload=hash, target=target, run=run, outcome=outcome, machine=machine), "id")

    def top(
        self,
        program: Program | str | None = None,
        n: int = 10,
        *,
        target: str | None = None,
        run: str | None = None,
        machine: str | None = None,
        compiler: str | None = None,
    ) -> list[Record]:
        """The `n` fastest candidates, fastest first; of one measured several times the last outcome counts.

        Of each program, target, machine and compiler those count that were timed as the last one was: with warm or cold
        caches, at these dynamic sizes with these weights.

        Args:
            program: whose candidates (the program itself or its workload hash; None: all programs').
            n: how many.
            target: only those measured for this target, by name.
            run: only those of this run.
            machine: the key of the machine that they were measured on (None: this one, by its processor or a device).
                Times of different machines are never compared.
            compiler: only those that this compiler made.

        Raises:
            MsError: MS706, `n` is not a number from 0 on.
        """
        require_count(n)
        condition, values = where(workload=hash_of(program), target=target, run=run, compiler=compiler)
        keys = keys_here(self.known_machines()) if machine is None else (machine,)
        condition, values = f"{condition} AND machine IN ({', '.join('?' * len(keys))})", [*values, *keys]
        with self._faults():
            rows = self._connection.execute(
                f"SELECT {', '.join(BRIEF)} FROM record WHERE {condition} ORDER BY id", values
            ).fetchall()
        found = (r for brief in ranked(map(brief_from, rows)) for r in self._select(("id = ?", [brief.id]), "id"))
        # A damaged record takes no other's place.
        return list(islice((r for r in found if isinstance(r, Record)), n))

    def best(self, program: Program | str, target: str | None = None, machine: str | None = None) -> Record | None:
        """The fastest record of a program (or of a workload hash) on one machine (None: this one), or None.

        >>> with Database(":memory:") as db:
        ...     db.best("0f07") is None
        True
        """
        return next(iter(self.top(program, 1, target=target, machine=machine)), None)

    def known(
        self,
        workload: Workload,
        target: str,
        compiler: str,
        version: str,
        machine: str | None = None,
        before: str | None = None,
        instances: Sequence[Instance] = (),
    ) -> dict[str, Record]:
        """The last record of each candidate of a program that was tried on a machine (None: this one), by the
        candidate's hash.

        Only records of the same target, compiler and version of mslang, as others have other machine code; of the same
        text, as decisions are named after blocks and loops; and of the same dynamic sizes and weights, `instances`.
        `before`: only what other runs had found when this run kept its first record.
        """
        condition, values = where(
            workload=workload.hash,
            source=workload.source,
            target=target,
            compiler=compiler,
            version=version,
            machine=this_machine().key if machine is None else machine,
        )
        if before is not None:
            condition += " AND run != ? AND id < (SELECT coalesce(min(id), 9e18) FROM record WHERE run = ?)"
            values += [before, before]
        sizes = instances_text(instances)
        found = (r for r in self._select((condition, values), "id") if isinstance(r, Record))
        return {r.candidate: r for r in found if r.conditions is None or r.conditions.sizes == sizes}

    def machines(self) -> dict[str, str]:
        """The machines that records are of: names by key."""
        with self._faults():
            rows = self._connection.execute("SELECT machine, max(device) FROM record GROUP BY machine").fetchall()
        return dict(rows)

    def known_machines(self) -> list[Machine]:
        """What is known of the machines that records are of; nothing of those of older stores."""
        with self._faults():
            rows = undamaged_rows(self._connection, "machine", "rowid")
        return [Machine(k, name, cpu, tuple(f.split(",")) if f else (), n, d) for k, name, cpu, f, n, d in rows]

    def texts(self, workload: str | None = None) -> list[Workload]:
        """The programs of a workload hash, which differ in names alone (None: all programs)."""
        with self._faults():
            rows = undamaged_rows(self._connection, "workload", "name, hash, rowid")
        return [w for w in (Workload(*row) for row in rows) if workload in (None, w.hash)]

    def record(self, id: int) -> Record:
        """One record by id; MS604 if there is none or it cannot be read."""
        found = next(self._select(("id = ?", [id]), "id"), None) if 0 <= id < 1 << 63 else None
        if isinstance(found, Record):
            return found
        raise MsError(
            found
            or problem(
                "MS604",
                f"no record {id} in {self.name}",
                help="`mslang db top` and `mslang db export` list the records",
            )
        )

    def workloads(self) -> list[tuple[Workload, int, float | None]]:
        """Every workload (as the first of its programs) with its number of records and its best time on this machine in
        seconds."""
        found: dict[str, Workload] = {}
        for w in self.texts():
            found.setdefault(w.hash, w)
        with self._faults():
            counts = dict(
                self._connection.execute("SELECT workload, count(*) FROM record GROUP BY workload").fetchall()
            )
        bests = {hash: self.best(hash) if counts.get(hash) else None for hash in found}
        return [
            (w, counts.get(h, 0), best.seconds if (best := bests[h]) is not None else None) for h, w in found.items()
        ]

    def runs(self) -> list[Run]:
        """Every run, oldest first."""
        with self._faults():
            return [Run(*row) for row in undamaged_rows(self._connection, "run", "created, rowid")]

    def lessons(self) -> list[RunLesson]:
        """What runs teach, the newest first; damaged ones are left out."""
        with self._faults():
            return [RunLesson(*row) for row in undamaged_rows(self._connection, "lesson", "created DESC, run")]

    def _select(self, where: tuple[str, list[object]], order: str) -> Iterator[Record | Diagnostic]:
        condition, values = where
        columns = TABLES["record"]
        with self._faults():
            rows = self._connection.execute(
                f"SELECT id, checksum, {', '.join(columns)} FROM record WHERE {condition} ORDER BY {order}",
                values,
            ).fetchall()
        for id, sum, *row in rows:
            try:
                yield record_from(id, sum, row)
            except (msgspec.MsgspecError, ValueError, TypeError) as error:
                yield Diagnostic(
                    "MS605",
                    f"record {id} of {self.path} is damaged",
                    severity=Severity.WARNING,
                    why=str(error),
                    help="it is skipped; the others are not affected",
                )

    def check(self) -> Diagnostic | None:
        """Read everything: a warning that says which records are damaged or missing, or None.

        Raises:
            MsError: MS601, the file as a whole is damaged.
        """
        damaged = [d.message.split()[1] for d in self.records() if isinstance(d, Diagnostic)]
        with self._faults():
            return find_damage(self._connection, self.path, damaged)


def keys_here(known: Iterable[Machine]) -> tuple[str, ...]:
    """The keys of this machine: its own, and those under which records of its devices are known.

    Devices are looked for only where records of one in this machine are known.
    """
    here = this_machine()
    of_devices = {m.key for m in known if m.device and m.key == here.with_device(m.device).key}
    present = {machine_for(b).key for b in _back_ends()} if of_devices else set()
    return (here.key, *sorted(of_devices & present))


def machine_for(compiler: BackEnd[Any]) -> Machine:
    """This machine as what runs the code of a back end: its processor, or a device of it."""
    return this_machine() if compiler.device is None else this_machine().with_device(compiler.device())


def _back_ends() -> Iterator[BackEnd[Any]]:
    """Every back end that can be loaded."""
    for name in back_end_names():
        with suppress(MsError):
            yield back_end(name)
