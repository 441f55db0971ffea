"""`mslang tune`: search for the fastest schedule."""

from __future__ import annotations

import argparse
import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from mslang.cli.common import (
    UsageError,
    add_back_end,
    add_native,
    add_sizes,
    check_writable,
    likely,
    natural,
    note,
    positive,
    processes,
    read_text,
)
from mslang.cli.items import unknown_item
from mslang.cli.main import DONE, FINDINGS, INTERRUPTED, UNAVAILABLE
from mslang.cli.render import print_error
from mslang.cli.tune_plan import planned
from mslang.cli.tune_write import Chosen, Written, standing_in, write_all
from mslang.cli.views.choose import view_for
from mslang.cli.views.summary import overview, summary
from mslang.diagnostics import MsError, TargetError
from mslang.tune.budget import Budget, parse_seconds
from mslang.tune.log_folder import LogFolder
from mslang.tune.record import Outcome
from mslang.tune.scale import Scale, scale_of
from mslang.tune.task_scheduler import BUILT_IN

if TYPE_CHECKING:
    from mslang.tune.callbacks import Callback
    from mslang.tune.progress import Finished
    from mslang.tune.task_scheduler import TaskScheduler

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
        "--trials",
        type=positive,
        metavar="N",
        help=f"candidates to try, of all programs together (default {TRIALS} each)",
    )
    parser.add_argument("--budget", type=_seconds, metavar="TIME", help="wall time in all, e.g. 60s, 5m, 1h")
    parser.add_argument("--patience", type=positive, metavar="N", help="stop after N trials without a better one")
    parser.add_argument("--seed", type=natural, default=0, metavar="N", help="the same seed draws the same candidates")
    parser.add_argument(
        "--rules",
        metavar="SET",
        help="tune programs by this set of rules: quick, avx2, … (default: spaces in the file, else by the target)",
    )
    parser.add_argument("--strategy", default=STRATEGY, metavar="NAME", help=f"how to search (default {STRATEGY})")
    parser.add_argument(
        "--cost-model",
        metavar="NAME|FILE.json",
        help="what ranks candidates, or a saved model to begin with (default: XGBoost if installed)",
    )
    parser.add_argument(
        "--features", metavar="NAME", help="what the cost model learns from, of an allowed package (default: per-store)"
    )
    parser.add_argument(
        "--cache",
        choices=("warm", "cold"),
        help="time with the caches as the run before left them, or emptied (default: warm; on a GPU cold)",
    )
    parser.add_argument(
        "--weight",
        dest="weights",
        type=_weight,
        action="append",
        default=[],
        metavar="NAME=W",
        help="how much a second of a program counts, e.g. how often it is called; repeatable (default 1)",
    )
    parser.add_argument(
        "--task-scheduler",
        default=SCHEDULER,
        metavar="NAME",
        help=f"what shares the trials among programs: {', '.join(BUILT_IN)}, or an extension's (default {SCHEDULER})",
    )
    parser.add_argument(
        "--likely",
        type=likely,
        action="append",
        default=[],
        metavar="M=128[:W]",
        help="a size known only at the call that calls are likely to have, and its weight relative to others; "
        "repeatable "
        "(default: the smallest, a middle and the largest of each bucket)",
    )
    parser.add_argument("--builder", default="", metavar="NAME", help="what compiles candidates, of an allowed package")
    parser.add_argument("--runner", default="", metavar="NAME", help="what measures candidates, of an allowed package")
    parser.add_argument("--workers", type=processes, metavar="N", help="processes that compile")
    parser.add_argument(
        "--db",
        type=Path,
        metavar="STORE",
        help="the record store: a file, or KIND:… of an allowed package (default: .mslang/records.db next to the file)",
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
    parser.add_argument("--quiet", action="store_true", help="no progress; diagnostics and the summary only")
    parser.add_argument("--profile", action="store_true", help="show where the time went")
    parser.add_argument(
        "--log", type=Path, metavar="DIR", help="keep a log of each search there (default: logs next to the store)"
    )
    parser.add_argument("--no-log", action="store_true", help="keep no log")
    parser.add_argument(
        "--log-level",
        type=str.upper,
        choices=("DEBUG", "INFO", "WARNING", "ERROR"),
        metavar="LEVEL",
        help="print messages of Python's logging from this level on: debug, info, warning, error",
    )
    add_sizes(parser)
    add_native(parser)
    add_back_end(parser)


STRATEGY = "auto"
"""The default strategy."""

TRIALS = 64
"""The default number of candidates to try of each program."""

SCHEDULER = "gradient"
"""The default task scheduler."""


def run(args: argparse.Namespace) -> int:
    """Tune all that is named in one session; all arguments are checked before the first search."""
    from mslang.backend.registry import runnable_target
    from mslang.search.features.registry import extractor_named
    from mslang.search.models.registry import model_named
    from mslang.search.registry import strategy_named
    from mslang.target.named import named_target
    from mslang.tune.duplicates import grouped, names_of
    from mslang.tune.task_scheduler import scheduler_named
    from mslang.tune.write_back import replaceable

    target = named_target(args.target or "host") if args.backend else runnable_target(args.target)
    strategy_named(args.strategy)
    model_named(args.cost_model)
    extractor_named(args.features)
    _check_used(args)
    scheduler = scheduler_named(args.task_scheduler)
    tasks = planned(args, target)
    if args.write:
        for path in {named.task.file for named in tasks}:
            check_writable(Path(path))
        for named in tasks:
            replaceable(named.task.file, read_text(Path(named.task.file)), named.best, named.program)
    groups = grouped(tasks)
    names = names_of([group.first for group in groups])
    chosen = [
        Chosen(name, group, standing_in(group, args.sizes) if args.write else ()) for name, group in zip(names, groups)
    ]
    _check_weights(args.weights, chosen)
    return _tune(args, chosen, scheduler)


def _check_used(args: argparse.Namespace) -> None:
    """Refuse a cost model, or features, of which the strategy would make no use."""
    from mslang.search.registry import unused
    from mslang.search.strategy import MODELS

    for option, value in (("--cost-model", args.cost_model), ("--features", args.features)):
        found = None if value is None else unused(args.strategy, MODELS)
        if found is not None:
            raise UsageError(f"`{option} {value}` has no effect: {found.why}", found.help)


def _check_weights(weights: list[tuple[str, float]], chosen: list[Chosen]) -> None:
    known = {name for c in chosen for name in (c.name, *(m.program for m in c.members))}
    for name, _ in weights:
        if name not in known:
            raise unknown_item("program", name, sorted(known), "--weight")


def _tune(args: argparse.Namespace, chosen: list[Chosen], scheduler: TaskScheduler) -> int:
    """Tune, write, and sum up."""
    from mslang.cli.views.messages import messages
    from mslang.profiling import profile
    from mslang.tune.callbacks import extensions_called
    from mslang.tune.stores import names_kind
    from mslang.tune.task import Settings
    from mslang.tune.tune import tune_all

    scales = {c.name: scale_of(c.group.first.task.program, c.group.first.task.target) for c in chosen}
    beside = Path(chosen[0].group.first.task.file).parent / ".mslang"
    database = args.db or beside / "records.db"
    trials = args.trials or TRIALS * len(chosen)
    budget = Budget(trials, args.budget, args.patience)
    settings = Settings(args.seed, budget, strategy=args.strategy, cost_model=args.cost_model, features=args.features)
    if args.cache is not None:
        settings = msgspec.structs.replace(settings, limits=msgspec.structs.replace(settings.limits, cache=args.cache))
    callbacks: list[tuple[str, Callback]] = [*extensions_called()]
    if not args.no_log:
        logs = (beside if names_kind(database) else database.parent) / "logs"
        callbacks.append(("log folder", LogFolder(args.log or logs)))
    with profile() as spent, view_for(scales, as_json=args.json, quiet=args.quiet) as view, messages(args.log_level):
        found = tune_all(
            [c.item(dict(args.weights)) for c in chosen],
            settings,
            database=database,
            scheduler=scheduler,
            workers=args.workers,
            resume=args.resume,
            started=args.started,
            listen=view,
            callbacks=callbacks,
        )
    statuses: list[int] = []
    tuned: list[tuple[Chosen, Finished]] = []
    for one, done in zip(chosen, found):
        if isinstance(done, MsError):
            # The view has shown it.
            statuses.append(UNAVAILABLE if isinstance(done, TargetError) else FINDINGS)
        else:
            tuned.append((one, done))
            statuses.append(_status(args, done))
    written = write_all(args, tuned, scales) if args.write else Written()
    if not args.json:
        _sum_up(args, tuned, scales, database, written.places)
        if args.profile:
            print(f"\n{spent}")
    for why in written.left:
        note(why)
    for fault in written.faults:
        print_error(fault, args.json)
    return max([*statuses, *(FINDINGS for _ in written.faults)], default=DONE)


def _sum_up(
    args: argparse.Namespace,
    tuned: list[tuple[Chosen, Finished]],
    scales: Mapping[str, Scale],
    database: Path,
    places: Mapping[str, Sequence[str]],
) -> None:
    """Print the summary: of one task in full, of several as a table."""
    match tuned:
        case []:
            return
        case [(one, done)]:
            print(summary(done, scales[one.name], str(database), places.get(one.name, ())))
        case _:
            print(overview([(one.name, done, scales[one.name]) for one, done in tuned]))
            print(f"\nrecords   {database}")
            for place in dict.fromkeys(place for found in places.values() for place in found):
                print(f"schedule  {place}")
    if any(done.interrupted for _, done in tuned):
        note(f"go on with: {_resuming(args)}")


def _resuming(args: argparse.Namespace) -> str:
    """The command that resumes an interrupted session; seed, strategy, model and features are those of its runs."""
    words = ["mslang", "tune", *args.files, "--resume"]
    for option, value in (
        ("--db", args.db),
        ("--target", args.target),
        ("--trials", args.trials),
        ("--budget", None if args.budget is None else f"{args.budget:.12g}s"),
        ("--patience", args.patience),
        ("--rules", args.rules),
        ("--cache", args.cache),
        ("--builder", args.builder or None),
        ("--runner", args.runner or None),
        ("--workers", args.workers),
        ("--task-scheduler", args.task_scheduler if args.task_scheduler != SCHEDULER else None),
        ("--log", args.log),
    ):
        words += [] if value is None else [option, str(value)]
    for name, size in args.sizes:
        words += ["--set", f"{name}={size}"]
    for each in args.likely:
        sizes = ",".join(f"{name}={size}" for name, size in each.sizes.items())
        words += ["--likely", f"{sizes}:{each.weight}"]
    for name, weight in args.weights:
        words += ["--weight", f"{name}={weight:.12g}"]
    for package in args.extension:
        words += ["--extension", package]
    words += ["--write"] if args.write else []
    words += ["--strict"] if args.strict else []
    words += ["--no-log"] if args.no_log else []
    words += ["--allow-native"] if args.allow_native else []
    words += ["--backend", args.backend] if args.backend else []
    return shlex.join(words)


def _status(args: argparse.Namespace, done: Finished) -> int:
    if done.interrupted:
        return INTERRUPTED
    bad = args.strict and any(done.tally.outcomes[o] for o in FAULTS)
    return FINDINGS if bad or done.best is None else DONE


def _seconds(text: str) -> float:
    try:
        return parse_seconds(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"'{text}' is not a time such as 90, 60s, 5m or 1h") from None


def _weight(text: str) -> tuple[str, float]:
    name, _, value = text.rpartition("=")
    try:
        weight = float(value)
    except ValueError:
        weight = -1.0
    if not name or not 0 < weight < float("inf"):
        raise argparse.ArgumentTypeError(f"'{text}' is not NAME=WEIGHT, a weight being a positive number")
    return name, weight
