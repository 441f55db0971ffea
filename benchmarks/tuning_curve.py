"""How fast tuning gets how far: `mslang tune` from the program alone, beside random search in the same space and beside
TVM's MetaSchedule.

python benchmarks/tuning_curve.py [NAME …] [--trials N] [--budget TIME] [--seeds N] [--tvm-trials N] [--folder F]
    [--strategy NAME] [--cost-model NAME] [--no-random] [--no-tvm] [--json]

Each side tunes by itself, in processes of its own, from the start of the command. What each had when is then measured
again, all in turn in one process: every schedule that was our best at some time, the best of random search, TVM's best.
So a lucky measurement does not count for either side. *Typical* is the median time of all candidates of a run over its
best, for our strategy and for random search; one that was cut off early counts as slower. Without `apache-tvm` and
`xgboost` (extra `bench`) TVM's part is left out. What has been tuned is kept in the folder and not tuned again.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
from common import (
    at_rest,
    conditions,
    interleaved,
    let_tvm_use_all_cores,
    ratio,
    show,
    spread_out,
    table,
)

import mslang as ms
from mslang.ir.print import print_program
from mslang.ir.program import Program
from mslang.resources import stdlib_folder
from mslang.sema.modules import load
from mslang.sema.program import instantiate
from mslang.target.detect import host
from mslang.target.yardstick import NOMINAL_RATE, Yardstick
from mslang.tune.verification import make_arguments, make_inputs

NAMES: Mapping[str, tuple[str, str, Mapping[str, int]]] = {
    "gemm_512": ("workloads/gemm", "gemm", {"M": 512, "N": 512, "K": 512}),
    "gemm_1024": ("workloads/gemm", "gemm", {"M": 1024, "N": 1024, "K": 1024}),
    "conv2d_c64_3x3": ("workloads/conv2d", "conv2d_nhwc", {}),
    "dense_bias_relu": ("workloads/dense", "dense_bias_relu", {"M": 128, "N": 3072, "K": 768}),
    "depthwise_112": ("workloads/depthwise", "depthwise_nhwc", {"H": 112, "W": 112, "C": 32}),
    "softmax": ("workloads/softmax", "softmax", {"M": 256, "N": 4096}),
    "layer_norm": ("workloads/layer_norm", "layer_norm", {"M": 256, "N": 1024}),
    "bmm_128": ("workloads/batch_gemm", "batch_gemm", {"BATCH": 1, "M": 128, "N": 128, "K": 128}),
}
"""File of the library, program, and sizes of each workload."""

MORE: Mapping[str, tuple[str, str, Mapping[str, int]]] = {
    "conv2d_stem_7x7": (
        "workloads/conv2d",
        "conv2d_nhwc",
        {"STRIDE": 2, "PAD": 3, "H": 224, "W": 224, "CI": 3, "CO": 64, "R": 7, "S": 7},
    ),
    "conv2d_1x1": (
        "workloads/conv2d",
        "conv2d_nhwc",
        {"STRIDE": 1, "PAD": 0, "H": 14, "W": 14, "CI": 1024, "CO": 256, "R": 1, "S": 1},
    ),
    "attention": ("workloads/attention", "attention", {"B": 8, "L": 128, "T": 128, "D": 64}),
    "gemm_s8": ("cpu/gemm_bytes", "gemm_s8s8", {"M": 1024, "N": 1024, "K": 1024}),
    "gemm_bf16": ("cpu/gemm_bf16", "gemm_bf16_rounded", {"M": 1024, "N": 1024, "K": 1024}),
}
"""Workloads that are measured only where they are named."""

NEAR = 1.05
"""A schedule that takes so many times as long as TVM's best is near it."""
FASTER_IN = 0.2
"""The goal: the share of TVM's time after which our best passes TVM's."""


class Point(msgspec.Struct, frozen=True):
    """A best-so-far: seconds since the start of the command, trials so far, seconds of one run as measured then."""

    after: float
    trial: int
    seconds: float
    schedule: str = ""


