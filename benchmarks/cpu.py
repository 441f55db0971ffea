"""Sixteen workloads compared with vendor libraries, all in one run: what `mslang tune` finds from the bare program.

    python benchmarks/cpu.py [NAMES] [--json] [--threads 1 2] [--trials N] [--seconds S] [--db FILE] [--tvm FOLDER]

Ours is tuned from the bare program in the automatic space, or, where the file `--db` has records of the program on this
machine, the best of them without tuning again, so that a table is measured again in a minute. Peers are NumPy
(OpenBLAS) and torch (MKL, oneDNN), with weights packed ahead of time where they can be; one that is missing is left
out, and the reason is printed. `--tvm` names the folder that `tuning_curve.py --folder` left: the times that TVM's own
tuning recorded there are compared (of another run, so less exactly).

With `--avx2` all keep to AVX2, on a processor that has more.

With `--constant` weights are declared constant, so that ours are packed ahead of time, too; what was tuned without is
then a peer, `mslang, per call`. Workloads without weights are left out.

All are run in turn, one sample each a round, with a loop of known work among them. Ratios are taken round by round,
peer over ours (above 1 ours is faster), with their quartiles and the 95 % interval of the median. *min / min* is the
ratio of the minimum times, which other load on the machine disturbs less. *Warm*: samples of some milliseconds, arrays
as the run before left them. *Cold*: single runs, before each of which the caches are emptied. With several threads each
sample is taken when the process was at rest: a library's threads spin while they wait for its next call, on the cores
of the one that is timed. A virtual machine's host may then run two threads on one core, so all are kept busy until each
has one. Rounds in which the yardstick is slow do not count. The roofline is the larger of operations over the measured
peak of the cores and of the arrays' bytes over the measured bandwidth of memory.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any

VARIABLES = ("OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "OMP_NUM_THREADS")
"""Libraries read these when they are loaded; the affinity bounds mslang's own pool."""

UP_TO_AVX2 = {"ONEDNN_MAX_CPU_ISA": "AVX2", "MKL_ENABLE_INSTRUCTIONS": "AVX2", "OPENBLAS_CORETYPE": "Haswell"}

SAMPLE = 0.004
"""Seconds of a warm sample."""

QUIET, MOST_ROUNDS = 0.9, 3
"""A round counts if the yardstick, before and after it, is not below this share of its best rate in all rounds; so many
times as many rounds are run at most, until as many as wanted count."""

