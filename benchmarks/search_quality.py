"""What searches find within a number of trials, by cost model, on made-up machines: nothing is measured, so that the
figures are the same everywhere.

    python benchmarks/search_quality.py [--trials 100] [--seeds 7] [--models NAME …] [--machines NAME …] [--json]

The spaces are the automatic ones. What a candidate costs is the draft's estimate times what the draft does not know: a
factor for each structure, roughness, and on the machine `smooth` preferred sizes and pairs of sizes that must fit
together; on `cliffs`, for which the draft is worse, the slowest of ten bottlenecks, each the bound of a product of
sizes, and a step for each bound that is passed. Printed is the median over the seeds of the best cost that random draws
found, and that evolutionary search found with each model, over the lowest cost of any search of this program on this
machine; and over all rows the geometric mean, and how often evolutionary search did better than random draws of the
same seed. Compared are the model of `mslang tune` and `squared`; `--models` also takes other names of `--cost-model`,
and two that are for comparison only:

- `squared`: as the default, but the times of slow candidates count, too.
- `weighted`: the same, each error weighted by (best time / time).
"""

from __future__ import annotations

import argparse
import json
import math
from collections.abc import Callable, Mapping, Sequence
from itertools import pairwise
from statistics import median
from types import MappingProxyType
from typing import NamedTuple

import numpy as np
from common import WORKLOADS, table
from numpy.typing import NDArray
from ranking_losses import Weighted

from mslang.diagnostics import MsError
from mslang.ir.program import Program
from mslang.schedule.batch.layout import DecisionBatch
from mslang.schedule.rules.automatic import automatic_space
from mslang.schedule.seeds import generator
from mslang.schedule.sketch import Sketch
from mslang.search.draft import Draft
from mslang.search.models.boosting import XGBoost
from mslang.search.models.registry import Factory, default_models
from mslang.search.registry import strategy_named
from mslang.search.strategy import Observed, Problem, Proposal
from mslang.sema.modules import load
from mslang.sema.program import instantiate
from mslang.target.description import AVX512
from mslang.tune.search import GENERATION

PROGRAMS = (
    ("gemm", "gemm"),
    ("conv2d", "conv2d_nhwc"),
    ("dense", "dense_bias_relu"),
    ("depthwise", "depthwise_nhwc"),
)

RANDOM = "random draws"

COMPARED: Mapping[str, Factory] = MappingProxyType(
    {
        "squared": lambda names, seed: XGBoost(seed, near=math.inf),
        "weighted": lambda names, seed: Weighted(seed),
    }
)
"""Models that are only compared with."""

MODELS = ("xgboost", "squared")

Floats = NDArray[np.float64]


class Machine:
    """A made-up machine: the cost of candidates in seconds.

    Args:
        name: of `MACHINES`.
    """

    def __init__(self, name: str) -> None:
        self._unknown, self._power = MACHINES[name]
        self._drafts: dict[int, tuple[Sketch, Draft]] = {}

    def cost(self, p: Proposal) -> float:
        """What a candidate costs."""
        sketch = p.candidate.sketch
        values = {d.address: p.candidate.decisions[d.address] for d in sketch.decisions}
        batch = sketch.batch().of([values])  # type: ignore[list-item]
        if id(sketch) not in self._drafts:
            self._drafts[id(sketch)] = sketch, Draft(sketch, AVX512)
        draft = self._drafts[id(sketch)][1].seconds(batch) ** self._power
        return float((draft * 2 ** (self._unknown(batch) + structure(sketch)) * rough(p.hash))[0])


def smooth(batch: DecisionBatch) -> Floats:
    """Binary logarithm of what the draft does not know of the sizes: up to about four."""
    sizes = sizes_of(batch)
    out = np.zeros(len(batch))
    for name, x in sizes.items():
        rng = generator(1, "preferred", name)
        out += rng.uniform(0.02, 0.06) * (x - rng.uniform(0, 5)) ** 2
    for a, b in pairwise(sizes):
        rng = generator(1, "pair", a, b)
        out += rng.uniform(0.0, 0.12) * abs(sizes[a] + sizes[b] - rng.uniform(2, 7))
    return out


def cliffs(batch: DecisionBatch) -> Floats:
    """Binary logarithm of the slowest of some bottlenecks, and of a step for each bound that is passed."""
    sizes = sizes_of(batch)
    slowest, steps = np.zeros(len(batch)), np.zeros(len(batch))
    for k in range(10):
        rng = generator(1, "bottleneck", k)
        bound, slope, step = rng.uniform(2, 7), rng.uniform(0.3, 1.0), rng.uniform(0, 0.5)
        least = rng.random() < 0.4
        some = [x for name, x in sizes.items() if generator(1, "takes part", k, name).random() < 0.25]
        if some:
            product = np.sum(some, axis=0)
            past = np.maximum(bound - product if least else product - bound, 0)
            slowest = np.maximum(slowest, slope * past)
            steps += step * (past > 0)
    return slowest + steps


