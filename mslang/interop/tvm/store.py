"""TVM's records in our record store, and ours in TVM's.

A time measured on another machine does not count here: such a record has the outcome `measured elsewhere`, so that
searches and `top` ignore it.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from pathlib import Path

import msgspec

from mslang import __version__
from mslang.diagnostics import Diagnostic, MsError, Severity, bounded_depth
from mslang.interop.tvm.code import as_compiled_there
from mslang.interop.tvm.records import TvmDatabase, TvmRecord, write_database
from mslang.interop.tvm.trace_in import Imported, import_trace
from mslang.interop.tvm.trace_out import export_trace
from mslang.ir.equal import structural_hash, workload_hash
from mslang.ir.print import print_program
from mslang.ir.program import Program
from mslang.runtime.timing import Timing
from mslang.schedule.replay import space_of_text
from mslang.sema.program import parse_program
from mslang.tune.database import Database
from mslang.tune.record import Outcome, Record, Result, Run, Workload

ORIGIN = "tvm"
"""Device, compiler and run of records imported from TVM."""


class Moved(msgspec.Struct, frozen=True):
    """The numbers of records transferred and not transferred, with reasons.

    `duplicates`: not transferred, as a record of the same candidate is there already.
    """

    count: int
    left_out: int = 0
    diagnostics: tuple[Diagnostic, ...] = ()
    duplicates: int = 0


# ------------------------------------------------------------------ in
def import_into(store: Database, source: TvmDatabase, name: str) -> Moved:
    """Import the records of a TVM database into our store.

    Args:
        store: the destination.
        source: the database.
        name: the source's name, recorded in the run.
    """
    count, duplicates, left_out = 0, 0, len(source.diagnostics)
    bad = list(source.diagnostics)
    known = {r.id for r in store.runs()}
    for workload, records in source.tuned():
        named = msgspec.structs.replace(workload.program, name=_name(workload.program, workload.line))
        program = as_compiled_there(named)
        hash = workload_hash(program)
        text = Workload(hash, program.name, print_program(program))
        store.add_workload(text)
        run = f"{ORIGIN}-{hashlib.sha256(f'{name} {hash}'.encode()).hexdigest()[:12]}"
        if run not in known:
            store.add_run(Run(run, name, ORIGIN, hash, ORIGIN, 0, "", source=text.source))
            known.add(run)
        there = {r.candidate for r in store.records(run=run) if isinstance(r, Record)}
        for trial, record in enumerate(records):
            try:
                with bounded_depth(f"record {trial + 1}"):
                    imported = import_trace(program, record.trace)
            except MsError as error:
                bad.append(_left_out(f"record {trial + 1} of `{program.name}`", error))
                left_out += 1
                continue
            made = _record(program, text, record, imported, run, trial)
            if made.candidate in there:
                duplicates += 1
                continue
            store.add(made)
            there.add(made.candidate)
            count += 1
    return Moved(count, left_out, tuple(bad), duplicates)


def _name(program: Program, line: int) -> str:
    return program.name if program.name != "main" else f"workload_{line}"


def _left_out(what: str, error: MsError) -> Diagnostic:
    first = error.diagnostic
    return Diagnostic(
        first.code,
        f"{what} is left out: {first.message}",
        severity=Severity.WARNING,
        why=first.why,
        help=first.help,
    )


def _record(
    program: Program, workload: Workload, record: TvmRecord, imported: Imported, run: str, trial: int
) -> Record:
    good = record.good
    text = imported.trace.as_ms(f"{program.name}_tvm")
    return Record(
        workload=workload.hash,
        source=workload.source,
        program=program.name,
        target=f"{ORIGIN}.{record.kind}",
        device=ORIGIN,
        compiler=ORIGIN,
        candidate=structural_hash(imported.program),
        schedule=text,
        trace=text,
        decisions=msgspec.json.encode(imported.trace.decisions).decode(),
        result=Result(
            Outcome.ELSEWHERE,
            "measured by TVM, on another day and perhaps another machine" if good else "it failed in TVM",
            Timing(good, 1) if good else None,
        ),
        run=run,
        trial=trial,
        seed=0,
        version=__version__,
    )


# ------------------------------------------------------------------ out
def export_from(store: Database, folder: Path, workloads: list[str | None], target: object) -> Moved:
    """Write records as a TVM database.

    Args:
        store: the source.
        folder: the folder of the two files.
        workloads: the structural hashes of the selected programs; [None] selects all.
        target: the target in TVM's records, in TVM's JSON form.
    """
    wanted = None if workloads == [None] else set(workloads)
    bad: list[Diagnostic] = []
    tuned: list[tuple[Program, list[TvmRecord]]] = []
    for workload, _, _ in store.workloads():
        if wanted is not None and workload.hash not in wanted:
            continue
        try:
            program = parse_program(workload.text)
            records = list(_exported(store, workload.hash, program, target, bad))
        except MsError as error:
            bad.append(_left_out(f"`{workload.name}`", error))
            continue
        if records:
            tuned.append((program, records))
    write_database(folder, tuned)
    return Moved(sum(len(r) for _, r in tuned), len(bad), tuple(bad))


def _exported(
    store: Database, hash: str, program: Program, target: object, bad: list[Diagnostic]
) -> Iterator[TvmRecord]:
    for record in store.records(hash):
        if isinstance(record, Diagnostic):
            bad.append(record)
            continue
        timing = record.result.timing
        if record.result.outcome not in (Outcome.MEASURED, Outcome.ELSEWHERE) or timing is None:
            continue
        try:
            trace = space_of_text(record.trace, program).sample(0).trace
            exported = export_trace(program, trace)
        except MsError as error:
            bad.append(_left_out(f"record {record.id} of `{record.program}`", error))
            continue
        yield TvmRecord(0, exported.trace, timing.samples, target)
