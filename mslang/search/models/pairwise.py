"""A cost model of boosted trees that learns which of two candidates is faster, not how long they take."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple

from mslang.search.models.boosting import FAR, LEAST, Settings, draft_of, finite, options, predicted
from mslang.search.models.labels import Labels, labels_of

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from mslang.search.models.model import Features, Mask, Numbers

    Objective = Callable[[NDArray[np.float32], Any], tuple[Any, Any]]

OF_PAIRS = Settings(trees=100, leaf=0.0, shrinkage=0.1)
"""How trees are grown: the curvature of this loss is far below that of squared errors where the order is right."""

OPPONENTS = 512
"""Of more candidates each is compared with so many at random."""


class Pairwise:
    """Boosted trees over the features of a task, grown again at each update, that learn the order of candidates.

    A score is the draft's estimate plus what the trees give, so that far from all data the draft decides. The loss is
    the logistic one of pairs: the chance that the wrong one of two candidates seems faster. A candidate that was cut
    off, or that failed, is only compared with those that are known to be faster. Predictions are the scores on the line
    that fits `log2(cost / best)` best. One thread and a fixed seed: equal data give equal predictions.

    `benchmarks/ranking_losses.py` compares it with other losses; docs/cost-models.md has figures.

    Args:
        seed: of the rows and columns that each tree sees.
        settings: how trees are grown.

    Source: RankNet (Burges et al., ICML 2005); XGBoost (Chen and Guestrin, KDD 2016)
    """

    def __init__(self, seed: int = 0, settings: Settings = OF_PAIRS) -> None:
        self.seed = seed
        self.settings = settings
        self.line = Line(0.0, 1.0)
        self.booster: Any = None

    def update(self, features: Features, cost: Numbers, censored: Mask) -> None:
        """Grow the trees from all candidates measured so far."""
        import xgboost

        if len(cost) < LEAST:
            return
        labels, draft = labels_of(cost, censored), draft_of(features)
        data = xgboost.DMatrix(finite(features), label=labels.value, nthread=1)
        objective = pairwise(labels, draft, self.seed)
        self.booster = xgboost.train(options(self.settings, self.seed), data, self.settings.trees, obj=objective)
        self.line = line_of(predicted(self.booster, features) + draft, labels)

    def predict(self, features: Features) -> Numbers:
        """Predictions for candidates; before there is enough data, the draft's."""
        draft = draft_of(features)
        if self.booster is None:
            return draft
        return self.line.offset + self.line.slope * (predicted(self.booster, features) + draft)


class Line(NamedTuple):
    """What turns scores into logarithms of times."""

    offset: float
    slope: float


def line_of(score: Numbers, labels: Labels) -> Line:
    """The line through the scores of measured candidates, by least squares."""
    known = ~labels.bounded
    if not known.any():
        return Line(0.0, 1.0)
    x, y = score[known], labels.value[known]
    apart = x - x.mean()
    slope = float(apart @ y / (apart @ apart)) if apart.any() else 0.0
    slope = slope if slope > 0 else 1.0
    return Line(float(y.mean() - slope * x.mean()), slope)


def pairwise(labels: Labels, draft: Numbers, seed: int) -> Objective:
    """The gradient and the curvature of a candidate's mean logistic loss, over the pairs whose order is known.

    Args:
        labels: what candidates took.
        draft: what is added to what the trees give.
        seed: of the opponents of many candidates.
    """
    import numpy as np

    value, bounded = labels
    n = len(value)
    against = np.arange(n) if n <= OPPONENTS else np.random.default_rng(seed).choice(n, OPPONENTS, replace=False)
    faster = (value[:, None] < value[against]) & ~bounded[:, None]
    slower = (value[:, None] > value[against]) & ~bounded[against]
    count = np.maximum((faster | slower).sum(axis=1), 1)

    def objective(predictions: NDArray[np.float32], data: Any) -> tuple[Any, Any]:
        score = predictions + draft
        seems_slower = 1.0 / (1.0 + np.exp(np.clip(score[against] - score[:, None], -FAR, FAR)))
        gradient = np.where(faster, seems_slower, 0.0) - np.where(slower, 1.0 - seems_slower, 0.0)
        curvature = np.where(faster | slower, seems_slower * (1.0 - seems_slower), 0.0)
        return (gradient.sum(axis=1) / count).astype(np.float32), (curvature.sum(axis=1) / count).astype(np.float32)

    return objective
