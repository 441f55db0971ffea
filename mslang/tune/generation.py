"""A generation of candidates as far as it was measured, and the event that reports it."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from mslang.search.strategy import Observed, Proposal, Rejections
from mslang.tune.progress import Generation
from mslang.tune.quality import rank_correlation


class Measured(msgspec.Struct, frozen=True):
    """What was proposed together, what measuring the first of these gave, and what was drawn and is no proposal."""

    proposals: Sequence[Proposal] = ()
    observed: Sequence[Observed] = ()
    rejections: Rejections = msgspec.field(default_factory=Rejections)

    @property
    def left(self) -> Sequence[Proposal]:
        """The candidates that are still to be measured."""
        return self.proposals[len(self.observed) :]

    @property
    def costs(self) -> list[float]:
        """The costs of those that have one."""
        return [o.cost for o in self.observed if o.cost is not None]

    def event(self, number: int) -> Generation:
        """The event that reports it, under its number within the task."""
        told = zip(self.proposals, self.observed)
        pairs = [(p.predicted, o.cost) for p, o in told if p.predicted is not None and o.cost]
        rejections = self.rejections
        return Generation(
            number,
            len(self.observed),
            drafted=max(rejections.drafted, len(self.proposals) + rejections.total),
            rejected={**rejections.constraint, **rejections.illegal},
            duplicates=rejections.duplicates,
            quality=rank_correlation(pairs),
        )
