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


def limited(labels: Labels, limit: float) -> Labels:
    """The labels up to a limit, which is a lower bound of greater ones.

    Example:
        >>> import numpy as np
        >>> limited(Labels(np.array([0.0, 2.0, 9.0]), np.array([False, False, False])), 2.0)
        Labels(value=array([0., 2., 2.]), bounded=array([False, False,  True]))
    """
    import numpy as np

    return Labels(np.minimum(labels.value, limit), labels.bounded | (labels.value > limit))
