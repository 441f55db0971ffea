"""Rows of one record store in another: exported and imported as JSON lines, merged without duplicates."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import msgspec

from mslang.diagnostics import Diagnostic, Severity
from mslang.target.machine import Machine
from mslang.tune.database import Database
from mslang.tune.record import Outcome, Record, Run, Workload
from mslang.tune.row_checks import require_valid
from mslang.tune.stores import Store

Row = Machine | Workload | Run | Record

KINDS: dict[str, type[Machine] | type[Workload] | type[Run] | type[Record]] = {
    "machine": Machine,
    "workload": Workload,
    "run": Run,
    "record": Record,
}
"""What the `kind` of a line says that it is."""


class Brought(msgspec.Struct, frozen=True):
    """How many records were added, how many were there already, and what could not be read."""

    added: int = 0
    known: int = 0
    diagnostics: tuple[Diagnostic, ...] = ()


def rows_of(
    store: Database, programs: Sequence[str | None] = (None,), outcome: Outcome | None = None
) -> Iterator[Row | Diagnostic]:
    """The rows of a store, what records refer to before the records; a damaged record comes as a warning.

    Args:
        store: where they are.
        programs: only what belongs to these workload hashes; None: everything.
        outcome: only records that ended so.
    """
    yield from store.known_machines()
    yield from (w for w in store.texts() if None in programs or w.hash in programs)
    yield from (r for r in store.runs() if None in programs or r.workload in programs)
    for program in programs:
        yield from store.records(program, outcome=outcome)


def line_of(row: Row) -> dict[str, Any]:
    """A row as the JSON object that `row_of` reads."""
    kind = next(k for k, t in KINDS.items() if isinstance(row, t))
    return {"kind": kind, **msgspec.to_builtins(row)}


def row_of(line: str | bytes) -> Row:
    """The row that a line of JSON stands for.

    Raises:
        ValueError: it stands for none (msgspec's errors are such).

    >>> row_of('{"kind": "workload", "hash": "0f", "name": "p", "text": "program p() {}"}').name
    'p'
    """
    data = msgspec.json.decode(line)
    kind = KINDS.get(str(data.get("kind"))) if isinstance(data, dict) else None
    if kind is None:
        raise ValueError(f"its kind is none of {', '.join(KINDS)}")
    row = msgspec.convert(data, kind)
    require_valid(row)
    return row


def read_lines(lines: Iterable[str | bytes], name: str) -> Iterator[Row | Diagnostic]:
    """The rows of JSON lines; a line that is none comes as MS608 in its place, the others are not affected."""
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        try:
            yield row_of(line)
        except (ValueError, OverflowError, RecursionError) as error:
            yield Diagnostic(
                "MS608",
                f"line {number} of {name} is not a row of a record store",
                severity=Severity.WARNING,
                why=str(error),
                help="`mslang db export` writes such lines; this one is skipped, the others are not affected",
            )


def until_first(rows: Iterator[Row | Diagnostic]) -> tuple[list[Diagnostic], Row | None]:
    """The first row, None if there is none, and what could not be read before it."""
    bad: list[Diagnostic] = []
    for row in rows:
        if not isinstance(row, Diagnostic):
            return bad, row
        bad.append(row)
    return bad, None


def bring(store: Store, rows: Iterable[Row | Diagnostic]) -> Brought:
    """Add rows to a store, those that it has already left out; to a database all of them or, on an error, none.

    In a database a record keeps its number where that is free. Numbers that are skipped, as not all records of a store
    were exported, are not missing afterwards. A store of a user's own kind keeps programs and records alone.
    """
    if not isinstance(store, Database):
        return _added(store, rows)
    with store.together():
        lost = set(store.missing())
        done = _added(store, rows)
        store.leave_out([id for id in store.missing() if id not in lost])
    return done


def _added(store: Store, rows: Iterable[Row | Diagnostic]) -> Brought:
    added = known = 0
    bad: list[Diagnostic] = []
    there = {_content(r) for r in store.records() if isinstance(r, Record)}
    for row in rows:
        match row:
            case Diagnostic():
                bad.append(row)
            case Record() if _content(row) in there:
                known += 1
            case Record():
                added += 1
                there.add(_content(store.add(row)))
            case Workload():
                store.add_workload(row)
            case Machine() if isinstance(store, Database):
                store.add_machine(row)
            case Run() if isinstance(store, Database):
                store.add_run(row)
    return Brought(added, known, tuple(bad))


def _content(record: Record) -> bytes:
    """A record without its number."""
    return hashlib.blake2b(msgspec.json.encode(msgspec.structs.replace(record, id=None)), digest_size=16).digest()


def merge(store: Store, others: Iterable[Database]) -> Brought:
    """Add what other stores have."""
    done = [bring(store, rows_of(other)) for other in others]
    bad = tuple(d for b in done for d in b.diagnostics)
    return Brought(sum(b.added for b in done), sum(b.known for b in done), bad)
