"""Simulated annealing: from the current candidate to one of its neighbours, sometimes to a slower one.

The draft and the cost model say which neighbours are measured first.
"""

from collections.abc import Iterable, Sequence
from math import exp

from mslang.schedule.seeds import generator
from mslang.search.around import around
from mslang.search.generation import Generations
from mslang.search.leaves import Leaves
from mslang.search.population import Point, Scored, in_order
from mslang.search.ranking import Ranking
from mslang.search.strategy import Observed, Problem, Proposal, Rejections


class Annealing:
    """Proposes neighbours of the current candidate. It moves to the fastest of them, or, the more willingly the earlier
    in the search, to a slower one.

    Args:
        problem: what is searched, with the models that rank candidates.
    """

    name = "annealing"
    uses = ("models",)

    def __init__(self, problem: Problem) -> None:
        self.rejections = Rejections()
        self._seed = problem.seed
        self._leaves = Leaves(problem.space, problem.target, problem.seed, self.rejections)
        self._ranking = Ranking(problem, self._leaves)
        self._generations = Generations(self.rejections)
        self._current: Point | None = None
        self._cost = float("inf")
        self._warmth = 1.0

    def propose(self, n: int) -> Sequence[Proposal]:
        """Neighbours of the current candidate; random points at first, and where no neighbour is left."""
        found = self._generations.take(self._near(), n, predicted=self._ranking.trained)
        drawn = [Point(leaf, batch[k : k + 1]) for leaf, batch in self._leaves.draw(4 * n) for k in range(len(batch))]
        return found + self._generations.take(drawn, n - len(found))

    def _near(self) -> Iterable[Point]:
        """The neighbours of the current candidate: by their scores, or in random order where nothing ranks them."""
        if self._current is None:
            return []
        parts = list(around(self._current.leaf, self._current.row, self._leaves, self._seed))
        if self._ranking.ranks:
            return in_order([Scored(leaf, batch, self._ranking.score(leaf, batch)) for leaf, batch in parts])
        near = [Point(leaf, batch[k : k + 1]) for leaf, batch in parts for k in range(len(batch))]
        generator(self._seed, "order", self._generations.count).shuffle(near)
        return near

    def observe(self, observed: Sequence[Observed]) -> None:
        """Learn, move, and cool down."""
        measured = self._generations.measured(observed)
        self._ranking.learn(measured)
        timed = [m for m in measured if m.cost is not None]
        if timed:
            best = min(timed, key=lambda m: m.cost or 0.0)
            worse = (best.cost or 0.0) / self._cost - 1.0
            if worse <= 0 or generator(self._seed, "move", self._generations.count).random() < exp(
                -worse / self._warmth
            ):
                self._current, self._cost = Point(best.leaf, best.row), best.cost or 0.0
        self._warmth *= 0.7

    def explanation(self) -> str:
        """One line for the user."""
        return f"simulated annealing: {len(self._leaves)} structures"