class Curve(msgspec.Struct, frozen=True):
    """What one tuning run found, how long it took in all, and the median time of its candidates over its best."""

    points: tuple[Point, ...]
    trials: int
    took: float
    typical: float = 0.0


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    known = NAMES | MORE
    about = f"{', '.join(NAMES)}, which are measured where none is given, {', '.join(MORE)}"
    parser.add_argument("names", nargs="*", metavar="NAME", help=about)
    parser.add_argument("--trials", type=int, default=128)
    parser.add_argument("--budget", default="5m")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--tvm-trials", type=int, default=256)
    parser.add_argument("--rounds", type=int, default=21)
    parser.add_argument("--folder", type=Path, default=Path(tempfile.gettempdir()) / "mslang_tuning_curves")
    parser.add_argument("--strategy", default="auto", help="how we search")
    parser.add_argument("--cost-model", help="what our search learns with")
    parser.add_argument("--no-random", action="store_true")
    parser.add_argument("--no-tvm", action="store_true")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    unknown = [n for n in options.names if n not in known]
    if unknown:
        parser.error(f"there is no workload {unknown[0]}; there are {', '.join(known)}")
    options.folder.mkdir(parents=True, exist_ok=True)
    let_tvm_use_all_cores()
    beside = not options.no_tvm and find_spec("tvm") is not None and find_spec("xgboost") is not None
    rows = []
    for name in options.names or list(NAMES):
        for seed in range(options.seeds):
            row = compared(name, seed, options, beside)
            rows.append(row)
            print(json.dumps(row) if options.json else told(row), flush=True)
    if not options.json:
        print(summary(rows))
        print(f"\n{conditions('apache-tvm', 'xgboost', 'numpy', 'llvmlite')}")


# ------------------------------------------------------------------ one workload and seed
def compared(name: str, seed: int, options: argparse.Namespace, beside: bool) -> dict[str, Any]:
    """Tune on all sides, then measure in turn what they found."""
    file = options.folder / f"{name}.ms"
    program = program_of(name)
    file.write_text(print_program(program))
    ours = tuned(file, seed, options, options.strategy)
    chance = None if options.no_random else tuned(file, seed, options, "replay_trace")
    theirs = tuned_there(name, seed, options) if beside else None
    arrays = inputs_of(program)
    runs: dict[str, Callable[[], object]] = {}
    for k, point in enumerate(ours.points):
        runs[f"ours {k}"] = bound(file, program, point.schedule, arrays)
    if chance is not None and chance.points:
        runs["random"] = bound(file, program, chance.points[-1].schedule, arrays)
    if theirs is not None and theirs.points:
        runs["tvm"] = bound_there(options.folder / f"{name}-{seed}.so", arrays)
    spread = spread_out(Yardstick())

    def before() -> None:
        at_rest()
        spread()

    times = interleaved(runs, options.rounds, 0.01, before)
    row: dict[str, Any] = {"workload": name, "seed": seed, "trials": ours.trials, "took": ours.took}
    if not ours.points:
        return row
    medians = [statistics.median(times[f"ours {k}"]) for k in range(len(ours.points))]
    best = int(np.argmin(medians))
    row |= {"best": medians[best], "after": ours.points[best].after, "typical": ours.typical}
    if "random" in times and chance is not None:
        row["random"] = ratio(times[f"ours {best}"], times["random"])
        row["typical_random"] = chance.typical
    if "tvm" in times and theirs is not None:
        row |= {"tvm": statistics.median(times["tvm"]), "tvm_after": theirs.points[-1].after, "tvm_took": theirs.took}
        row["faster"] = ratio(times[f"ours {best}"], times["tvm"])
        passed = (p.after for p, m in zip(ours.points, medians, strict=True) if m <= row["tvm"])
        row["passed_after"] = next(passed, None)
        near = (p.after for p, m in zip(ours.points, medians, strict=True) if m <= NEAR * row["tvm"])
        row["near_after"] = next(near, None)
    return row


def told(row: Mapping[str, Any]) -> str:
    """A row as a line."""
    if "best" not in row:
        return f"{row['workload']} seed {row['seed']}: nothing found in {row['took']:.0f} s"
    text = f"{row['workload']} seed {row['seed']}: {show(row['best'])} after {row['after']:.0f} s"
    if "random" in row:
        text += f"; {row['random'][0]:.2f} × random search"
    if "tvm" in row:
        when = row["passed_after"]
        text += f"; TVM {show(row['tvm'])} after {row['tvm_after']:.0f} s ({row['faster'][0]:.2f} ×), "
        text += "not passed" if when is None else f"passed after {when:.0f} s"
        text += "" if row["near_after"] is None else f", within {NEAR - 1:.0%} after {row['near_after']:.0f} s"
    return text


