"""What other programs teach: a model over stores, whose predictions for the stores of a candidate are summed.

The features of a store are the same for all programs and hold the machine, so that one model learns from all records.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import msgspec

from mslang.search.lessons import Lesson
from mslang.search.models.boosting import SETTINGS, Settings, finite, options, predicted
from mslang.search.models.labels import labels_of

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from mslang.search.features.task import Correction
    from mslang.search.models.model import Features, Mask, Numbers

TREES = 50
"""How many trees correct a draft; `benchmarks/transfer.py` prints what other numbers of them give."""


class PackSum:
    """Boosted trees over stores: what a candidate's time is above its draft is the sum over its stores.

    Args:
        seed: of the rows and columns that each tree sees.
        settings: how trees are grown.

    Example:
        >>> model = PackSum()
        >>> model.fit([lessons_of_one_program, lessons_of_another])
        >>> corrected = draft + model.predict(features.stores(0, batch))

    Source: the pack-sum objective of TVM's `XGBModel`
    """

    def __init__(self, seed: int = 0, settings: Settings = SETTINGS) -> None:
        self.seed = seed
        self.settings = settings
        self.booster: Any = None

    def fit(self, tasks: Sequence[Sequence[Lesson]]) -> None:
        """Learn from the lessons of several tasks, whose columns are the same; candidates of one task are compared."""
        import numpy as np
        import xgboost

        above, bounded = zip(*(_above(lessons) for lessons in tasks), strict=True)
        groups = [x for lessons in tasks for x in lessons]
        rows = np.concatenate([g.stores.reshape(-1, g.stores.shape[2]) for g in groups])
        counts = np.concatenate([np.full(len(g.cost), g.stores.shape[1]) for g in groups])
        segment = np.repeat(np.arange(len(counts)), counts)
        values = np.concatenate(above)
        data = xgboost.DMatrix(finite(rows), label=values[segment], nthread=1)
        objective = summed(values, np.concatenate(bounded), segment, counts)
        self.booster = xgboost.train(options(self.settings, self.seed), data, self.settings.trees, obj=objective)

    def predict(self, stores: Features) -> Numbers:
        """How much slower candidates are than their drafts, as `log2`: float64 of shape (candidates,).

        Args:
            stores: float32 of shape (candidates, stores, columns).
        """
        import numpy as np

        if self.booster is None or not stores.size:
            return np.zeros(len(stores))
        each = predicted(self.booster, stores.reshape(-1, stores.shape[2]))
        total: Numbers = each.reshape(stores.shape[:2]).sum(axis=1)
        return total


def _above(lessons: Sequence[Lesson]) -> tuple[Numbers, Mask]:
    """How far above the drafts the times of one task's candidates are, and which are only lower bounds."""
    import numpy as np

    cost, censored, draft = (
        np.concatenate(xs) for xs in zip(*((x.cost, x.censored, x.draft) for x in lessons), strict=True)
    )
    labels = labels_of(cost, censored)
    found = labels.value - draft
    return found - found.mean(), labels.bounded


def correction_of(tasks: Sequence[Sequence[Lesson]], seed: int = 0, trees: int = TREES) -> Correction:
    """What other programs teach of the draft, for `TaskFeatures.corrected`.

    Args:
        tasks: the lessons of each program, which have the same columns.
        seed: of the rows and columns that each tree sees.
        trees: how many are grown.
    """
    model = PackSum(seed, msgspec.structs.replace(SETTINGS, trees=trees))
    model.fit(tasks)
    columns = len(tasks[0][0].names)

    def correction(stores: Features) -> Numbers:
        import numpy as np

        # Of other features, those of a user's own extractor, nothing was learned.
        return model.predict(stores) if stores.shape[2] == columns else np.zeros(len(stores))

    return correction


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
