"""What a model of costs learns: logarithms of times, some of which are only lower bounds."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

FAILED = 2.0
"""A failed candidate counts as slower than the slowest measured one by this power of two."""


class Labels(NamedTuple):
    """`value` is `log2(cost / best)`; `bounded` are lower bounds."""

    value: NDArray[np.float64]
    bounded: NDArray[np.bool_]


def labels_of(cost: NDArray[np.float64], censored: NDArray[np.bool_]) -> Labels:
    """The labels of candidates.

    Args:
        cost: seconds, `inf` of those that failed.
        censored: which costs are lower bounds.
    """
    import numpy as np

    ran = np.isfinite(cost) & (cost > 0)
    known = cost[ran & ~censored]
    best = known.min() if len(known) else cost[ran].min() if ran.any() else 1.0
    value = np.zeros(len(cost))
    value[ran] = np.log2(cost[ran] / best)
    slowest = value[ran].max() if ran.any() else 0.0
    value[~ran] = slowest + FAILED
    return Labels(value, censored | ~ran)
