"""`mslang fmt`: formats files in the standard layout."""

from __future__ import annotations

import argparse
import difflib
import sys
from pathlib import Path

from mslang.cli.common import decoded, emit, encoded, note, read_text, source_files, standard_input
from mslang.cli.main import DONE, FINDINGS
from mslang.cli.source_files import check_source, write_source
from mslang.diagnostics import MsError, bounded_depth


def arguments(parser: argparse.ArgumentParser) -> None:
    """The files and the mode."""
    parser.add_argument(
        "files",
        nargs="+",
        metavar="FILE",
        help="`.ms` files, or folders of them; - is standard input to standard output",
    )
    parser.add_argument("--check", action="store_true", help="change nothing; exit 1 if the layout is another")
    parser.add_argument("--diff", action="store_true", help="change nothing; print what would change")


def run(args: argparse.Namespace) -> int:
    """Format, check, or print the difference."""
    from mslang.cli.render import print_error

    changed = failed = 0
    for name in source_files(args.files):
        try:
            changed += _from_stdin(args) if name == "-" else _file(args, Path(name))
        except MsError as error:
            # An error in one file does not keep the others from being formatted.
            print_error(error, args.json)
            failed += 1
    return FINDINGS if failed or (changed and (args.check or args.diff)) else DONE


def _from_stdin(args: argparse.Namespace) -> bool:
    from mslang.syntax.format import format_text

    data = standard_input().read()
    before = decoded(data, "standard input")
    with bounded_depth("standard input"):
        after = format_text(before)
    if args.check or args.diff:
        _report(args, "standard input", before, after)
        return before != after
    check_source("standard input", before, after, layout=True)
    if args.json:
        _report(args, "standard input", before, after, text=after)
    else:
        sys.stdout.buffer.write(encoded(after, data))
    return before != after


def _file(args: argparse.Namespace, path: Path) -> bool:
    from mslang.syntax.format import format_text

    before = read_text(path)
    with bounded_depth(path):
        after = format_text(before)
    if before != after and not (args.check or args.diff):
        write_source(path, before, after, layout=True)
    _report(args, str(path), before, after)
    return before != after


def _report(args: argparse.Namespace, name: str, before: str, after: str, **more: str) -> None:
    if args.json:
        emit({"kind": "format", "path": name, "changed": before != after, **more})
    elif before != after and args.diff:
        lines = difflib.unified_diff(_lines(before), _lines(after), name, f"{name} (formatted)", lineterm="")
        print("\n".join(lines))
    elif before != after:
        note(f"{'would reformat' if args.check else 'reformatted'} {name}")


def _lines(text: str) -> list[str]:
    """The lines of a text; the last one says if it has no end."""
    *lines, rest = text.split("\n")
    return [*lines, f"{rest}\n\\ No newline at end of file"] if rest else lines
