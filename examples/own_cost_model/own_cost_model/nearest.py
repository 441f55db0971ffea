"""A cost model without trees: a candidate takes as long as the measured one whose features are nearest."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray


class Nearest:
    """Predicts the cost of the nearest measured candidate, from the names of the features and a seed."""

    def __init__(self, names: Sequence[str], seed: int) -> None:
        self._known = np.zeros((0, len(names)), np.float32)
        self._cost = np.zeros(0)

    def update(self, features: NDArray[np.float32], cost: NDArray[np.float64], censored: NDArray[np.bool_]) -> None:
        """Keep what ran; bounds count as costs."""
        ran = np.isfinite(cost)
        self._known, self._cost = features[ran], np.log2(cost[ran] / cost[ran].min(initial=np.inf))

    def predict(self, features: NDArray[np.float32]) -> NDArray[np.float64]:
        """The logarithm of the cost of the nearest measured candidate, relative to the best."""
        if not len(self._known):
            return np.zeros(len(features))
        # |a - b|² without |a|², which is the same for all measured candidates.
        distance = (self._known**2).sum(1) - 2 * features @ self._known.T
        found: NDArray[np.float64] = self._cost[distance.argmin(1)]
        return found
