"""How fast tuning gets how far: `mslang tune` from the program alone, beside random search in the same space and beside
TVM's MetaSchedule.

python benchmarks/tuning_curve.py [NAME …] [--trials N] [--budget TIME] [--seeds N] [--first-seed N]
    [--tvm-trials N] [--tvm-seconds S] [--folder F] [--strategy NAME] [--cost-model NAME] [--draws N] [--no-random]
    [--no-tvm] [--json] [--plot FILE]

Each side tunes by itself, in processes of its own, from the start of the command, and ends with one kernel: ours and
that of random search are what `mslang apply` gives after tuning (the fastest record after the finalists were timed
again, or the default schedule), TVM's is the fastest by its tuning. These are measured again, all in turn in one
process, so that a lucky measurement counts for no side. Ratios are theirs over ours, round by round: the median and its
95 % interval.

*By hand* is the fastest of the library's schedules for the program at these sizes, of `--draws` random draws of each.
It is chosen in rounds of its own, then measured in the rounds of all. The goal is that ours takes at most 5 % longer: a
ratio of 1 / 1.05 or more.

Every schedule that was our best at some time is measured in the same rounds. TVM is *passed* by the first of them whose
ratio has an interval above 1; *within 5 %* of TVM is the first whose interval is above 1 / 1.05. Each point is tested
by itself. *Share* is when that point was found, as a share of the time after which TVM had its best. *Typical* is the
median time of all candidates of a run over its best, for our strategy and for random search; one that was cut off early
counts as slower. `--json` rows have both curves: of each best-so-far seconds since the start, trial (−1: the default
schedule), seconds of a run as measured again (as measured by its tuning where a kernel of TVM's took over 10 times its
best); `--plot` draws them. Without `apache-tvm` and `xgboost` (extra `bench`) TVM's part is left out. What has been
tuned is kept in the folder and not tuned again.

`tvm_tuning.py` says how TVM's side differs from its defaults: above all, it builds and runs candidates one by one in
its own process. `--tvm-seconds` ends its tuning after so long; its best until then counts as its best.
"""

from __future__ import annotations

import argparse
import json
import math
import statistics
import tempfile
from collections.abc import Callable, Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import by_hand
import tvm_tuning
from by_hand import Arrays, ByHand
from common import (
    conditions,
    interval,
    let_tvm_use_all_cores,
    ratio,
    show,
    table,
    undisturbed,
)
from curves import drawing
from tuning_runs import Curve, Point, Search, program_at, tuned
from workloads import TABLE

import mslang as ms
from mslang.ir.print import print_program
from mslang.ir.program import Program
from mslang.tune.verification import make_arguments, make_inputs

NAMES = (
    "gemm_512",
    "gemm_1024",
    "conv2d_c64_3x3",
    "dense_bias_relu",
    "depthwise_112",
    "softmax",
    "layer_norm",
    "bmm_128",
)
"""The workloads that are measured where none is named."""

Runs = dict[str, Callable[[], object]]

OURS = "ours"
"""The label of the kernel that our tuning ended with."""

