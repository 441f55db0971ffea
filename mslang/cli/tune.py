"""`mslang tune`: search for the fastest schedule."""

from __future__ import annotations

import argparse
import shlex
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from mslang.cli.candidates import warn
from mslang.cli.common import (
    add_back_end,
    add_native,
    add_sizes,
    check_writable,
    natural,
    note,
    positive,
    read_text,
    seconds_text,
    split_item,
)
from mslang.cli.items import load_clean, unknown_item
from mslang.cli.main import DONE, FINDINGS, INTERRUPTED, UNAVAILABLE
from mslang.cli.render import print_error
from mslang.cli.source_files import write_source
from mslang.cli.views.choose import view_for
from mslang.cli.views.summary import summary
from mslang.diagnostics import MsError, RequireFailed, ScheduleError, TargetError
from mslang.schedule.interpret import World
from mslang.schedule.space import Candidate, NoCandidate
from mslang.schedule.strategies import space_of
from mslang.tune.budget import Budget, parse_seconds
from mslang.tune.record import Outcome
from mslang.tune.scale import Scale, scale_of
from mslang.tune.tasks import Named, tasks_of
from mslang.tune.write_back import with_schedule

if TYPE_CHECKING:
    from mslang.sema.module import Module
    from mslang.target.description import Target
    from mslang.tune.progress import Finished

FAULTS = (Outcome.WRONG_RESULT, Outcome.CRASH, Outcome.TIME_OUT, Outcome.IMPLAUSIBLE)
"""Outcomes that count as failures with `--strict`."""


def arguments(parser: argparse.ArgumentParser) -> None:
    """The options of `mslang tune`."""
    parser.add_argument(
        "files",
        nargs="+",
        metavar="FILE[:NAME]",
        help="files to tune every program of, or a program, space or schedule of a file",
    )
    parser.add_argument("--target", metavar="T", help="the machine to tune for (default: this one)")
    parser.add_argument(
        "--trials", type=positive, default=TRIALS, metavar="N", help=f"candidates to try (default {TRIALS})"
    )
    parser.add_argument("--budget", type=_seconds, metavar="TIME", help="wall time in all, e.g. 60s, 5m, 1h")
    parser.add_argument("--patience", type=positive, metavar="N", help="stop after N trials without a better one")
    parser.add_argument("--seed", type=natural, default=0, metavar="N", help="the same seed draws the same candidates")
    parser.add_argument("--strategy", default=STRATEGY, metavar="NAME", help=f"how to search (default {STRATEGY})")
    parser.add_argument(
        "--cache",
        choices=("warm", "cold"),
        help="time with the caches as the run before left them, or emptied (default: warm; on a GPU cold)",
    )
    parser.add_argument("--workers", type=positive, metavar="N", help="processes that compile")
    parser.add_argument(
        "--db", type=Path, metavar="FILE", help="the record store (default: .mslang/records.db beside the file)"
    )
    parser.add_argument(
        "--resume", action="store_true", help="continue the last run of this program and space on this machine"
    )
    parser.add_argument(
        "--write", action="store_true", help="write the best schedule into the file, unless the one there is as fast"
    )
    parser.add_argument(
        "--strict",
        action="store_true",
        help="exit 1 if a pin is stale, or if a candidate was wrong, crashed, hung, or was faster than the machine",
    )
    add_sizes(parser)
    add_native(parser)
    add_back_end(parser)


STRATEGY = "auto"
"""The default strategy."""

TRIALS = 64
"""The default number of candidates to try."""

STALE = "MS254"
"""The code of an invalid pin."""


def run(args: argparse.Namespace) -> int:
    """Tune each program in turn; all arguments are checked before the first search."""
    from mslang.backend.registry import runnable_target
    from mslang.search.registry import strategy_named
    from mslang.target.named import named_target

    # The budget of the first search began with the command.
    started: float | None = args.started
    target = named_target(args.target or "host") if args.backend else runnable_target(args.target)
    strategy_named(args.strategy)
    planned = [(path, named) for text in args.files for path, named in _planned(text, args, target)]
    if args.write:
        for path in {path for path, _ in planned}:
            check_writable(path)
    statuses: list[int] = []
    written: set[tuple[Path, str]] = set()
    for path, named in planned:
        try:
            statuses.append(_tune(args, path, named, written, started))
        except MsError as error:
            # An error in one program does not keep the others from being tuned.
            print_error(error, args.json)
            statuses.append(UNAVAILABLE if isinstance(error, TargetError) else FINDINGS)
        started = None
        if statuses[-1] == INTERRUPTED:
            break
    return max(statuses, default=DONE)


def _planned(text: str, args: argparse.Namespace, target: Target) -> list[tuple[Path, Named]]:
    """The searches of one argument."""
    path, name = split_item(text)
    module = load_clean(path, name)
    known = (*module.programs, *module.spaces, *module.schedules)
    if name is not None and name not in known:
        raise unknown_item("program, space or schedule", name, known, module.path)
    tasks = list(tasks_of(module, name, _sizes(module, name, dict(args.sizes)), target, args.backend))
    for program in module.programs:
        if name is None and all(program != t.program for t in tasks):
            note(f"passing over {program}: there is no schedule or space for it in {path}")
    for task in tasks:
        _look_at_pins(task, args.seed, args.strict)
    return [(path, task) for task in tasks]


