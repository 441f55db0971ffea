"""How well a cost model orders candidates: the rank correlation of what it predicted and what was measured."""

from __future__ import annotations

from collections.abc import Sequence

LEAST = 5
"""Fewer pairs than this say nothing about an order."""


def rank_correlation(pairs: Sequence[tuple[float, float]]) -> float | None:
    """Spearman's rank correlation of pairs, from -1 to 1; equal values share the mean of their ranks.

    None where there are fewer than five pairs, or where all first or all second values are equal.

    Example:
        >>> rank_correlation([(1.0, 10.0), (2.0, 30.0), (3.0, 20.0), (4.0, 40.0), (5.0, 50.0)])
        0.9
    """
    if len(pairs) < LEAST:
        return None
    first, second = _ranks([a for a, _ in pairs]), _ranks([b for _, b in pairs])
    mean = (len(pairs) - 1) / 2
    both = sum((a - mean) * (b - mean) for a, b in zip(first, second))
    spread = sum((a - mean) ** 2 for a in first) * sum((b - mean) ** 2 for b in second)
    return None if spread == 0 else both / spread**0.5


def _ranks(values: Sequence[float]) -> list[float]:
    order = sorted(values)
    first = {v: k for k, v in reversed(list(enumerate(order)))}
    last = {v: k for k, v in enumerate(order)}
    return [(first[v] + last[v]) / 2 for v in values]
