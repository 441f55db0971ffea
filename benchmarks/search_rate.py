"""How many candidates a second a search looks at, on one thread, in the code path of `mslang tune`.

What is counted, of an automatic space, per second of processor time of one thread, the best of `--rounds` rounds:

- *drawn*: candidates that satisfy all constraints and guards, none twice in a run; what is rejected takes time, but
  does not count. A round draws `--draws` in all, of each structure in proportion to its number of points.
- *drafted*: drawn, each with the draft's estimate of its time.
- *features*: drawn, each with all its features.
- *scored*: drawn, each with its features and the prediction of boosted trees.
- *trees alone*: predictions for rows of features that are there.
- *drafted in it*: what the evolutionary strategy drafts for its next 16 proposals, over the time of the whole
  generation, the training of its model included.

Good is a million drafted and 100,000 scored a second in each automatic space; otherwise the exit status is 1. No
candidate is lowered, compiled or run. Tracing the space and compiling its formulas are apart. Fewer draws count more
of what each call costs, which gives lower rates. Small spaces are enumerated.

    python benchmarks/search_rate.py [--json] [--draws 65536] [--trees 200] [--depth 6] [--rounds 7]
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Callable

import msgspec
import numpy as np
from common import WORKLOADS, conditions, show, table

import mslang as ms
from mslang.schedule.rules.automatic import automatic_space
from mslang.schedule.space import Space
from mslang.search.draft import Draft
from mslang.search.estimates import Models
from mslang.search.evolutionary import BREEDING, Evolutionary
from mslang.search.features.task import FeatureMaker
from mslang.search.leaves import Leaves
from mslang.search.models.boosting import Settings, XGBoost, is_installed
from mslang.search.ranking import Measured, Ranking
from mslang.search.strategy import Observed, Problem, Rejections
from mslang.target.detect import host

LARGE = (("gemm.ms", "gemm"), ("conv2d.ms", "conv2d_nhwc"))
SMALL = (("gemm.ms", "tiled"), ("conv2d.ms", "tiled"), ("softmax.ms", "placed"))
SEED = 1
MEASURED = 256
"""Candidates that the trees are grown from."""

DRAFTED, SCORED = 1e6, 1e5
"""What is good: candidates a second."""


class Rates(msgspec.Struct):
    """What is measured of one automatic space; rates are candidates a second of processor time."""

    space: str
    structures: int
    points: int
    traced: float
    """Seconds to replay the space's structures."""
    compiled: float
    """Seconds to compile constraints, drafts and features."""
    columns: int
    drawn: float
    drafted: float
    featured: float
    scored: float | None
    predicted: float | None
    """The trees alone."""
    generation: float | None
    """Seconds of the evolutionary strategy for 16 proposals, the model's training included."""
    considered: float | None
    """Candidates that it drafts a second in this."""


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--trees", type=int, default=200)
    parser.add_argument("--depth", type=int, default=6)
    parser.add_argument("--draws", type=int, default=65536)
    parser.add_argument("--rounds", type=int, default=7)
    args = parser.parse_args()
    settings = Settings(trees=args.trees, depth=args.depth)
    large = [rates(file, name, settings, args.draws, args.rounds) for file, name in LARGE]
    small = [enumerated(file, name) for file, name in SMALL]
    peer = tvm_rate()
    if args.json:
        found = {"spaces": msgspec.to_builtins(large), "enumerated": small, "tvm": peer, "conditions": conditions()}
        print(json.dumps(found))
        return 0 if all(is_good(r) for r in large) else 1
    head = (
        "space", "structures", "points", "traced", "compiled", "columns",
        "drawn", "drafted", "features", "scored", "trees alone", "generation of 16", "… drafted in it",
    )  # fmt: skip
    print(table(head, [row(r) for r in large]))
    print(f"\n{args.trees} trees of depth {args.depth}. Small spaces: ", end="")
    print("; ".join(f"{x['space']}: {x['points']} points in {x['milliseconds']:.1f} ms" for x in small))
    print(
        "TVM's search: " + ("not installed" if peer is None else f"{peer:.0f} candidates a second, replayed one by one")
    )
    good = all(is_good(r) for r in large)
    print(f"{'Good' if good else 'NOT good'}: {DRAFTED:,.0f} drafted and {SCORED:,.0f} scored a second.")
    print(f"Processor time of one thread, the best of {args.rounds} rounds. {conditions('numpy', 'xgboost')}")
    return 0 if good else 1


def is_good(found: Rates) -> bool:
    """Whether a space is searched as fast as it should be; without XGBoost nothing is scored."""
    return found.drafted >= DRAFTED and (found.scored is None or found.scored >= SCORED)


