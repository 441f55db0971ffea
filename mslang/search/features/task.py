"""The features of a task: one row a candidate, of the same width for all sketches."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cached_property
from typing import TYPE_CHECKING

from mslang.attribution import ExtensionError, attributed
from mslang.diagnostics import MsError, TargetError
from mslang.schedule.sketch import Sketch
from mslang.search.draft import draft_formula
from mslang.search.features.extractor import Extractor, PerStore
from mslang.search.float_arrays import FloatEvaluator
from mslang.search.formulas import Formula, Formulas
from mslang.search.summaries import summary_of
from mslang.target.description import Target

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from mslang.schedule.batch.layout import DecisionBatch


DRAFT = "draft"
"""The name of the column that holds the analytical estimate."""

DRAFT_COLUMN = -1
"""Where it stands in every row."""


def features_of(sketches: Sequence[Sketch], target: Target, extractor: Extractor | None = None) -> TaskFeatures:
    """The features of all sketches of a task.

    Args:
        sketches: all of them: the columns are those that tell their candidates apart.
        target: the machine.
        extractor: what makes the features; the built-in one if None.

    Example:
        >>> features = features_of(list(space.sketches()), host())
        >>> features.rows(0, batch)  # float32 of shape (candidates, features.width)
    """
    return FeatureMaker(extractor)(sketches, target)


class FeatureMaker:
    """Makes the features of a search whose structures become known one after the other: each is read once.

    Args:
        extractor: what makes the features; the built-in one if None.
        correction: what other programs teach of the draft.
    """

    def __init__(self, extractor: Extractor | None = None, correction: Correction | None = None) -> None:
        self._extractor = extractor or PerStore()
        self._correction = correction
        self._made: dict[int, _SketchFeatures] = {}

    def __call__(self, sketches: Sequence[Sketch], target: Target) -> TaskFeatures:
        """The features of all sketches of a task; see `features_of`."""
        return TaskFeatures([self._of(s, target) for s in sketches], self._correction)

    def _of(self, sketch: Sketch, target: Target) -> _SketchFeatures:
        found = self._made.get(id(sketch))
        if found is None or found.sketch is not sketch or found.target != target:
            found = self._made[id(sketch)] = _SketchFeatures(sketch, target, self._extractor)
        return found


class _SketchFeatures:
    """The features of one sketch, a row a store."""

    def __init__(self, sketch: Sketch, target: Target, extractor: Extractor) -> None:
        self.sketch, self.target = sketch, target
        self.formulas = Formulas()
        try:
            summary = summary_of(sketch.program, target)
            with attributed("extractor of features", extractor, "rows"):
                found = extractor.rows(self.formulas, sketch, summary, target)
            self.draft = draft_formula(self.formulas, sketch, target).log2()
        except ExtensionError:
            raise
        except (MsError, TargetError):
            # What cannot be lowered before its decisions have values has neither features nor a draft.
            found, self.draft = (), self.formulas.number(0.0)
        self.stores = [dict(row) for row in found]

    def column(self, store: int, name: str) -> Formula:
        """A feature of a store, 0 of one that the sketch lacks."""
        return self.stores[store][name] if store < len(self.stores) else self.formulas.number(0.0)


Correction = Callable[["NDArray[np.float32]"], "NDArray[np.float64]"]
"""What other programs teach of the draft, from the features of stores."""

Column = tuple[int, str]
"""A store's number and the name of a feature."""


class TaskFeatures:
    """Features of the candidates of a task; `features_of` makes them.

    A candidate has one row, with the features of all its stores, the heaviest first. Columns that are constant over the
    task, or equal to another one in all sketches, are left out. The last one is the draft: the logarithm to base 2 of
    the seconds that `Draft` estimates. `stores` gives a row a store instead, all features in
    it, which are the same for all tasks.
    """

    def __init__(self, sketches: Sequence[_SketchFeatures], correction: Correction | None = None) -> None:
        self._sketches = sketches
        self._correction = correction
        self.store_names: tuple[str, ...] = next((tuple(row) for s in sketches for row in s.stores), ())
        self._columns = _distinguishing(sketches, self.store_names)
        self.names: tuple[str, ...] = (*(f"store{k}.{name}" for k, name in self._columns), DRAFT)
        self._evaluators: dict[int, FloatEvaluator] = {}
        self._store_evaluators: dict[int, FloatEvaluator] = {}

    @property
    def sketches(self) -> Sequence[_SketchFeatures]:
        """What they are made of, sketch by sketch."""
        return self._sketches

    @property
    def width(self) -> int:
        """The number of columns of `rows`."""
        return len(self.names)

    @cached_property
    def store_width(self) -> int:
        """The number of columns of `stores`."""
        return len(self.store_names)

    def rows(self, k: int, batch: DecisionBatch) -> NDArray[np.float32]:
        """The features of candidates of sketch `k`: float32 of shape (candidates, `width`)."""
        found = self.evaluator(k).rows(batch)
        if self._correction is not None:
            found[:, DRAFT_COLUMN] += self._correction(self.stores(k, batch))
        return found

    def corrected(self, correction: Correction) -> TaskFeatures:
        """These features with a better draft.

        Args:
            correction: from the features of stores, float32 of shape (candidates, stores, `store_width`), what is added
                to the draft's logarithm, such as `PackSum.predict` gives it.
        """
        return TaskFeatures(self._sketches, correction)

    def evaluator(self, k: int) -> FloatEvaluator:
        """What computes the rows of sketch `k`; compiled once."""
        if k not in self._evaluators:
            s = self._sketches[k]
            self._evaluators[k] = FloatEvaluator(s.formulas, [*(s.column(*x) for x in self._columns), s.draft])
        return self._evaluators[k]

    def stores(self, k: int, batch: DecisionBatch) -> NDArray[np.float32]:
        """A row a store: float32 of shape (candidates, stores of sketch `k`, `store_width`)."""
        s = self._sketches[k]
        if k not in self._store_evaluators:
            self._store_evaluators[k] = FloatEvaluator(s.formulas, [x for row in s.stores for x in row.values()])
        return self._store_evaluators[k].rows(batch).reshape(len(batch), len(s.stores), self.store_width)


def _distinguishing(sketches: Sequence[_SketchFeatures], names: Sequence[str]) -> list[Column]:
    """The columns that are neither the same for all candidates nor equal to a column before in all sketches."""
    most = max((len(s.stores) for s in sketches), default=0)
    out: list[Column] = []
    seen: set[tuple[object, ...]] = set()
    for column in ((k, name) for k in range(most) for name in names):
        found = [s.column(*column) for s in sketches]
        fixed = {x.constant for x in found}
        key = tuple(map(id, found))
        if (None in fixed or len(fixed) > 1) and key not in seen:
            seen.add(key)
            out.append(column)
    return out
