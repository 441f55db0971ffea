"""Losses of the cost model: which trees rank the candidates best that a search has not measured yet.

    python benchmarks/ranking_losses.py RECORDS.db [RECORDS.db …] [--after 32 64 96] [--json]

Of each record store the last run with an automatic space is replayed: the trees learn from the first candidates, in the
features of the search and in the order in which it measured them, and rank the later ones. Printed are the means over
these splits of Spearman's rank correlation with the measured times, of the recall of the fastest eight among the first
eight, and of how much slower the best of the first six is than the best of all, by loss:

- `draft`: no trees.
- `near`: the model of `mslang tune`: the squared error of log2(time) above the draft, one-sided where a time is a
  lower bound, or more than four times the best.
- `squared`: the same, without the limit of four times.
- `weighted`: the same, each error weighted by (best time / time), so that fast candidates count.
- `pairwise`, `ndcg`: XGBoost's `rank:pairwise` and `rank:ndcg`, which begin from the draft.
- `logistic`: the model of `--cost-model pairwise`: the logistic loss of all pairs whose order is known.
- `blend`: the sum of the ranks that `squared` and `logistic` give.

Candidates that were cut off or failed are learned from, but are not ranked. All runs must be of this machine.
"""

from __future__ import annotations

import argparse
import json
import math
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np
from common import conditions, table
from numpy.typing import NDArray
from transfer import FIRST, Floats, correlation, ranks

import mslang as ms
from mslang.search.features.task import FeatureMaker
from mslang.search.known import place
from mslang.search.leaves import Leaves
from mslang.search.models.boosting import (
    LEAST,
    SETTINGS,
    XGBoost,
    draft_of,
    finite,
    is_installed,
    one_sided,
    options,
    predicted,
)
from mslang.search.models.labels import labels_of
from mslang.search.models.model import CostModel
from mslang.search.models.pairwise import Pairwise
from mslang.search.strategy import Rejections
from mslang.tune.database import Database
from mslang.tune.record import INCUMBENT, Record
from mslang.tune.recording import observed_of

FASTEST = 8
"""So many of the fastest are looked for among the first so many of a ranking."""

GRADES = 15
"""The grade of the fastest candidate of `rank:ndcg`, whose gain grows with a power of two of it."""

Rows = NDArray[np.float32]
Mask = NDArray[np.bool_]


class Tried(NamedTuple):
    """Candidates in the order in which they were measured: features, costs as a model is given them."""

    rows: Rows
    cost: Floats
    censored: Mask

    def part(self, at: slice | Mask) -> Tried:
        """Some of them."""
        return Tried(self.rows[at], self.cost[at], self.censored[at])


class Quality(NamedTuple):
    """How good a ranking is."""

    spearman: float
    recall: float
    first: float


Loss = Callable[[Tried, Rows], Floats]
"""Learns from some candidates, and gives scores of others, lower for faster ones."""


class Weighted(XGBoost):
    """Squared errors as those of `XGBoost`, those of fast candidates with more weight."""

    def update(self, features: Rows, cost: Floats, censored: Mask) -> None:
        import xgboost

        if len(cost) < LEAST:
            return
        labels = labels_of(cost, censored)
        weight = 2.0**-labels.value
        above = labels.value - draft_of(features)
        self.offset = float(above.mean())
        plain = one_sided(above - self.offset, labels.bounded)

        def objective(predictions: NDArray[np.float32], data: Any) -> tuple[Any, Any]:
            gradient, curvature = plain(predictions, data)
            return weight * gradient, weight * curvature

        data = xgboost.DMatrix(finite(features), label=above, nthread=1)
        self.booster = xgboost.train(options(self.settings, self.seed), data, self.settings.trees, obj=objective)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("records", type=Path, nargs="+", metavar="RECORDS.db")
    parser.add_argument("--after", type=int, nargs="+", default=[32, 64, 96], help="candidates that are learned from")
    parser.add_argument("--json", action="store_true", help="a line of JSON for each store and loss")
    args = parser.parse_args()
    if not is_installed():
        raise SystemExit("XGBoost is not installed: pip install '.[learn]'")
    found: dict[str, list[Quality]] = {loss: [] for loss in LOSSES}
    lines: list[tuple[str, ...]] = []
    for path in args.records:
        if not path.is_file():
            raise SystemExit(f"there is no file {path}")
        tried = tried_of(path)
        each = {} if tried is None else compared(tried, args.after)
        for loss, quality in each.items():
            found[loss].append(quality)
            if args.json:
                print(json.dumps({"records": path.stem, "loss": loss, **quality._asdict()}), flush=True)
        lines += (
            [(path.stem, *(f"{q.spearman:.2f} {q.recall:.2f} {q.first:.2f}" for q in each.values()))] if each else []
        )
    if args.json or not lines:
        return
    print(table((f"Spearman, recall of {FASTEST}, best of {FIRST}", *LOSSES), lines))
    means = {loss: Quality(*np.mean(qualities, axis=0)) for loss, qualities in found.items()}
    print("\n" + table(("loss", *Quality._fields), [(loss, *(f"{x:.3f}" for x in q)) for loss, q in means.items()]))
    print(f"\n{len(lines)} stores; {conditions('numpy', 'xgboost')}")


