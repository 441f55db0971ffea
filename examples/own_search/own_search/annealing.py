"""Simulated annealing: from the current candidate to one of its neighbours, sometimes to a slower one."""

from collections.abc import Sequence
from math import exp

from mslang.schedule.seeds import generator
from mslang.search.around import around
from mslang.search.generation import Generations
from mslang.search.leaves import Leaves
from mslang.search.population import Point
from mslang.search.strategy import Observed, Problem, Proposal, Rejections


class Annealing:
    """Proposes neighbours of the current candidate. It moves to the fastest of them, or, the more willingly the earlier
    in the search, to a slower one.

    Args:
        problem: what is searched.
    """

    name = "annealing"

    def __init__(self, problem: Problem) -> None:
        self.rejections = Rejections()
        self._seed = problem.seed
        self._leaves = Leaves(problem.space, problem.target, problem.seed, self.rejections)
        self._generations = Generations(self.rejections)
        self._current: Point | None = None
        self._cost = float("inf")
        self._warmth = 1.0

    def propose(self, n: int) -> Sequence[Proposal]:
        """Neighbours of the current candidate; random points at first, and where no neighbour is left."""
        near = []
        if self._current is not None:
            parts = around(self._current.leaf, self._current.row, self._leaves, self._seed)
            near = [Point(leaf, batch[k : k + 1]) for leaf, batch in parts for k in range(len(batch))]
            generator(self._seed, "order", self._generations.count).shuffle(near)
        found = self._generations.take(near, n)
        drawn = [Point(leaf, batch[k : k + 1]) for leaf, batch in self._leaves.draw(4 * n) for k in range(len(batch))]
        return found + self._generations.take(drawn, n - len(found))

    def observe(self, observed: Sequence[Observed]) -> None:
        """Move, and cool down."""
        measured = [m for m in self._generations.measured(observed) if m.cost is not None]
        if measured:
            best = min(measured, key=lambda m: m.cost or 0.0)
            worse = (best.cost or 0.0) / self._cost - 1.0
            if worse <= 0 or generator(self._seed, "move", self._generations.count).random() < exp(
                -worse / self._warmth
            ):
                self._current, self._cost = Point(best.leaf, best.row), best.cost or 0.0
        self._warmth *= 0.7

    def explanation(self) -> str:
        """One line for the user."""
        return f"simulated annealing: {len(self._leaves)} structures"
