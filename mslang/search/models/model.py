"""The protocol of cost models, and the two that learn nothing."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from mslang.search.features.task import DRAFT_COLUMN

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Features = NDArray[np.float32]
    Numbers = NDArray[np.float64]
    Mask = NDArray[np.bool_]


class CostModel(Protocol):
    """Predicts how candidates of one task compare, from their features and from the costs of some.

    Example:
        >>> model = XGBoost(seed=0)
        >>> model.update(features.rows(0, measured), cost, censored)
        >>> best = np.argsort(model.predict(features.rows(0, drawn)))[:64]
    """

    def update(self, features: Features, cost: Numbers, censored: Mask) -> None:
        """Learn from all candidates measured so far; what was learned before is forgotten.

        Args:
            features: float32 of shape (candidates, columns).
            cost: seconds at the nominal speed, float64 of shape (candidates,); `inf` of those that failed.
            censored: whether a candidate was cut off, so that it takes longer than its cost.
        """

    def predict(self, features: Features) -> Numbers:
        """The logarithm to base 2 of the time of each candidate, relative to the best of the task; lower is faster."""


class DraftModel:
    """The analytical draft as a cost model; it needs no data and learns nothing."""

    def update(self, features: Features, cost: Numbers, censored: Mask) -> None:
        """Nothing is learned."""

    def predict(self, features: Features) -> Numbers:
        """The draft's estimates, of which only the order means something."""
        import numpy as np

        return features[:, DRAFT_COLUMN].astype(np.float64)


class RandomModel:
    """Predicts at random: what a search is compared with.

    A prediction depends on the seed and on the candidate's features alone, not on the batch that it is in.
    """

    def __init__(self, seed: int) -> None:
        self._seed = seed

    def update(self, features: Features, cost: Numbers, censored: Mask) -> None:
        """Nothing is learned."""

    def predict(self, features: Features) -> Numbers:
        """Numbers from 0 to 1."""
        import numpy as np

        from mslang.schedule.batch.random_words import mixed

        words = np.ascontiguousarray(features, np.float32).view(np.uint32).astype(np.uint64)
        state = np.full(len(words), self._seed % 2**64, np.uint64)
        for k in range(words.shape[1]):
            state = mixed(state ^ words[:, k])
        numbers: Numbers = mixed(state) / 2.0**64
        return numbers
