"""What searches teach those of other programs: measured candidates in features that all programs have."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Protocol, runtime_checkable

import msgspec

from mslang.schedule.batch.layout import DecisionBatch

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


class Lesson(msgspec.Struct, frozen=True):
    """The measured candidates of one structure.

    Args:
        names: what each column of `stores` is.
        stores: float32 of shape (candidates, stores, columns).
        draft: the draft's `log2` of seconds, of shape (candidates,).
        cost: in seconds; a lower bound where `censored`.
        censored: whether the candidate was cut off.
    """

    names: tuple[str, ...]
    stores: NDArray[np.float32]
    draft: NDArray[np.float64]
    cost: NDArray[np.float64]
    censored: NDArray[np.bool_]

    def __len__(self) -> int:
        return len(self.cost)


@runtime_checkable
class StoreFeatures(Protocol):
    """Features that have a row a store, with the same columns for all programs."""

    @property
    def store_names(self) -> Sequence[str]:
        """What each column of `stores` is."""

    def stores(self, number: int, batch: DecisionBatch) -> NDArray[np.float32]:
        """The features of candidates of one of the sketches, of shape (candidates, stores, columns)."""


@runtime_checkable
class Teacher(Protocol):
    """A strategy whose measurements teach the searches of other programs."""

    def lessons(self) -> Sequence[Lesson]:
        """What was measured so far."""
