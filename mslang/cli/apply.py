"""`mslang apply`: a file with the best schedules that are known for its programs; nothing is measured."""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec
from msgspec.structs import replace

from mslang.cli.applying import applied, passes_arguments
from mslang.cli.common import UsageError, add_sizes, emit, note, read_text, split_item
from mslang.cli.items import load_clean, program_of, size_names, sizes_for
from mslang.cli.main import DONE, FINDINGS
from mslang.cli.source_files import write_source
from mslang.diagnostics import MsError
from mslang.target.named import named_target

if TYPE_CHECKING:
    from mslang.apply.passes import Applied
    from mslang.sema.module import Module

LIBRARIES = ("std.cpu", "std.cuda")
"""The modules of the library that have targets."""


def arguments(parser: argparse.ArgumentParser) -> None:
    """The options of `mslang apply`."""
    parser.add_argument("item", metavar="FILE[:PROGRAM]", help="a file, or one program of it")
    parser.add_argument(
        "--passes",
        default="db,dispatch,default",
        metavar="PASSES",
        help="what is asked for a schedule, in this order: db (records), dispatch (patterns), default "
        "(default: these), library (functions of other libraries), library:NAME (one of them)",
    )
    parser.add_argument(
        "--target", metavar="T", default="host", help="what will run the programs (default: this machine)"
    )
    parser.add_argument(
        "--db", metavar="STORE", help="the records: a file, or KIND:… (default: .mslang/records.db next to the file)"
    )
    passes_arguments(parser)
    add_sizes(parser)
    parser.add_argument("--explain", action="store_true", help="which pass serves each program, and why others do not")
    parser.add_argument("--write", action="store_true", help="put the schedules into the file, as PROGRAM_best")


class _Schedule(msgspec.Struct, frozen=True):
    """A schedule to put into the file: its name, its program, its text and the comment above it."""

    name: str
    program: str
    text: str
    doc: str


def run(args: argparse.Namespace) -> int:
    """Print the file with its schedules, the explanation, or write the file."""
    path, name = split_item(args.item)
    module = load_clean(path, name)
    names = list(module.programs) if name is None else [name]
    if not names:
        raise UsageError(f"{path} has no program")
    known = {size for n in names for size in size_names(module, n)}
    for size, _ in args.sizes:
        if size not in known:
            raise UsageError(f"--set: no program of {path} has a size `{size}`")
    given = {n: sizes_for(module, n, args.sizes) for n in names}
    programs = [program_of(module, n, given[n]) for n in names]
    found = applied(args, args.passes, module, path, programs, named_target(args.target))
    made = [_schedule(each, module, args.target, given[each.source.name]) for each in found]
    for each, schedule in zip(found, made, strict=True):
        _report(args, each, schedule)
    schedules = [s for s in made if s is not None]
    if args.write:
        _write(path, schedules)
    elif not args.json and not args.explain:
        print(_with(path, read_text(path), schedules), end="")
    return DONE if all(each.served is not None for each in found) else FINDINGS


def _report(args: argparse.Namespace, each: Applied, schedule: _Schedule | None) -> None:
    """Print what came of a program, in the form that is asked for."""
    if args.json:
        emit(
            {
                "kind": "applied",
                "program": each.source.name,
                "by": each.by,
                "how": None if each.served is None else each.served.how,
                "backend": None if each.backend is None else each.backend.name,
                "missed": [{"pass": p, "why": why} for p, why in each.missed],
                "schedule": None if schedule is None else schedule.text,
            }
        )
    elif args.explain:
        print(each.explanation())
    elif schedule is None:
        note(each.explanation())


def _schedule(each: Applied, module: Module, target: str, sizes: Mapping[str, int]) -> _Schedule | None:
    """The schedule of a program; None if no pass served it, or not by a trace."""
    trace = None if each.served is None else each.served.trace
    if trace is None:
        return None
    name = f"{each.source.name}_best"
    on = None if trace.target is None else _target_name(module, trace.target, target)
    set_sizes = "".join(f", {size} = {value}" for size, value in sizes.items())
    doc = f"By `mslang apply` for {target}{set_sizes}, from {each.headline}."
    return _Schedule(name, each.source.name, replace(trace, target=on).as_ms(name), doc)


def _target_name(module: Module, *names: str) -> str | None:
    """The first of a target's names that the file can use, in full if only the library has it; None: there is none.

    A pattern or a record is of another file, whose `use` brought its target in.
    """
    from mslang.sema.modules import load

    for name in names:
        if _is_target(module, name):
            return name
        for library in LIBRARIES:
            if name.isidentifier() and _is_target(load("target.ms", f"use {library}.{{{name}}}"), name):
                return f"{library}.{name}"
    return None


def _is_target(module: Module, name: str) -> bool:
    from mslang.sema.targets import describe

    try:
        describe(module, name)
    except MsError:
        return False
    return True


def _with(path: Path, text: str, schedules: Iterable[_Schedule]) -> str:
    """The file's text with the schedules in their places."""
    from mslang.tune.write_back import with_schedule

    for s in schedules:
        text = with_schedule(str(path), text, s.name, s.program, s.text, s.doc)
    return text


def _write(path: Path, schedules: list[_Schedule]) -> None:
    """Write the schedules into the file, and note which are new and which replace one."""
    from mslang.tune.write_back import replaceable

    before = read_text(path)
    replaced = {s.name for s in schedules if replaceable(str(path), before, s.name, s.program) is not None}
    write_source(path, before, _with(path, before, schedules), replaced=[s.name for s in schedules])
    for s in schedules:
        note(f"{path}:{s.name} is {'replaced' if s.name in replaced else 'written'}")
