"""What a candidate must satisfy to be worth compiling, as conditions on arrays of decisions.

These are the sketch's own guards and requirements, and the limits of the machine and of the size of the code, which are
numbers of the sketch's summary. `LimitsOf` checks the limits for a single candidate.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import msgspec

from mslang.diagnostics import MsError
from mslang.ir import arith
from mslang.ir.arith.domain import is_dynamic
from mslang.ir.expr import Expr
from mslang.lower.summary import Summary, limits
from mslang.schedule.batch.layout import DecisionBatch
from mslang.schedule.batch.sketch_batch import ROWS, Evaluator
from mslang.schedule.decisions import holds
from mslang.schedule.distribution import Values
from mslang.schedule.sketch import Sketch
from mslang.search.summaries import summary_of
from mslang.target.description import Target

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Mask = NDArray[np.bool_]


ELSEWHERE = "another structure"
"""The reason for points that a guard rejects: they are points of another sketch."""


class Condition(msgspec.Struct, frozen=True):
    """An expression over decisions that must have this value, and why a candidate is rejected where it has not."""

    expr: Expr
    why: str
    holds: bool = True


class Constraints:
    """The constraints of one sketch, compiled once; `constraints_of` makes them.

    Example:
        >>> kept = batch[constraints.valid(batch)]
        >>> constraints.rejections(batch)
        {'gemm needs more than 131072 instructions, by estimate': 12}
    """

    def __init__(self, sketch: Sketch, conditions: Sequence[Condition]) -> None:
        self.conditions = tuple(conditions)
        self._many = sketch.batch()
        self._evaluate: Evaluator = self._many.compile([c.expr for c in self.conditions])

    def valid(self, batch: DecisionBatch) -> Mask:
        """Whether each candidate is in the domains of all decisions and satisfies all constraints."""
        return self._many.members(batch) & self.satisfied(batch)

    def satisfied(self, batch: DecisionBatch) -> Mask:
        """Whether candidates that are known to be in the domains of all decisions satisfy all constraints."""
        import numpy as np

        out = np.ones(len(batch), np.bool_)
        if not self.conditions:
            return out
        for at in range(0, len(batch), ROWS):
            part = out[at : at + ROWS]
            for c, found in zip(self.conditions, self._evaluate(batch[at : at + ROWS]), strict=True):
                part &= found if c.holds else ~np.asarray(found, np.bool_)
        return out

    def rejections(self, batch: DecisionBatch) -> dict[str, int]:
        """How many candidates each reason rejects, by the first that does; most frequent first."""
        import numpy as np

        left = self._many.members(batch)
        out = {"a value that is not in its domain": int((~left).sum())}
        for c, found in zip(self.conditions, self._evaluate(batch) if len(batch) else (), strict=False):
            broken = left & (np.asarray(found, np.bool_) != c.holds)
            out[c.why] = out.get(c.why, 0) + int(broken.sum())
            left = left & ~broken
        return dict(sorted(((why, n) for why, n in out.items() if n), key=lambda x: -x[1]))


def constraints_of(sketch: Sketch, target: Target) -> Constraints:
    """The constraints of a sketch's candidates on a machine.

    Args:
        sketch: the sketch.
        target: the machine.

    Conditions that provably hold for all candidates are left out; so are limits on what is known only at the call.
    """
    own = (
        *(Condition(g.question.condition, ELSEWHERE, g.answer) for g in sketch.guards),
        *(Condition(c.condition, c.why) for c in sketch.constraints),
    )
    return Constraints(sketch, _open(own + _limits(sketch, target)))


class LimitsOf:
    """Says which limit of a machine a candidate exceeds, as `Constraints` does of many; of each sketch of a space the
    limits are determined once.

    Args:
        target: the machine.

    Example:
        >>> space = automatic_space(program, target).rejecting(LimitsOf(target))
    """

    def __init__(self, target: Target) -> None:
        self._target = target
        self._known: dict[object, tuple[Condition, ...]] = {}

    def __call__(self, sketch: Sketch, values: Values) -> str | None:
        """Why a point of a sketch is no candidate; None if it keeps all limits."""
        key = sketch.structure, sketch.guards
        if key not in self._known:
            self._known[key] = _open(_limits(sketch, self._target))
        return next((c.why for c in self._known[key] if not holds(c.expr, values)), None)


def _limits(sketch: Sketch, target: Target) -> tuple[Condition, ...]:
    """The limits of a machine for a sketch, those included that are estimates.

    A schedule that leaves nothing open was written to be measured: what is only estimated does not reject it.
    """
    summary = _summary(sketch, target)
    of_machine = () if summary is None else limits(summary, target)
    return tuple(
        Condition(x.condition, f"{x.nest} needs more than {x.most} {x.what}")
        for x in of_machine
        if (x.hard or sketch.open) and not is_dynamic(x.condition)
    )


def _open(conditions: Sequence[Condition]) -> tuple[Condition, ...]:
    """The conditions that do not provably hold, each once."""
    return tuple(c for c in dict.fromkeys(conditions) if not _always(c))


def _always(condition: Condition) -> bool:
    wanted = arith.Verdict.PROVED if condition.holds else arith.Verdict.REFUTED
    return arith.decide(condition.expr) is wanted


def _summary(sketch: Sketch, target: Target) -> Summary | None:
    """What a sketch does; None if it cannot be lowered before its decisions have values."""
    try:
        return summary_of(sketch.program, target)
    except MsError:
        return None