def tried_of(path: Path) -> Tried | None:
    """The candidates of the last run of a store, of those that its space still has; None if they are too few."""
    target = ms.host()
    with Database(path, read_only=True) as store:
        run = next((r for r in reversed(store.runs()) if r.space == "automatic"), None)
        if run is None:
            return None
        records = [r for r in store.records(run=run.id) if isinstance(r, Record) and r.trial != INCUMBENT]
        text = next(w.text for w in store.texts(run.workload) if w.source == run.source)
    space = ms.automatic_space(ms.parse(text).program(), target)
    leaves = Leaves(space, target, 0, Rejections(), sample=1)
    first = {r.candidate: r for r in reversed(records)}.values()
    in_order = sorted(first, key=lambda r: r.trial)
    measured = [m for r in in_order if (m := place(observed_of(r, ()), space, leaves)) is not None]
    if len(measured) < FASTEST:
        return None
    features = FeatureMaker()([leaf.sketch for leaf in leaves.all()], target)
    return Tried(
        np.concatenate([features.rows(m.leaf.number, m.row) for m in measured]),
        np.asarray([m.cost or m.bound or np.inf for m in measured]),
        np.asarray([m.cost is None and m.bound is not None for m in measured]),
    )


def compared(tried: Tried, after: Sequence[int]) -> dict[str, Quality]:
    """How well each loss ranks what was measured after some candidates; the mean over these splits."""
    found: dict[str, list[Quality]] = {loss: [] for loss in LOSSES}
    for split in after:
        later = tried.part(slice(split, None))
        later = later.part(np.isfinite(later.cost) & ~later.censored)
        if len(later.cost) < 2 * FASTEST:
            continue
        for name, loss in LOSSES.items():
            found[name].append(quality(loss(tried.part(slice(split)), later.rows), later.cost))
    return {name: Quality(*np.mean(each, axis=0)) for name, each in found.items() if each}


def quality(score: Floats, cost: Floats) -> Quality:
    """How good scores are."""
    order = np.argsort(score, kind="stable")
    fastest = np.argsort(cost, kind="stable")[:FASTEST]
    recall = len(np.intersect1d(order[:FASTEST], fastest)) / FASTEST
    return Quality(correlation(ranks(score), ranks(cost)), recall, float(cost[order[:FIRST]].min() / cost.min()))


def near(tried: Tried, rows: Rows) -> Floats:
    return of_model(XGBoost(), tried, rows)


def squared(tried: Tried, rows: Rows) -> Floats:
    return of_model(XGBoost(near=math.inf), tried, rows)


def weighted(tried: Tried, rows: Rows) -> Floats:
    return of_model(Weighted(), tried, rows)


def logistic(tried: Tried, rows: Rows) -> Floats:
    return of_model(Pairwise(), tried, rows)


def of_model(model: CostModel, tried: Tried, rows: Rows) -> Floats:
    model.update(tried.rows, tried.cost, tried.censored)
    return model.predict(rows)


def pairwise(tried: Tried, rows: Rows) -> Floats:
    return of_ranking("rank:pairwise", tried, rows)


def ndcg(tried: Tried, rows: Rows) -> Floats:
    return of_ranking("rank:ndcg", tried, rows)


def of_ranking(objective: str, tried: Tried, rows: Rows) -> Floats:
    """Trees of one of XGBoost's own ranking losses, which begin from the draft; candidates are one group."""
    import xgboost

    slower = ranks(labels_of(tried.cost, tried.censored).value)
    grades = np.round(GRADES * (1.0 - (slower - 1.0) / max(len(slower) - 1, 1)))
    data = xgboost.DMatrix(finite(tried.rows), label=grades, qid=np.zeros(len(grades)), nthread=1)
    data.set_base_margin(-draft_of(tried.rows))
    pairs = {"objective": objective, "lambdarank_pair_method": "mean", "lambdarank_num_pair_per_sample": 8}
    # The curvature of these losses is far below that of squared errors.
    settings = {**options(SETTINGS, 0), **pairs, "min_child_weight": 0.0, "reg_lambda": 0.01}
    booster = xgboost.train(settings, data, SETTINGS.trees)
    return draft_of(rows) - predicted(booster, rows)


def blend(tried: Tried, rows: Rows) -> Floats:
    return ranks(squared(tried, rows)) + ranks(logistic(tried, rows))


LOSSES: Mapping[str, Loss] = MappingProxyType(
    {
        "draft": lambda tried, rows: draft_of(rows),
        "near": near,
        "squared": squared,
        "weighted": weighted,
        "pairwise": pairwise,
        "ndcg": ndcg,
        "logistic": logistic,
        "blend": blend,
    }
)


if __name__ == "__main__":
    main()
