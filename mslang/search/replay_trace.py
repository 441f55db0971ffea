"""Random search: every candidate is drawn on its own, by the distributions of the schedule.

TVM's strategy `replay-trace`; also what is left for a space of which nothing else is known.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import islice

from mslang.ir.equal import structural_hash
from mslang.schedule.space import Rejection
from mslang.search.strategy import Observed, Problem, Proposal, Rejections, never_legal

DRAWS_WITHOUT_NEWS = 2000
"""After so many draws in a row that gave nothing new, the space counts as exhausted."""

DUPLICATES_PER_CANDIDATE = 16
"""After so many duplicates in a row for each known candidate, too."""

LEAST_DUPLICATES = 64
"""But not before so many."""


class ReplayTrace:
    """Distinct random candidates in the order that the seed gives, whatever they cost.

    Source: `ReplayTrace` of TVM's MetaSchedule.

    Args:
        problem: the space and the seed.
    """

    name = "replay_trace"

    def __init__(self, problem: Problem) -> None:
        self.rejections = Rejections()
        self._drawn = distinct_candidates(problem, self.rejections)

    def propose(self, n: int) -> Sequence[Proposal]:
        """The next `n` distinct candidates, fewer where the space has no more."""
        return list(islice(self._drawn, n))

    def observe(self, observed: Sequence[Observed]) -> None:
        """Nothing depends on what was measured."""

    def explanation(self) -> str:
        """Random search explains itself."""
        return ""


def distinct_candidates(problem: Problem, rejections: Rejections) -> Iterator[Proposal]:
    """Distinct valid candidates in the order that the seed gives; ends when no new ones come any more.

    Draws that give no candidate are counted in `rejections`. A structure that is refused for all values is counted
    once: later draws of it are none.
    """
    known: set[str] = set()
    dead: set[object] = set()
    without_news = duplicates = attempt = 0
    while without_news < DRAWS_WITHOUT_NEWS and not problem.stopped():
        drawn = problem.space.attempt(problem.seed, attempt)
        attempt += 1
        without_news += 1
        if isinstance(drawn, Rejection):
            if not drawn.dead:
                rejections.constraint[drawn.reason] += 1
            elif drawn.structure not in dead:
                dead.add(drawn.structure)
                if drawn.illegal:
                    rejections.illegal[never_legal(drawn.structure, drawn.reason)] += 1
                else:
                    rejections.constraint[drawn.reason] += 1
                if not drawn.structure:
                    # The schedule has no other structure.
                    return
            continue
        hash = structural_hash(drawn.program)
        if hash in known:
            rejections.duplicates += 1
            duplicates += 1
            if duplicates >= max(LEAST_DUPLICATES, DUPLICATES_PER_CANDIDATE * len(known)):
                return
            continue
        known.add(hash)
        without_news = duplicates = 0
        yield Proposal(drawn, hash, len(known) - 1)
        if not drawn.sketch.open:
            # There is nothing to choose, so there is no other candidate.
            return
