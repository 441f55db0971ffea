"""What threads cost and give: fork and join of an empty loop, and workloads on one thread beside all of them.

    python benchmarks/threads.py [--json] [--rounds N] [--threads N] [--db FILE] [NAMES]

`fork_join` is what threads add to the time of a parallel loop of as many iterations as threads: `empty`, each of one
store, beside the same loop on one thread; `working`, each of some microseconds, beside one iteration, so that every
thread must have begun and ended its own; `asleep`, empty, after a rest in which the workers went to sleep; `kept
awake`, the same with `ms.keep_awake()`.

The workloads are those that arithmetic bounds. *Default* is the schedule of the pass `default`, on one thread and on
all. *Tuned* is the best record of `--db` for one thread, on one thread, and the best for all threads, on all; where
`--db` has but one of the two, that one on both. `cpu.py --threads 1 2 --db FILE` leaves both. All kernels of a workload
are timed in turn, round by round, after all threads were kept busy until each had a core, and the ratio is the median
of the rounds' ratios, with quartiles. The ratio of the minimum times stands beside it: on a loaded machine it alone
says what threads can do.
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import NamedTuple

import numpy as np
from common import conditions, interleaved, ratio, show, spread_out, table
from workloads import TABLE

import mslang as ms
from mslang.backend.backend import Bound
from mslang.ir.program import Program
from mslang.target.machine import this_machine
from mslang.target.yardstick import Yardstick
from mslang.tune.verification import make_arguments, make_inputs

SUITE = (
    "gemm_512",
    "gemm_1024",
    "gemm_odd",
    "gemm_s8",
    "gemm_bf16",
    "conv2d_c64_3x3",
    "conv2d_stem_7x7",
    "conv2d_1x1",
    "dense_bias_relu",
    "bmm_8x128",
)
"""The workloads of `workloads.py` that arithmetic bounds."""

EMPTY = """program empty(inout C: i32[{n}, 16]) {{
    for i in {n} @ parallel {{ block b[i: {n} = i] {{ C[i, 0] = 0 }} }}
}}"""

WORK = """program work(inout C: f32[{n}, 16]) {{
    for i in {n} @ parallel, k in 1000 {{ block b[i: {n} = i, k: 1000 @ scan = k] {{ C[i, 0] = C[i, 0] * 0.5 + 1.0 }} }}
}}"""
"""A chain of dependent operations for each thread, some microseconds of it."""

Times = dict[str, list[float]]
"""Seconds of a call on `one` thread and on `all`."""

CALLS = 2000
"""Loops in a row of one sample."""


def fork_join(threads: int, rounds: int) -> dict[str, list[float]]:
    """Seconds that threads add: to an empty loop, to a loop with the same work for each thread, and to an empty loop
    after a rest, with workers that sleep in it and with others."""
    empty = ms.build(ms.parse_program(EMPTY.format(n=threads)))
    c = np.zeros((threads, 16), np.int32)
    alone, together = empty.bind(c, threads=1), empty.bind(c, threads=threads)
    work, one_share = (ms.build(ms.parse_program(WORK.format(n=n))) for n in (threads, 1))
    share, shares = (
        k.bind(np.zeros((n, 16), np.float32), threads=threads) for k, n in ((one_share, 1), (work, threads))
    )
    found: dict[str, list[float]] = {"empty": [], "working": [], "asleep": [], "kept awake": []}
    for _ in range(rounds):
        found["empty"].append(_per_call(together) - _per_call(alone))
        found["working"].append(_per_call(shares) - _per_call(share))
        found["asleep"].append(_rested(together) - _rested(alone))
        with ms.keep_awake():
            found["kept awake"].append(_rested(together) - _rested(alone))
    return found


def _rested(bound: Bound) -> float:
    """Seconds of one call after a rest in which workers go to sleep."""
    with bound.prepared() as (many, _):
        time.sleep(0.005)
        return _seconds(lambda: many(1), 1)


def _per_call(bound: Bound) -> float:
    with bound.prepared() as (many, _):
        many(CALLS // 10)
        return _seconds(lambda: many(CALLS), CALLS)


def _seconds(run: Callable[[], object], calls: int) -> float:
    start = time.perf_counter()
    run()
    return (time.perf_counter() - start) / calls


class Pair(NamedTuple):
    """Programs for one thread and for all, and where they are from."""

    one: Program
    all: Program
    how: str


def default(program: Program) -> Pair:
    """The default schedule, for both."""
    (made,) = ms.apply(program, ["default"], database=None)
    return Pair(made.program, made.program, made.headline)


def tuned(program: Program, database: Path, threads: int) -> Pair | None:
    """The best records for one thread and for several; one for both where the other is missing; None: no records."""
    one, many = recorded(program, database, 1), recorded(program, database, threads)
    if one is None or many is None:
        known = one or many
        return None if known is None else Pair(known[0], known[0], f"{known[1]}, for both")
    return Pair(one[0], many[0], f"{one[1]}; {many[1]}")


def recorded(program: Program, database: Path, threads: int) -> tuple[Program, str] | None:
    """A program with its best record on this processor with so many threads, and what that is; None: there is none."""
    if not database.exists():
        return None
    here = this_machine()
    with ms.Database(database, read_only=True) as store:
        machines = store.known_machines()
    same = (
        m.key for m in machines if (m.cpu, m.features, m.threads, m.device) == (here.cpu, here.features, threads, "")
    )
    key = next(same, None)
    if key is None:
        return None
    (found,) = ms.apply(program, ["db"], database=database, machine=key)
    return None if found.served is None else (found.program, found.headline)


def times_of(
    program: Program, pairs: Mapping[str, Pair], threads: int, rounds: int
) -> dict[str, dict[str, list[float]]]:
    """Seconds of a call on one thread and on all, of each pair, all in turn."""
    arrays = list(make_arguments(program, make_inputs(program, "dense", 0)).values())
    runs: dict[tuple[str, str], Callable[[], object]] = {}
    for label, pair in pairs.items():
        runs[label, "one"] = ms.build(pair.one).bind(*arrays, threads=1).run
        runs[label, "all"] = ms.build(pair.all).bind(*arrays, threads=threads).run
    found = interleaved({f"{a} {b}": run for (a, b), run in runs.items()}, rounds, before=spread_out(Yardstick()))
    return {label: {side: found[f"{label} {side}"] for side in ("one", "all")} for label in pairs}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"fork_join, {', '.join(SUITE)} (default: all)")
    parser.add_argument("--json", action="store_true", help="one JSON line for each figure")
    parser.add_argument("--rounds", type=int, default=31)
    parser.add_argument("--threads", type=int, default=ms.host().cores)
    parser.add_argument("--db", type=Path, default=Path(".mslang/records.db"), help="the record store")
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
    for name in SUITE:
        if name not in names:
            continue
        program = TABLE[name].bare()
        pairs = {"default": default(program)}
        if (records := tuned(program, options.db, options.threads)) is not None:
            pairs = {"tuned": records} | pairs
        for label, times in times_of(program, pairs, options.threads, options.rounds).items():
            middle, low, high = ratio(times["all"], times["one"])
            least = min(times["one"]) / min(times["all"])
            how = pairs[label].how
            both = " / ".join(show(statistics.median(times[k])) for k in ("one", "all"))
            cells = (f"{middle:.2f} ×", f"{low:.2f} to {high:.2f}", f"{least:.2f} ×", f"{both}; {how}")
            rows.append((f"{name}, {label}", *cells))
            if options.json:
                figures = {"ratio": middle, "least": least, "quartiles": [low, high]}
                print(json.dumps({"name": name, "what": label, "schedule": how} | figures | times), flush=True)
    if not options.json:
        print(table(("what", "median", "quartiles", "least", "one thread / all; schedule"), rows))


if __name__ == "__main__":
    main()
