"""A cost model of boosted trees (XGBoost), which knows that some costs are only lower bounds."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

import msgspec

from mslang.search.features.task import DRAFT
from mslang.search.models.labels import Labels, labels_of

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from mslang.search.models.model import Features, Mask, Numbers

ROWS = 1024
"""Rows predicted at a time: their features stay in the second-level cache."""

LEAST = 8
"""Below so many measured candidates the model predicts what the draft does."""


class Settings(msgspec.Struct, frozen=True):
    """How trees are grown: their number and depth, the learning rate, the shares of rows and of columns that each sees,
    and the least weight of a leaf."""

    trees: int = 200
    depth: int = 6
    rate: float = 0.1
    rows: float = 0.8
    columns: float = 0.8
    leaf: float = 0.05


SETTINGS = Settings()


def is_installed() -> bool:
    """Whether XGBoost can be imported; it is not."""
    return find_spec("xgboost") is not None


class XGBoost:
    """Boosted trees over the features of a task, grown anew at each update.

    The loss is the squared error of `log2(cost / best)`, fast candidates weighing more; of one that was cut off, or that
    failed, only predictions below its bound count. One thread and a fixed seed: equal data give equal predictions.
    It must not run in a process that runs kernels, whose threads those of OpenMP would disturb.

    Args:
        names: the columns of the features.
        seed: of the rows and columns that each tree sees.
        settings: how trees are grown.

    Source: XGBoost (Chen and Guestrin, KDD 2016); TVM's `XGBModel`
    """

    def __init__(self, names: Sequence[str], seed: int = 0, settings: Settings = SETTINGS) -> None:
        self.names = tuple(names)
        self.seed = seed
        self.settings = settings
        self.booster: Any = None

    def update(self, features: Features, cost: Numbers, censored: Mask) -> None:
        """Grow the trees from all candidates measured so far."""
        if len(cost) >= LEAST:
            self.booster = grown(features, labels_of(cost, censored), self.settings, self.seed)

    def predict(self, features: Features) -> Numbers:
        """Predictions for candidates; before there is enough data, the draft's."""
        import numpy as np

        if self.booster is not None:
            return predicted(self.booster, features)
        if DRAFT not in self.names:
            return np.zeros(len(features))
        return features[:, self.names.index(DRAFT)].astype(np.float64)


def grown(features: Features, labels: Labels, settings: Settings, seed: int) -> Any:
    """The booster that fits labels."""
    import xgboost

    data = xgboost.DMatrix(features, label=labels.value, nthread=1)
    options = {
        "max_depth": settings.depth,
        "eta": settings.rate,
        "subsample": settings.rows,
        "colsample_bytree": settings.columns,
        "min_child_weight": settings.leaf,
        "tree_method": "hist",
        "base_score": float((labels.value * labels.weight).sum() / labels.weight.sum()),
        "seed": seed % 2**31,
        "nthread": 1,
        "verbosity": 0,
    }
    return xgboost.train(options, data, settings.trees, obj=one_sided(labels))


def one_sided(labels: Labels) -> Callable[[NDArray[np.float32], Any], tuple[Any, Any]]:
    """The gradient of the weighted squared error in which a prediction above a lower bound is right."""

    def objective(predictions: NDArray[np.float32], data: Any) -> tuple[Any, Any]:
        import numpy as np

        error = predictions - labels.value
        error[labels.bounded & (error > 0)] = 0.0
        return (labels.weight * error).astype(np.float32), labels.weight.astype(np.float32)

    return objective


def predicted(booster: Any, features: Features) -> Numbers:
    """Predictions in parts that stay in the cache."""
    import numpy as np

    out = np.empty(len(features))
    for start in range(0, len(features), ROWS):
        out[start : start + ROWS] = booster.inplace_predict(features[start : start + ROWS])
    return out
