"""`mslang import`: converts programs of other tools to `.ms` text."""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Callable, Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from mslang.cli.common import (
    UsageError,
    add_sizes,
    check_writable,
    emit,
    note,
    read_text,
    resolved,
    split_item,
    write_text,
)
from mslang.cli.main import DONE, FINDINGS
from mslang.diagnostics import Diagnostic, MsError, Severity, bounded_depth, problem

if TYPE_CHECKING:
    from mslang.ir.intrin import Intrin
    from mslang.ir.program import Program


class Brought(msgspec.Struct, frozen=True):
    """The result of an importer: the `.ms` text of each item it could read, and diagnostics."""

    items: tuple[tuple[str, str], ...]
    """Name and text."""
    diagnostics: tuple[Diagnostic, ...] = ()
    uses: str = ""
    """The `use` lines that a file of the items needs."""


Importer = Callable[[Path, str, argparse.Namespace], Brought]
"""From a file's path, its text and the command line."""


def arguments(parser: argparse.ArgumentParser) -> None:
    """The file, and the destination of the text."""
    parser.add_argument("file", metavar="FILE", help=f"a file that ends with {', '.join(IMPORTERS)}")
    parser.add_argument(
        "--for", dest="subject", metavar="FILE:PROGRAM", help="the program that a bare trace of TVM's is for"
    )
    parser.add_argument(
        "--use",
        type=Path,
        action="append",
        default=[],
        metavar="FILE",
        help="a `.ms` file with intrinsics of your own that a trace names, besides the file of --for",
    )
    add_sizes(parser)
    parser.add_argument("-o", "--output", metavar="OUT.ms", help="write there (default: standard output)")
    parser.add_argument("--force", action="store_true", help="with -o: replace a file that exists")


def run(args: argparse.Namespace) -> int:
    """Print or write the items; exit 1 if part of the file could not be read. Warnings do not count as failures."""
    from mslang.cli.render import print_diagnostics
    from mslang.rendering import Texts

    path = Path(args.file)
    importer = IMPORTERS.get(path.suffix)
    if importer is None:
        raise UsageError(f"no way to import {path}", help=f"its name must end with {', '.join(IMPORTERS)}")
    if args.output is not None:
        subjects = [split_item(args.subject)[0]] if args.subject else []
        _check_output(Path(args.output), args.force, path, *subjects, *args.use)
    text = read_text(path)
    target = _target(args)
    with bounded_depth(path):
        brought = importer(path, text, args)
        whole = _joined((("use", brought.uses), *brought.items))
        found = (*brought.diagnostics, *_first_error(target, whole))
    print_diagnostics(
        found,
        "json" if args.json else "text",
        stream=sys.stdout if args.json else sys.stderr,
        texts=Texts({str(path): text, str(target): whole}),
    )
    if args.json:
        for name, item in brought.items:
            emit({"kind": "program", "name": name, "text": item})
    if args.output is not None and brought.items:
        write_text(target, whole)
        note(f"wrote {args.output}")
    elif not args.json and brought.items:
        print(whole, end="")
    return FINDINGS if any(d.severity is Severity.ERROR for d in found) else DONE


def _joined(items: tuple[tuple[str, str], ...]) -> str:
    return "\n".join(text for _, text in items if text)


def _target(args: argparse.Namespace) -> Path:
    """The file that the items are written to; of what is printed, one in the current folder."""
    return Path(f"{Path(args.file).name}.ms" if args.output is None else args.output)


def _first_error(target: Path, text: str) -> tuple[Diagnostic, ...]:
    """The first error that `mslang check` would report of a file: nothing is imported that is wrong here."""
    from mslang.ide.findings import findings
    from mslang.sema.modules import load

    errors = (d for d in findings(load(str(target), text)) if d.severity is Severity.ERROR)
    return tuple(islice(errors, 1))


