"""Candidates of several structures, those of each structure together: what is computed of arrays wants long ones."""

from __future__ import annotations

from collections.abc import Iterable

from mslang.schedule.batch.layout import DecisionBatch
from mslang.search.leaves import Leaf

Part = tuple[Leaf, DecisionBatch]


def together(parts: Iterable[Part]) -> list[Part]:
    """One batch a structure, in the order in which structures first occur; empty batches are left out."""
    import numpy as np

    found: dict[int, list[Part]] = {}
    for leaf, batch in parts:
        if len(batch):
            found.setdefault(leaf.number, []).append((leaf, batch))
    out: list[Part] = []
    for of_leaf in found.values():
        leaf, first = of_leaf[0]
        if len(of_leaf) > 1:
            columns = np.concatenate([batch.array.T for _, batch in of_leaf], axis=1)
            first = DecisionBatch(first.layout, columns.T)
        out.append((leaf, first))
    return out
