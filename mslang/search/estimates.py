"""What estimates the time of candidates in a search: a draft that needs no data, and a model of what was measured."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Protocol

import msgspec

from mslang.schedule.batch.layout import DecisionBatch
from mslang.schedule.sketch import Sketch
from mslang.target.description import Target

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Floats = NDArray[np.float64]


class Draft(Protocol):
    """An estimate of the time of a sketch's candidates that needs no measurements."""

    def seconds(self, batch: DecisionBatch) -> Floats:
        """The estimated time of each candidate."""


class Features(Protocol):
    """The features of the candidates of some sketches."""

    @property
    def names(self) -> Sequence[str]:
        """What each column is."""

    def rows(self, number: int, batch: DecisionBatch) -> NDArray[np.float32]:
        """The features of candidates of one of the sketches, of shape (candidates, features)."""


class CostModel(Protocol):
    """A model of the time of candidates, learned from what was measured."""

    def update(self, features: NDArray[np.float32], cost: Floats, censored: NDArray[np.bool_]) -> None:
        """Learn from all that was measured: costs in seconds, infinite of what failed, lower bounds where censored."""

    def predict(self, features: NDArray[np.float32]) -> Floats:
        """The predicted binary logarithm of each candidate's time over that of the best."""


class Models(msgspec.Struct, frozen=True):
    """What makes draft, features and model of a search; each may be missing."""

    draft: Callable[[Sketch, Target], Draft] | None = None
    features: Callable[[Sequence[Sketch], Target], Features] | None = None
    model: Callable[[Sequence[str], int], CostModel] | None = None
    """For the names of the features and a seed."""

    taught: bool = False
    """Whether other programs have corrected the draft among the features, so that it says more than `draft`."""


NO_MODELS = Models()
"""Nothing is known of candidates that were not measured."""
