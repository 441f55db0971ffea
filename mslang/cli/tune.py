"""`mslang tune`: search for the fastest schedule."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from mslang.cli.common import add_sizes, note, read_text, seconds_text, split_item, write_text
from mslang.cli.items import load_clean, unknown_item
from mslang.cli.main import DONE, FINDINGS, INTERRUPTED
from mslang.cli.tune_view import summary, view_for
from mslang.diagnostics import TargetError, problem
from mslang.tune.budget import Budget, parse_seconds
from mslang.tune.record import Outcome
from mslang.tune.scale import Scale
from mslang.tune.tasks import Named, tasks_of
from mslang.tune.write_back import with_schedule

if TYPE_CHECKING:
    from mslang.sema.module import Module
    from mslang.target.description import Target
    from mslang.tune.progress import Finished


def arguments(parser: argparse.ArgumentParser) -> None:
    """What to tune, and for how long."""
    parser.add_argument("files", nargs="+", metavar="FILE[:NAME]",
                        help="files to tune every program of, or a program, space or schedule of a file")
    parser.add_argument("--target", metavar="T", help="the machine to tune for (default: this one)")
    parser.add_argument("--trials", type=_positive, default=64, metavar="N", help="candidates to try (default 64)")
    parser.add_argument("--budget", type=_seconds, metavar="TIME", help="wall time, e.g. 60s, 5m, 1h")
    parser.add_argument("--patience", type=_positive, metavar="N", help="stop after N trials without a better one")
    parser.add_argument("--seed", type=int, default=0, metavar="N", help="the same seed draws the same candidates")
    parser.add_argument("--workers", type=_positive, metavar="N", help="processes that compile")
    parser.add_argument("--db", type=Path, metavar="FILE", help="the record store (default: .mslang/records.db beside the file)")
    parser.add_argument("--resume", action="store_true", help="go on with the last run of this program and space")
    parser.add_argument("--write", action="store_true", help="put the best schedule found back into the file")
    parser.add_argument("--strict", action="store_true", help="exit 1 if any candidate was wrong, crashed or hung")
    add_sizes(parser)


def run(args: argparse.Namespace) -> int:
    """Tune each program in turn."""
    from mslang.target.detect import host

    outcomes: list[Finished] = []
    target = _target(args.target) if args.target else host()
    for text in args.files:
        path, name = split_item(text)
        module = load_clean(path)
        if name is not None and name not in (*module.programs, *module.spaces, *module.schedules):
            raise unknown_item("program, space or schedule", name, (*module.programs, *module.spaces, *module.schedules),
                               module.path)
        for named in tasks_of(module, name, _sizes(module, name, dict(args.sizes)), target):
            done = _tune(args, path, named)
            outcomes.append(done)
            if done.interrupted:
                return INTERRUPTED
    bad = (Outcome.WRONG_RESULT, Outcome.CRASH, Outcome.TIME_OUT)
    if any(d.best is None for d in outcomes):
        return FINDINGS
    return FINDINGS if args.strict and any(d.tally.outcomes[o] for d in outcomes for o in bad) else DONE


def _tune(args: argparse.Namespace, path: Path, named: Named) -> Finished:
    from mslang.ir.work import operations
    from mslang.target.limits import measured_limits
    from mslang.tune.search import Settings
    from mslang.tune.tune import tune

    peak = measured_limits(named.task.target).peak
    scale = Scale(operations(named.task.program), peak)
    database = args.db or path.parent / ".mslang" / "records.db"
    budget = Budget(args.trials, args.budget, args.patience)
    done = tune(named.task, Settings(args.seed, budget, name=named.best), database=database, workers=args.workers,
                resume=args.resume, small=named.small, listen=view_for(args.json, scale))
    pinned = _write(path, named, done, scale) if args.write and done.best is not None else None
    if not args.json:
        print(summary(done, scale, str(database), pinned))
        if done.interrupted:
            note(f"go on with: mslang tune {path}:{named.space} --resume")
    return done


def _write(path: Path, named: Named, done: Finished, scale: Scale) -> str:
    """Put the best schedule into the file; returns where it stands."""
    assert done.best is not None and done.best.seconds is not None
    doc = (f"Found by `mslang tune`: {seconds_text(done.best.seconds)}, {scale.rate(done.best.seconds)}\n"
           f"on {done.best.device}; record {done.best.id}.")
    write_text(path, with_schedule(str(path), read_text(path), named.best, done.best.schedule, doc))
    return f"{path}:{named.best}"


def _sizes(module: Module, name: str | None, sizes: dict[str, int]) -> dict[str, int]:
    """The sizes given, each of which a program to be tuned must have."""
    programs = [p for n, p in module.programs.items() if name not in module.programs or n == name]
    known = {s.name.text for p in programs for s in p.sizes}
    for size in sizes:
        if size not in known:
            raise unknown_item("size", size, sorted(known), module.path)
    return sizes


def _target(name: str) -> Target:
    from mslang.target.description import TARGETS
    from mslang.target.detect import host

    if name == "host":
        return host()
    if name not in TARGETS:
        raise unknown_item("target", name, ("host", *TARGETS), "mslang")
    target = TARGETS[name]
    if target.kind != "cpu" or not set(target.features) <= set(host().features):
        raise TargetError(problem("MS403", f"this machine cannot run code for {name}",
                                  help="leave out --target to tune for this machine"))
    return target


def _positive(text: str) -> int:
    value = int(text)
    if value <= 0:
        raise argparse.ArgumentTypeError(f"{text} is not positive")
    return value


def _seconds(text: str) -> float:
    try:
        return parse_seconds(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"'{text}' is no time: 90, 60s, 5m, 1h") from None
