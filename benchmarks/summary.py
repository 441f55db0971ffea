"""Decisions as arrays: how many candidates a second are drawn, checked, and have all numbers of their nest summary
computed, on one thread; for hand-written schedules and for the automatic spaces.

python benchmarks/summary.py [--draws 10000]
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable

from common import WORKLOADS, conditions, show, table

import mslang as ms
from mslang.ir.program import Program
from mslang.lower.summary import numbers, summarize
from mslang.lower.symbolic import lower_symbolic
from mslang.schedule.rules.automatic import automatic_space
from mslang.schedule.sketch import Sketch
from mslang.target.description import Target
from mslang.target.detect import host

SCHEDULES = (("gemm.ms", "gemm", "tiled"), ("conv2d.ms", "conv2d_nhwc", "tiled"), ("softmax.ms", "softmax", "placed"))
ROUNDS = 9


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--draws", type=int, default=10_000)
    draws = parser.parse_args().draws
    target = host()
    rows = []
    for file, program, name in SCHEDULES:
        module = ms.load(WORKLOADS / file)
        written = next(module.space(name, target=target).sketches())
        rows.append((f"{file}:{name}", *measured(written, target, draws)))
        rows.append((f"{file}:{program} automatic", *measured(largest(module.program(program), target), target, draws)))
    head = ("sketch", "columns", "numbers", "ready in", "drawn", "… and checked", "valid", "all numbers")
    print(table(head, rows))
    print(f"\n{draws} draws; processor time of the best of {ROUNDS} rounds. {conditions('numpy')}")


def largest(program: Program, target: Target) -> Sketch:
    """The sketch with the most decision vectors among the first of the automatic space."""
    sketches = [s for _, s in zip(range(8), automatic_space(program, target).sketches(), strict=False)]
    return max(sketches, key=lambda s: s.count())


def measured(sketch: Sketch, target: Target, draws: int) -> tuple[object, ...]:
    """The rates of a sketch: candidates a second of processor time."""
    start = time.process_time()
    summary = summarize(lower_symbolic(sketch.program, target), target)
    exprs = [e for _, e in numbers(summary)]
    many = sketch.batch()
    compute = many.compile(exprs)
    ready = time.process_time() - start
    batch = many.draw(draws, 0)
    valid = batch[many.valid(batch)]
    drawing = best(lambda: many.draw(draws, 1))
    checking = best(lambda: many.valid(batch))
    computing = best(lambda: compute(valid))
    return (
        many.layout.width,
        len(exprs),
        show(ready),
        rate(draws / drawing),
        rate(draws / (drawing + checking)),
        f"{len(valid) / draws:.0%}",
        rate(len(valid) / computing),
    )


def best(run: Callable[[], object]) -> float:
    """The least processor time of a run, in seconds."""
    found = []
    run()
    for _ in range(ROUNDS):
        start = time.process_time()
        run()
        found.append(time.process_time() - start)
    return min(found)


def rate(each_second: float) -> str:
    """A rate as readable text."""
    return f"{each_second / 1e6:.2f} M/s"


if __name__ == "__main__":
    main()
