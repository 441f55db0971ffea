"""`mslang apply`: a file with the best schedules that are known for its programs; nothing is measured."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from mslang.cli.applying import applied, passes_arguments
from mslang.cli.common import UsageError, add_sizes, emit, note, read_text, split_item, write_text
from mslang.cli.items import load_clean, program_of
from mslang.cli.main import DONE, FINDINGS
from mslang.target.named import named_target

if TYPE_CHECKING:
    from mslang.apply.passes import Applied


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


def run(args: argparse.Namespace) -> int:
    """Print the file with its schedules, the explanation, or write the file."""
    from mslang.tune.write_back import with_schedule

    path, name = split_item(args.item)
    module = load_clean(path, name)
    names = list(module.programs) if name is None else [name]
    if not names:
        raise UsageError(f"{path} has no program")
    sizes = {n: {s.name.text for s in p.sizes} for n, p in module.programs.items()}
    for size, _ in args.sizes:
        if not any(size in sizes.get(n, ()) for n in names):
            raise UsageError(f"--set: no program of {path} has a size `{size}`")
    programs = [program_of(module, n, {s: v for s, v in args.sizes if s in sizes.get(n, ())}) for n in names]
    found = applied(args, args.passes, module, path, programs, named_target(args.target))
    text = read_text(path)
    for each in found:
        schedule = _schedule(each)
        if schedule is not None:
            doc = f"By `mslang apply` for {args.target}, from {each.headline}."
            program = each.source.name
            text = with_schedule(str(path), text, f"{program}_best", program, schedule, doc)
        if args.json:
            emit(
                {
                    "kind": "applied",
                    "program": each.source.name,
                    "by": each.by,
                    "how": None if each.served is None else each.served.how,
                    "backend": None if each.backend is None else each.backend.name,
                    "missed": [{"pass": p, "why": why} for p, why in each.missed],
                    "schedule": schedule,
                }
            )
        elif args.explain:
            print(each.explanation())
        elif schedule is None:
            note(each.explanation())
    if args.write:
        write_text(path, text)
    elif not args.json and not args.explain:
        print(text, end="")
    return DONE if all(each.served is not None for each in found) else FINDINGS


def _schedule(each: Applied) -> str | None:
    """The text of a program's schedule; None if no pass served it, or not by a trace."""
    trace = None if each.served is None else each.served.trace
    return None if trace is None else trace.as_ms(f"{each.source.name}_best")
