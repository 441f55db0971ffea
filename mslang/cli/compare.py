"""`mslang compare`: times several schedules of a program, or other code that computes the same, in turn."""

from __future__ import annotations

import argparse
import math
import sys
from collections.abc import Collection, Iterable, Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from mslang.backend.registry import compiling, require_runnable
from mslang.brevity import seconds_text
from mslang.cli.call_sizes import at_argument, require_all_sizes
from mslang.cli.candidates import Chosen, choose
from mslang.cli.common import (
    UsageError,
    add_back_end,
    add_native,
    add_sizes,
    emit,
    natural,
    note,
    positive,
    split_item,
)
from mslang.cli.items import require_known, size_names
from mslang.cli.main import DONE, FINDINGS
from mslang.cli.time_limits import seconds_alone, seconds_together
from mslang.diagnostics import MsError, TargetError, problem
from mslang.ir.buckets import at_sizes

if TYPE_CHECKING:
    from mslang.ir.program import Program
    from mslang.runtime.timing import Timing
    from mslang.target.description import Target
    from mslang.tune.comparison import Compared, Gap
    from mslang.tune.job import Built, Prepared
    from mslang.tune.scale import Scale
    from mslang.tune.workers import Workers

LIBRARIES = ("numpy", "torch")
"""What `--with` takes besides functions: libraries whose own call is made."""

SECONDS = 5.0
"""How long kernels are timed in turn at most, for each of them."""

MOST_SECONDS = 86_400
"""And how long they may be asked to be: a day."""

SPREAD = 0.002
"""Rounds end where all ratios are known to so much."""

MOST_ROUNDS = 400
"""Or after so many rounds."""


def arguments(parser: argparse.ArgumentParser) -> None:
    """The options of `mslang compare`."""
    parser.add_argument(
        "items",
        nargs="+",
        metavar="FILE:NAME",
        help="schedules, spaces (a candidate is drawn), or a program as it is; the others are compared with the first",
    )
    parser.add_argument(
        "--record", type=natural, action="append", default=[], metavar="ID", help="records of the first item's program"
    )
    parser.add_argument(
        "--db", type=Path, metavar="FILE", help="the record store (default: .mslang/records.db next to the file)"
    )
    parser.add_argument(
        "--with",
        dest="functions",
        action="append",
        default=[],
        metavar="FILE.py:FUNCTION",
        help="a Python function that computes the same, given the arrays by name; or `numpy` or `torch`, for a program "
        "of operations on whole arrays",
    )
    parser.add_argument("--seed", type=natural, metavar="N", help="open decisions are drawn from it (default 0)")
    parser.add_argument("--seconds", type=_seconds, default=SECONDS, metavar="N", help="how long to time each at most")
    parser.add_argument("--cache", choices=("warm", "cold"), default="warm", help="whether inputs are in the caches")
    add_sizes(parser)
    at_argument(parser, "call them with this value of a size that is known only at the call")
    add_native(parser)
    add_back_end(parser)


def _seconds(text: str) -> int:
    number = positive(text)
    if number > MOST_SECONDS:
        raise argparse.ArgumentTypeError(f"'{text}' is too long: at most {MOST_SECONDS} seconds, a day")
    return number


class Entrant(NamedTuple):
    """What is compared: a name, and what a worker loads."""

    name: str
    program: Program
    built: Built


def run(args: argparse.Namespace) -> int:
    """Build and verify each alone, then time all in turn in one process; verdicts are on the ratios round by round."""
    from mslang.target.detect import host
    from mslang.tune.job import PrepareJob
    from mslang.tune.scale import scale_of
    from mslang.tune.scratch import scratch_folder
    from mslang.tune.workers import Workers

    if args.db is not None and not args.record:
        raise UsageError("--db goes with --record", "its records are schedules of a program")
    chosen = _chosen(args, host())
    first = next(iter(chosen.values()))
    at = [] if args.at is None else [args.at]
    for c in chosen.values():
        require_all_sizes(c.space.program, at, dict(args.sizes))
    _require_one_program(chosen, {} if args.at is None else args.at.sizes)
    functions = _functions([x for x in args.functions if x not in LIBRARIES], chosen)
    libraries = _libraries(dict.fromkeys(x for x in args.functions if x in LIBRARIES), first.space.program)
    if len(chosen) + len(functions) + len(libraries) < 2:
        raise UsageError("a single item cannot be compared", "name another schedule, a --record, or a function --with")
    back_end, target = compiling(first.target, host(), args.backend)
    require_runnable(back_end, target)
    plain = first.space.program
    scale = scale_of(at_sizes(plain, args.at.sizes) if at else plain, target)
    with scratch_folder() as folder, Workers(1) as workers:
        job = PrepareJob(plain, target, folder, seed=0, allow_native=args.allow_native, instances=tuple(at))
        prepared = workers.prepare(job)
        entrants = [*_built(chosen, args, target, workers), *_peers(functions, plain), *libraries]
        found = _timed(entrants, folder, args, workers, prepared)
    return _tell(found, scale, args.json)


