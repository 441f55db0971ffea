"""Copies of a nest: the code that they add to it is within one budget, and the part with most work has the first claim.

The main nest is free of guards where that is affordable at all; its tails are where the main nest leaves enough.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from mslang.kernel.nodes import Body
from mslang.lower.analysis import weight


class Part(NamedTuple):
    """Statements of a nest beside others: iterations of a loop, a branch, one of several statements.

    `work`: about how many statements it runs; `resolve`: what it becomes if that may add so many statements.
    """

    body: Body
    work: int
    resolve: Callable[[int], Body]


def resolved(parts: Sequence[Part], budget: int) -> list[Body]:
    """What the parts become; together they add at most `budget` statements."""
    done: dict[int, Body] = {}
    for n, part in sorted(enumerate(parts), key=lambda each: -each[1].work):
        done[n] = part.resolve(budget)
        budget -= weight(done[n]) - weight(part.body)
    return [done[n] for n in range(len(parts))]


def copied(parts: Sequence[Part], whole: Body, budget: int) -> list[Body] | None:
    """What the parts become in place of the whole, to which they add at most `budget` statements; None if these are
    too few for the copies alone."""
    left = budget + weight(whole) - sum(weight(part.body) for part in parts)
    return None if left < 0 else resolved(parts, left)
