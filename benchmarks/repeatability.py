"""Whether measuring repeats: one candidate in new processes, and the ranks of many in two passes.

    python benchmarks/repeatability.py [FILE:SPACE …] [--candidates 24] [--processes 10] [--cache warm|cold]

Distinct candidates are drawn, compiled, and measured twice, each pass in a new runner process, exactly as a search
does; the best of both passes is then measured in so many new processes, as a finalist is. Good is: max/min of the
normalised times at most 1.10, rank correlation (Spearman) of the two passes at least 0.95. Plain times are shown beside
the normalised ones. *Apart* are the pairs of candidates whose times, averaged over the passes, differ by more than 5 %,
as a share of all; *in order* are those of them that both passes put in the same order. Candidates that are equally fast
have no order, so where few pairs are apart the rank correlation says little.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Sequence
from itertools import combinations, islice
from pathlib import Path

from common import WORKLOADS, conditions, table
from msgspec.structs import replace

from mslang.schedule.space import Candidate
from mslang.search.replay_trace import distinct_candidates
from mslang.search.strategy import Problem, Rejections
from mslang.sema.modules import load
from mslang.target.detect import host
from mslang.tune.job import BuildJob, Built, PrepareJob
from mslang.tune.record import Result
from mslang.tune.roofline import Roofline
from mslang.tune.scratch import scratch_folder
from mslang.tune.task import Settings, Task
from mslang.tune.tasks import tasks_of
from mslang.tune.trials import Trials
from mslang.tune.workers import Workers

STANDARD = ("gemm:tiled", "conv2d:tiled", "softmax:cpu")
SEARCHED = 60.0
"""A finalist has the time that it has after a search of so many seconds."""
APART = 1.05
MOST, LEAST = 1.10, 0.95
"""What is good: max/min of the times of one candidate; Spearman's correlation of two passes."""


def task_of(item: str) -> Task:
    file, _, name = item.rpartition(":")
    path = Path(file) if file.endswith(".ms") else WORKLOADS / f"{file}.ms"
    return next(iter(tasks_of(load(str(path)), name, {}, host()))).task


def built(task: Task, count: int) -> list[tuple[Candidate, Built]]:
    """Distinct candidates of a space, compiled."""
    drawn = distinct_candidates(Problem(task.space, task.target), Rejections())
    with Workers(task.target.cores) as workers:
        started = [
            (p.candidate, workers.build(BuildJob(p.candidate.program, task.target, backend=task.compiler)))
            for p in islice(drawn, count)
        ]
        found = [(candidate, workers.built(pending)) for candidate, pending in started]
    return [(candidate, made) for candidate, made in found if made.result is None]


def cost(result: Result) -> float:
    """The normalised time."""
    assert result.timing is not None, result
    return result.timing.median * (result.timing.yardstick or 1.0)


def plain(result: Result) -> float:
    assert result.timing is not None
    return result.timing.median


def ranks(values: Sequence[float]) -> list[int]:
    order = sorted(range(len(values)), key=values.__getitem__)
    return [order.index(k) for k in range(len(values))]


def spearman(a: Sequence[float], b: Sequence[float]) -> float:
    """The rank correlation of two lists without ties."""
    n, pairs = len(a), zip(ranks(a), ranks(b), strict=True)
    if n < 2:
        return float("nan")
    return 1.0 - 6.0 * sum((x - y) ** 2 for x, y in pairs) / (n * (n * n - 1))


def in_order(a: Sequence[float], b: Sequence[float]) -> tuple[float, float]:
    """The share of pairs that are apart, and of these the share in the same order in both lists."""
    pairs = list(combinations(range(len(a)), 2))
    means = [(x + y) / 2 for x, y in zip(a, b, strict=True)]
    apart = [(j, k) for j, k in pairs if spread((means[j], means[k])) > APART]
    same = sum((a[j] < a[k]) == (b[j] < b[k]) for j, k in apart)
    return len(apart) / max(len(pairs), 1), same / max(len(apart), 1)


def spread(values: Sequence[float]) -> float:
    return max(values) / min(values)


def measured(item: str, candidates: int, processes: int, cache: str | None) -> dict[str, object]:
    """The figures of one space."""
    task = task_of(item)
    limits = replace(Settings().limits, cache=cache)
    with scratch_folder() as folder:
        with Workers(1) as workers:
            prepared = workers.prepare(PrepareJob(task.program, task.target, folder, 0))
        ready = built(task, candidates)

        def trials(workers: Workers) -> Trials:
            begun = time.monotonic() - SEARCHED
            made = Trials(task, limits, workers, folder, Roofline(task.program, None), begun=begun)
            made.prepared = prepared
            return made

        def one_pass() -> list[Result]:
            with Workers(1) as workers:
                measuring = trials(workers)
                return [measuring.measure(c, b) for c, b in ready]

        first, second = one_pass(), one_pass()
        kept = [k for k, (a, b) in enumerate(zip(first, second, strict=True)) if a.timing and b.timing]
        code = ready[min(kept, key=lambda k: cost(first[k]) + cost(second[k]))]
        again = []
        for _ in range(processes):
            with Workers(1) as workers:
                again.append(trials(workers).measure(*code, final=True))
    taken = sum(len(r.timing.samples) + r.timing.disturbed for r in again if r.timing)
    one, other = [cost(first[k]) for k in kept], [cost(second[k]) for k in kept]
    apart, same = in_order(one, other)
    return {
        "space": item,
        "candidates": len(kept),
        "spearman": spearman(one, other),
        "spearman plain": spearman([plain(first[k]) for k in kept], [plain(second[k]) for k in kept]),
        "apart": apart,
        "in order": same,
        "processes": len(again),
        "max/min": spread([cost(r) for r in again]),
        "max/min plain": spread([plain(r) for r in again]),
        "disturbed": sum(r.timing.disturbed for r in again if r.timing) / max(taken, 1),
    }


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("spaces", nargs="*", default=STANDARD, metavar="FILE:SPACE")
    parser.add_argument("--candidates", type=int, default=24)
    parser.add_argument("--processes", type=int, default=10)
    parser.add_argument("--cache", choices=("warm", "cold"))
    parser.add_argument("--json", action="store_true")
    args = parser.parse_args()
    found = [measured(item, args.candidates, args.processes, args.cache) for item in args.spaces]
    if args.json:
        print(json.dumps(found))
    else:
        head = tuple(found[0])
        rows = [[f"{x:.3f}" if isinstance(x, float) else x for x in row.values()] for row in found]
        print(table(head, rows))
    good = all(row["max/min"] <= MOST and row["spearman"] >= LEAST for row in found)
    print(f"\n{'good' if good else 'NOT good'}: max/min ≤ {MOST:.2f}, Spearman ≥ {LEAST:.2f}", file=sys.stderr)
    print(f"\n{conditions('numpy', 'llvmlite')}", file=sys.stderr)
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
