"""`mslang check`: all diagnostics of files."""

from __future__ import annotations

import argparse
import sys

from mslang.cli.common import note
from mslang.cli.main import DONE, FINDINGS
from mslang.cli.render import FORMATS, Texts, print_diagnostics
from mslang.diagnostics import Severity


def arguments(parser: argparse.ArgumentParser) -> None:
    """Files and the form of the report."""
    parser.add_argument("files", nargs="+", metavar="FILE", help="`.ms` files")
    parser.add_argument("--format", choices=FORMATS, default="text", help="how to report (default: text with carets)")


def run(args: argparse.Namespace) -> int:
    """Report everything found; exit 1 if there is an error among it."""
    from mslang.ide.findings import findings
    from mslang.sema.modules import load

    modules = [load(name) for name in args.files]
    found = [d for m in modules for d in findings(m)]
    texts = Texts({m.path: m.file.text for m in modules})
    form = "json" if args.json else args.format
    print_diagnostics(found, form, stream=sys.stdout, texts=texts)
    errors = sum(d.severity is Severity.ERROR for d in found)
    if form == "text":
        warnings = sum(d.severity is Severity.WARNING for d in found)
        note(f"{len(modules)} files, {errors} errors, {warnings} warnings" if found else f"{len(modules)} files, all well")
    return FINDINGS if errors else DONE
