"""What other programs teach: a model over stores, whose predictions for the stores of a candidate are summed.

The features of a store are the same for all programs and hold the machine, so that one model learns from all records.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from mslang.search.models.boosting import SETTINGS, Settings, options, predicted
from mslang.search.models.labels import labels_of

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from mslang.search.models.model import Features, Mask, Numbers


class Group(NamedTuple):
    """The measured candidates of one sketch of a task.

    `stores` is float32 of shape (candidates, stores, columns), as `TaskFeatures.stores` gives it; `draft` the draft's
    `log2` of seconds; `cost` and `censored` are those of `CostModel.update`. Groups of one `task` are compared.
    """

    task: str
    stores: Features
    draft: Numbers
    cost: Numbers
    censored: Mask


class PackSum:
    """Boosted trees over stores: what a candidate's time is above its draft is the sum over its stores.

    Args:
        seed: of the rows and columns that each tree sees.
        settings: how trees are grown.

    Example:
        >>> model = PackSum()
        >>> model.fit(groups)
        >>> corrected = draft + model.predict(features.stores(0, batch))

    Source: the pack-sum objective of TVM's `XGBModel`
    """

    def __init__(self, seed: int = 0, settings: Settings = SETTINGS) -> None:
        self.seed = seed
        self.settings = settings
        self.booster: Any = None

    def fit(self, groups: Sequence[Group]) -> None:
        """Learn from the candidates of several tasks."""
        import numpy as np
        import xgboost

        above = np.empty(sum(len(g.cost) for g in groups))
        bounded = np.empty(len(above), np.bool_)
        task = np.concatenate([np.full(len(g.cost), number_of(g.task, groups)) for g in groups])
        cost, censored, draft = (
            np.concatenate(xs) for xs in zip(*((g.cost, g.censored, g.draft) for g in groups), strict=True)
        )
        for t in np.unique(task):
            at = task == t
            labels = labels_of(cost[at], censored[at])
            found = labels.value - draft[at]
            above[at], bounded[at] = found - found.mean(), labels.bounded
        rows = np.concatenate([g.stores.reshape(-1, g.stores.shape[2]) for g in groups])
        counts = np.concatenate([np.full(len(g.cost), g.stores.shape[1]) for g in groups])
        segment = np.repeat(np.arange(len(counts)), counts)
        data = xgboost.DMatrix(rows, label=above[segment], nthread=1)
        objective = summed(above, bounded, segment, counts)
        self.booster = xgboost.train(options(self.settings, self.seed), data, self.settings.trees, obj=objective)

    def predict(self, stores: Features) -> Numbers:
        """How much slower candidates are than their drafts, as `log2`: float64 of shape (candidates,).

        Args:
            stores: float32 of shape (candidates, stores, columns).
        """
        import numpy as np

        if self.booster is None:
            return np.zeros(len(stores))
        each = predicted(self.booster, stores.reshape(-1, stores.shape[2]))
        total: Numbers = each.reshape(stores.shape[:2]).sum(axis=1)
        return total


def number_of(task: str, groups: Sequence[Group]) -> int:
    """The number of a task among those of the groups."""
    return list(dict.fromkeys(g.task for g in groups)).index(task)


def summed(
    values: NDArray[np.float64], bounded: NDArray[np.bool_], segment: NDArray[np.int64], counts: NDArray[np.int64]
) -> Callable[[NDArray[np.float32], Any], tuple[Any, Any]]:
    """The gradient of the one-sided squared error of sums; `segment` is the candidate of each row."""

    def objective(predictions: NDArray[np.float32], data: Any) -> tuple[Any, Any]:
        import numpy as np

        error = np.bincount(segment, predictions, len(values)) - values
        error[bounded & (error > 0)] = 0.0
        # A step that moves all rows of a candidate moves its sum by as many.
        return error[segment].astype(np.float32), counts[segment].astype(np.float32)

    return objective
