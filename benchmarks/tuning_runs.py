"""Our side of `tuning_curve.py`: the curve of one run of `mslang tune`, and the kernel that it ended with."""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any

import msgspec

import mslang as ms
from mslang.ir.program import Program
from mslang.target.detect import host
from mslang.target.yardstick import NOMINAL_RATE


class Point(msgspec.Struct, frozen=True):
    """A best-so-far: seconds since the start of the command, trial, seconds of one run as measured then."""

    after: float
    trial: int
    seconds: float
    schedule: str = ""


class Curve(msgspec.Struct, frozen=True):
    """What one tuning run found, how long it took in all, and the median time of its candidates over its best.

    `stopped`: a limit of seconds ended it. `failed`: the error that did.
    """

    points: tuple[Point, ...]
    trials: int
    took: float
    typical: float = 0.0
    stopped: bool = False
    failed: str = ""


class Search(msgspec.Struct, frozen=True):
    """How `mslang tune` searches: its strategy and cost model, and its limits."""

    strategy: str
    cost_model: str | None
    trials: int
    budget: str


class Tuned(msgspec.Struct, frozen=True):
    """A run of `mslang tune`: its curve, and the program that `mslang apply` gives after it, with where it is from.

    That is the fastest record after the finalists were timed again, or the default schedule if that was faster there.
    """

    curve: Curve
    final: Program
    how: str


def tuned(file: Path, program: Program, seed: int, search: Search) -> Tuned:
    """What `mslang tune` finds for a program in a file of its own; kept beside the file."""
    label = "-".join(filter(None, (file.stem, search.strategy, search.cost_model)))
    kept = file.with_name(f"{label}-{seed}.json")
    database = kept.with_suffix(".db")
    if kept.exists() and database.exists():
        found = msgspec.json.decode(kept.read_bytes(), type=Curve)
    else:
        database.unlink(missing_ok=True)
        found = _tuned_now(file, database, seed, search)
        kept.write_bytes(msgspec.json.encode(found))
    (applied,) = ms.apply(program, ["db", "default"], database=database)
    return Tuned(found, applied.program, applied.headline)


def _tuned_now(file: Path, database: Path, seed: int, search: Search) -> Curve:
    mslang = [sys.executable, "-m", "mslang"]
    limits = ["--trials", str(search.trials), "--budget", search.budget, "--seed", str(seed)]
    chosen = ["--strategy", search.strategy, *(["--cost-model", search.cost_model] if search.cost_model else [])]
    begun = time.time()
    _run([*mslang, "tune", str(file), *limits, *chosen, "--db", str(database)])
    took = time.time() - begun
    lines = _run([*mslang, "db", "export", "--db", str(database)]).splitlines()
    return curve([r for r in map(json.loads, lines) if r["kind"] == "record"], begun, took)


def program_at(file: Path, point: Point) -> Program:
    """The program that a schedule of a curve makes."""
    module = ms.parse(f"{file.read_text()}\n{point.schedule}\n")
    return module.space(point.schedule.split()[1], target=host()).sample(0).program


def curve(records: Sequence[Mapping[str, Any]], begun: float, took: float) -> Curve:
    """The records that were the best when they were made, in that order."""
    points: list[Point] = []
    costs: list[float] = []
    least = float("inf")
    for r in sorted(records, key=lambda r: str(r["created"])):
        timing = r["result"]["timing"]
        if r["result"]["outcome"] == "cut off":
            costs.append(float("inf"))
        if r["result"]["outcome"] != "measured":
            continue
        seconds = statistics.median(timing["samples"])
        cost = seconds * (timing["yardstick"] or NOMINAL_RATE)
        costs.append(cost)
        if cost < least:
            least = cost
            after = datetime.fromisoformat(r["created"]).timestamp() - begun
            points.append(Point(after, int(r["trial"]), seconds, str(r["trace"])))
    trials = len({r["trial"] for r in records if r["trial"] >= 0})
    return Curve(tuple(points), trials, took, statistics.median(costs) / least if points else 0.0)


def _run(command: Sequence[str]) -> str:
    """The output of a command.

    Raises:
        SystemExit: it failed.
    """
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        raise SystemExit(f"{' '.join(command)}: exit {done.returncode}\n{done.stderr[-2000:]}")
    return done.stdout
