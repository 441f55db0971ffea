"""`mslang report`: what tuning found, as one HTML page."""

from __future__ import annotations

import argparse
from pathlib import Path

from mslang.cli.common import UsageError, counted, emit, name_text, note, write_text
from mslang.cli.main import DONE
from mslang.diagnostics import MsError, problem

STORE = Path(".mslang/records.db")
"""The record store where none is named."""


def arguments(parser: argparse.ArgumentParser) -> None:
    """The options of `mslang report`."""
    parser.add_argument(
        "what",
        nargs="?",
        metavar="DB|RUN",
        help="a record store, or the run of one (default: all runs of --db)",
    )
    parser.add_argument("--db", type=Path, metavar="FILE", help=f"the record store (default: {STORE})")
    parser.add_argument("--log", type=Path, metavar="DIR", help="the logs (default: logs next to the store)")
    parser.add_argument(
        "-o",
        "--out",
        type=Path,
        default=Path("report.html"),
        metavar="FILE",
        help="where to write (default: report.html)",
    )


def run(args: argparse.Namespace) -> int:
    """Write the report."""
    from mslang.report.gather import gather
    from mslang.report.page import page
    from mslang.tune.database import Database

    path, wanted = _wanted(args.what, args.db)
    if not path.exists():
        raise MsError(
            problem("MS547", f"there is no record store {path}", help="tune first: `mslang tune FILE`, or name it")
        )
    if args.out.exists() and args.out.samefile(path):
        raise UsageError(f"{args.out} is the record store", "name another file with -o")
    with Database(path, read_only=True) as database:
        found = gather(database, wanted, args.log)
    args.out.parent.mkdir(parents=True, exist_ok=True)
    write_text(args.out, page(found, name_text(path)))
    if args.json:
        emit({"kind": "report", "file": str(args.out), "runs": [f.run.id for f in found]})
    else:
        note(f"{args.out}: {counted(len(found), 'run')}")
    return DONE


def _wanted(what: str | None, db: Path | None) -> tuple[Path, str | None]:
    """The store, and the run of it that is wanted; None for all."""
    if what is None or not _is_file(what):
        return db or STORE, what
    if db is not None:
        raise UsageError(f"--db names a store, and so does `{what}`", "leave out one of them")
    return Path(what), None


def _is_file(text: str) -> bool:
    """Whether an argument names a store and not a run: there is such a file, or it looks like the path of one."""
    return Path(text).exists() or "/" in text or "." in text
