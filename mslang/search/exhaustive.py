"""Exhaustive search: every point of a small space once, the most promising first."""

from __future__ import annotations

from collections.abc import Sequence

from mslang.diagnostics import MsError, problem
from mslang.search.generation import Generations
from mslang.search.leaves import Leaves
from mslang.search.lessons import Lesson
from mslang.search.population import Scored, in_order
from mslang.search.ranking import Ranking
from mslang.search.strategy import MODELS, Observed, Problem, Proposal, Rejections

POINTS = 300_000
"""A space of more points is not enumerated."""


class Exhaustive:
    """Every valid point once: those first that the models rank first, else in an order that the seed gives.

    Args:
        problem: the space, and what ranks its points.
        leaves: the structures of the space, if they are known already.

    Raises:
        MsError: MS516, the space has too many points.
    """

    name = "exhaustive"
    uses = (MODELS,)

    def __init__(self, problem: Problem, leaves: Leaves | None = None) -> None:
        import numpy as np

        rejections = Rejections() if leaves is None else leaves.rejections
        found = Leaves(problem.space, problem.target, problem.seed, rejections) if leaves is None else leaves
        self.rejections = rejections
        if not found.complete or found.points is None or found.points > POINTS:
            raise _too_many(problem, found)
        self._ranking = Ranking(problem, found)
        self._generations = Generations(rejections)
        self._parts: list[Scored] = []
        for leaf in found.all():
            batch = leaf.all()
            # Places in the order of the seed, spread over 0 to 1: the leaves take turns.
            self._parts.append(Scored(leaf, batch, np.arange(len(batch)) / max(len(batch), 1)))
        self._points = sum(map(len, self._parts))

    def propose(self, n: int) -> Sequence[Proposal]:
        """The `n` most promising points that are left."""
        ranked = in_order([self._ranked(p) for p in self._parts])
        return self._generations.take(ranked, n, predicted=self._ranking.trained)

    def _ranked(self, part: Scored) -> Scored:
        if not self._ranking.ranks or not len(part):
            return part
        self.rejections.drafted += len(part)
        return Scored(part.leaf, part.batch, self._ranking.score(part.leaf, part.batch))

    def observe(self, observed: Sequence[Observed]) -> None:
        """Learn from what was measured."""
        self._ranking.learn(self._generations.measured(observed))

    def lessons(self) -> Sequence[Lesson]:
        """What was measured, for the searches of other programs."""
        return self._ranking.lessons()

    def explanation(self) -> str:
        """How many points there are."""
        return f"exhaustive search: {self._points} points"


def _too_many(problem_: Problem, leaves: Leaves) -> MsError:
    points = leaves.points
    many = f"{len(leaves)} structures or more" if not leaves.complete else f"{points or 'an unknown number of'} points"
    return MsError(
        problem(
            "MS516",
            f"{problem_.space.name} cannot be searched exhaustively",
            why=f"it has {many}; at most {POINTS} points are enumerated",
            help="search it with `--strategy evolutionary`, or pin decisions",
        )
    )