def rates(file: str, name: str, settings: Settings, draws: int, rounds: int) -> Rates:
    """The rates of a program's automatic space."""
    target = host()
    space = automatic_space(ms.load(WORKLOADS / file).program(name), target)
    rejections = Rejections()
    start = time.process_time()
    leaves = Leaves(space, target, SEED, rejections)
    traced = time.process_time() - start

    def grown(names: object, seed: int) -> XGBoost:
        return XGBoost(seed, settings)

    models = Models(Draft, FeatureMaker(), grown if is_installed() else None)
    ranking = Ranking(Problem(space, target, SEED, models=models), leaves)
    start = time.process_time()
    features = models.features([leaf.sketch for leaf in leaves.all()], target)  # type: ignore[misc]
    for leaf, batch in leaves.draw(64):
        ranking.draft(leaf, batch)
        features.rows(leaf.number, batch)
    compiled = time.process_time() - start

    drawing = best(lambda: counted(leaves.draw(draws)), rounds)
    drafting = best(lambda: counted([(x, b, ranking.draft(x, b)) for x, b in leaves.draw(draws)]), rounds)
    featuring = best(lambda: counted([(x, b, features.rows(x.number, b)) for x, b in leaves.draw(draws)]), rounds)
    found = Rates(
        f"{file}:{name}",
        len(leaves),
        leaves.points or 0,
        traced,
        compiled,
        len(features.names),
        drawing,
        drafting,
        featuring,
        None,
        None,
        None,
        None,
    )
    if not is_installed():
        return found
    ranking.learn(measured(leaves, ranking))
    found.scored = best(lambda: counted([(x, b, ranking.score(x, b)) for x, b in leaves.draw(draws)]), rounds)
    model = XGBoost(SEED, settings)
    rows = np.concatenate([features.rows(x.number, b) for x, b in leaves.draw(4096)])
    noise = np.random.default_rng(SEED).normal(0, 1, MEASURED)
    model.update(rows[:MEASURED], np.exp2(rows[:MEASURED, -1] + noise), np.zeros(MEASURED, bool))
    found.predicted = best(lambda: len(model.predict(rows)), rounds)
    found.generation = generation(space, models)
    found.considered = (BREEDING.fresh + BREEDING.rounds * BREEDING.children) / found.generation
    return found


def counted(parts: list) -> int:  # type: ignore[type-arg]
    """The number of candidates of some parts."""
    return sum(len(p[1]) for p in parts)


def measured(leaves: Leaves, ranking: Ranking) -> list[Measured]:
    """Candidates whose costs are the draft's, with noise."""
    noise = np.random.default_rng(SEED)
    out = []
    for leaf, batch in leaves.draw(MEASURED):
        costs = np.exp2(ranking.draft(leaf, batch) + noise.normal(0, 1, len(batch)))
        out += [Measured(leaf, batch[k : k + 1], float(c), None) for k, c in enumerate(costs)]
    return out


def generation(space: Space, models: Models) -> float:
    """Seconds of the fourth generation, as `mslang tune` has it after 48 trials."""
    strategy = Evolutionary(Problem(space, host(), SEED, 1000, models=models))
    noise = np.random.default_rng(SEED)
    seconds = 0.0
    for _ in range(4):
        start = time.process_time()
        proposals = strategy.propose(16)
        seconds = time.process_time() - start
        costs = np.exp2(noise.normal(0, 1, len(proposals))) * 1e-3
        observed = [
            Observed(p.hash, p.candidate.decisions, p.candidate.sketch.structure, float(c))
            for p, c in zip(proposals, costs, strict=True)
        ]
        start = time.process_time()
        strategy.observe(observed)
        seconds += time.process_time() - start
    return seconds


def enumerated(file: str, name: str) -> dict[str, object]:
    """How long it takes to enumerate a small space, to check and to draft all its points."""
    target = host()
    leaves = Leaves(ms.load(WORKLOADS / file).space(name, target=target), target, SEED, Rejections())
    drafts = [Draft(leaf.sketch, target) for leaf in leaves.all()]

    def run() -> int:
        return sum(len(d.seconds(leaf.all())) for leaf, d in zip(leaves.all(), drafts, strict=True))

    points = run()
    start = time.process_time()
    run()
    return {"space": f"{file}:{name}", "points": points, "milliseconds": (time.process_time() - start) * 1e3}


def best(run: Callable[[], int], rounds: int) -> float:
    """Candidates a second of processor time, the best of some rounds."""
    found = 0.0
    run()
    for _ in range(rounds):
        start = time.process_time()
        n = run()
        found = max(found, n / (time.process_time() - start))
    return found


def tvm_rate(candidates: int = 64) -> float | None:
    """Candidates a second that MetaSchedule draws, replays and checks, of a product of 512 x 512; None without TVM."""
    try:
        import tvm
        from tvm.s_tir import meta_schedule
    except ImportError:
        return None
    from tvm import te

    a, b = te.placeholder((512, 512), name="A"), te.placeholder((512, 512), name="B")
    k = te.reduce_axis((0, 512), name="k")
    c = te.compute((512, 512), lambda i, j: te.sum(a[i, k] * b[k, j], axis=k), name="C")
    context = meta_schedule.TuneContext(
        mod=tvm.IRModule({"main": te.create_prim_func([a, b, c])}),
        target=tvm.target.Target({"kind": "llvm", "num-cores": 1}),
        space_generator="post-order-apply",
        search_strategy="replay-trace",
        num_threads=1,
    )
    spaces = context.generate_design_space()
    context.pre_tuning(max_trials=candidates, num_trials_per_iter=candidates, design_spaces=spaces)
    start = time.process_time()
    drawn = context.generate_measure_candidates() or ()
    return len(drawn) / (time.process_time() - start)


def row(r: Rates) -> tuple[object, ...]:
    """The cells of one space."""

    def rate(x: float | None) -> str:
        return "–" if x is None else f"{x / 1e6:.2f} M/s" if x >= 1e6 else f"{x / 1e3:.0f} k/s"

    return (
        r.space, r.structures, f"{r.points:.2g}", show(r.traced), show(r.compiled), r.columns,
        rate(r.drawn), rate(r.drafted), rate(r.featured), rate(r.scored), rate(r.predicted),
        "–" if r.generation is None else show(r.generation), rate(r.considered),
    )  # fmt: skip


if __name__ == "__main__":
    sys.exit(main())
