"""`mslang db export`, `import`, `merge` and `prune`: records into and out of a store."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Mapping
from contextlib import ExitStack, closing
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING

from mslang.cli.common import UsageError, counted, emit, natural, note, positive
from mslang.cli.db_selection import machine_key, warn_of_damage, workload_hashes
from mslang.cli.main import DONE, FINDINGS
from mslang.cli.render import print_diagnostics
from mslang.diagnostics import Diagnostic
from mslang.tune.database import Database
from mslang.tune.record import TRIED, Outcome, Record
from mslang.tune.stores import open_to_add, require_file
from mslang.tune.transfer import Brought, bring, line_of, merge, read_lines, rows_of, until_first
from mslang.tune.upkeep import Pruning, prunable

if TYPE_CHECKING:
    from mslang.interop.tvm.store import Moved


def transfer_arguments(verbs: Mapping[str, argparse.ArgumentParser]) -> None:
    """The options of the verbs of this module."""
    export, bring, merge, prune = (verbs[name] for name in ("export", "import", "merge", "prune"))
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
    bring.add_argument(
        "source",
        type=Path,
        metavar="FILE|DIR",
        help="JSON lines (`-`: standard input), or the folder of a database of TVM's or a file in it",
    )
    merge.add_argument("others", nargs="+", type=Path, metavar="STORE", help="a store whose records are added")
    prune.add_argument("--older", type=positive, metavar="DAYS", help="made longer ago than so many days")
    prune.add_argument(
        "--keep",
        type=natural,
        metavar="N",
        help="not among the N fastest of their program, target, machine and compiler",
    )
    prune.add_argument("--machine", metavar="NAME|KEY", help="of this machine")
    prune.add_argument("--failed", action="store_true", help="that ended without a time")
    prune.add_argument("--dry-run", action="store_true", help="count them, delete none")


def export(database: Database, args: argparse.Namespace) -> int:
    """Print rows as JSON lines, or write a database of TVM's."""
    programs = workload_hashes(database, args.program)
    if args.format == "tvm":
        return _export_to_tvm(database, args, programs)
    if args.folder is not None:
        raise UsageError("JSON lines go to standard output", help=f"mslang db export > {args.folder}")
    bad: list[Diagnostic] = []
    for row in rows_of(database, programs, Outcome(args.outcome) if args.outcome else None):
        bad.append(row) if isinstance(row, Diagnostic) else emit(line_of(row))
    print_diagnostics(bad, stream=sys.stderr)
    return FINDINGS if bad else DONE


def import_rows(args: argparse.Namespace) -> int:
    """Add JSON lines, or TVM's records."""
    require_file(args.db, "import")
    if _is_of_tvm(args.source):
        return _import_from_tvm(args)
    with ExitStack() as opened:
        lines = sys.stdin.buffer if str(args.source) == "-" else opened.enter_context(args.source.open("rb"))
        rows = read_lines(lines, str(args.source))
        bad, first = until_first(rows)
        if first is None:
            # No store is made for nothing.
            return _brought(Brought(diagnostics=tuple(bad)), args)
        store = opened.enter_context(Database(args.db))
        done = bring(store, chain(bad, [first], rows))
    return _brought(done, args)


def _is_of_tvm(source: Path) -> bool:
    if source.is_dir() or source.name.startswith("database_"):
        return True
    # A line of TVM's is an array, one of ours an object.
    with source.open("rb") if str(source) != "-" and source.is_file() else ExitStack() as file:
        return hasattr(file, "read") and file.read(64).lstrip()[:1] == b"["


def merge_stores(args: argparse.Namespace) -> int:
    """Add the rows of other stores."""
    with ExitStack() as opened:
        others = [opened.enter_context(Database(path, read_only=True)) for path in args.others]
        for other in others:
            warn_of_damage(other, args.json)
        done = merge(opened.enter_context(closing(open_to_add(args.db))), others)
    return _brought(done, args)


def _brought(done: Brought, args: argparse.Namespace) -> int:
    stream = sys.stdout if args.json else sys.stderr
    print_diagnostics(done.diagnostics, "json" if args.json else "text", stream=stream)
    if args.json:
        emit({"kind": "brought", "added": done.added, "known": done.known, "left_out": len(done.diagnostics)})
    else:
        known = f", {done.known} known already" if done.known else ""
        left_out = f", {len(done.diagnostics)} left out" if done.diagnostics else ""
        print(f"{counted(done.added, 'record')} added to {args.db}{known}{left_out}")
    return FINDINGS if done.diagnostics else DONE


def prune(args: argparse.Namespace) -> int:
    """Delete records."""
    if args.older is None and args.keep is None and args.machine is None and not args.failed:
        raise UsageError(
            "`mslang db prune` takes a condition",
            help="--older DAYS, --keep N, --machine NAME or --failed; all must hold",
        )
    require_file(args.db, "prune")
    with Database(args.db, read_only=True) as database:
        machine = None if args.machine is None else machine_key(database.machines(), args.machine)
        wanted = Pruning(args.older, args.keep, machine, args.failed)
        ids = prunable((r for r in database.records() if isinstance(r, Record)), wanted)
    if ids and not args.dry_run:
        with Database(args.db) as database:
            database.remove(ids)
    if args.json:
        emit({"kind": "pruned", "records": ids, "dry_run": args.dry_run})
    else:
        print(f"{counted(len(ids), 'record')} {'would be deleted' if args.dry_run else 'deleted'} from {args.db}")
    return DONE


# ------------------------------------------------------------------ TVM
def _import_from_tvm(args: argparse.Namespace) -> int:
    from mslang.interop.tvm.records import read_database
    from mslang.interop.tvm.store import import_into

    folder = args.source.parent if args.source.is_file() else args.source
    source = read_database(folder)
    with Database(args.db) as database:
        done = import_into(database, source, str(folder))
    return _moved(done, "brought into", args.db, args.json)


def _export_to_tvm(database: Database, args: argparse.Namespace, programs: list[str | None]) -> int:
    from mslang.interop.tvm.store import export_from

    if args.folder is None:
        raise UsageError("no folder is given", help="mslang db export --format tvm DIR")
    if args.outcome is not None:
        raise UsageError("--outcome goes with JSON lines", "leave it out: only records that have a time are written")
    done = export_from(database, args.folder, programs, {"kind": "llvm", "keys": ["cpu"]})
    return _moved(done, "written to", args.folder, args.json)


def _moved(done: Moved, how: str, where: Path, as_json: bool) -> int:
    print_diagnostics(done.diagnostics, "json" if as_json else "text", stream=sys.stdout if as_json else sys.stderr)
    if as_json:
        counts = {"records": done.count, "left_out": done.left_out, "duplicates": done.duplicates}
        emit({"kind": "moved", **counts, "where": str(where)})
    else:
        left_out = f", {done.left_out} left out" if done.left_out else ""
        duplicates = f", {counted(done.duplicates, 'duplicate')} dropped" if done.duplicates else ""
        note(f"{counted(done.count, 'record')} {how} {where}{left_out}{duplicates}")
    return FINDINGS if done.diagnostics else DONE
