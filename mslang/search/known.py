"""What is known of candidates from before, as points of the structures of a search."""

from __future__ import annotations

from collections.abc import Mapping

from mslang.diagnostics import MsError
from mslang.schedule.instruction import Value
from mslang.schedule.space import Candidate, Space
from mslang.search.leaves import Leaf, Leaves
from mslang.search.ranking import Measured
from mslang.search.strategy import Observed


def place(observed: Observed, space: Space, leaves: Leaves) -> Measured | None:
    """A known candidate as a point of a structure; None if the space no longer has it.

    Args:
        observed: the candidate and what it cost.
        space: the space.
        leaves: the structures that are known; the candidate's is added if it is not among them.
    """
    decisions = {a: tuple(v) if isinstance(v, list) else v for a, v in observed.decisions.items()}
    for leaf in leaves.all():
        if _has(leaf, decisions):
            found = _row(leaf, decisions, observed)
            if found is not None:
                return found
    if leaves.complete:
        return None
    try:
        drawn = space.attempt(0, pins=decisions, strict=True)
    except MsError:
        return None
    return _row(leaves.add(drawn.sketch), decisions, observed) if isinstance(drawn, Candidate) else None


def _has(leaf: Leaf, decisions: Mapping[str, Value]) -> bool:
    sketch = leaf.sketch
    return set(sketch.addresses) == set(decisions) and all(decisions[a] == label for a, label in sketch.structure)


def _row(leaf: Leaf, decisions: Mapping[str, Value], observed: Observed) -> Measured | None:
    numbers = {d.address: decisions.get(d.address) for d in leaf.sketch.decisions}
    try:
        row = leaf.sketch.batch().of([numbers])  # type: ignore[list-item]
    except MsError:
        return None
    return Measured(leaf, row, observed.cost, observed.bound) if leaf.constraints.valid(row)[0] else None
