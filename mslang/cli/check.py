"""`mslang check`: all diagnostics of files."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from mslang.cli.common import bounded_depth, counted, note, read_text
from mslang.cli.main import DONE, FINDINGS
from mslang.cli.render import FORMATS, Texts, print_diagnostics
from mslang.diagnostics import Diagnostic, MsError, Severity


def arguments(parser: argparse.ArgumentParser) -> None:
    """Files and the form of the report."""
    parser.add_argument("files", nargs="+", metavar="FILE", help="`.ms` files")
    parser.add_argument("--format", choices=FORMATS, default="text", help="how to report (default: text with carets)")


def run(args: argparse.Namespace) -> int:
    """Report everything found; exit 1 if there is an error among it."""
    from mslang.ide.findings import findings
    from mslang.sema.modules import load

    texts: dict[str, str] = {}
    found: list[Diagnostic] = []
    for name in dict.fromkeys(args.files):
        try:
            texts[name] = read_text(Path(name))
            with bounded_depth(name):
                found += findings(load(name, texts[name]))
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