Calls = dict[str, Callable[[], Any]]
Before = tuple[Callable[[], None], Callable[[], None]]
"""What is done before each sample, and right before it."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", metavar="NAME", help="workloads (default: all)")
    parser.add_argument("--json", action="store_true", help="a line of JSON for each workload")
    parser.add_argument("--threads", type=int, nargs="+", default=[1])
    parser.add_argument("--trials", type=int, default=64, help="candidates that tuning tries")
    parser.add_argument("--seconds", type=float, default=300.0, help="time that tuning takes at most, each workload")
    parser.add_argument("--rounds", type=int, default=31, help="warm rounds")
    parser.add_argument("--cold", type=int, default=9, help="cold rounds; 0: none")
    parser.add_argument(
        "--processor-time", action="store_true", help="of one thread, where other programs take turns on the core"
    )
    parser.add_argument("--db", type=Path, help="records; what has none is tuned into it (default: a new file)")
    parser.add_argument("--constant", action="store_true", help="declare weights constant")
    parser.add_argument("--avx2", action="store_true", help="keep to AVX2")
    parser.add_argument("--tvm", type=Path, help="the folder of tuning_curve.py")
    options = parser.parse_args()
    if options.processor_time and options.threads != [1]:
        parser.error("--processor-time adds up what threads take: it is for one")
    if len(options.threads) == 1:
        with tempfile.TemporaryDirectory() as folder:
            options.db = options.db or Path(folder) / "records.db"
            measure(options, options.threads[0])
        return
    at = sys.argv.index("--threads")
    others = sys.argv[1:at] + sys.argv[at + 1 + len(options.threads) :]
    for threads in options.threads:
        # A process for each: libraries take the number of threads when they are loaded.
        subprocess.run([sys.executable, __file__, *others, "--threads", str(threads)], check=True)


def measure(options: argparse.Namespace, threads: int) -> None:
    """Print a row for each workload."""
    os.environ |= dict.fromkeys(VARIABLES, str(threads)) | (UP_TO_AVX2 if options.avx2 else {})
    os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:threads])

    from common import conditions, table
    from cpu_peers import WORKLOADS

    from mslang.diagnostics import MsError

    if unknown := [n for n in options.names if n not in WORKLOADS]:
        raise SystemExit(f"there is no workload {unknown[0]}; there are {', '.join(WORKLOADS)}")
    absent = {name: f"{name} is not installed" for name in ("torch",) if find_spec(name) is None}
    if "torch" not in absent:
        import torch

        torch.set_num_threads(threads)
    for reason in absent.values():
        print(f"left out: {reason}", file=sys.stderr)
    rows = []
    names = options.names or list(WORKLOADS)
    for name in names:
        if options.constant and not WORKLOADS[name].weights:
            continue
        try:
            row = {"workload": name, "threads": threads, **compared(name, options, absent, threads)}
        except MsError as error:
            print(f"{name}: {error}", file=sys.stderr, flush=True)
            continue
        rows += table_rows(row)
        if options.json:
            print(json.dumps(row), flush=True)
        else:
            print(f"{name}: {row['ours']['how']}", file=sys.stderr, flush=True)
    if not options.json:
        head = (
            "workload",
            "what",
            "warm",
            "of roofline",
            "peer / ours, warm",
            "95 %",
            "min / min",
            "cold",
            "peer / ours, cold",
        )
        print(table(head, rows))
        print(f"\n{threads} threads. {conditions('numpy', 'torch', 'llvmlite')}")


def compared(name: str, options: argparse.Namespace, absent: Mapping[str, str], threads: int) -> dict[str, Any]:
    """All figures of a workload."""
    import numpy as np
    from common import at_rest, spread_out
    from cpu_peers import WORKLOADS
    from workloads import TABLE

    import mslang as ms
    from mslang.target.yardstick import Yardstick
    from mslang.tune.verification import make_arguments, make_inputs

    workload, target = WORKLOADS[name], machine(options)
    bare = TABLE[workload.workload].bare()
    program = with_constants(bare, workload.weights) if options.constant else bare
    scheduled, how = best(program, options)
    arrays = make_arguments(program, make_inputs(program, "dense", 0))
    kernel = ms.build(scheduled, target).bind(**arrays)
    kernel.run()
    (out,) = (arrays[p.given.name] for p in program.params if p.direction != "in")
    calls: Calls = {"mslang": kernel.run}
    if options.constant:
        other = ms.build(best(bare, options)[0], target).bind(**arrays)

        def per_call() -> Any:
            other.run()
            return out

        calls["mslang, per call"] = per_call
    for library, peer in workload.peers.items():
        if library not in absent:
            calls |= peer(arrays)
    for what, call in calls.items():
        if what != "mslang":
            require_equal(name, what, np.array(out), call(), workload.unit)
    clock = time.process_time if options.processor_time else time.perf_counter
    yardstick = Yardstick()
    before: Before = (at_rest, spread_out(yardstick)) if threads > 1 else (lambda: None, lambda: None)
    times, rates = in_rounds(calls, options.rounds, yardstick, clock, before)
    cold = cold_rounds(calls, options.cold, before) if options.cold else {}
    recorded = {}
    if options.tvm is not None:
        recorded = from_tvm(options.tvm, workload.workload)
    least, bound_by = roofline(program, workload.unit, target)
    mine = {"how": how, "gflops": flops(program) / statistics.median(times["mslang"]) / 1e9}
    return {
        "ours": mine | quantiles(times["mslang"]),
        "roofline": {"seconds": least, "by": bound_by, "share": least / statistics.median(times["mslang"])},
        "yardstick": quantiles(rates),
        "warm": {what: beside(times, what) for what in calls},
        "cold": {what: beside(cold, what) for what in cold},
        "recorded": {what: seconds / statistics.median(times["mslang"]) for what, seconds in recorded.items()},
        "left out": list(absent.values()),
    }


# ------------------------------------------------------------------ ours
def machine(options: argparse.Namespace) -> Any:
    """The target: this machine, or what it is to AVX2 code."""
    from msgspec.structs import replace

    from mslang.target.description import AVX2
    from mslang.target.detect import host

    here = host()
    same = {field: getattr(here, field) for field in ("cores", "l1", "l2", "l3")}
    return replace(AVX2, **same) if options.avx2 else here


def with_constants(program: Any, weights: Sequence[str]) -> Any:
    """The program whose weights are constant."""
    from msgspec.structs import replace

    return replace(program, params=tuple(replace(p, constant=p.buffer.name in weights) for p in program.params))


def best(program: Any, options: argparse.Namespace) -> tuple[Any, str]:
    """The best program on record, tuned now if there is none, and how it came about."""
    import mslang as ms

    target = machine(options)
    (known,) = ms.apply(program, ["db"], target=target, database=options.db)
    if known.served is not None:
        return known.program, known.headline
    begun = time.perf_counter()
    tuned = ms.tune(program, trials=options.trials, seconds=options.seconds, target=target, database=options.db)
    took = time.perf_counter() - begun
    return tuned.program, f"tuned: {tuned.done.tally.trials} trials in {took:.0f} s"


def flops(program: Any) -> float:
    """Operations of a run."""
    from mslang.ir.work import operations

    return float(operations(program) or 0)


def roofline(program: Any, unit: str, target: Any) -> tuple[float, str]:
    """The minimum time in seconds that a run can take, and what bounds it: arithmetic, or memory if arrays outgrow the
    caches."""
    from mslang.ir.dtype import size_of
    from mslang.target.limits import measured_limits
    from mslang.tune.verification import shape_of

    limits = measured_limits(target, unit)
    moved = sum(math.prod(shape_of(p.given)) * size_of(p.given.dtype) for p in program.params)
    computing = flops(program) / limits.peak
    moving = moved / limits.bandwidth if moved > target.l3 else 0.0
    return max((computing, "arithmetic"), (moving, "memory"))


# ------------------------------------------------------------------ peers
def require_equal(name: str, what: str, ours: Any, theirs: Any, unit: str) -> None:
    """A peer must compute what we do.

    Raises:
        SystemExit: it does not.
    """
    import numpy as np

    theirs = np.asarray(theirs.float() if unit == "bf16" else theirs)
    if ours.dtype == np.uint16:  # bits of bf16
        ours = (ours.astype(np.uint32) << 16).view(np.float32)
    error = np.abs(ours.astype(np.float64) - theirs).max() / max(np.abs(theirs).max(), 1e-30)
    if not error <= {"f32": 1e-4, "i8": 0.0, "bf16": 1e-2}[unit]:
        raise SystemExit(f"{name}: {what} differs from ours by {error:.1e} of the largest element")


def from_tvm(folder: Path, name: str) -> dict[str, float]:
    """The shortest time that TVM's own tuning recorded, by `tuning_curve.py`, of a workload of `workloads.py`."""
    found = [json.loads(f.read_text())["points"] for f in sorted(folder.glob(f"{name}-tvm-*.json"))]
    least = [points[-1]["seconds"] for points in found if points]
    return {"tvm (recorded)": min(least)} if least else {}


