"""TVM's tuning databases: `database_workload.json` and `database_tuning_record.json`, one JSON list per line.

A workload is `[structural hash, program]`, the program being the text of its object graph in base64, with its length
in front. A record is `[line of the workload, [trace, [seconds], target, [[kind, type, shape] of each argument]]]`;
a failed trial has the time 1e10. An unreadable line gives one diagnostic; the others are used.
"""

from __future__ import annotations

import base64
import binascii
import json
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path
from statistics import median
from typing import NamedTuple

import msgspec

from mslang.diagnostics import Diagnostic, MsError, Severity, problem
from mslang.interop.tvm import words
from mslang.interop.tvm.program_in import programs
from mslang.interop.tvm.program_out import to_graph
from mslang.interop.tvm.trace_json import TvmTrace, from_data, to_data
from mslang.ir.expr import Const
from mslang.ir.program import Program

WORKLOADS = "database_workload.json"
RECORDS = "database_tuning_record.json"
FAILED = 1e10
"""The time that TVM records for a failed trial."""


class Workload(msgspec.Struct, frozen=True):
    """A program that records belong to; `line` counts from 0, `hash` is TVM's."""

    line: int
    hash: str
    program: Program


class TvmRecord(msgspec.Struct, frozen=True):
    """One trial: the line of its workload, its trace, its times in seconds, and TVM's target."""

    workload: int
    trace: TvmTrace
    times: tuple[float, ...]
    target: object

    @property
    def good(self) -> tuple[float, ...]:
        """The times of calls that ran."""
        return tuple(t for t in self.times if 0 < t < FAILED)

    @property
    def seconds(self) -> float | None:
        """The median time of one call; None if the trial failed."""
        return median(self.good) if self.good else None

    @property
    def kind(self) -> str:
        """The kind of the target: `llvm`, `cuda`."""
        kind = self.target.get("kind") if isinstance(self.target, dict) else self.target
        return kind if isinstance(kind, str) else "unknown"


class Tuned(NamedTuple):
    """A program, and its records, the fastest first; failed ones are last."""

    workload: Workload
    records: tuple[TvmRecord, ...]


class TvmDatabase(msgspec.Struct, frozen=True):
    """The contents of a database, and diagnostics of its unreadable lines."""

    workloads: tuple[Workload, ...]
    records: tuple[TvmRecord, ...]
    diagnostics: tuple[Diagnostic, ...] = ()

    def tuned(self) -> list[Tuned]:
        """The records of each program."""
        return [
            Tuned(
                w,
                tuple(
                    sorted((r for r in self.records if r.workload == w.line), key=lambda r: r.seconds or FAILED),
                ),
            )
            for w in self.workloads
        ]


# ------------------------------------------------------------------ in
def read_database(folder: Path | str) -> TvmDatabase:
    """The database in a folder.

    Raises:
        MsError: MS747, the folder has no such files.
    """
    folder = Path(folder)
    if not folder.is_dir():
        raise MsError(problem("MS747", f"there is no folder {folder}"))
    missing = next((n for n in (WORKLOADS, RECORDS) if not (folder / n).is_file()), None)
    if missing is not None:
        raise MsError(
            problem(
                "MS747",
                f"there is no {missing} in {folder}",
                why=f"a database of TVM's has two files, {WORKLOADS} and {RECORDS}",
            )
        )
    return database((folder / WORKLOADS).read_bytes(), (folder / RECORDS).read_bytes(), str(folder))


def database(workloads: bytes, records: bytes, name: str) -> TvmDatabase:
    """The database in two files; messages locate it by `name`."""
    known, bad = read_workloads(workloads, f"{name}/{WORKLOADS}")
    lines = {w.line for w in known}
    found: list[TvmRecord] = []
    strays: Counter[int] = Counter()
    for number, line in _lines(records):
        try:
            record = read_record(line)
        except MsError as error:
            bad.append(_bad_line(f"{name}/{RECORDS}", number, error))
            continue
        if record.workload in lines:
            found.append(record)
        else:
            strays[record.workload] += 1
    bad += [_stray(workload, count) for workload, count in strays.items()]
    return TvmDatabase(tuple(known), tuple(found), tuple(bad))


def _stray(workload: int, count: int) -> Diagnostic:
    return Diagnostic(
        "MS748",
        f"{count} record{'s' if count > 1 else ''} of workload {workload} left out",
        severity=Severity.WARNING,
        why=f"line {workload + 1} of {WORKLOADS}, which should hold their program, could not be read",
    )


