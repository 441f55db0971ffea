"""Which candidates are worth measuring: a draft that needs no data, and a model of what was measured."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Protocol

import msgspec

from mslang.diagnostics import MsError
from mslang.schedule.batch.layout import DecisionBatch
from mslang.schedule.sketch import Sketch
from mslang.search.leaves import Leaf, Leaves
from mslang.target.description import Target

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Floats = NDArray[np.float64]

FAILED = 2.0
"""A candidate that failed counts as slower than the slowest by this factor at least."""


class Draft(Protocol):
    """An estimate of the time of a sketch's candidates that needs no measurements."""

    def seconds(self, batch: DecisionBatch) -> Floats:
        """The estimated time of each candidate."""


class Features(Protocol):
    """The features of the candidates of some sketches."""

    def rows(self, number: int, batch: DecisionBatch) -> NDArray[np.float32]:
        """The features of candidates of one of the sketches, of shape (candidates, features)."""


class CostModel(Protocol):
    """A model of the time of candidates, learned from what was measured."""

    def update(self, features: NDArray[np.float32], cost: Floats, censored: NDArray[np.bool_]) -> None:
        """Learn from all that was measured: the costs in seconds, lower bounds of them where censored."""

    def predict(self, features: NDArray[np.float32]) -> Floats:
        """The predicted binary logarithm of each candidate's time over that of the best."""


class Models(msgspec.Struct, frozen=True):
    """What makes draft, features and model of a search; each may be missing."""

    draft: Callable[[Sketch, Target], Draft] | None = None
    features: Callable[[Sequence[Sketch], Target], Features] | None = None
    model: Callable[[int], CostModel] | None = None


NO_MODELS = Models()
"""Nothing is known of candidates that were not measured."""


class Measured(msgspec.Struct, frozen=True):
    """A candidate that was tried: its structure, its numbers as a batch of one row, its cost or a bound of it."""

    leaf: Leaf
    row: DecisionBatch
    cost: float | None
    bound: float | None


class Ranking:
    """Scores of candidates, lower for faster ones.

    Args:
        models: draft, features and model.
        leaves: the structures of the search.
        target: the machine.
        seed: the model's.
    """

    def __init__(self, models: Models, leaves: Leaves, target: Target, seed: int) -> None:
        self._models, self._leaves, self._target = models, leaves, target
        self._drafts: dict[int, Draft | None] = {}
        self._features: Features | None = None
        self._of = 0
        self._model = None if models.model is None or models.features is None else models.model(seed)
        self._rows: list[NDArray[np.float32]] = []
        self._measured: list[Measured] = []
        self.trained = False

    @property
    def ranks(self) -> bool:
        """Whether scores say anything yet."""
        return self.trained or self._models.draft is not None

    def draft(self, leaf: Leaf, batch: DecisionBatch) -> Floats:
        """The binary logarithm of the estimated seconds; zeros where there is no estimate."""
        import numpy as np

        if leaf.number not in self._drafts:
            self._drafts[leaf.number] = self._draft_of(leaf)
        draft = self._drafts[leaf.number]
        if draft is None:
            return np.zeros(len(batch))
        with np.errstate(divide="ignore"):
            return np.log2(draft.seconds(batch))

    def _draft_of(self, leaf: Leaf) -> Draft | None:
        if self._models.draft is None:
            return None
        try:
            return self._models.draft(leaf.sketch, self._target)
        except MsError:
            return None

    def score(self, leaf: Leaf, batch: DecisionBatch) -> Floats:
        """What the model predicts if it has learned something; otherwise the draft."""
        if self._model is None or not self.trained:
            return self.draft(leaf, batch)
        return self._model.predict(self._rows_of(leaf, batch))

    def learn(self, measured: Sequence[Measured]) -> None:
        """Train the model with candidates, beside those that it was given before."""
        import numpy as np

        self._measured += measured
        if self._model is None or not measured:
            return
        if self._features is not None and self._of == len(self._leaves):
            self._rows += [self._rows_of(m.leaf, m.row) for m in measured]
        else:
            self._rows = [self._rows_of(m.leaf, m.row) for m in self._measured]
        costs = [m.cost for m in self._measured if m.cost is not None]
        if not costs:
            return
        slow = FAILED * max(max(costs), *(m.bound or 0.0 for m in self._measured))
        known = [m.cost or m.bound or slow for m in self._measured]
        self._model.update(
            np.concatenate(self._rows),
            np.asarray(known, np.float64),
            np.asarray([m.cost is None for m in self._measured], np.bool_),
        )
        self.trained = True

    def _rows_of(self, leaf: Leaf, batch: DecisionBatch) -> NDArray[np.float32]:
        """Features, for all the structures known; with more of these the features may be others."""
        assert self._models.features is not None
        if self._features is None or self._of != len(self._leaves):
            self._features = self._models.features([x.sketch for x in self._leaves.all()], self._target)
            self._of = len(self._leaves)
        return self._features.rows(leaf.number, batch)
