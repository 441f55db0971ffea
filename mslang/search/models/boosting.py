"""A cost model of boosted trees (XGBoost), which corrects the draft and knows that some costs are only lower bounds."""

from __future__ import annotations

from collections.abc import Callable
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

import msgspec

from mslang.search.features.task import DRAFT_COLUMN
from mslang.search.models.labels import labels_of, limited

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from mslang.search.models.model import Features, Mask, Numbers

ROWS = 1024
"""Rows predicted at a time: their features stay in the L2 cache."""

LEAST = 8
"""Below so many measured candidates the model predicts what the draft does."""

NEAR = 2.0
"""Candidates that take up to this power of two times as long as the best are told apart; of slower ones the model
learns only that they are slower than that."""

LARGE = 1e30
"""Stands for an infinite feature."""

FAR = 64.0
"""Stands for the logarithm of an estimate of 0, or of infinitely many, seconds."""


class Settings(msgspec.Struct, frozen=True):
    """How trees are grown: their number and depth, the learning rate, the shares of rows and of columns that each sees,
    the fewest rows of a leaf, and what is added to the rows of a leaf, so that few rows say little."""

    trees: int = 200
    depth: int = 6
    rate: float = 0.1
    rows: float = 0.8
    columns: float = 0.8
    leaf: float = 1.0
    shrinkage: float = 3.0


SETTINGS = Settings()


def is_installed() -> bool:
    """Whether XGBoost can be imported; it is not."""
    return find_spec("xgboost") is not None


class XGBoost:
    """Boosted trees over the features of a task, grown again at each update.

    The trees learn what `log2(cost / best)` is above the draft's estimate, so that far from all data the draft counts.
    The loss is the squared error; of a candidate that was cut off, or that failed, only predictions below its bound
    count. So it is with candidates that take more than four times as long as the best: otherwise the few that take a
    thousand times as long would decide where trees split, and not the order of the fast ones. One thread and a fixed
    seed: equal data give equal predictions. It must not run in a process that runs kernels, whose threads those of
    OpenMP would disturb.

    `benchmarks/search_quality.py` compares the loss with others in searches, `benchmarks/ranking_losses.py` on records.

    Args:
        seed: of the rows and columns that each tree sees.
        settings: how trees are grown.
        near: the binary logarithm of how much slower than the best a candidate may be for its time to count.

    Source: XGBoost (Chen and Guestrin, KDD 2016); TVM's `XGBModel`
    """

    def __init__(self, seed: int = 0, settings: Settings = SETTINGS, near: float = NEAR) -> None:
        self.seed = seed
        self.settings = settings
        self.near = near
        self.offset = 0.0
        self.booster: Any = None

    def update(self, features: Features, cost: Numbers, censored: Mask) -> None:
        """Grow the trees from all candidates measured so far."""
        import xgboost

        if len(cost) < LEAST:
            return
        labels = limited(labels_of(cost, censored), self.near)
        above = labels.value - draft_of(features)
        self.offset = float(above.mean())
        above -= self.offset
        data = xgboost.DMatrix(finite(features), label=above, nthread=1)
        objective = one_sided(above, labels.bounded)
        self.booster = xgboost.train(options(self.settings, self.seed), data, self.settings.trees, obj=objective)

    def predict(self, features: Features) -> Numbers:
        """Predictions for candidates; before there is enough data, the draft's."""
        draft = draft_of(features)
        return draft if self.booster is None else predicted(self.booster, features) + draft + self.offset


def finite(features: Features) -> Features:
    """The features without infinite ones, which XGBoost refuses; NaN stands for what is not known."""
    import numpy as np

    return np.clip(features, -LARGE, LARGE) if np.isinf(features).any() else features


def draft_of(features: Features) -> Numbers:
    """The draft of each candidate; 0 where there is none."""
    import numpy as np

    return np.nan_to_num(features[:, DRAFT_COLUMN].astype(np.float64), nan=0.0, posinf=FAR, neginf=-FAR)


def options(settings: Settings, seed: int) -> dict[str, object]:
    """XGBoost's parameters."""
    return {
        "max_depth": settings.depth,
        "eta": settings.rate,
        "subsample": settings.rows,
        "colsample_bytree": settings.columns,
        "min_child_weight": settings.leaf,
        "reg_lambda": settings.shrinkage,
        "tree_method": "hist",
        "base_score": 0.0,
        "seed": seed % 2**31,
        "nthread": 1,
        "verbosity": 0,
    }


def one_sided(
    values: NDArray[np.float64], bounded: NDArray[np.bool_]
) -> Callable[[NDArray[np.float32], Any], tuple[Any, Any]]:
    """The gradient of the squared error in which a prediction above a lower bound is right."""

    def objective(predictions: NDArray[np.float32], data: Any) -> tuple[Any, Any]:
        import numpy as np

        error = predictions - values
        error[bounded & (error > 0)] = 0.0
        return error.astype(np.float32), np.ones(len(error), np.float32)

    return objective


def predicted(booster: Any, features: Features) -> Numbers:
    """What the trees give, in parts that stay in the cache."""
    import numpy as np

    features = finite(features)
    out = np.empty(len(features))
    for start in range(0, len(features), ROWS):
        out[start : start + ROWS] = booster.inplace_predict(features[start : start + ROWS])
    return out
