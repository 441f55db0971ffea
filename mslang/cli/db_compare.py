"""`mslang db diff` and `stats`: two stores compared, and one in numbers."""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from pathlib import Path

import msgspec

from mslang.brevity import seconds_text
from mslang.cli.common import counted, emit, table
from mslang.cli.main import DONE
from mslang.tune.database import Database
from mslang.tune.record import Record
from mslang.tune.upkeep import differences, stats


def comparison_arguments(verbs: Mapping[str, argparse.ArgumentParser]) -> None:
    """The options of the verbs of this module."""
    verbs["diff"].add_argument("other", type=Path, metavar="STORE", help="the store to compare with")


def diff(database: Database, args: argparse.Namespace) -> int:
    """Print the best times of two stores, and how many times as long the other's take."""
    with Database(args.other, read_only=True) as other:
        found = differences(database, other)
        names = {**other.machines(), **database.machines()}
    if args.json:
        for d in found:
            emit({"kind": "difference", **msgspec.to_builtins(d), "ratio": d.ratio})
        return DONE
    print(
        table(
            ("program", "hash", "target", "machine", str(args.db), str(args.other), "ratio"),
            [
                (
                    d.program,
                    d.workload[:12],
                    d.target,
                    names.get(d.machine) or d.machine,
                    _seconds(d.ours),
                    _seconds(d.theirs),
                    "–" if d.ratio is None else f"{d.ratio:.3f}",
                )
                for d in found
            ],
        )
    )
    return DONE


def _seconds(cost: float | None) -> str:
    return "–" if cost is None else seconds_text(cost)


def count(database: Database, args: argparse.Namespace) -> int:
    """Print counts by outcome and by program, and how fast runs went."""
    found = stats(r for r in database.records() if isinstance(r, Record))
    if args.json:
        emit({"kind": "outcomes", "records": found.records, "outcomes": found.outcomes})
        for p in found.programs:
            emit({"kind": "program", **msgspec.to_builtins(p)})
        for r in found.runs:
            emit({"kind": "run", **msgspec.to_builtins(r), "trials_a_minute": r.rate})
        return DONE
    print(f"{counted(found.records, 'record')} in {args.db}")
    if not found.records:
        return DONE
    outcomes = list(found.outcomes)
    rows = [(p.program, p.workload[:12], *(p.outcomes.get(o, 0) for o in outcomes)) for p in found.programs]
    total = ("all", "", *found.outcomes.values())
    print("\n" + table(("program", "hash", *outcomes), [*rows, total]))
    stages = list(dict.fromkeys(name for r in found.runs for name in r.stages))
    print(
        "\n"
        + table(
            ("run", "program", "trials", "a minute", *stages),
            [
                (
                    r.run,
                    r.program,
                    r.trials,
                    "–" if r.rate is None else f"{r.rate:.0f}",
                    *(seconds_text(r.stages[s]) if s in r.stages else "–" for s in stages),
                )
                for r in found.runs
            ],
        )
    )
    return DONE