NEAR = 1.05
"""A schedule that takes so many times as long as TVM's best is near it."""
SLOW = 10.0
"""Kernels of TVM's that take more than so many times as long as its best are not measured again: some take seconds."""
FASTER_IN = 0.2
"""The goal: the share of TVM's time after which our best passes TVM's."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    others = ", ".join(n for n in TABLE if n not in NAMES)
    about = f"{', '.join(NAMES)}, which are measured where none is given, {others}"
    parser.add_argument("names", nargs="*", metavar="NAME", help=about)
    parser.add_argument("--trials", type=int, default=128)
    parser.add_argument("--budget", default="5m")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--first-seed", type=int, default=0, help="the least of the seeds; the others follow it")
    parser.add_argument("--tvm-trials", type=int, default=256)
    parser.add_argument("--tvm-seconds", type=float, help="stop TVM's tuning after so long (default: no limit)")
    parser.add_argument("--rounds", type=int, default=21)
    parser.add_argument("--folder", type=Path, default=Path(tempfile.gettempdir()) / "mslang_tuning_curves")
    parser.add_argument("--strategy", default="auto", help="how we search")
    parser.add_argument("--cost-model", help="what our search learns with")
    parser.add_argument("--draws", type=int, default=24, help="random draws of each schedule by hand; 0: none")
    parser.add_argument("--no-random", action="store_true")
    parser.add_argument("--no-tvm", action="store_true")
    parser.add_argument(
        "--json", action="store_true", help="a line of JSON for each workload and seed, with its curves"
    )
    parser.add_argument("--plot", type=Path, metavar="FILE", help="write the curves as an SVG picture")
    options = parser.parse_args()
    unknown = [n for n in options.names if n not in TABLE]
    if unknown:
        parser.error(f"there is no workload {unknown[0]}; there are {', '.join(TABLE)}")
    if options.plot and not options.plot.parent.is_dir():
        parser.error(f"--plot: there is no folder {options.plot.parent}")
    options.folder.mkdir(parents=True, exist_ok=True)
    let_tvm_use_all_cores()
    beside = not options.no_tvm and find_spec("tvm") is not None and find_spec("xgboost") is not None
    rows = []
    for name in options.names or list(NAMES):
        program = TABLE[name].bare()
        arrays = make_arguments(program, make_inputs(program, "dense", 0))
        hand = by_hand.fastest(TABLE[name], program, options.draws, arrays) if options.draws else None
        for seed in range(options.first_seed, options.first_seed + options.seeds):
            row = compared(name, program, seed, options, beside, arrays, hand)
            rows.append(row)
            print(json.dumps(row) if options.json else told(row), flush=True)
    if options.plot:
        options.plot.write_text(drawing(rows))
    if not options.json:
        print(summary(rows))
        print(f"\n{conditions('apache-tvm', 'xgboost', 'numpy', 'llvmlite')}")


# ------------------------------------------------------------------ one workload and seed
def compared(
    name: str,
    program: Program,
    seed: int,
    options: argparse.Namespace,
    beside_tvm: bool,
    arrays: Arrays,
    hand: ByHand | None,
) -> dict[str, Any]:
    """Tune on all sides, then measure in turn what they found."""
    file = options.folder / f"{name}.ms"
    file.write_text(print_program(program))
    limits = (options.trials, options.budget)
    ours = tuned(file, program, seed, Search(options.strategy, options.cost_model, *limits))
    chance = None if options.no_random else tuned(file, program, seed, Search("replay_trace", None, *limits))
    theirs = None
    if beside_tvm:
        theirs = tvm_tuning.tuned(options.folder, name, program, seed, options.tvm_trials, options.tvm_seconds)
    names = {ours.final: OURS}
    points = [names.setdefault(program_at(file, p), f"point {k}") for k, p in enumerate(ours.curve.points)]
    random = None if chance is None else names.setdefault(chance.final, "random")
    runs: Runs = {label: ms.build(made).bind(**arrays).run for made, label in names.items()}
    kernels = {} if theirs is None else theirs.kernels(SLOW)
    runs |= {f"tvm {k}": tvm_tuning.bound(path, list(arrays.values())) for k, path in kernels.items()}
    if hand is not None:
        runs["by hand"] = hand.run
    times = undisturbed(runs, options.rounds)
    row: dict[str, Any] = {
        "workload": name,
        "seed": seed,
        "trials": ours.curve.trials,
        "took": ours.curve.took,
        "typical": ours.curve.typical,
        "ours": statistics.median(times[OURS]),
        "how": ours.how,
        "after": ours.curve.points[points.index(OURS)].after if OURS in points else ours.curve.took,
    }
    row["points"] = [
        {"after": p.after, "trial": p.trial, "seconds": statistics.median(times[label])}
        for p, label in zip(ours.curve.points, points, strict=True)
    ]
    if hand is not None:
        found = {"schedule": hand.schedule, "candidates": hand.candidates}
        row["by_hand"] = found | beside(times[OURS], times["by hand"])
    if random is not None and chance is not None:
        row |= {"random": beside(times[OURS], times[random]), "typical_random": chance.curve.typical}
    if theirs is not None:
        row |= tvm_cells(ours.curve, points, theirs.curve, times)
    return row


def tvm_cells(
    ours: Curve, labels: Sequence[str], theirs: Curve, times: Mapping[str, Sequence[float]]
) -> dict[str, Any]:
    """What a row has of TVM: its best beside ours, when ours passed it, its curve."""
    cells: dict[str, Any] = {"tvm_trials": theirs.trials, "tvm_took": theirs.took, "tvm_stopped": theirs.stopped}
    if theirs.failed:
        cells["tvm_failed"] = theirs.failed
    if not theirs.points:
        return cells
    best = times[f"tvm {len(theirs.points) - 1}"]
    lows = [beside(times[label], best)["interval"][0] for label in labels]
    again = [times.get(f"tvm {k}", [p.seconds]) for k, p in enumerate(theirs.points)]
    return cells | {
        "tvm": beside(times[OURS], best),
        "tvm_after": theirs.points[-1].after,
        "tvm_points": [
            {"after": p.after, "trial": p.trial, "seconds": statistics.median(t)}
            for p, t in zip(theirs.points, again, strict=True)
        ],
        "passed_after": first_after(ours.points, lows, 1.0),
        "near_after": first_after(ours.points, lows, 1.0 / NEAR),
    }


def beside(ours: Sequence[float], theirs: Sequence[float]) -> dict[str, Any]:
    """Another kernel's time, and its ratio to ours round by round: median, quartiles, 95 % interval of the median."""
    ratios = [y / x for x, y in zip(ours, theirs, strict=True)]
    return {"seconds": statistics.median(theirs), "ratio": ratio(ours, theirs), "interval": interval(ratios)}


