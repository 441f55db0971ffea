"""`mslang check`: all diagnostics of files, including those that only execution of the schedules reveals."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from mslang.cli.common import UsageError, counted, natural, note, read_text, source_files
from mslang.cli.main import DONE, FINDINGS
from mslang.cli.render import FORMATS, print_diagnostics
from mslang.diagnostics import Diagnostic, MsError, Severity, bounded_depth
from mslang.rendering import Texts

if TYPE_CHECKING:
    from mslang.ide.snapshot import Snapshot


def arguments(parser: argparse.ArgumentParser) -> None:
    """The files and the format of the report."""
    parser.add_argument("files", nargs="+", metavar="FILE", help="`.ms` files, or folders of them")
    parser.add_argument("--format", choices=FORMATS, default="text", help="how to report (default: text with carets)")
    parser.add_argument(
        "--draws",
        type=natural,
        default=16,
        metavar="N",
        help="draws of each schedule and space that are run, for what primitives refuse; 0 for none (default 16)",
    )


def run(args: argparse.Namespace) -> int:
    """Report all diagnostics; exit 1 if one is an error."""
    from mslang.ide.findings import findings
    from mslang.ide.snapshot import Snapshot

    if args.json and args.format not in ("text", "json"):
        raise UsageError(f"--json and --format {args.format} are two formats", "leave out one of them")
    texts: dict[str, str] = {}
    found: list[Diagnostic] = []
    for name in source_files(args.files):
        try:
            texts[name] = read_text(Path(name))
            with bounded_depth(name):
                snapshot = Snapshot({name: texts[name]})
                refused = refusals(snapshot, name, args.draws) if args.draws else ()
                found += sorted((*findings(snapshot.module(name)), *refused), key=lambda d: (d.span is None, d.span))
        except MsError as error:
            found += error.diagnostics
    form = "json" if args.json else args.format
    print_diagnostics(found, form, stream=sys.stdout, texts=Texts(texts))
    errors = sum(d.severity is Severity.ERROR for d in found)
    if form == "text":
        warnings = sum(d.severity is Severity.WARNING for d in found)
        result = f"{counted(errors, 'error')}, {counted(warnings, 'warning')}" if errors or warnings else "all well"
        note(f"{counted(len(texts), 'file')}, {result}")
    return FINDINGS if errors else DONE


def refusals(snapshot: Snapshot, path: str, draws: int) -> Iterator[Diagnostic]:
    """The diagnostics of running the schedules. A space may have some draws that are refused."""
    from mslang.ide.trial import trial, trial_names

    module = snapshot.module(path)
    for name in trial_names(module):
        start = module.items[name].start
        yield from (
            d.placed(path, start) for d in trial(snapshot, path, name, draws) if d.severity is not Severity.INFORMATION
        )
