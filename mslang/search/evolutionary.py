"""Evolutionary search: many thousand candidates are bred on arrays for each generation that is measured.

A generation's population are fresh draws, the best of what was measured, and its neighbours. It is bred for a few
rounds: the draft model ranks all children, the cost model the best of them. The draft chooses within each structure;
between structures only what was measured decides. Of the last population the best are measured that are not all alike,
and a few at random of the structures that were measured least. The last trials go to the neighbourhood of the best.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import chain
from typing import TYPE_CHECKING

import msgspec

from mslang.schedule.batch.random_words import Stream, below
from mslang.schedule.seeds import derive
from mslang.search.around import around
from mslang.search.crossover import crossed
from mslang.search.generation import Generations
from mslang.search.known import place
from mslang.search.leaves import Leaves
from mslang.search.lessons import Lesson
from mslang.search.mutators import Part, all_mutators, mutate
from mslang.search.parts import together
from mslang.search.population import (
    Point,
    Scored,
    in_order,
    in_turn,
    lowest,
    lowest_of_each,
    merged,
    spread,
)
from mslang.search.ranking import Measured, Ranking
from mslang.search.strategy import MODELS, MUTATORS, Observed, Problem, Proposal, Rejections

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


class Breeding(msgspec.Struct, frozen=True):
    """The sizes of an evolutionary search.

    Args:
        fresh: points drawn for each generation.
        children: children of each round.
        rounds: rounds of each generation.
        drafted: the share of the children of each structure, best by the draft, that is kept while there is no model.
        predicted: the share that the cost model is asked of.
        least: so many of each structure are kept at least.
        population: candidates kept from round to round.
        parents: measured candidates that take part, the fastest ones.
        crossing: the share of children that have two parents.
        epsilon: the share of a generation that is drawn at random.
        first: that share in the first generation, when nothing is measured.
        penalty: what a candidate of a generation adds, in units of the binary logarithm of time, to the scores of those
            that differ from it in one decision: about the error of a model that has learned from a hundred candidates.
        local: the share of the trials, at their end, that go to the neighbourhood of the best.
        growth: further structures looked for in each generation, where not all are known.
    """

    fresh: int = 8192
    children: int = 8192
    rounds: int = 4
    drafted: float = 0.1
    predicted: float = 0.3
    least: int = 32
    population: int = 512
    parents: int = 64
    crossing: float = 0.15
    epsilon: float = 0.1
    first: float = 0.5
    penalty: float = 0.4
    local: float = 0.2
    growth: int = 2


BREEDING = Breeding()


class Evolutionary:
    """Evolution of candidates, guided by a draft model and by a model of what was measured.

    Source: `EvolutionarySearch` of TVM's MetaSchedule; breeding on arrays, the draft and the final local search are
    mslang's.

    Args:
        problem: the space, the seed, what is known from before, models and mutators.
        leaves: the structures of the space, if they are known already.
        breeding: the sizes.
    """

    name = "evolutionary"
    uses = (MODELS, MUTATORS)

    def __init__(self, problem: Problem, leaves: Leaves | None = None, breeding: Breeding = BREEDING) -> None:
        self.rejections = Rejections() if leaves is None else leaves.rejections
        self._problem, self._breeding = problem, breeding
        self._mutators = all_mutators() if problem.mutators is None else problem.mutators
        self._leaves = (
            Leaves(problem.space, problem.target, problem.seed, self.rejections) if leaves is None else leaves
        )
        self._ranking = Ranking(problem, self._leaves)
        self._generations = Generations(self.rejections)
        self._known = [m for o in problem.known if (m := place(o, problem.space, self._leaves)) is not None]
        self._measured: dict[tuple[int, int], Measured] = {}
        self._number = 0
        """Of the generation."""
        self._learn(self._known)

    def lessons(self) -> Sequence[Lesson]:
        """What was measured, for the searches of other programs."""
        return self._ranking.lessons()

    def explanation(self) -> str:
        """How large the space is."""
        points = self._leaves.points
        size = "" if points is None else f", {points:.3g} points"
        structures = f"{len(self._leaves)} structure{'' if len(self._leaves) == 1 else 's'}"
        return f"evolutionary search: {structures}{'' if self._leaves.complete else ' to begin with'}{size}"

    # ------------------------------------------------------------------ measurements
    def observe(self, observed: Sequence[Observed]) -> None:
        """Learn from what was measured."""
        self._learn(self._generations.measured(observed))

    def _learn(self, measured: Sequence[Measured]) -> None:
        """What is known from before may be proposed again: it is learned once."""
        new = {m.key: m for m in measured if m.key not in self._measured}
        self._measured |= new
        self._ranking.learn(list(new.values()))

    def _best(self, n: int) -> list[Measured]:
        """The fastest candidates that were measured."""
        return sorted((m for m in self._measured.values() if m.cost is not None), key=lambda m: m.cost or 0.0)[:n]

    # ------------------------------------------------------------------ proposing
    def propose(self, n: int) -> Sequence[Proposal]:
        """The next generation; none where all points were proposed."""
        if self._number:
            self._leaves.grow(self._breeding.growth)
        if not len(self._leaves):
            return ()
        seed = derive(self._problem.seed, "generation", self._number)
        self._number += 1
        found: list[Proposal] = []
        if self._number == 1:
            before = sorted((m for m in self._known if m.cost is not None), key=lambda m: m.cost or 0.0)
            found += self._generations.take((Point(m.leaf, m.row) for m in before), n // 4)
            self._generations.leave_out(self._known)
        ending, trained = self._ending(n), self._ranking.trained
        if ending:
            found += self._generations.take(self._around_best(seed), n - len(found), predicted=trained)
        if len(found) < n:
            share = 0.0 if ending else self._breeding.epsilon if self._ran else self._breeding.first
            random = round(share * n)
            ranked = self._chosen(self._bred(seed)) if self._ranking.ranks or self._ran else iter(())
            found += self._generations.take(ranked, n - random - len(found), predicted=trained)
            found += self._generations.take(self._at_random(), n - len(found))
        return found

    @property
    def _ran(self) -> bool:
        """Whether anything has a cost yet."""
        return bool(self._best(1))

    def _chosen(self, population: Sequence[Scored]) -> Iterator[Point]:
        """The population in the order in which it is measured. Before anything is, structures take turns."""
        left, penalty = self._generations.left(population), self._breeding.penalty
        return spread(left, penalty) if self._ran else in_turn(spread([p], penalty) for p in left)

    def _ending(self, n: int) -> bool:
        """Whether the trials left go to the neighbourhood of the best."""
        trials, done = self._problem.trials, self._generations.count
        if trials is None or not self._ran:
            return False
        return 0 <= trials - done <= max(n, self._breeding.local * trials)

    def _at_random(self) -> Iterator[Point]:
        """Points in the order of the seed: those that are not drawn yet, then all, of which few may be proposed yet."""
        yield from self._drawn_in_turn()
        self._leaves.restart()
        yield from self._drawn_in_turn()

    def _drawn_in_turn(self) -> Iterator[Point]:
        while drawn := [p for p in self._leaves.draw(256) if len(p[1])]:
            # One of each structure in turn, those first of which the fewest were proposed.
            drawn.sort(key=lambda p: self._generations.of(p[0]))
            for k in range(max(len(batch) for _, batch in drawn)):
                yield from (Point(leaf, batch[k : k + 1]) for leaf, batch in drawn if k < len(batch))

    def _around_best(self, seed: int) -> Iterator[Point]:
        """The neighbours of the fastest candidates in order of score; of more candidates where these are all known."""
        for few in (3, 8, 24):
            parts = chain.from_iterable(around(m.leaf, m.row, self._leaves, seed) for m in self._best(few))
            yield from in_order(merged(self._scored(parts)))

    # ------------------------------------------------------------------ breeding
    def _scored(self, parts: Iterable[Part]) -> list[Scored]:
        return [Scored(leaf, batch, self._ranking.score(leaf, batch)) for leaf, batch in together(parts)]

    def _drafted(self, parts: Iterable[Part]) -> list[Scored]:
        """The best of some candidates by the draft, with their scores."""
        drafts = merged(Scored(leaf, batch, self._ranking.draft(leaf, batch)) for leaf, batch in together(parts))
        self.rejections.drafted += sum(map(len, drafts))
        size, informed = self._breeding, self._ranking.informed
        kept = lowest_of_each(drafts, size.predicted if informed else size.drafted, size.least)
        return self._scored((p.leaf, p.batch) for p in kept) if informed else kept

    def _bred(self, seed: int) -> list[Scored]:
        """The population after all rounds."""
        size = self._breeding
        parents = self._best(size.parents)
        near = chain.from_iterable(around(m.leaf, m.row, self._leaves, seed) for m in parents[:4])
        old = self._scored([*((m.leaf, m.row) for m in parents), *near])
        population = self._kept([*old, *self._drafted(self._leaves.draw(size.fresh))])
        for k in range(size.rounds):
            if self._problem.stopped():
                break
            children = self._drafted(self._children(population, derive(seed, "round", k)))
            population = self._kept([*population, *children])
        return population

    def _kept(self, parts: Iterable[Scored]) -> list[Scored]:
        """The next population: the best of all by what was learned, or as many of each structure by the draft."""
        found, size = merged(parts), self._breeding.population
        return lowest(found, size) if self._ranking.informed else lowest_of_each(found, 0.0, size // max(len(found), 1))

    def _children(self, population: Sequence[Scored], seed: int) -> Iterator[Part]:
        """Valid children of a population, in which better parents have more."""
        import numpy as np

        if not population:
            return
        size = self._breeding
        scores = np.concatenate([p.scores for p in population])
        part = np.repeat(np.arange(len(population)), [len(p) for p in population])
        row = np.concatenate([np.arange(len(p)) for p in population])
        order = np.argsort(scores, kind="stable")
        rows = np.arange(size.children, dtype=np.uint64)
        chosen = order[_favoured(Stream(seed, "parents", rows), len(order))]
        for k, parents in enumerate(population):
            of_part = row[chosen[part[chosen] == k]]
            if not len(of_part):
                continue
            stream = Stream(seed, f"children {k}", np.arange(len(of_part), dtype=np.uint64))
            pairs = round(size.crossing * len(of_part)) if len(parents) > 1 else 0
            mothers = parents.batch[of_part]
            if pairs:
                fathers = parents.batch[_favoured(Stream(seed, f"fathers {k}", stream.rows[:pairs]), len(parents))]
                children = crossed(parents.leaf, mothers[:pairs], fathers, stream.at(np.arange(pairs)))
                yield parents.leaf, parents.leaf.checked(children)
            rest = np.arange(pairs, len(of_part))
            for leaf, batch in mutate(self._mutators, parents.leaf, self._leaves, mothers[rest], stream.at(rest)):
                yield leaf, leaf.checked(batch)


def _favoured(stream: Stream, n: int) -> NDArray[np.int64]:
    """Places in an order of `n`, of which the first is the likeliest: the smaller of two random ones."""
    import numpy as np

    return np.minimum(below(stream.words("one"), n), below(stream.words("other"), n))
