"""`mslang fmt`: the one layout."""

from __future__ import annotations

import argparse
import difflib
import sys
from pathlib import Path

from mslang.cli.common import emit, note, read_text, write_text
from mslang.cli.main import DONE, FINDINGS


def arguments(parser: argparse.ArgumentParser) -> None:
    """Files, and what to do with them."""
    parser.add_argument("files", nargs="+", metavar="FILE", help="`.ms` files; - is standard input to standard output")
    parser.add_argument("--check", action="store_true", help="change nothing; exit 1 if a file is not in the one layout")
    parser.add_argument("--diff", action="store_true", help="change nothing; print what would change")


def run(args: argparse.Namespace) -> int:
    """Format, check, or print the difference."""
    from mslang.syntax.format import format_text

    changed = 0
    for name in args.files:
        before = sys.stdin.read() if name == "-" else read_text(Path(name))
        after = format_text(before)
        if name == "-" and not (args.check or args.diff):
            sys.stdout.write(after)
            continue
        changed += before != after
        if args.json:
            emit({"kind": "format", "path": name, "changed": before != after})
        if before == after:
            continue
        if args.diff:
            lines = difflib.unified_diff(before.splitlines(True), after.splitlines(True), name, f"{name} (formatted)")
            sys.stdout.writelines(lines)
        elif args.check:
            note(f"would reformat {name}")
        else:
            write_text(Path(name), after)
            note(f"reformatted {name}")
    return FINDINGS if changed and (args.check or args.diff) else DONE
