"""The second measurement of the fastest candidates: each alone, then in interleaved rounds of one process."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from itertools import takewhile

import msgspec

from mslang.tune.comparison import Compared, Gap, Sample, gap
from mslang.tune.record import Outcome, Record, Result

REMEASURED = 3
"""So many of the fastest at least are measured again, on dense inputs too."""

TRIED_AGAIN = 12
"""So many of the fastest at most, where some fail the second measurement, or are slower than in the first."""

LUCK = 1.03
"""The first measurement of a candidate may be so many times too slow: one that comes so near is measured again."""

NEAR = 1.2
"""A candidate slower than the fastest by more than this factor is compared no further."""

Measure = Callable[[Record], Result | None]
"""Verifies a record's candidate on all inputs and times it again; None if the time is spent meanwhile."""

Compare = Callable[[Sequence[Record]], Sequence[Compared] | None]
"""Times candidates in turn; None if the time is spent meanwhile, or the process did not survive them."""


class Confirmed(msgspec.Struct, frozen=True):
    """The finalists as the last measurement found them: those that failed, and the others, fastest first.

    `gaps` says how those after the first compare with it, as far as they were timed in the same rounds; `ties` how many
    of them, after the first, are within the noise of it.
    """

    failed: tuple[Record, ...]
    ordered: tuple[Record, ...]
    gaps: tuple[Gap, ...] = ()

    @property
    def ties(self) -> int:
        """How many after the first may be as fast."""
        return next((k for k, g in enumerate(self.gaps) if not g.within_noise), len(self.gaps))


def confirm(
    finalists: Sequence[Record], measure: Measure, compare: Compare, over: Callable[[], bool] = lambda: False
) -> Confirmed:
    """Measure the fastest candidates again.

    One that fails is no longer among them; nor is one that was only lucky the first time: it goes on until those left,
    even if they were unlucky, are no faster than the fastest. Those that come near it are then timed in turn.

    Args:
        finalists: records, fastest first.
        measure: what measures one again.
        compare: what times several in turn.
        over: whether the time is spent; the first candidate is measured all the same.
    """
    failed: list[Record] = []
    alone: list[Record] = []
    for record in finalists[:TRIED_AGAIN]:
        best = min((_cost(r) for r in alone), default=None)
        if best is not None and (over() or (len(alone) >= REMEASURED and LUCK * best <= _cost(record))):
            break
        result = measure(record)
        if result is None:
            break
        (alone if result.outcome is Outcome.MEASURED else failed).append(_with(record, result))
    alone.sort(key=_cost)
    before = {r.candidate: r for r in finalists}
    near = [r for r in alone if _hoped(r, before[r.candidate]) <= NEAR * _cost(alone[0])]
    compared = compare(near) if near and not over() else None
    if compared is None:
        return Confirmed(tuple(failed), tuple(alone))
    beside = [(_merged(r, c.result), c.samples) for r, c in zip(near, compared, strict=True)]
    failed += [r for r, _ in beside if r.result.outcome is not Outcome.MEASURED]
    right = {r.candidate: (r, samples) for r, samples in beside if r.result.outcome is Outcome.MEASURED}
    # By the last time of each, as the record store orders them: something may have disturbed all of those rounds.
    ordered = sorted((*(r for r, _ in right.values()), *alone[len(near) :]), key=_cost)
    gaps: list[Gap] = []
    if ordered and ordered[0].candidate in right:
        together = takewhile(lambda r: r.candidate in right, ordered[1:])
        gaps = [_gap(*right[r.candidate], *right[ordered[0].candidate]) for r in together]
    return Confirmed(tuple(failed), tuple(ordered), tuple(gaps))


def _gap(record: Record, samples: Sequence[Sample], first: Record, of_first: Sequence[Sample]) -> Gap:
    """How a candidate compares with the first; by their times alone where the runner gives no samples."""
    return gap(samples, of_first) if samples and of_first else Gap(_cost(record) / _cost(first), math.inf)


def _with(record: Record, result: Result) -> Record:
    return msgspec.structs.replace(record, result=result, id=None, created="")


def _merged(record: Record, beside: Result) -> Record:
    """The record with the time taken in turn with others, and the verifications of before."""
    if beside.outcome is not Outcome.MEASURED:
        return _with(record, beside)
    return _with(record, msgspec.structs.replace(record.result, timing=beside.timing))


def _hoped(record: Record, before: Record) -> float:
    """The cost by which a finalist is admitted to the rounds: a slow core says little of it."""
    timing = record.result.timing
    slow = timing is not None and timing.slow_core
    return min(_cost(record), _cost(before)) if slow else _cost(record)


def _cost(record: Record) -> float:
    return record.cost or 0.0
