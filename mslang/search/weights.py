"""How probable the values of decisions are, and the strata of points that follow from it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Protocol

from mslang.ir.expr import Choice, FreeTile
from mslang.schedule.batch.layout import Layout, empty
from mslang.schedule.decisions import Decision
from mslang.search.strata import Ranges, Strata

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Integers = NDArray[np.int64]
    Floats = NDArray[np.float64]


class Filling(Protocol):
    """Some decisions whose vectors of values have numbers."""

    def fill(self, number: Integers, out: Integers) -> None:
        """Write the vectors of these numbers to their columns of an array of shape (rows, columns of the layout)."""


def weights_of(decision: Decision, values: Integers) -> Floats | None:
    """How probable some values of a decision are, as multiples of the most probable; None where that is not known.

    Args:
        decision: the decision.
        values: values that may be drawn, of shape (values, columns).
    """
    import numpy as np

    match decision.domain:
        case Choice(values=every, weights=weights) if decision.given is None:
            sums: dict[int, float] = {}
            for value, weight in zip(every, weights or (1.0,) * len(every), strict=True):
                sums[value] = sums.get(value, 0.0) + weight
            found = np.asarray([sums[x] for x in values[:, 0].tolist()], np.float64)
            out: Floats = found / found.max(initial=0)
            return out
        case FreeTile() if decision.given is None:
            return None
    return np.ones(len(values))


def is_weighted(decision: Decision, values: Integers) -> bool:
    """Whether some values of a decision are known to be more probable than others."""
    weights = weights_of(decision, values)
    return weights is not None and bool((weights != weights[:1]).any())


def strata_of(
    digit: Filling, starts: Integers, count: int, decisions: Sequence[Decision], layout: Layout
) -> Strata | None:
    """Ranges of numbers, each as probable as the values of some decisions in it; None where that is not known.

    Args:
        digit: what the numbers stand for.
        starts: where the ranges begin, in ascending order.
        count: where the last one ends.
        decisions: what is numbered; those with weights have the same value in all of a range.
        layout: the columns.
    """
    import numpy as np

    sizes = np.diff(starts, append=count)
    starts, sizes = starts[sizes > 0], sizes[sizes > 0]
    rows = empty(layout, len(starts)).array
    digit.fill(starts, rows)
    out = np.ones(len(starts))
    for d in decisions:
        weights = weights_of(d, rows[:, layout[d.address].columns])
        if weights is None:
            return None
        out = out * weights
    return Strata((Ranges(count, starts, sizes),), out)
