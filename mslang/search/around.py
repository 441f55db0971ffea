"""The neighbourhood of a candidate: every point that one small step leads to."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from mslang.ir.expr import Choice, Domain, Uniform
from mslang.schedule import distribution
from mslang.schedule.batch.layout import DecisionBatch
from mslang.schedule.decisions import Decision
from mslang.schedule.distribution import Number, Values
from mslang.search.leaves import Leaf, Leaves
from mslang.search.mutators import Part, carried, nearest

FEW = 64
"""Of a list of so many numbers each is tried."""


def around(leaf: Leaf, row: DecisionBatch, leaves: Leaves, seed: int) -> list[Part]:
    """The valid neighbours of a candidate.

    Each has another value of one decision: a neighbour by `distribution.neighbours`, or, of a number from a short list,
    any other; decisions that depend on it are repaired. Then there are those of the nearest structures with the
    candidate's decisions.

    Args:
        leaf: the candidate's structure.
        row: its numbers.
        leaves: the structures that are known.
        seed: the seed of decisions that only another structure has.
    """
    values = row.row(0)
    steps = list(_steps(leaf.sketch.decisions, values))
    parts = [(leaf, leaf.checked(leaf.sketch.batch().of(steps)))] if steps else []
    if len(leaves) > 1:
        parts += [(other, other.checked(carried(leaf, other, row, seed))) for other in nearest(leaf, leaves)]
    return [(x, batch) for x, batch in parts if len(batch)]


def _steps(decisions: tuple[Decision, ...], values: Values) -> Iterator[dict[str, Number]]:
    for k, d in enumerate(decisions):
        if d.given is not None:
            continue
        for other in _others(d.domain, values[d.address], values):
            moved: dict[str, Number] | None = {**values, d.address: other}
            for later in decisions[k + 1 :]:
                moved = (
                    _repaired(later, moved) if moved is not None and distribution.depends_on(later.domain) else moved
                )
            if moved is not None:
                yield moved


def _others(domain: Domain, value: Number, values: Values) -> Iterable[Number]:
    """The values to try instead of one. What stands beside a number in a list, such as the shapes of register tiles,
    need not be like it."""
    match domain:
        case Choice() if len(domain.drawn) <= FEW:
            return [x for x in domain.drawn if x != value]
        case Uniform(lo=lo, hi=hi) if hi - lo <= FEW:
            return [x for x in range(lo, hi) if x != value]
        case _:
            return distribution.neighbours(domain, value, values)


def _repaired(decision: Decision, values: dict[str, Number]) -> dict[str, Number] | None:
    """The values with one for a decision that its domain has, given the others; None if it has none."""
    kept = distribution.kept(decision.domain, values[decision.address], values)
    return None if kept is None else {**values, decision.address: kept[0]}
