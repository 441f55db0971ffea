"""`mslang import` of TVM's JSON files: programs, pinned schedules, or both, as `.ms` text."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType

import msgspec

from mslang.diagnostics import Diagnostic, MsError, Severity, bounded_depth, problem
from mslang.interop.in_blocks import in_blocks
from mslang.interop.tvm import records
from mslang.interop.tvm.code import as_compiled_there
from mslang.interop.tvm.program_in import programs
from mslang.interop.tvm.records import TvmRecord
from mslang.interop.tvm.trace_in import import_trace
from mslang.interop.tvm.trace_json import TvmTrace, from_data
from mslang.ir.intrin import Intrin
from mslang.ir.print import print_program
from mslang.ir.program import Program
from mslang.ir.visit import fresh


class Brought(msgspec.Struct, frozen=True):
    """Items as text, each with its name, and diagnostics of unreadable parts."""

    items: tuple[tuple[str, str], ...]
    diagnostics: tuple[Diagnostic, ...] = ()
    subject: str | None = None
    """The program that they are for, if it is not among them."""


def kind_of(text: str) -> str:
    """The kind of a JSON file of TVM's: "trace", "workloads", "records" or "graph".

    Raises:
        MsError: MS749, none of these.
    """
    for candidate in (text, text.lstrip().partition("\n")[0]):
        try:
            data = json.loads(candidate)
        except (ValueError, RecursionError):
            continue
        match data:
            case {"nodes": list()}:
                return "graph"
            case [str() | int(), str()]:
                return "workloads"
            case [int(), list()]:
                return "records"
            case [list(), list()]:
                return "trace"
    raise MsError(
        problem(
            "MS749",
            "this is not JSON file of TVM's that is known",
            why="it is not a trace, no program, and neither file of a tuning database",
            help=f"a trace is `[instructions, decisions]`; a database is {records.WORKLOADS} and {records.RECORDS}",
        )
    )


def bring(
    path: Path,
    text: str,
    program: Callable[[], Program | None],
    intrinsics: Mapping[str, Intrin] = MappingProxyType({}),
) -> Brought:
    """The items of a file.

    Args:
        path: the file.
        text: its contents.
        program: returns the program of a bare trace, if one was named.
        intrinsics: the user\'s own intrinsics, by name.

    Raises:
        MsError: it cannot be read.
    """
    match kind_of(text):
        case "graph":
            return Brought(tuple((n, print_program(in_blocks(p))) for n, p in programs(text).items()))
        case "workloads":
            found, bad = records.read_workloads(text.encode(), str(path))
            named = _named([w.program for w in found])
            return Brought(tuple((p.name, print_program(in_blocks(p))) for p in named), tuple(bad))
        case "records":
            return _tuned(path, text, intrinsics)
    subject = program()
    if subject is None:
        raise MsError(
            problem(
                "MS749",
                "a trace alone does not say which program it is for",
                help="name it: `mslang import trace.json --for FILE:PROGRAM`",
            )
        )
    done = import_trace(subject, _trace(text), intrinsics=intrinsics)
    name = fresh(f"{path.stem}".replace("-", "_"), {subject.name})
    return Brought(((name, done.trace.as_ms(name)),), done.notes, subject.name)


def _trace(text: str) -> TvmTrace:
    """The only trace of a file."""
    try:
        data = json.loads(text)
    except ValueError:
        raise MsError(
            problem(
                "MS740",
                "something follows the trace on the first line",
                why="a schedule is made of one trace",
                help="put each trace into a file of its own",
            )
        ) from None
    return from_data(data)


def _named(found: list[Program]) -> list[Program]:
    """Programs with distinct names: TVM calls nearly all of them `main`."""
    taken: set[str] = set()
    result = []
    for p in found:
        name = fresh(p.name, taken)
        taken.add(name)
        result.append(msgspec.structs.replace(p, name=name))
    return result


def _no_schedule(program: Program, trials: Sequence[TvmRecord]) -> Diagnostic:
    """The note on a program without a schedule."""
    return Diagnostic(
        "MS744",
        f"there is no schedule for `{program.name}`",
        severity=Severity.WARNING,
        why=f"of {len(trials)} records none could be brought over that says it ran",
        help="the program alone is there; `mslang tune` searches for a schedule",
    )


def _tuned(path: Path, text: str, intrinsics: Mapping[str, Intrin]) -> Brought:
    """Each program of the workload file that belongs to a record file, and the fastest schedule found for it."""
    beside = path.with_name(path.name.replace(records.RECORDS, records.WORKLOADS))
    if beside == path or not beside.is_file():
        raise MsError(
            problem("MS747", f"there is no {records.WORKLOADS} beside {path}", why="records name their program by line")
        )
    found = records.database(beside.read_bytes(), text.encode(), str(path.parent))
    bad = list(found.diagnostics)
    items: list[tuple[str, str]] = []
    tuned = found.tuned()
    for program, (_, trials) in zip(_named([t.workload.program for t in tuned]), tuned, strict=True):
        program = as_compiled_there(program)
        items.append((program.name, print_program(program)))
        for record in (r for r in trials if r.seconds is not None):
            try:
                with bounded_depth("a record's trace"):
                    done = import_trace(program, record.trace, intrinsics=intrinsics)
            except MsError as error:
                bad.append(error.diagnostic)
                continue
            name = f"{program.name}_best"
            seconds = record.seconds or 0.0
            doc = f"## {seconds * 1e6:.4g} µs when TVM measured it, on another day and perhaps another machine.\n"
            items.append((name, doc + done.trace.as_ms(name)))
            bad += done.notes
            break
        else:
            if trials:
                bad.append(_no_schedule(program, trials))
    return Brought(tuple(items), tuple(bad))