def _look_at_pins(named: Named, seed: int, strict: bool) -> None:
    """Print warnings about stale pins in the space; with `strict`, raise them."""
    try:
        warn(named.task.space.sample(seed, strict=strict))
    except (NoCandidate, RequireFailed):
        # The search itself reports why no draw is valid.
        return
    except ScheduleError as error:
        if strict and error.diagnostic.code == STALE:
            raise


def _tune(
    args: argparse.Namespace, path: Path, named: Named, written: set[tuple[Path, str]], started: float | None
) -> int:
    from mslang.tune.task import Settings
    from mslang.tune.tune import tune

    scale = scale_of(named.task.program, named.task.target)
    database = args.db or path.parent / ".mslang" / "records.db"
    settings = Settings(
        args.seed, Budget(args.trials, args.budget, args.patience), name=named.best, strategy=args.strategy
    )
    if args.cache is not None:
        settings = msgspec.structs.replace(settings, limits=msgspec.structs.replace(settings.limits, cache=args.cache))
    incumbent = _incumbent(path, named, dict(args.sizes)) if args.write else None
    with view_for({named.task.program.name: scale}, as_json=args.json) as view:
        done = tune(
            msgspec.structs.replace(named.task, allow_native=args.allow_native),
            settings,
            database=database,
            workers=args.workers,
            resume=args.resume,
            small=named.small,
            incumbent=incumbent,
            started=started,
            listen=view,
        )
    fault: MsError | None = None
    pinned = None
    try:
        pinned = _write(args, path, named, done, scale, incumbent, written) if args.write else None
    except MsError as error:
        fault = error
    if not args.json:
        print(summary(done, scale, str(database), pinned))
        if done.interrupted:
            note(f"go on with: {_resuming(args, path, named)}")
    if fault is not None:
        raise fault
    return _status(args, done)


def _resuming(args: argparse.Namespace, path: Path, named: Named) -> str:
    """The command that resumes an interrupted search."""
    words = ["mslang", "tune", f"{path}:{named.space}", "--resume"]
    for option, value in (
        ("--db", args.db),
        ("--target", args.target),
        ("--trials", args.trials if args.trials != TRIALS else None),
        ("--budget", None if args.budget is None else f"{args.budget:g}s"),
        ("--patience", args.patience),
        ("--cache", args.cache),
        ("--workers", args.workers),
        ("--strategy", args.strategy if args.strategy != STRATEGY else None),
    ):
        words += [] if value is None else [option, str(value)]
    for name, size in args.sizes:
        words += ["--set", f"{name}={size}"]
    words += ["--write"] if args.write else []
    words += ["--allow-native"] if args.allow_native else []
    words += ["--backend", args.backend] if args.backend else []
    return shlex.join(words)


def _incumbent(path: Path, named: Named, sizes: dict[str, int]) -> Candidate | None:
    """The candidate of the schedule that `--write` would replace; None if there is none or it is no longer valid."""
    try:
        module = load_clean(path, named.best)
        if named.best not in module.schedules or named.best == named.space:
            return None
        space = space_of(module, named.best, world=World(machine=named.task.target), sizes=sizes)
        candidate = space.sample(0, strict=True)
    except MsError:
        return None
    return candidate if space.program == named.task.program else None


def _status(args: argparse.Namespace, done: Finished) -> int:
    if done.interrupted:
        return INTERRUPTED
    bad = args.strict and any(done.tally.outcomes[o] for o in FAULTS)
    return FINDINGS if bad or done.best is None else DONE


def _write(
    args: argparse.Namespace,
    path: Path,
    named: Named,
    done: Finished,
    scale: Scale,
    incumbent: Candidate | None,
    written: set[tuple[Path, str]],
) -> str | None:
    """Write the best schedule into the file, unless the present one measured equally fast.

    Returns the place of the best schedule, or None if no schedule of this search was verified on all inputs.
    """
    from mslang.ir.equal import structural_hash

    key = path, named.best
    best = done.best
    if best is None or best.result.timing is None or not done.confirmed:
        return f"{path}:{named.best}" if key in written else None
    if incumbent is not None:
        standing = structural_hash(incumbent.program)
        if standing in (best.candidate, *(r.candidate for r in done.ties)):
            return f"{path}:{named.best} is kept: no faster one was found"
    sizes = "".join(f", {name} = {size}" for name, size in args.sizes)
    found = ", ".join(filter(None, (seconds_text(best.result.timing.median), scale.rate(best.result.timing))))
    doc = f"Found by `mslang tune`: {found}{sizes}\non {best.device}; record {best.id}."
    before = read_text(path)
    after = with_schedule(str(path), before, named.best, best.schedule, doc)
    write_source(path, before, after, replaced=(named.best,))
    written.add(key)
    return f"{path}:{named.best}"


def _sizes(module: Module, name: str | None, sizes: dict[str, int]) -> dict[str, int]:
    """The given sizes; each must be a size of a program to tune."""
    programs = [p for n, p in module.programs.items() if name not in module.programs or n == name]
    known = {s.name.text for p in programs for s in p.sizes}
    for size in sizes:
        if size not in known:
            raise unknown_item("size", size, sorted(known), module.path)
    return sizes


def _seconds(text: str) -> float:
    try:
        return parse_seconds(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"'{text}' is not a time such as 90, 60s, 5m or 1h") from None