def summary(rows: Sequence[Mapping[str, Any]]) -> str:
    """A line a workload: medians over its seeds."""
    out = []
    for name in dict.fromkeys(r["workload"] for r in rows):
        mine = [r for r in rows if r["workload"] == name and "best" in r]
        if not mine:
            continue
        cells = [name, show(statistics.median(r["best"] for r in mine))]
        chance = [r["random"][0] for r in mine if "random" in r]
        cells.append(f"{statistics.median(chance):.2f}" if chance else "")
        for key in ("typical", "typical_random"):
            typical = [r[key] for r in mine if r.get(key)]
            cells.append(f"{statistics.median(typical):.2f}" if typical else "")
        theirs = [r for r in mine if "tvm" in r]
        cells.append(show(statistics.median(r["tvm"] for r in theirs)) if theirs else "")
        cells.append(f"{statistics.median(r['faster'][0] for r in theirs):.2f}" if theirs else "")
        shares = [r["passed_after"] / r["tvm_after"] if r["passed_after"] else float("inf") for r in theirs]
        cells.append(f"{statistics.median(shares):.2f}" if shares else "")
        near = [r["near_after"] / r["tvm_after"] if r["near_after"] else float("inf") for r in theirs]
        cells.append(f"{statistics.median(near):.2f}" if near else "")
        out.append(cells)
    head = (
        "workload",
        "ours",
        "× random",
        "typical",
        "random",
        "TVM",
        "× TVM",
        f"share (goal {FASTER_IN})",
        "within 5 %",
    )
    return table(head, out)


# ------------------------------------------------------------------ ours
def program_of(name: str) -> Program:
    """The program of a workload, without the schedules that stand beside it."""
    file, program, sizes = (NAMES | MORE)[name]
    return instantiate(load(str(stdlib_folder() / f"{file}.ms")), program, sizes)


def tuned(file: Path, seed: int, options: argparse.Namespace, strategy: str) -> Curve:
    """The curve of `mslang tune`, from the records that it left."""
    model = options.cost_model if strategy == options.strategy else None
    kept = file.with_name(f"{'-'.join(filter(None, (file.stem, strategy, model)))}-{seed}.json")
    if kept.exists():
        return msgspec.json.decode(kept.read_bytes(), type=Curve)
    database = kept.with_suffix(".db")
    database.unlink(missing_ok=True)
    mslang = [sys.executable, "-m", "mslang"]
    limits = ["--trials", str(options.trials), "--budget", options.budget, "--seed", str(seed)]
    begun = time.time()
    chosen = ["--strategy", strategy, *(["--cost-model", model] if model else [])]
    run([*mslang, "tune", str(file), *limits, *chosen, "--db", str(database)])
    took = time.time() - begun
    lines = run([*mslang, "db", "export", "--db", str(database)]).splitlines()
    found = curve([r for r in map(json.loads, lines) if r["kind"] == "record"], begun, took)
    kept.write_bytes(msgspec.json.encode(found))
    return found


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
    return Curve(tuple(points), len(records), took, statistics.median(costs) / least if points else 0.0)


def run(command: Sequence[str]) -> str:
    """The output of a command.

    Raises:
        SystemExit: it failed.
    """
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        raise SystemExit(f"{' '.join(command)}: exit {done.returncode}\n{done.stderr[-2000:]}")
    return done.stdout


def inputs_of(program: Program) -> list[np.ndarray[Any, Any]]:
    """Arrays for all parameters, in their order."""
    arrays = make_arguments(program, make_inputs(program, "dense", 0))
    return [arrays[p.given.name] for p in program.params]


def bound(file: Path, program: Program, schedule: str, arrays: Sequence[Any]) -> Callable[[], object]:
    """A schedule of ours, compiled and given its arrays."""
    module = ms.parse(f"{file.read_text()}\n{schedule}\n")
    name = schedule.split()[1]
    return ms.build(module.space(name, target=host()).sample(0).program).bind(*arrays).run


