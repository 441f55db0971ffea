"""`mslang expand`: a program in its long form, with everything that is inferred in the short form."""

from __future__ import annotations

import argparse

from mslang.cli.common import add_sizes, emit, split_item
from mslang.cli.items import load_clean, program_of
from mslang.cli.main import DONE


def arguments(parser: argparse.ArgumentParser) -> None:
    """Which program, and its sizes."""
    parser.add_argument("item", metavar="FILE:PROGRAM", help="a program of a file (FILE alone: its only one)")
    add_sizes(parser)


def run(args: argparse.Namespace) -> int:
    """Print it."""
    from mslang.ir.print import print_program

    path, name = split_item(args.item)
    program = program_of(load_clean(path, name), name, dict(args.sizes))
    text = print_program(program)
    emit({"kind": "program", "name": program.name, "text": text}) if args.json else print(text)
    return DONE