def _check_output(output: Path, force: bool, *read: Path) -> None:
    """Refuse to overwrite an input file, and others unless they may be replaced."""
    if any(resolved(output) == resolved(p) for p in read):
        raise UsageError(f"{output} is an input file", help="name another file with -o")
    if output.is_file() and not force:
        raise MsError(
            problem(
                "MS702",
                f"{output} exists",
                why="it would be lost",
                help="name another file, or replace it with --force",
            )
        )
    check_writable(output)


def _tvmscript(path: Path, text: str, args: argparse.Namespace) -> Brought:
    from mslang.interop import tvmscript
    from mslang.interop.in_blocks import in_blocks
    from mslang.ir.print import print_program

    _require_unused(args, ("--for", "--use", "--set"), f"{path} has its own programs, with their sizes")
    found = tvmscript.read(text, str(path))
    items, bad = [], list(found.diagnostics)
    for program in (f.program for f in found.functions):
        try:
            items.append((program.name, print_program(in_blocks(program))))
        except MsError as error:
            bad += error.diagnostics
    return Brought(tuple(items), tuple(bad))


def _tvm_json(path: Path, text: str, args: argparse.Namespace) -> Brought:
    from mslang.interop.tvm.bring import bring

    sources = _intrinsics(args)
    found = bring(path, text, lambda: _program_named(args), {n: intrin for n, (_, intrin) in sources.items()})
    if found.subject is None:
        _require_unused(args, ("--set",), f"{path} has its own programs, with their sizes")
    needed: dict[Path, list[str]] = {}
    if found.subject is not None:
        needed[split_item(args.subject)[0]] = [found.subject]
    for name, (file, _) in sources.items():
        if any(re.search(rf"\b{re.escape(name)}\b", item) for _, item in found.items):
            needed.setdefault(file, []).append(name)
    return Brought(found.items, found.diagnostics, _uses(_target(args), needed))


def _require_unused(args: argparse.Namespace, options: Sequence[str], why: str) -> None:
    """Refuse options that would be ignored."""
    given = {"--for": args.subject is not None, "--use": bool(args.use), "--set": bool(args.sizes)}
    wrong = [option for option in options if given[option]]
    if wrong:
        raise UsageError(f"{' and '.join(wrong)} cannot be used here: {why}", "a bare trace of TVM's needs a program")


def _intrinsics(args: argparse.Namespace) -> dict[str, tuple[Path, Intrin]]:
    """The intrinsics of the files of `--for` and `--use`, by name, each with its file; the first of a name counts."""
    from mslang.cli.items import load_clean
    from mslang.sema.intrin import intrin_from
    from mslang.sema.module import Found
    from mslang.sema.modules import load

    files = [*([split_item(args.subject)[0]] if args.subject is not None else []), *args.use]
    found: dict[str, tuple[Path, Intrin]] = {}
    for file in files:
        # The program of `--for` is loaded with its findings elsewhere.
        module = load_clean(file, None) if file in args.use else load(str(file), read_text(file))
        for name in module.intrins:
            item = module.find(name)
            if isinstance(item, Found) and name not in found:
                found[name] = (file, intrin_from(item, name))
    return found


def _program_named(args: argparse.Namespace) -> Program | None:
    """The program of `--for FILE:PROGRAM`."""
    from mslang.cli.items import load_clean, program_of

    if args.subject is None:
        return None
    file, name = split_item(args.subject)
    return program_of(load_clean(file, name), name, dict(args.sizes))


def _uses(target: Path, needed: Mapping[Path, Sequence[str]]) -> str:
    """The `use` lines of a file that names items of others."""
    import os

    from mslang.syntax.literals import quote

    base = target.resolve().parent
    places = {f: f"./{os.path.relpath(f.resolve(), base)}" for f in needed}
    for file, place in places.items():
        if place.encode(errors="ignore").decode() != place:
            why = "a `use` names it, and the name is not UTF-8 text"
            raise MsError(problem("MS702", f"cannot import for {file}", why=why, help="rename the file"))
    return "".join(f"use {quote(places[f])}.{{{', '.join(names)}}}\n" for f, names in needed.items())


IMPORTERS: Mapping[str, Importer] = {".json": _tvm_json, ".py": _tvmscript}
"""The importer for each suffix of a file's name."""
