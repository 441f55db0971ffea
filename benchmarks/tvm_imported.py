"""Schedules that TVM's MetaSchedule found, imported: how fast are they here, beside the very same schedules in TVM?

python benchmarks/tvm_imported.py [WORKLOAD …] [--databases FOLDER] [--trials N] [--strategy …] [--seed N] [--rounds N]
    [--tune-only]

With `apache-tvm` and `xgboost` installed (extra `bench`). A workload without a database in the folder is tuned first,
in this process. Of each database the three schedules that were fastest while tuning are measured, TVM's code and ours
in turn; each side's time is the minimum of all rounds. Both outputs are compared.
"""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any, Literal

import msgspec
import numpy as np
import tvm
from common import aligned, conditions, let_tvm_use_all_cores, show, table
from tvm.ir.utils import derived_object
from tvm.s_tir import meta_schedule
from tvm.s_tir.meta_schedule.runner import PyRunnerFuture
from tvm.s_tir.meta_schedule.testing import te_workload
from tvm.te import create_prim_func

import mslang as ms
from mslang.diagnostics import MsError
from mslang.interop.tvm import import_trace, read_database
from mslang.interop.tvm.code import as_compiled_there
from mslang.interop.tvm.trace_json import to_data
from mslang.ir.program import Program
from mslang.runtime.timing import Limits
from mslang.target.detect import host

WORKLOADS: dict[str, Callable[[], Any]] = {
    "gemm": lambda: te_workload.matmul(256, 256, 256),
    "conv1d": lambda: te_workload.conv1d_nlc(1, 256, 64, 128, 3, 2, 1),
    "conv2d": lambda: te_workload.conv2d_nhwc(1, 56, 56, 64, 64, 3, 1, 1),
    "depthwise": lambda: te_workload.depthwise_conv2d_nhwc(1, 112, 112, 32, 3, 1, 1),
    "batch_gemm": lambda: te_workload.batch_matmul_nkkm(4, 128, 128, 128),
    "norm": lambda: te_workload.norm_bmn(1, 256, 256),
    "softmax": lambda: te_workload.softmax_mn(256, 256),
}
GOAL = 1.2
"""How many times TVM's time the imported schedule may take."""


class Measured(msgspec.Struct, frozen=True):
    """The minimum times of one schedule, in seconds."""

    theirs: float
    ours: float
    unscheduled: float


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("workloads", nargs="*", help=f"{', '.join(WORKLOADS)}; all where none is named")
    parser.add_argument("--databases", type=Path, default=Path(tempfile.gettempdir()) / "mslang_tvm_databases")
    parser.add_argument("--trials", type=int, default=64)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--strategy", choices=("evolutionary", "replay-trace"), default="evolutionary")
    parser.add_argument("--rounds", type=int, default=21)
    parser.add_argument("--schedules", type=int, default=3, help="how many of each database are measured")
    parser.add_argument("--tune-only", action="store_true")
    options = parser.parse_args()
    let_tvm_use_all_cores()
    rows, within = [], 0
    names = options.workloads or list(WORKLOADS)
    for name in names:
        folder = options.databases / name
        if not (folder / "database_tuning_record.json").exists():
            tune(name, folder, options.trials, options.seed, options.strategy)
        if options.tune_only:
            continue
        program, measured = compared(folder, options.schedules, options.rounds)
        best = min(measured, key=lambda m: m.theirs)
        ratio = best.ours / best.theirs
        within += ratio <= GOAL
        every = ", ".join(f"{m.ours / m.theirs:.2f}" for m in measured)
        rows.append((name, show(best.theirs), show(best.ours), f"{ratio:.2f}", every, show(best.unscheduled)))
        print(f"{name} ({program.name}): {ratio:.2f}, of {every}", flush=True)
    if rows:
        head = ("workload", "TVM", "imported", "imported / TVM", "of each schedule", "unscheduled here")
        print(table(head, rows))
        print(f"\n{within} of {len(rows)} within {GOAL}. {conditions('apache-tvm', 'numpy', 'llvmlite')}")


# ------------------------------------------------------------------ in TVM
def target() -> Any:
    found = host()
    return tvm.target.Target({"kind": "llvm", "num-cores": found.cores or 1, "mcpu": found.cpu})


def tune(name: str, folder: Path, trials: int, seed: int, strategy: Literal["evolutionary", "replay-trace"]) -> None:
    """Have MetaSchedule tune a workload, built and run in this process."""
    folder.mkdir(parents=True, exist_ok=True)
    mod = tvm.IRModule({"main": create_prim_func(WORKLOADS[name]()).with_attr("global_symbol", "main")})
    meta_schedule.tune_tir(
        mod,
        target(),
        work_dir=str(folder),
        max_trials_global=trials,
        num_trials_per_iter=16,
        builder=Builder(),
        runner=Runner(),
        strategy=strategy,
        cost_model="xgb" if strategy == "evolutionary" else "random",
        num_tuning_cores=1,
        seed=seed,
    )


