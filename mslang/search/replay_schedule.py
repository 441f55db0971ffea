"""No search: the one candidate that a schedule gives when it runs once."""

from __future__ import annotations

from collections.abc import Sequence

from mslang.diagnostics import MsError
from mslang.ir.equal import structural_hash
from mslang.schedule.space import NoCandidate
from mslang.search.strategy import Observed, Problem, Proposal, Rejections


class ReplaySchedule:
    """The candidate of a schedule whose decisions are pinned; of open ones the first valid draw.

    Source: `ReplayFunc` of TVM's MetaSchedule, which runs the schedule again for each trial; without open decisions it
    always gives the same.

    Args:
        problem: the space and the seed.
    """

    name = "replay_schedule"

    def __init__(self, problem: Problem) -> None:
        self.rejections = Rejections()
        self._problem = problem
        self._done = False

    def propose(self, n: int) -> Sequence[Proposal]:
        """The one candidate, the first time."""
        if self._done or n < 1:
            return ()
        self._done = True
        try:
            candidate = self._problem.space.sample(self._problem.seed)
        except NoCandidate as failure:
            self.rejections.constraint.update(failure.reasons)
            return ()
        except MsError as failure:
            self.rejections.illegal[failure.diagnostic.message] += 1
            return ()
        return (Proposal(candidate, structural_hash(candidate.program), 0),)

    def observe(self, observed: Sequence[Observed]) -> None:
        """Nothing follows."""

    def explanation(self) -> str:
        """That there is no search."""
        return "the schedule's own candidate, without search"