def _chosen(args: argparse.Namespace, target: Target) -> dict[str, Chosen]:
    """The candidates by the names under which they are shown."""
    given = {"pins": [], "strict": True, "program_target": None}
    found: dict[str, Chosen] = {}
    for item in args.items:
        one = argparse.Namespace(**{**vars(args), **given, "item": item, "record": None})
        found[_fresh(item, found)] = choose(one, target, among_others=True)
    require_known(args.sizes, {size for c in found.values() for size in size_names(c.module, c.name)}, args.items)
    # A record replays on its program: the schedule that is compared with it may be another one than it was found in.
    program = next(iter(found.values())).space.program.name
    of_program = f"{split_item(args.items[0])[0]}:{program}"
    for number in args.record:
        one = argparse.Namespace(**{**vars(args), **given, "item": of_program, "record": number})
        found[_fresh(f"record {number}", found)] = choose(one, target, among_others=True)
    return found


def _fresh(name: str, taken: Collection[str]) -> str:
    return name if name not in taken else f"{name} #{len(taken) + 1}"


def _require_one_program(chosen: dict[str, Chosen], sizes: Mapping[str, int]) -> None:
    """Raise MS708 unless all compute the same at the sizes of the call."""
    from mslang.ir.equal import workload_hash

    hashes = {name: workload_hash(at_sizes(c.space.program, sizes)) for name, c in chosen.items()}
    (first, wanted), *others = hashes.items()
    for name, hash in others:
        if hash != wanted:
            raise MsError(
                problem(
                    "MS708",
                    f"`{name}` and `{first}` compute different results",
                    why="all items get the same inputs and must give the same results",
                    help="name schedules of one program, with the same sizes (`--set`)",
                )
            )


def _functions(texts: Sequence[str], taken: Collection[str]) -> dict[str, tuple[Path, str]]:
    """The functions by the names under which they are shown: as they are given, for files may have one name."""
    found: dict[str, tuple[Path, str]] = {}
    for text in texts:
        found[_fresh(text, (*taken, *found))] = _function(text)
    return found


def _function(text: str) -> tuple[Path, str]:
    path, colon, name = text.rpartition(":")
    if not colon or not name.isidentifier():
        raise UsageError(f"--with: `{text}` names no function", "`--with peers.py:matmul`")
    if not Path(path).is_file():
        raise UsageError(f"--with: there is no file {path}", "`--with peers.py:matmul`")
    return Path(path).resolve(), name


def _libraries(names: Iterable[str], program: Program) -> list[Entrant]:
    """The calls of libraries that compute the program.

    Raises:
        UsageError: it has no counterpart there; TargetError: MS514, a library is not installed.
    """
    from mslang.tune.libraries.array_operations import NotOnArrays
    from mslang.tune.libraries.library_function import library_function
    from mslang.tune.python_function import built_library

    found = []
    for name in names:
        try:
            made = library_function(name, program)
        except NotOnArrays as error:
            why = f"--with {name}: `{program.name}` cannot be translated to operations on whole arrays: {error}"
            raise UsageError(why, f"write the call of {name} into a file: `--with peers.py:{program.name}`") from None
        if find_spec(name) is None:
            help = f"{Path(sys.executable).name} -m pip install {name}"
            raise TargetError(problem("MS514", f"{name} is not installed", help=help))
        found.append(Entrant(made.label, program, built_library(made)))
    return found


def _built(chosen: dict[str, Chosen], args: argparse.Namespace, target: Target, workers: Workers) -> list[Entrant]:
    from mslang.tune.job import BuildJob

    pending = []
    for name, c in chosen.items():
        back_end, machine = compiling(c.target, target, args.backend)
        program = c.candidate.program
        pending.append((name, program, workers.build(BuildJob(program, machine, args.allow_native, back_end))))
    return [Entrant(name, program, workers.built(p)) for name, program, p in pending]