@derived_object
class Builder(meta_schedule.builder.PyBuilder):
    """Builds candidates in this process."""

    def build(self, build_inputs: list[Any]) -> list[Any]:
        return [self._built(x) for x in build_inputs]

    def _built(self, given: Any) -> Any:
        path = str(Path(tempfile.mkdtemp()) / "candidate.so")
        try:
            compiled(given.mod).export_library(path)
        except (RuntimeError, ValueError, TypeError) as error:
            return meta_schedule.builder.BuilderResult(None, str(error)[-300:])
        return meta_schedule.builder.BuilderResult(path, None)


@derived_object
class Runner(meta_schedule.runner.PyRunner):
    """Runs candidates in this process."""

    def run(self, runner_inputs: list[Any]) -> list[Any]:
        return [Done(self._times(x)) for x in runner_inputs]

    def _times(self, given: Any) -> list[float]:
        rng = np.random.default_rng(0)
        arrays = [rng.standard_normal(a.shape).astype(a.dtype) for a in map(_array_info, given.args_info)]
        module = tvm.runtime.load_module(given.artifact_path)
        return times(module, arrays, rounds=3, least_ms=20)


@derived_object
class Done(PyRunnerFuture):
    """A run that is over."""

    def __init__(self, seconds: list[float]) -> None:
        super().__init__()
        self.seconds = seconds

    def done(self) -> bool:
        return True

    def result(self) -> Any:
        return meta_schedule.runner.RunnerResult(self.seconds, None)


def _array_info(info: Any) -> Any:
    class Described:
        shape = tuple(int(n) for n in info.shape)
        dtype = str(info.dtype)

    return Described


def compiled(mod: Any) -> Any:
    """A module as TVM's own builders make it, loaded."""
    return tvm.compile(tvm.s_tir.transform.RemoveWeightLayoutRewriteBlock(skip_tensor_rewrite=True)(mod), target()).mod


def times(module: Any, arrays: list[Any], rounds: int, least_ms: int) -> list[float]:
    evaluate = module.time_evaluator("main", tvm.cpu(), number=1, repeat=rounds, min_repeat_ms=least_ms)
    return [float(t) for t in evaluate(*(tvm.runtime.tensor(a) for a in arrays)).results]


# ------------------------------------------------------------------ both
def compared(folder: Path, schedules: int, rounds: int) -> tuple[Program, list[Measured]]:
    """The fastest schedules of a database, measured on both sides."""
    (tuned,) = read_database(folder).tuned()
    program = as_compiled_there(tuned.workload.program)
    database = meta_schedule.database.JSONDatabase(
        str(folder / "database_workload.json"), str(folder / "database_tuning_record.json")
    )
    mod = database.get_all_tuning_records()[0].workload.mod
    rng = np.random.default_rng(0)
    shapes = [tuple(int(n.value) for n in q.given.shape) for q in program.params]  # type: ignore[attr-defined]
    arrays = [aligned(rng.standard_normal(shape).astype(np.float32)) for shape in shapes]
    found: list[Measured] = []
    for record in tuned.records[:schedules]:
        if record.seconds is None:
            continue
        schedule = tvm.s_tir.Schedule(mod)
        tvm.s_tir.schedule.Trace.apply_json_to_schedule(to_data(record.trace), schedule)
        try:
            imported = import_trace(program, record.trace)
        except MsError as error:
            raise SystemExit(f"{folder.name}: {error}") from error
        found.append(measured(program, imported.program, compiled(schedule.mod), arrays, rounds))
    return program, found


def measured(program: Program, scheduled: Program, theirs: Any, arrays: list[Any], rounds: int) -> Measured:
    """Both sides in turn, and the program without a schedule."""
    ours, plain = ms.build(scheduled), ms.build(program)
    check(ours, theirs, arrays)
    # Samples shorter than the time slices of a busy machine, of both sides alike.
    limits = Limits(repeats=5, max_repeats=5, min_repeat=0.001)
    a, b = [], []
    for _ in range(rounds):
        a += times(theirs, arrays, 5, 1)
        b += ours.time(*arrays, limits=limits).samples
    return Measured(min(a), min(b), min(plain.time(*arrays, limits=limits).samples))


def check(ours: Any, theirs: Any, arrays: list[Any]) -> None:
    """Both compute the same.

    Raises:
        SystemExit: they do not.
    """
    given = [tvm.runtime.tensor(a) for a in arrays]
    theirs["main"](*given)
    mine = [aligned(a) for a in arrays]
    ours(*mine)
    for x, y in zip(given, mine, strict=True):
        np.testing.assert_allclose(x.numpy(), y, rtol=1e-3, atol=1e-3)


if __name__ == "__main__":
    main()
