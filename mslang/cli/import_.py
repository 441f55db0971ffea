"""`mslang import`: programs of other tools as `.ms` text."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Mapping
from pathlib import Path

import msgspec

from mslang.cli.common import UsageError, bounded_depth, check_writable, emit, note, read_text, write_text
from mslang.cli.main import DONE, FINDINGS
from mslang.diagnostics import Diagnostic


class Brought(msgspec.Struct, frozen=True):
    """What an importer makes of a file: the `.ms` text of each item it could read, and what it found."""

    items: tuple[tuple[str, str], ...]
    """Name and text."""
    diagnostics: tuple[Diagnostic, ...] = ()


Importer = Callable[[Path, str, argparse.Namespace], Brought]
"""From a file's path, its text and the command line."""


def arguments(parser: argparse.ArgumentParser) -> None:
    """The file, and where the text goes."""
    parser.add_argument("file", metavar="FILE", help=f"a file that ends with {', '.join(IMPORTERS)}")
    parser.add_argument("-o", "--output", metavar="OUT.ms", help="write there (default: standard output)")


def run(args: argparse.Namespace) -> int:
    """Print or write the items; exit 1 if something of the file could not be brought over."""
    from mslang.cli.render import Texts, print_diagnostics

    path = Path(args.file)
    importer = IMPORTERS.get(path.suffix)
    if importer is None:
        raise UsageError(f"no way to import {path}", help=f"its name must end with {', '.join(IMPORTERS)}")
    if args.output is not None:
        check_writable(Path(args.output))
    text = read_text(path)
    with bounded_depth(path):
        brought = importer(path, text, args)
    print_diagnostics(
        brought.diagnostics,
        "json" if args.json else "text",
        stream=sys.stdout if args.json else sys.stderr,
        texts=Texts({str(path): text}),
    )
    if args.json:
        for name, item in brought.items:
            emit({"kind": "program", "name": name, "text": item})
    made = "\n".join(item for _, item in brought.items)
    if args.output is not None and brought.items:
        write_text(Path(args.output), made)
        note(f"wrote {args.output}")
    elif not args.json:
        print(made, end="")
    return FINDINGS if brought.diagnostics else DONE


def _tvmscript(path: Path, text: str, _: argparse.Namespace) -> Brought:
    from mslang.interop import tvmscript
    from mslang.ir.print import print_program

    found = tvmscript.read(text, str(path))
    return Brought(tuple((f.program.name, print_program(f.program)) for f in found.functions), found.diagnostics)


IMPORTERS: Mapping[str, Importer] = {".py": _tvmscript}
"""The importer for each ending of a file's name."""
