"""Searches that begin with a saved model: its predictions stand in the draft's column, and trees correct them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from mslang.schedule.sketch import Sketch
from mslang.search.features.task import DRAFT, DRAFT_COLUMN, TaskFeatures
from mslang.search.models.boosting import XGBoost
from mslang.search.models.saved import Saved, loaded, refused
from mslang.target.description import Target

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from mslang.schedule.batch.layout import DecisionBatch

SUFFIX = ".json"
"""What the name of a cost model ends with if it is a file."""


def names_file(model: object) -> bool:
    """Whether a cost model is named by its file.

    >>> names_file("team.json"), names_file("xgboost"), names_file(None)
    (True, False, False)
    """
    return isinstance(model, str) and model.endswith(SUFFIX)


class BegunMaker:
    """Makes the features of a search whose drafts are a saved model's predictions.

    A model of stores corrects the draft of any program. A model of a task predicts for the columns that it was trained
    on: those that the program lacks are unknown to it.

    Args:
        make: what makes the features.
        file: what `save` has written.

    Raises:
        MsError: MS526, the file cannot be used.
    """

    def __init__(self, make: Callable[[Sequence[Sketch], Target], TaskFeatures], file: Path) -> None:
        self._make, self._file, self._saved = make, file, loaded(file)

    def __call__(self, sketches: Sequence[Sketch], target: Target) -> TaskFeatures:
        """The features of some sketches.

        Raises:
            SavedModelError: MS526, the model was trained on other features.
        """
        features = self._make(sketches, target)
        model, names = self._saved
        if isinstance(model, XGBoost):
            return _Predicted(features, self._saved, self._file)
        if features.store_names not in ((), names):
            raise refused(self._file, f"it was trained on {len(names)} other features of a store")
        return features.corrected(model.predict)


class _Predicted(TaskFeatures):
    """Features of a task with the predictions of a model in the draft's column."""

    def __init__(self, features: TaskFeatures, saved: Saved, file: Path) -> None:
        super().__init__(features.sketches)
        self._model, self._trained = saved
        own = {name: k for k, name in enumerate(self.names)}
        self._known = [(k, own[name]) for k, name in enumerate(self._trained) if name in own]
        if len(own) > 1 and all(self._trained[k] == DRAFT for k, _ in self._known):
            raise refused(file, f"it was trained on other features: none of its {len(self._trained)} columns is here")

    def rows(self, k: int, batch: DecisionBatch) -> NDArray[np.float32]:
        """The features of candidates of sketch `k`."""
        import numpy as np

        found = super().rows(k, batch)
        seen = np.full((len(found), len(self._trained)), np.nan, np.float32)
        for column, own in self._known:
            seen[:, column] = found[:, own]
        found[:, DRAFT_COLUMN] = self._model.predict(seen)
        return found