# ------------------------------------------------------------------ timing
def in_rounds(
    calls: Calls, rounds: int, yardstick: Any, clock: Callable[[], float], before: Before
) -> tuple[dict[str, list[float]], list[float]]:
    """Seconds of a call of each, one sample a round, and the rate of the yardstick in each round.

    Rounds in which the core was slow do not count: the host of a virtual machine runs other programs on it at times.
    """
    rest, spread = before
    taken: list[tuple[float, dict[str, float]]] = []

    def quiet() -> list[tuple[float, dict[str, float]]]:
        best = max(rate for rate, _ in taken)
        return [t for t in taken if t[0] >= QUIET * best]

    while not taken or (len(quiet()) < rounds and len(taken) < MOST_ROUNDS * rounds):
        rate, sampled = yardstick.rate(), {}
        for what, call in calls.items():
            rest()
            spread()
            sampled[what] = sample(call, clock)
        taken.append((min(rate, yardstick.rate()), sampled))
    kept = quiet() if len(quiet()) >= rounds / 2 else sorted(taken, key=lambda t: -t[0])[:rounds]
    return {what: [sampled[what] for _, sampled in kept] for what in calls}, [rate for rate, _ in kept]


def sample(call: Callable[[], Any], clock: Callable[[], float]) -> float:
    """Seconds of a call, of as many as a sample has, after one that is not counted."""
    call()
    begun, taken, count = clock(), 0.0, 0
    while taken < SAMPLE:
        call()
        taken, count = clock() - begun, count + 1
    return taken / count