def sizes_of(batch: DecisionBatch) -> dict[str, Floats]:
    """Binary logarithms of the sizes, by name."""
    found = sorted(batch.columns().items())
    return {name: np.log2(np.maximum(x, 1).astype(np.float64)) for name, x in found}


class Unknown(NamedTuple):
    """What the draft does not know of a machine: the logarithm of a factor, and a power of its estimate."""

    factor: Callable[[DecisionBatch], Floats]
    power: float


MACHINES: Mapping[str, Unknown] = MappingProxyType({"smooth": Unknown(smooth, 1.0), "cliffs": Unknown(cliffs, 0.7)})


def structure(sketch: Sketch) -> float:
    """Binary logarithm of the factor of a structure."""
    return sum(generator(1, a, str(label)).uniform(0, 0.5) for a, label in sketch.structure)


def rough(hash: str) -> float:
    """A factor up to 1.15 that nothing tells."""
    return 1 + 0.15 * int(hash[:8], 16) / 2**32


def searched(program: Program, machine: str, model: str | None, seed: int, trials: int) -> float:
    """The lowest cost that a search finds: evolutionary search with a model, random draws without."""
    on = Machine(machine)
    models = default_models(COMPARED.get(model, model) if model else "draft").models
    name = "evolutionary" if model else "replay_trace"
    strategy = strategy_named(name)(Problem(automatic_space(program, AVX512), AVX512, seed, trials, models=models))
    costs: list[float] = []
    while len(costs) < trials and (proposals := strategy.propose(GENERATION)):
        new = [on.cost(p) for p in proposals]
        costs += new
        strategy.observe([_observed(p, c) for p, c in zip(proposals, new, strict=True)])
    return min(costs[:trials])


def _observed(p: Proposal, cost: float) -> Observed:
    return Observed(p.hash, p.candidate.decisions, p.candidate.sketch.structure, cost)


class Found(NamedTuple):
    """The lowest costs over the seeds, by model, on one program and machine; those of random draws are the first."""

    machine: str
    program: str
    costs: dict[str, list[float]]

    @property
    def ratios(self) -> dict[str, float]:
        """The median of each model over the lowest cost of all."""
        least = min(map(min, self.costs.values()))
        return {name: median(costs) / least for name, costs in self.costs.items()}


def compare(file: str, program: str, machine: str, models: Sequence[str], trials: int, seeds: int) -> Found:
    """The models on one program."""
    found = instantiate(load(file, (WORKLOADS / f"{file}.ms").read_text()), program, {})
    costs = {RANDOM: [searched(found, machine, None, seed, trials) for seed in range(seeds)]}
    for model in models:
        costs[model] = [searched(found, machine, model, seed, trials) for seed in range(seeds)]
    return Found(machine, program, costs)


def summary(found: Sequence[Found]) -> str:
    """The table, a row for each program and machine, the geometric means, and how often random draws are beaten."""
    names = list(found[0].costs)
    rows = [(f.machine, f.program, *(f"{x:.2f}" for x in f.ratios.values())) for f in found]
    means = [math.exp(sum(math.log(f.ratios[name]) for f in found) / len(found)) for name in names]
    rows.append(("geometric mean", "", *(f"{x:.2f}" for x in means)))
    won = {
        name: [c < r for f in found for c, r in zip(f.costs[name], f.costs[RANDOM], strict=True)] for name in names[1:]
    }
    rows.append(("better than random draws", "", "", *(f"{sum(x)} of {len(x)}" for x in won.values())))
    return table(("machine", "program", *names), rows)


def main() -> None:
    """Print the comparison."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--trials", type=int, default=100)
    parser.add_argument("--seeds", type=int, default=7)
    parser.add_argument("--models", nargs="+", default=MODELS, metavar="NAME", help="of evolutionary search")
    parser.add_argument("--machines", nargs="+", default=tuple(MACHINES), choices=tuple(MACHINES), metavar="NAME")
    parser.add_argument("--json", action="store_true", help="a line of JSON for each program and machine")
    args = parser.parse_args()
    for model in args.models:
        try:
            default_models(COMPARED.get(model, model))
        except MsError as error:
            parser.error(f"{error.diagnostic.message}: {error.diagnostic.why}")
    found: list[Found] = []
    for machine in args.machines:
        for file, program in PROGRAMS:
            found.append(compare(file, program, machine, args.models, args.trials, args.seeds))
            if args.json:
                print(json.dumps(found[-1]._asdict()), flush=True)
    if not args.json:
        print(f"best of {args.trials} trials over the least found, median of {args.seeds} seeds\n\n{summary(found)}")


if __name__ == "__main__":
    main()