# ------------------------------------------------------------------ TVM
THERE = """
import json, sys, tempfile, time
begun = time.time()
from pathlib import Path
import ml_dtypes  # names `bfloat16` to NumPy
import numpy as np
import tvm
from tvm.ir.utils import derived_object
from tvm.s_tir import meta_schedule as m
from tvm.s_tir.meta_schedule.runner import PyRunnerFuture

name, graph, folder, trials, seed, target = json.loads(sys.stdin.read())
target = tvm.target.Target(target)
points, count, best = [], 0, float("inf")

def compiled(mod):
    return tvm.compile(tvm.s_tir.transform.RemoveWeightLayoutRewriteBlock(skip_tensor_rewrite=True)(mod), target)

@derived_object
class Builder(m.builder.PyBuilder):
    def build(self, inputs):
        return [self.one(x) for x in inputs]

    def one(self, given):
        path = str(Path(tempfile.mkdtemp()) / "candidate.so")
        try:
            compiled(given.mod).export_library(path)
        except Exception as error:
            return m.builder.BuilderResult(None, str(error)[-300:])
        return m.builder.BuilderResult(path, None)

@derived_object
class Done(PyRunnerFuture):
    def __init__(self, seconds):
        super().__init__()
        self.seconds = seconds

    def done(self):
        return True

    def result(self):
        return m.runner.RunnerResult(self.seconds, None)

@derived_object
class Runner(m.runner.PyRunner):
    def run(self, inputs):
        return [Done(self.one(x)) for x in inputs]

    def one(self, given):
        global count, best
        rng = np.random.default_rng(0)
        arrays = [rng.standard_normal([int(n) for n in a.shape]).astype(str(a.dtype)) for a in given.args_info]
        evaluate = tvm.runtime.load_module(given.artifact_path).time_evaluator(
            "main", tvm.cpu(), number=1, repeat=3, min_repeat_ms=20
        )
        seconds = [float(t) for t in evaluate(*(tvm.runtime.tensor(a) for a in arrays)).results]
        count += 1
        if min(seconds) < best:
            best = min(seconds)
            points.append([time.time() - begun, count, best])
        return seconds

if __name__ == "__main__":
    database = m.tune_tir(
        tvm.ir.load_json(graph), target, work_dir=folder, max_trials_global=trials, builder=Builder(),
        runner=Runner(), seed=seed,
    )
    took = time.time() - begun
    workload = database.get_all_tuning_records()[0].workload
    sch = tvm.s_tir.Schedule(workload.mod)
    database.get_top_k(workload, 1)[0].trace.apply_to_schedule(sch, remove_postproc=False)
    compiled(sch.mod).export_library(folder + ".so")
    print("RESULT " + json.dumps({"points": points, "count": count, "took": took}))
"""
"""Tuning by MetaSchedule with its defaults, but built and run in its own process, which costs it less time."""


def tuned_there(name: str, seed: int, options: argparse.Namespace) -> Curve:
    """The curve of MetaSchedule."""
    from mslang.interop.tvm.program_out import to_graph

    folder = options.folder / f"{name}-{seed}"
    kept = options.folder / f"{name}-tvm-{seed}.json"
    if kept.exists():
        return msgspec.json.decode(kept.read_bytes(), type=Curve)
    machine = host()
    target = {"kind": "llvm", "num-cores": machine.cores or 1, "mcpu": machine.cpu}
    given = json.dumps((name, to_graph(program_of(name)), str(folder), options.tvm_trials, seed, target))
    script = options.folder / "there.py"
    script.write_text(THERE)
    done = subprocess.run([sys.executable, str(script)], input=given, capture_output=True, text=True)
    line = next((x for x in done.stdout.splitlines() if x.startswith("RESULT ")), None)
    if line is None:
        raise SystemExit(f"TVM on {name}: exit {done.returncode}\n{done.stderr[-2000:]}")
    found = json.loads(line.removeprefix("RESULT "))
    points = tuple(Point(after, trial, seconds) for after, trial, seconds in found["points"])
    made = Curve(points, found["count"], found["took"])
    kept.write_bytes(msgspec.json.encode(made))
    return made


def bound_there(library: Path, arrays: Sequence[Any]) -> Callable[[], object]:
    """TVM's best, loaded and given the same memory: where its pages lie decides how much of it a cache holds."""
    import ml_dtypes
    import tvm

    function = tvm.runtime.load_module(str(library))["main"]
    # What is exchanged with NumPy in place has no bf16.
    short = np.dtype(np.uint16)
    given = [
        tvm.runtime.tensor(a.view(ml_dtypes.bfloat16)) if a.dtype == short else tvm.runtime.from_dlpack(a)
        for a in arrays
    ]
    return lambda: function(*given)


if __name__ == "__main__":
    main()