def cold_rounds(calls: Calls, rounds: int, before: Before) -> dict[str, list[float]]:
    """The same, a single call a sample, before each of which the caches are emptied."""
    from common import seconds

    from mslang.runtime.caches import CacheFlush

    flush, (rest, spread) = CacheFlush(), before
    times: dict[str, list[float]] = {what: [] for what in calls}
    for _ in range(rounds):
        for what, call in calls.items():
            rest()
            flush()
            spread()
            times[what] += seconds(call, 1)
    return times


def quantiles(values: Sequence[float]) -> dict[str, float]:
    """Median and quartiles."""
    low, middle, high = statistics.quantiles(values, n=4)
    return {"median": middle, "low": low, "high": high}


def beside(times: Mapping[str, Sequence[float]], what: str) -> dict[str, Any]:
    """A peer's time, and its ratio to ours round by round: quartiles, and the 95 % interval of the median."""
    from common import interval

    ratios = [peer / ours for peer, ours in zip(times[what], times["mslang"], strict=True)]
    least = min(times[what])
    return {
        "seconds": quantiles(times[what]) | {"least": least},
        "ratio": quantiles(ratios),
        "interval": interval(ratios),
        "least": least / min(times["mslang"]),
    }


def table_rows(row: Mapping[str, Any]) -> list[tuple[str, ...]]:
    """The lines of a workload."""
    from common import show

    found = []
    for what, warm in row["warm"].items():
        cold = row["cold"].get(what)
        cells = [row["workload"], what, show(warm["seconds"]["median"])]
        if what == "mslang":
            cells += [f"{row['roofline']['share']:.0%} ({row['roofline']['by']})", "", "", ""]
        else:
            interval = "{:.2f}–{:.2f}".format(*warm["interval"])
            cells += ["", quartiles(warm["ratio"]), interval, f"{warm['least']:.2f}"]
        if cold is not None:
            cells += [show(cold["seconds"]["median"]), "" if what == "mslang" else quartiles(cold["ratio"])]
        found.append(tuple(cells + [""] * (9 - len(cells))))
    for what, times in row["recorded"].items():
        found.append((row["workload"], what, "", "", f"{times:.2f}", "", "", "", ""))
    return found


def quartiles(of: Mapping[str, float]) -> str:
    """A ratio as text."""
    return f"{of['median']:.2f} [{of['low']:.2f}, {of['high']:.2f}]"


if __name__ == "__main__":
    main()
