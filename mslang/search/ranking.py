"""Which candidates are worth measuring, by the draft and the cost model that a strategy is given."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import msgspec

from mslang.attribution import ExtensionError, attributed
from mslang.diagnostics import MsError
from mslang.schedule.batch.layout import DecisionBatch
from mslang.search.estimates import CostModel, Draft, Features
from mslang.search.leaves import Leaf, Leaves
from mslang.search.lessons import Lesson, StoreFeatures
from mslang.search.models.saved import SavedModelError
from mslang.search.strategy import Problem

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Floats = NDArray[np.float64]


class Measured(msgspec.Struct, frozen=True):
    """A candidate that was tried: its structure, its numbers as a batch of one row, its cost or a bound of it."""

    leaf: Leaf
    row: DecisionBatch
    cost: float | None
    bound: float | None

    @property
    def key(self) -> tuple[int, int]:
        """What tells its point from the others of the search."""
        return self.leaf.key(self.row)


class Ranking:
    """Scores of candidates, lower for faster ones, for any strategy: `score` before measuring, `learn` after.

    Without models all scores are zero, and `ranks` is false.

    Args:
        problem: what is searched, with draft, features and cost model.
        leaves: the structures of the search.

    Example:
        >>> scores = ranking.score(leaf, batch)  # doctest: +SKIP
        >>> ranking.learn(generations.measured(observed))  # doctest: +SKIP
    """

    def __init__(self, problem: Problem, leaves: Leaves) -> None:
        self._models, self._leaves, self._target, self._seed = problem.models, leaves, problem.target, problem.seed
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
        return self.informed or self._models.draft is not None

    @property
    def informed(self) -> bool:
        """Whether scores say more than the draft."""
        return self.trained or self._models.taught

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
        """What the model predicts if it has learned something; otherwise the draft, as other programs correct it."""
        import numpy as np

        if self._model is not None and self._of != len(self._leaves):
            self._train()
        if self._model is not None and self._features is not None:
            return _predicted(self._model, self._features.rows(leaf.number, batch))
        features = self._readable() if self._models.taught else None
        if features is None:
            return self.draft(leaf, batch)
        return features.rows(leaf.number, batch)[:, -1].astype(np.float64)

    def lessons(self) -> list[Lesson]:
        """What was measured so far, by structure, in features that other programs have, too; failures are left out."""
        features = self._readable()
        if not isinstance(features, StoreFeatures):
            return []
        found: dict[int, list[Measured]] = {}
        for m in self._measured:
            if m.cost is not None or m.bound is not None:
                found.setdefault(m.leaf.number, []).append(m)
        return [self._lesson(features, ms) for ms in found.values()]

    def _lesson(self, features: StoreFeatures, measured: Sequence[Measured]) -> Lesson:
        import numpy as np

        leaf = measured[0].leaf
        batch = _together(measured)
        return Lesson(
            tuple(features.store_names),
            features.stores(leaf.number, batch),
            self.draft(leaf, batch),
            np.asarray([m.cost or m.bound for m in measured], np.float64),
            np.asarray([m.cost is None for m in measured], np.bool_),
        )

    def _readable(self) -> Features | None:
        """The features of all the structures known; None where there are none."""
        if self._models.features is None:
            return None
        try:
            return self._current()
        except (ExtensionError, SavedModelError):
            raise
        except MsError:
            # What cannot be lowered before its decisions have values has no features.
            self._models = msgspec.structs.replace(self._models, features=None, model=None, taught=False)
            return None

    def learn(self, measured: Sequence[Measured]) -> None:
        """Train the model with candidates, in addition to those that it was given before."""
        self._measured += measured
        if self._models.model is not None and self._models.features is not None and measured:
            self._train()

    def _train(self) -> None:
        import numpy as np

        features, models = self._readable(), self._models
        if features is None:
            self._model = None
            return
        self._rows += _rows(features, self._measured[len(self._rows) :])
        if models.model is None or all(m.cost is None for m in self._measured):
            return
        if self._model is None:
            with attributed("cost model", models.model):
                self._model = models.model(features.names, self._seed)
        with attributed("cost model", self._model, "update"):
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


def _predicted(model: CostModel, rows: NDArray[np.float32]) -> Floats:
    """What a model predicts, a number for each candidate."""
    import numpy as np

    with attributed("cost model", model, "predict"):
        found = model.predict(rows)
        if np.shape(found) != (len(rows),):
            raise ValueError(f"predictions of shape {np.shape(found)} for {len(rows)} candidates")
    return found


def _rows(features: Features, measured: Sequence[Measured]) -> list[NDArray[np.float32]]:
    """The features of candidates, each of shape (1, features); those of one structure are computed together."""
    import numpy as np

    out: list[NDArray[np.float32]] = [np.zeros((0, 0), np.float32)] * len(measured)
    places: dict[int, list[int]] = {}
    for k, m in enumerate(measured):
        places.setdefault(m.leaf.number, []).append(k)
    for number, at in places.items():
        found = features.rows(number, _together([measured[k] for k in at]))
        for j, k in enumerate(at):
            out[k] = found[j : j + 1]
    return out


def _together(measured: Sequence[Measured]) -> DecisionBatch:
    """The candidates of one structure as one batch."""
    import numpy as np

    array = np.asfortranarray(np.concatenate([m.row.array for m in measured]))
    return DecisionBatch(measured[0].row.layout, array)