def first_after(points: Sequence[Point], lows: Sequence[float], limit: float) -> float | None:
    """When the first point was found whose ratio has an interval above a limit, in seconds; None: no point has."""
    return next((p.after for p, low in zip(points, lows, strict=True) if low > limit), None)


def told(row: Mapping[str, Any]) -> str:
    """A row as a line, and a line for the curve of each side."""
    text = f"{row['workload']} seed {row['seed']}: {show(row['ours'])} after {row['after']:.0f} s ({row['how']})"
    if "by_hand" in row:
        text += f"; by hand ({row['by_hand']['schedule']}) / ours {times_of(row['by_hand'])}"
    if "random" in row:
        text += f"; random search / ours {times_of(row['random'])}"
    if "tvm" in row:
        text += f"; TVM {show(row['tvm']['seconds'])} after {row['tvm_after']:.0f} s, TVM / ours {times_of(row['tvm'])}"
        for key, what in (("passed_after", "passed"), ("near_after", f"within {NEAR - 1:.0%}")):
            text += f", {what} after {row[key]:.0f} s" if row[key] is not None else f", not {what}"
    if row.get("tvm_failed"):
        text += f"; TVM failed: {row['tvm_failed']}"
    if row.get("tvm_stopped"):
        text += f"; TVM was stopped after {row['tvm_took']:.0f} s and {row['tvm_trials']} trials"
    curves = [(who, row[key]) for who, key in ((OURS, "points"), ("TVM", "tvm_points")) if key in row]
    return "\n".join([text, *(f"  {who}: {curve_text(points)}" for who, points in curves)])


def curve_text(points: Sequence[Mapping[str, Any]]) -> str:
    """A curve as text: of each best-so-far when it was found, as which trial, and its time."""
    return ", ".join(f"{p['after']:.0f} s {trial_text(p['trial'])} {show(p['seconds'])}" for p in points) or "nothing"


def trial_text(trial: int) -> str:
    """A trial's number as text; the default schedule has none."""
    return f"#{trial}" if trial >= 0 else "default"


def times_of(found: Mapping[str, Any]) -> str:
    """A ratio and its interval as text."""
    low, high = found["interval"]
    return f"{found['ratio'][0]:.2f} ({low:.2f} to {high:.2f})"


def summary(rows: Sequence[Mapping[str, Any]]) -> str:
    """A line a workload: medians over its seeds."""
    out = []
    for name in dict.fromkeys(r["workload"] for r in rows):
        mine = [r for r in rows if r["workload"] == name]
        theirs = [r for r in mine if "tvm" in r]
        out.append(
            (
                name,
                middle([r["ours"] for r in mine], show),
                middle([r["by_hand"]["ratio"][0] for r in mine if "by_hand" in r]),
                middle([r["random"]["ratio"][0] for r in mine if "random" in r]),
                middle([r["typical"] for r in mine if r["typical"]]),
                middle([r["typical_random"] for r in mine if r.get("typical_random")]),
                middle([r["tvm"]["seconds"] for r in theirs], show),
                middle([r["tvm"]["ratio"][0] for r in theirs]),
                *(middle([share(r, key) for r in theirs]) for key in ("passed_after", "near_after")),
            )
        )
    head = (
        "workload",
        "ours",
        "by hand / ours",
        "random / ours",
        "typical",
        "random",
        "TVM",
        "TVM / ours",
        f"share (goal {FASTER_IN})",
        "within 5 %",
    )
    return table(head, out)


def share(row: Mapping[str, Any], key: str) -> float:
    """When we got so far, as a share of the time after which TVM had its best; infinite where we did not."""
    return float("inf") if row[key] is None else row[key] / row["tvm_after"]


def middle(values: Sequence[float], text: Callable[[float], str] = "{:.2f}".format) -> str:
    """The median as text, empty without values, a dash where it is infinite."""
    found = statistics.median(values) if values else None
    return "" if found is None else "–" if math.isinf(found) else text(found)


if __name__ == "__main__":
    main()
