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
        self._models, self._leaves, self._target, self._seed = models, leaves, target, seed
        self._drafts: dict[int, Draft | None] = {}
        self._features: Features | None = None
        self._of = 0
        """The number of structures that the features are of."""
        self._model: CostModel | None = None
        self._rows: list[NDArray[np.float32]] = []
        self._measured: list[Measured] = []

    @property
    def trained(self) -> bool:
        """Whether a model has learned something."""
        return self._model is not None

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
        """The draft; None of what cannot be lowered before its decisions have values."""
        if self._models.draft is None:
            return None
        try:
            return self._models.draft(leaf.sketch, self._target)
        except MsError:
            return None

    def score(self, leaf: Leaf, batch: DecisionBatch) -> Floats:
        """What the model predicts if it has learned something; otherwise the draft."""
        if self._model is not None and self._of != len(self._leaves):
            self._train()
        if self._model is None or self._features is None:
            return self.draft(leaf, batch)
        return self._model.predict(self._features.rows(leaf.number, batch))

    def learn(self, measured: Sequence[Measured]) -> None:
        """Train the model with candidates, beside those that it was given before."""
        self._measured += measured
        if self._models.model is not None and self._models.features is not None and measured:
            self._train()

    def _train(self) -> None:
        import numpy as np

        models = self._models
        try:
            features = self._current()
        except MsError:
            # What cannot be lowered before its decisions have values has no features.
            self._models, self._model = msgspec.structs.replace(models, model=None), None
            return
        self._rows += _rows(features, self._measured[len(self._rows) :])
        if models.model is None or all(m.cost is None for m in self._measured):
            return
        if self._model is None:
            self._model = models.model(features.names, self._seed)
        self._model.update(
            np.concatenate(self._rows),
            np.asarray([m.cost or m.bound or np.inf for m in self._measured], np.float64),
            np.asarray([m.cost is None and m.bound is not None for m in self._measured], np.bool_),
        )

    def _current(self) -> Features:
        """The features of all the structures known. With more structures the columns are others, and the model with
        them."""
        assert self._models.features is not None
        if self._features is None or self._of != len(self._leaves):
            self._features = self._models.features([x.sketch for x in self._leaves.all()], self._target)
            self._of = len(self._leaves)
            self._rows, self._model = [], None
        return self._features


def _rows(features: Features, measured: Sequence[Measured]) -> list[NDArray[np.float32]]:
    """The features of candidates, each of shape (1, features); those of one structure are computed together."""
    import numpy as np

    out: list[NDArray[np.float32]] = [np.zeros((0, 0), np.float32)] * len(measured)
    places: dict[int, list[int]] = {}
    for k, m in enumerate(measured):
        places.setdefault(m.leaf.number, []).append(k)
    for number, at in places.items():
        layout = measured[at[0]].row.layout
        array = np.asfortranarray(np.concatenate([measured[k].row.array for k in at]))
        found = features.rows(number, DecisionBatch(layout, array))
        for j, k in enumerate(at):
            out[k] = found[j : j + 1]
    return out