def read_workloads(text: bytes, name: str) -> tuple[list[Workload], list[Diagnostic]]:
    """The programs of a workload file, and a diagnostic for each line that could not be read."""
    found: list[Workload] = []
    bad: list[Diagnostic] = []
    for number, line in _lines(text):
        try:
            found.append(_workload(number, line))
        except MsError as error:
            bad.append(_bad_line(name, number, error))
    return found, bad


def _lines(text: bytes) -> Iterable[tuple[int, bytes]]:
    return ((k, line) for k, line in enumerate(text.splitlines()) if line.strip())


def _bad_line(name: str, number: int, error: MsError) -> Diagnostic:
    first = error.diagnostic
    why = f"{first.message}; {first.why}" if first.why else first.message
    return Diagnostic(
        "MS748",
        f"line {number + 1} of {name} cannot be read",
        severity=Severity.WARNING,
        why=why,
        help="it is skipped; the others are used",
    )


def _decoded(line: bytes) -> object:
    try:
        return json.loads(line)
    except (ValueError, RecursionError) as failure:
        raise MsError(problem("MS748", f"no JSON: {failure}")) from failure


def _workload(number: int, line: bytes) -> Workload:
    match _decoded(line):
        case [str() | int() as hash, str() as code]:
            found = programs(_graph(code))
            if len(found) > 1:
                why = f"they are {', '.join(found)}"
                raise MsError(problem("MS748", "its module has several functions, and records are of one", why=why))
            return Workload(number, str(hash), next(iter(found.values())))
    raise MsError(problem("MS748", "it is not `[hash, program]`"))


def _graph(code: str) -> bytes:
    """The graph's text, which follows its length in 8 bytes."""
    try:
        raw = base64.b64decode(code, validate=True)
    except (binascii.Error, ValueError) as failure:
        raise MsError(problem("MS748", f"its program is not base64: {failure}")) from failure
    length = int.from_bytes(raw[:8], "little")
    return raw[8:] if length == len(raw) - 8 else raw


def read_record(line: bytes) -> TvmRecord:
    """The record that a line holds.

    Raises:
        MsError: MS748 or MS740, the line is not a record.
    """
    match _decoded(line):
        case [int() as workload, [trace, times, target, *_]]:
            seconds = (t for t in times if isinstance(t, int | float)) if isinstance(times, list) else ()
            return TvmRecord(workload, from_data(trace), tuple(map(_time, seconds)), target)
    raise MsError(problem("MS748", "it is not `[workload, [trace, times, target, arguments]]`"))


def _time(seconds: float) -> float:
    """A time as a float; one that no float holds is that of a failed trial."""
    try:
        return float(seconds)
    except OverflowError:
        return FAILED


# ------------------------------------------------------------------ out
def write_workload(program: Program) -> str:
    """A program as a line of a workload file.

    TVM looks programs up by a hash that depends on its build, which is not computed here: it is written as 0. TVM
    reads such a database in full, but finds a program in it only after the program is committed to a new one.
    """
    raw = to_graph(program).encode()
    return json.dumps(["0", base64.b64encode(len(raw).to_bytes(8, "little") + raw).decode()], separators=(",", ":"))


def write_record(record: TvmRecord, program: Program) -> str:
    """A record as a line of a record file."""
    data = [to_data(record.trace), list(record.times), record.target, _arguments(program)]
    return json.dumps([record.workload, data], separators=(",", ":"))


def _arguments(program: Program) -> list[object]:
    return [
        [
            "TENSOR",
            words.dtype_out(p.buffer.dtype),
            [n.value for n in p.buffer.shape if isinstance(n, Const)],
        ]
        for p in program.params
    ]


def write_database(folder: Path | str, tuned: Sequence[tuple[Program, Sequence[TvmRecord]]]) -> None:
    """Write the two files of a database; the records' `workload` is set to the line of their program.

    Raises:
        MsError: MS702, the folder already holds a database, which would be overwritten.
    """
    folder = Path(folder)
    there = next((n for n in (WORKLOADS, RECORDS) if (folder / n).exists()), None)
    if there is not None:
        raise MsError(
            problem(
                "MS702", f"{folder} has a {there}", why="it would be lost", help="name another folder, or move it away"
            )
        )
    folder.mkdir(parents=True, exist_ok=True)
    lines = [
        write_record(msgspec.structs.replace(r, workload=k), program)
        for k, (program, records) in enumerate(tuned)
        for r in records
    ]
    texts = {WORKLOADS: [write_workload(p) for p, _ in tuned], RECORDS: lines}
    try:
        for name, found in texts.items():
            (folder / f".{name}").write_text("".join(line + "\n" for line in found))
        for name in texts:
            (folder / f".{name}").replace(folder / name)
    finally:
        for name in texts:
            (folder / f".{name}").unlink(missing_ok=True)