def _peers(functions: Mapping[str, tuple[Path, str]], program: Program) -> list[Entrant]:
    from mslang.tune.python_function import built_function

    return [Entrant(shown, program, built_function(file, name, program)) for shown, (file, name) in functions.items()]


def _timed(
    entrants: Sequence[Entrant], folder: str, args: argparse.Namespace, workers: Workers, prepared: Prepared | None
) -> dict[str, Compared]:
    """Each alone first, as one that is wrong or crashes must not take the others with it."""
    from mslang.runtime.timing import Limits
    from mslang.tune.comparison import Compared
    from mslang.tune.job import CompareJob, MeasureJob
    from mslang.tune.record import Outcome, Result

    once = Limits(repeats=3, max_repeats=3, min_repeat=0.001, max_total=1.0, cache=args.cache)
    found: dict[str, Compared] = {}
    sound: list[tuple[str, Program, Built]] = []
    calls: list[float] = []
    for name, program, built in entrants:
        job = MeasureJob(program, built, folder, once, dense=True)
        result = built.result or workers.measure(job, seconds_alone(once, prepared))
        found[name] = Compared(result)
        if result.outcome is Outcome.MEASURED and result.timing is not None:
            sound.append((name, program, built))
            calls.append(result.timing.median)
    if not sound:
        return found
    seconds = args.seconds * len(sound)
    limits = Limits(
        repeats=15, max_repeats=MOST_ROUNDS, min_repeat=0.004, max_total=seconds, spread=SPREAD, cache=args.cache
    )
    turns = CompareJob(tuple((p, b) for _, p, b in sound), folder, limits, seconds)
    together = workers.compare(turns, seconds_together(seconds, calls))
    if together is None:
        lost = Compared(Result(Outcome.CRASH, "timing it with the others ended the process"))
        together = (lost,) * len(sound)
    return found | {name: c for (name, _, _), c in zip(sound, together, strict=True)}


# ------------------------------------------------------------------ telling
def _tell(found: dict[str, Compared], scale: Scale, as_json: bool) -> int:
    from mslang.cli.common import table
    from mslang.tune.comparison import gap
    from mslang.tune.record import Outcome

    base = next((name for name, c in found.items() if c.samples), None)
    rows = []
    for name, c in found.items():
        timing = _beside(found[base], c) if base is not None and c.samples else None
        between = None if base is None or timing is None else gap(found[base].samples, c.samples)
        if as_json:
            emit(
                {
                    "kind": "compared",
                    "name": name,
                    "outcome": c.result.outcome.value,
                    "reason": c.result.reason,
                    "seconds": timing.median if timing else None,
                    "rounds": len(c.samples),
                    "against": base,
                    "faster": between.ratio if between else None,
                    "noise": between.noise if between else None,
                    "verdict": verdict(between) if between else None,
                }
            )
        elif timing is None or between is None:
            note(f"{name}: {c.result.outcome.value}: {c.result.reason}")
        else:
            rows.append(
                (name, seconds_text(timing.median), scale.rate(timing), "" if name == base else verdict(between))
            )
    if rows:
        print(table(("", "time", "rate", f"against {base}"), rows))
    return DONE if all(c.result.outcome is Outcome.MEASURED for c in found.values()) else FINDINGS


def _beside(base: Compared, other: Compared) -> Timing | None:
    """The time of a candidate in the rounds of the base: the base's over their ratio.

    Its own samples may come from other rounds, where the base's were disturbed.
    """
    from mslang.tune.comparison import gap

    first, timing = base.result.timing, other.result.timing
    if first is None or timing is None:
        return None
    return timing.scaled(first.median / gap(base.samples, other.samples).ratio / timing.median)


def verdict(between: Gap) -> str:
    """How another compares with the base, of which `between` says how many times as long it takes.

    >>> verdict(Gap(1.13, 0.02))
    'faster by 1.11 to 1.15'
    """
    if math.isinf(between.noise):
        return f"{between.ratio:.3g} times as fast in one round: a larger --seconds gives an interval"
    low, high = between.ratio - between.noise, between.ratio + between.noise
    if between.within_noise:
        return f"within noise ({low:.3g} to {high:.3g})"
    if between.ratio > 1.0:
        return f"faster by {low:.3g} to {high:.3g}"
    return f"slower by {1 / high:.3g} to {1 / low:.3g}" if low > 0 else f"slower by at least {1 / high:.3g}"
