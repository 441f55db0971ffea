"""Crossover: children that take each decision from one of two parents of the same structure."""

from __future__ import annotations

from mslang.schedule.batch.layout import DecisionBatch
from mslang.schedule.batch.random_words import Stream, below
from mslang.search.leaves import Leaf
from mslang.search.numbering import groups


def crossed(leaf: Leaf, mothers: DecisionBatch, fathers: DecisionBatch, stream: Stream) -> DecisionBatch:
    """A child of each pair of parents.

    Decisions that depend on each other come from the same parent, so that a child's numbers are in their domains.

    Args:
        leaf: the structure of all.
        mothers: one parent of each child.
        fathers: the other one.
        stream: random words for each child.
    """
    import numpy as np

    out = DecisionBatch(mothers.layout, mothers.array.copy(order="F"))
    for group in groups(leaf.sketch.decisions):
        from_father = np.flatnonzero(below(stream.words("cross", group[0].address), 2))
        for d in group:
            for k in range(*out.layout[d.address].columns.indices(out.layout.width)):
                out.array[from_father, k] = fathers.array[from_father, k]
    return out
