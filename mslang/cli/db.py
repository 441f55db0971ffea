"""`mslang db`: list, show, export and import records."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from mslang.cli.common import UsageError, counted, emit, natural, note, positive, seconds_text, table
from mslang.cli.main import DONE, FINDINGS
from mslang.cli.render import print_diagnostics
from mslang.diagnostics import Diagnostic, MsError, problem
from mslang.target.machine import this_machine
from mslang.tune.database import Database
from mslang.tune.record import TRIED, Outcome, Record

if TYPE_CHECKING:
    from mslang.interop.tvm.store import Moved


def arguments(parser: argparse.ArgumentParser) -> None:
    """The verbs of the record store and their options."""
    verbs = parser.add_subparsers(dest="what", metavar="ls|show|top|export|import", required=True)
    show = verbs.add_parser("show", help="one record", description="One record.")
    show.add_argument("id", type=natural, metavar="ID", help="a record's number")
    top = verbs.add_parser(
        "top", help="the fastest", description="The fastest records of one machine; the last of each candidate."
    )
    top.add_argument("-k", type=positive, default=10, metavar="N", help="how many (default 10)")
    export = verbs.add_parser("export", help="records as JSON lines", description="Records as JSON lines.")
    export.add_argument(
        "--outcome",
        choices=[o.value for o in Outcome],
        metavar="OUTCOME",
        help=f"only records that ended so: {', '.join(sorted(TRIED))}",
    )
    export.add_argument(
        "--format", choices=["jsonl", "tvm"], default="jsonl", help="JSON lines (default), or a database of TVM's"
    )
    export.add_argument("folder", nargs="?", type=Path, metavar="DIR", help="where a database of TVM's is written")
    bring = verbs.add_parser(
        "import",
        help="records of TVM's",
        description="Records of TVM's; their times are marked.",
    )
    bring.add_argument("source", type=Path, metavar="DIR", help="the folder of a database of TVM's, or a file in it")
    for verb in (top, export):
        verb.add_argument("--program", metavar="NAME|HASH", help="only records of this program")
    top.add_argument("--machine", metavar="NAME|KEY", help="records of another machine (default: this one)")
    ls = verbs.add_parser("ls", help="programs and runs", description="Programs and runs.")
    for verb in (ls, show, top, export, bring):
        verb.add_argument(
            "--db",
            type=Path,
            default=Path(".mslang/records.db"),
            metavar="FILE",
            help="the store (default: .mslang/records.db)",
        )
        verb.add_argument(
            "--json", action="store_true", default=argparse.SUPPRESS, help="JSON lines on standard output"
        )


def run(args: argparse.Namespace) -> int:
    """Run the verb of the record store."""
    if args.what == "import":
        return _import(args)
    with Database(args.db, read_only=True) as database:
        damage = database.check()
        if damage is not None:
            print_diagnostics((damage,), "json" if args.json else "text", stream=sys.stderr)
        match args.what:
            case "ls":
                return _list(database, args)
            case "show":
                return _show(database, args)
            case "top":
                return _top(database, args)
            case _ if args.format == "tvm":
                return _export_to_tvm(database, args)
            case _:
                return _export(database, args)


def _top(database: Database, args: argparse.Namespace) -> int:
    known = database.machines()
    machine = this_machine().key if args.machine is None else _machine(known, args.machine)
    records = [r for h in _hashes(database, args.program) for r in database.top(h, args.k, machine=machine)]
    records.sort(key=lambda r: r.cost or 0.0)
    if not records and any(count for _, count, _ in database.workloads()):
        others = ", ".join(sorted({name for key, name in known.items() if key != machine}))
        note(
            "no record has a time of this machine: `mslang db export` gives all, `mslang run` measures one"
            + (f"; `--machine` takes {others}" if others else "")
        )
    return _print_records(records[: args.k], args.json)


def _machine(known: dict[str, str], wanted: str) -> str:
    """The key of the machine that a name or a prefix of a key selects."""
    for key, name in known.items():
        if name == wanted or (key and key.startswith(wanted)):
            return key
    raise MsError(
        problem(
            "MS703",
            f"no records of the machine '{wanted}'",
            help=f"the machines are: {', '.join(f'{name} ({key[:8]})' for key, name in known.items())}",
        )
    )


def _list(database: Database, args: argparse.Namespace) -> int:
    rows = [(w.name, w.hash, count, best) for w, count, best in database.workloads()]
    if args.json:
        for name, hash, count, best in rows:
            emit({"kind": "workload", "name": name, "hash": hash, "records": count, "best_seconds": best})
        for r in database.runs():
            emit({"kind": "run", **msgspec.to_builtins(r)})
        return DONE
    print(
        table(
            ("program", "hash", "records", "best"),
            [(n, h[:12], c, seconds_text(b) if b is not None else "–") for n, h, c, b in rows],
        )
    )
    runs = database.runs()
    if runs:
        print()
        print(
            table(("run", "file", "space", "seed", "made"), [(r.id, r.file, r.space, r.seed, r.created) for r in runs])
        )
    return DONE


def _show(database: Database, args: argparse.Namespace) -> int:
    r = database.record(args.id)
    if args.json:
        emit(_plain(r))
        return DONE
    print(f"record {r.id}: {r.program}, trial {r.trial} of run {r.run}, seed {r.seed}, mslang {r.version}, {r.created}")
    print(f"target {r.target}; machine {r.device} ({r.machine[:8] or 'key unknown'}); compiler {r.compiler}")
    timing = r.result.timing
    if timing is not None and timing.yardstick is not None:
        print(f"the processor did {timing.yardstick / 1e9:.4g} GFLOP/s on one core meanwhile")
    if timing is not None:
        bound = "at least " if timing.censored else ""
        print(
            f"{r.result.outcome.value}: {bound}{seconds_text(timing.median)} ± {seconds_text(timing.mad)} "
            f"({len(timing.samples)} × {timing.runs} calls)"
        )
    else:
        print(f"{r.result.outcome.value}: {r.result.reason}")
    for v in r.result.verified:
        print(f"verified on {v.inputs}, largest error {v.max_error:g}")
    print(f"\n{r.schedule.rstrip()}")
    return DONE


def _export(database: Database, args: argparse.Namespace) -> int:
    wanted = Outcome(args.outcome) if args.outcome else None
    bad: list[Diagnostic] = []
    for h in _hashes(database, args.program):
        for r in database.records(h, outcome=wanted):
            bad.append(r) if isinstance(r, Diagnostic) else emit(_plain(r))
    if bad:
        print_diagnostics(bad, stream=sys.stderr)
    return DONE


def _import(args: argparse.Namespace) -> int:
    from mslang.interop.tvm.records import read_database
    from mslang.interop.tvm.store import import_into

    folder = args.source.parent if args.source.is_file() else args.source
    source = read_database(folder)
    with Database(args.db) as database:
        done = import_into(database, source, str(folder))
    return _moved(done, "brought into", args.db, args.json)


def _export_to_tvm(database: Database, args: argparse.Namespace) -> int:
    from mslang.interop.tvm.store import export_from

    if args.folder is None:
        raise UsageError("no folder is given", help="mslang db export --format tvm DIR")
    done = export_from(database, args.folder, _hashes(database, args.program), {"kind": "llvm", "keys": ["cpu"]})
    return _moved(done, "written to", args.folder, args.json)


def _moved(done: Moved, how: str, where: Path, as_json: bool) -> int:
    print_diagnostics(done.diagnostics, "json" if as_json else "text", stream=sys.stdout if as_json else sys.stderr)
    if as_json:
        emit({"kind": "moved", "records": done.count, "left_out": done.left_out, "where": str(where)})
    else:
        left_out = f", {done.left_out} left out" if done.left_out else ""
        note(f"{counted(done.count, 'record')} {how} {where}{left_out}")
    return FINDINGS if done.diagnostics else DONE


def _print_records(records: Iterable[Record], as_json: bool) -> int:
    found = list(records)
    if as_json:
        for r in found:
            emit(_plain(r))
    else:
        print(
            table(
                ("record", "program", "time", "target", "decisions"),
                [(r.id, r.program, seconds_text(r.seconds or 0.0), r.target, r.decisions) for r in found],
            )
        )
    return DONE if found else FINDINGS


def _hashes(database: Database, program: str | None) -> list[str | None]:
    """The workloads that a name or a prefix of a hash selects; [None] selects all."""
    if program is None:
        return [None]
    known = [w for w, _, _ in database.workloads()]
    found: list[str | None] = [w.hash for w in known if w.name == program or w.hash.startswith(program)]
    if not found:
        names = ", ".join(sorted({w.name for w in known})) or "none at all"
        raise MsError(problem("MS703", f"no records of '{program}' in {database.path}", help=f"there are: {names}"))
    return found


def _plain(r: Record) -> dict[str, object]:
    return {"kind": "record", **msgspec.to_builtins(r)}
