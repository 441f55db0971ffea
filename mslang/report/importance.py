"""Which decisions matter: how much of the spread of times each one explains alone."""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterator, Mapping, Sequence
from statistics import fmean

LEAST = 8
"""Fewer candidates than this explain nothing."""


def importance(points: Sequence[tuple[Mapping[str, object], float]]) -> list[tuple[str, float]]:
    """The share of the variance of log time that each decision explains alone, largest first.

    The measure is epsilon squared: the correlation ratio of the times grouped by the decision's value, less what as
    many groups explain by chance; 0 to 1. Decisions that interact can add up to less than 1, ones that go together to
    more. A tile's factors count as decisions of their own.

    Args:
        points: decisions by address and time in seconds of each measured candidate.

    Source: T. L. Kelley, "An unbiased correlation ratio measure", PNAS 21 (1935).

    Example:
        >>> importance([({"a": k % 2, "b": k // 2}, 1.0 + k % 2) for k in range(8)])
        [('a', 1.0), ('b', 0.0)]
    """
    if len(points) < LEAST:
        return []
    measured = [(dict(flat(decisions)), math.log(seconds)) for decisions, seconds in points]
    names = dict.fromkeys(name for decisions, _ in measured for name in decisions)
    found = ((name, _explained([(d[name], t) for d, t in measured if name in d])) for name in names)
    return sorted(((n, e) for n, e in found if e is not None), key=lambda pair: -pair[1])


def flat(decisions: Mapping[str, object]) -> Iterator[tuple[str, str]]:
    """Names and values of decisions, each factor of a tile as one of its own.

    Example:
        >>> dict(flat({"tile": [4, 8], "pack": "none"}))
        {'tile[0]': '4', 'tile[1]': '8', 'pack': 'none'}
    """
    for name, value in decisions.items():
        match value:
            case list():
                yield from ((f"{name}[{k}]", str(v)) for k, v in enumerate(value))
            case _:
                yield name, str(value)


def _explained(pairs: Sequence[tuple[Hashable, float]]) -> float | None:
    """Epsilon squared; None where there is one value only, or one for nearly each candidate."""
    groups: dict[Hashable, list[float]] = {}
    for value, time in pairs:
        groups.setdefault(value, []).append(time)
    n, k = len(pairs), len(groups)
    if k < 2 or n - k < 3:
        return None
    mean = fmean(t for _, t in pairs)
    total = sum((t - mean) ** 2 for _, t in pairs)
    within = sum((t - fmean(g)) ** 2 for g in groups.values() for t in g)
    if total == 0.0:
        return 0.0
    return min(max((total - within - (k - 1) * within / (n - k)) / total, 0.0), 1.0)
