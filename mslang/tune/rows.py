"""Rows of the record store as values, and the SQL around them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec

from mslang.ir.program import Program
from mslang.tune.instances import Instance
from mslang.tune.ranking import Brief
from mslang.tune.record import Outcome, Record, Result, Sources, conditions_of
from mslang.tune.schema import TABLES, checksum

_SEPARATE = ("outcome", "seconds", "cost", "result", "sources")
"""Columns made from a record's fields; the others are its fields."""

NEXT = """(SELECT max(n) + 1 FROM (
    SELECT coalesce(max(id), 0) AS n FROM record UNION ALL SELECT coalesce(max(record), 0) FROM pruned))"""
"""A number that no record has or had."""

_FIELDS = tuple(c for c in TABLES["record"] if c not in _SEPARATE)


BRIEF = ("id", "workload", "target", "machine", "compiler", "candidate", "cost", "result")
"""The columns that a `Brief` is made from."""


class _Timed(msgspec.Struct):
    cold: bool = False


class _Result(msgspec.Struct):
    timing: _Timed | None = None
    cold: bool | None = None
    instances: tuple[Instance, ...] = ()


def brief_from(row: tuple[Any, ...]) -> Brief:
    """The brief of a row of `BRIEF`; a damaged row has no time."""
    id, workload, target, machine, compiler, candidate, cost, result = row
    try:
        found = msgspec.json.decode(result, type=_Result)
    except (msgspec.MsgspecError, ValueError, TypeError):
        found = _Result()
    known = cost if found.timing is not None and isinstance(cost, float) else None
    cold = found.cold if found.timing is None else found.timing.cold
    return Brief(id, workload, target, machine, compiler, candidate, known, conditions_of(cold, found.instances))


def columns_of(record: Record) -> list[Any]:
    """The columns of a record."""
    made = {
        "outcome": record.result.outcome.value,
        "seconds": record.seconds,
        "cost": record.cost,
        "result": msgspec.json.encode(record.result).decode(),
        "sources": msgspec.json.encode(record.sources).decode(),
    }
    return [made[c] if c in made else getattr(record, c) for c in TABLES["record"]]


def insertion(table: str, conflict: str, number: str | None = None) -> str:
    """The statement that inserts a row with its checksum; `number` is SQL for its id."""
    columns = (*TABLES[table], "checksum")
    holes = ", ".join("?" * len(columns))
    names = ", ".join(columns)
    if number is not None:
        names, holes = f"id, {names}", f"{number}, {holes}"
    return f"INSERT {conflict} INTO {table} ({names}) VALUES ({holes})"


def identity(path: Path) -> tuple[int, int] | None:
    """What distinguishes a file from another of the same name; None if there is no file."""
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_dev, found.st_ino


def encodable(value: Any) -> Any:
    r"""A value as the store keeps it: characters without UTF-8, such as bytes of a file name that are no text, escaped.

    >>> encodable("caf\udce9.ms")
    'caf\\udce9.ms'
    """
    return value.encode(errors="backslashreplace").decode() if isinstance(value, str) else value


def decoded(data: bytes) -> str:
    """A text as it is in the file, whatever it holds."""
    return data.decode(errors="surrogateescape")


def hash_of(program: Program | str | None) -> str | None:
    """The workload hash of a program; a hash, or None, as it is."""
    if program is None or isinstance(program, str):
        return program
    from mslang.ir.equal import workload_hash

    return workload_hash(program)


def where(**wanted: object) -> tuple[str, list[object]]:
    """A condition on columns and its values; those that are None are free."""
    given = {k: v for k, v in wanted.items() if v is not None}
    condition = " AND ".join(f"{k} = ?" for k in given) or "1"
    return condition, [v.value if isinstance(v, Outcome) else encodable(v) for v in given.values()]


def record_from(id: int, sum: str, row: list[Any]) -> Record:
    """The record of a row.

    Raises:
        ValueError: the row is damaged (msgspec's errors are such).
    """
    if sum != checksum("record", row):
        raise ValueError("the checksum does not match the contents")
    values = dict(zip(TABLES["record"], row, strict=True))
    msgspec.json.decode(values["decisions"], type=dict)
    result = msgspec.json.decode(values["result"], type=Result)
    sources = msgspec.json.decode(values["sources"], type=Sources)
    return Record(**{c: values[c] for c in _FIELDS}, result=result, sources=sources, id=id)
