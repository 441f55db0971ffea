"""What threads cost and give: fork and join of an empty loop, and workloads on one thread beside all of them.

    python benchmarks/threads.py [--json] [--rounds N] [--threads N] [NAMES]

`fork_join` is what threads add to the time of a parallel loop of as many iterations as threads: `empty`, each of one
store, beside the same loop on one thread; `working`, each of some microseconds, beside one iteration, so that every
thread must have begun and ended its own; `asleep`, empty, after a rest in which the workers went to sleep.

The workloads are those of the standard library with the best record of `--db`, else the `default` schedule; their times
on one thread and on all are taken in turn, round by round, after all threads were kept busy until each had a core, and
the ratio is the median of the rounds' ratios, with quartiles. The ratio of the minimum times stands beside it: on a
loaded machine it alone says what threads can do.
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np

import mslang as ms
from benchmarks.common import WORKLOADS, aligned, conditions, interleaved, ratio, show, spread_out, table
from mslang.backend.backend import Bound, Loaded
from mslang.ir.program import Program
from mslang.target.yardstick import Yardstick

SUITE: dict[str, tuple[str, str, dict[str, int]]] = {
    "gemm_512": ("gemm.ms", "gemm", {"M": 512, "N": 512, "K": 512}),
    "gemm_1024": ("gemm.ms", "gemm", {"M": 1024, "N": 1024, "K": 1024}),
    "conv2d_c64_3x3": ("conv2d.ms", "conv2d_nhwc", {}),
}
"""File, program and sizes of each workload."""

EMPTY = """program empty(inout C: i32[{n}, 16]) {{
    for i in {n} @ parallel {{ block b[i: {n} = i] {{ C[i, 0] = 0 }} }}
}}"""

WORK = """program work(inout C: f32[{n}, 16]) {{
    for i in {n} @ parallel, k in 1000 {{ block b[i: {n} = i, k: 1000 @ scan = k] {{ C[i, 0] = C[i, 0] * 0.5 + 1.0 }} }}
}}"""
"""A chain of dependent operations for each thread, some microseconds of it."""

CALLS = 2000
"""Loops in a row of one sample."""


def fork_join(threads: int, rounds: int) -> dict[str, list[float]]:
    """Seconds that threads add: to an empty loop, to a loop with the same work for each thread, and to an empty loop
    that finds the workers asleep."""
    empty = ms.build(ms.parse_program(EMPTY.format(n=threads)))
    c = np.zeros((threads, 16), np.int32)
    alone, together = empty.bind(c, threads=1), empty.bind(c, threads=threads)
    work, one_share = (ms.build(ms.parse_program(WORK.format(n=n))) for n in (threads, 1))
    share, shares = (
        k.bind(np.zeros((n, 16), np.float32), threads=threads) for k, n in ((one_share, 1), (work, threads))
    )
    found: dict[str, list[float]] = {"empty": [], "working": [], "asleep": []}
    for _ in range(rounds):
        found["empty"].append(_per_call(together) - _per_call(alone))
        found["working"].append(_per_call(shares) - _per_call(share))
        with together.prepared() as (many, _):
            time.sleep(0.005)
            slow = _seconds(lambda: many(1), 1)
        with alone.prepared() as (one, _):
            time.sleep(0.005)
            found["asleep"].append(slow - _seconds(lambda: one(1), 1))
    return found


def _per_call(bound: Bound) -> float:
    with bound.prepared() as (many, _):
        many(CALLS // 10)
        return _seconds(lambda: many(CALLS), CALLS)


def _seconds(run: Callable[[], object], calls: int) -> float:
    start = time.perf_counter()
    run()
    return (time.perf_counter() - start) / calls


def scheduled(program: Program, database: str) -> tuple[Program, str]:
    """A program with the best schedule known for it, and what that is."""
    (found,) = ms.apply(program, ["db", "default"], database=database)
    return found.program, found.headline


def speed_up(kernel: Loaded, program: Program, threads: int, rounds: int) -> dict[str, list[float]]:
    """Seconds of a call on one thread and on all, in turn."""
    random = np.random.default_rng(0)
    inputs = [
        aligned(random.standard_normal([int(n.value) for n in p.buffer.shape], np.float32))  # type: ignore[attr-defined]
        for p in program.params
        if p.direction != "out"
    ]
    alone, together = kernel.bind(*inputs, threads=1), kernel.bind(*inputs, threads=threads)
    return interleaved({"one": alone.run, "all": together.run}, rounds, before=spread_out(Yardstick()))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"fork_join, {', '.join(SUITE)} (default: all)")
    parser.add_argument("--json", action="store_true", help="one JSON line for each figure")
    parser.add_argument("--rounds", type=int, default=31)
    parser.add_argument("--threads", type=int, default=ms.host().cores)
    parser.add_argument("--db", default=".mslang/records.db", help="the record store")
    options = parser.parse_args()
    names = options.names or ["fork_join", *SUITE]
    if unknown := [n for n in names if n not in ("fork_join", *SUITE)]:
        parser.error(f"there is no workload {unknown[0]}")
    if options.threads < 2:
        parser.error("one thread has nobody to share with")
    if not options.json:
        print(f"{conditions('numpy')}, {options.threads} threads\n")
    rows: list[tuple[object, ...]] = []
    if "fork_join" in names:
        for state, times in fork_join(options.threads, options.rounds * 4).items():
            low, middle, high = statistics.quantiles(times, n=4)
            rows.append((f"fork and join, {state}", show(middle), f"{show(low)} to {show(high)}", show(min(times)), ""))
            if options.json:
                print(json.dumps({"name": f"fork_join_{state}", "seconds": middle, "quartiles": [low, high]}))
    for name, (file, program_name, sizes) in SUITE.items():
        if name not in names:
            continue
        program = ms.load(Path(WORKLOADS / file)).program(program_name, **sizes)
        made, how = scheduled(program, options.db)
        times = speed_up(ms.build(made), program, options.threads, options.rounds)
        middle, low, high = ratio(times["all"], times["one"])
        pair = " / ".join(show(statistics.median(times[k])) for k in ("one", "all"))
        least = min(times["one"]) / min(times["all"])
        rows.append((name, f"{middle:.2f} ×", f"{low:.2f} to {high:.2f}", f"{least:.2f} ×", f"{pair}; {how}"))
        if options.json:
            print(
                json.dumps(
                    {"name": name, "ratio": middle, "least": least, "quartiles": [low, high], "schedule": how} | times
                )
            )
    if not options.json:
        print(table(("what", "median", "quartiles", "least", "one thread / all; schedule"), rows))


if __name__ == "__main__":
    main()
