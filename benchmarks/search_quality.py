"""What search strategies find within a number of trials, on a made-up machine: nothing is measured, so that the figures
are the same everywhere.

    python benchmarks/search_quality.py [--trials 100] [--seeds 7] [--cost-model NAME] [--json]

The spaces are the automatic ones. What a candidate costs is the draft's estimate times what the draft does not know:
preferred sizes, pairs of sizes that must fit together, a factor for each structure, and roughness. Printed is the
median over the seeds of the best cost found, over the lowest cost that any of the searches of this program found.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mslang.schedule.batch.layout import DecisionBatch
from mslang.schedule.rules.automatic import automatic_space
from mslang.schedule.seeds import generator
from mslang.schedule.sketch import Sketch
from mslang.schedule.space import Space
from mslang.search.draft import Draft
from mslang.search.estimates import Models
from mslang.search.models.registry import default_models
from mslang.search.registry import strategy_named
from mslang.search.strategy import Observed, Problem, Proposal
from mslang.sema.modules import load
from mslang.sema.program import instantiate
from mslang.target.description import AVX512, Target
from mslang.tune.search import GENERATION

WORKLOADS = Path(__file__).parents[1] / "stdlib" / "workloads"
PROGRAMS = (
    ("gemm", "gemm"),
    ("conv2d", "conv2d_nhwc"),
    ("dense", "dense_bias_relu"),
    ("depthwise", "depthwise_nhwc"),
)


class Machine:
    """A made-up machine: the cost of candidates in seconds.

    Args:
        target: what the draft takes the machine for.
    """

    def __init__(self, target: Target) -> None:
        self._target = target
        self._drafts: dict[int, tuple[Sketch, Draft]] = {}

    def cost(self, p: Proposal) -> float:
        """What a candidate costs."""
        sketch = p.candidate.sketch
        values = {d.address: p.candidate.decisions[d.address] for d in sketch.decisions}
        batch = sketch.batch().of([values])  # type: ignore[list-item]
        if id(sketch) not in self._drafts:
            self._drafts[id(sketch)] = sketch, Draft(sketch, self._target)
        draft = self._drafts[id(sketch)][1].seconds(batch)
        return float((draft * 2 ** (unknown(batch) + structure(sketch)) * rough(p.hash))[0])


def unknown(batch: DecisionBatch) -> NDArray[np.float64]:
    """Binary logarithm of what the draft does not know of the sizes: up to about four."""
    sizes = {name: np.log2(np.maximum(x, 1).astype(np.float64)) for name, x in batch.columns().items()}
    out = np.zeros(len(batch))
    for name, x in sizes.items():
        rng = generator(1, "preferred", name)
        out += rng.uniform(0.02, 0.06) * (x - rng.uniform(0, 5)) ** 2
    names = sorted(sizes)
    for a, b in pairwise(names):
        rng = generator(1, "pair", a, b)
        out += rng.uniform(0.0, 0.12) * abs(sizes[a] + sizes[b] - rng.uniform(2, 7))
    return out


def structure(sketch: Sketch) -> float:
    """Binary logarithm of the factor of a structure."""
    return sum(generator(1, a, str(label)).uniform(0, 0.5) for a, label in sketch.structure)


def rough(hash: str) -> float:
    """A factor up to 1.15 that nothing tells."""
    return 1 + 0.15 * int(hash[:8], 16) / 2**32


def searched(space: Space, target: Target, name: str, models: Models, seed: int, trials: int) -> tuple[float, float]:
    """The lowest cost found, and the processor time of the strategy in seconds."""
    machine = Machine(target)
    begun = time.process_time()
    strategy = strategy_named(name)(Problem(space, target, seed, trials, models=models))
    spent = time.process_time() - begun
    costs: list[float] = []
    while len(costs) < trials:
        begun = time.process_time()
        proposals = strategy.propose(GENERATION)
        spent += time.process_time() - begun
        if not proposals:
            break
        new = [machine.cost(p) for p in proposals]
        costs += new
        begun = time.process_time()
        strategy.observe([_observed(p, c) for p, c in zip(proposals, new, strict=True)])
        spent += time.process_time() - begun
    return min(costs[:trials]), spent


def _observed(p: Proposal, cost: float) -> Observed:
    return Observed(p.hash, p.candidate.decisions, p.candidate.sketch.structure, cost)


def compare(
    file: str,
    program: str,
    trials: int,
    seeds: int,
    listen: Callable[[str], None] = lambda _: None,
    model: str | None = None,
) -> dict[str, Any]:
    """The strategies on one program: medians of the best costs over the least, and how much better evolution is."""
    found = instantiate(load(file, (WORKLOADS / f"{file}.ms").read_text()), program, {})
    learned, drafted = default_models(model).models, default_models("draft").models
    strategies = (("evolutionary", learned), ("evolutionary", drafted), ("replay_trace", learned))
    labels = ("evolutionary", "evolutionary, draft alone", "replay_trace")
    results: dict[str, list[tuple[float, float]]] = {}
    for label, (name, models) in zip(labels, strategies, strict=True):
        space = automatic_space(found, AVX512)
        results[label] = [searched(space, AVX512, name, models, seed, trials) for seed in range(seeds)]
        listen(f"{program}: {label} done")
    least = min(cost for runs in results.values() for cost, _ in runs)
    medians = {label: median(cost for cost, _ in runs) / least for label, runs in results.items()}
    seconds = {label: median(s for _, s in runs) for label, runs in results.items()}
    return {"program": program, "trials": trials, "seeds": seeds, "median": medians, "seconds": seconds}


def main() -> None:
    """Print the comparison."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--trials", type=int, default=100)
    parser.add_argument("--seeds", type=int, default=7)
    parser.add_argument("--cost-model", metavar="NAME", help="of evolutionary search (default: that of `mslang tune`)")
    parser.add_argument("--json", action="store_true")
    args = parser.parse_args()
    found = [compare(file, program, args.trials, args.seeds, model=args.cost_model) for file, program in PROGRAMS]
    if args.json:
        print(json.dumps(found, indent=2))
        return
    print(f"best of {args.trials} trials over the least found, median of {args.seeds} seeds (processor seconds)")
    for result in found:
        for label, ratio in result["median"].items():
            print(f"{result['program']:16} {label:26} {ratio:6.3f}  ({result['seconds'][label]:.1f} s)")


if __name__ == "__main__":
    main()
