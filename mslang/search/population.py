"""Candidates of several structures with their scores."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, NamedTuple

import msgspec

from mslang.schedule.batch.layout import DecisionBatch
from mslang.search.leaves import Leaf

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


class Scored(msgspec.Struct, frozen=True, eq=False):
    """Candidates of one structure and their scores, lower for faster ones."""

    leaf: Leaf
    batch: DecisionBatch
    scores: NDArray[np.float64]

    def __len__(self) -> int:
        """The number of candidates."""
        return len(self.batch)

    def __getitem__(self, rows: NDArray[np.int64]) -> Scored:
        """Some of them."""
        return Scored(self.leaf, self.batch[rows], self.scores[rows])


def merged(parts: Iterable[Scored]) -> list[Scored]:
    """The candidates of each structure together, each once: of equal ones the first stays. In the order of leaves."""
    import numpy as np

    by_leaf: dict[int, list[Scored]] = {}
    for part in parts:
        by_leaf.setdefault(part.leaf.number, []).append(part)
    out: list[Scored] = []
    for _, of_leaf in sorted(by_leaf.items()):
        leaf = of_leaf[0].leaf
        array = np.concatenate([p.batch.array for p in of_leaf]) if len(of_leaf) > 1 else of_leaf[0].batch.array
        batch = DecisionBatch(of_leaf[0].batch.layout, np.asfortranarray(array))
        scores = np.concatenate([p.scores for p in of_leaf])
        _, first = np.unique(leaf.sketch.batch().keys(batch), return_index=True)
        out.append(Scored(leaf, batch, scores)[np.sort(first)])
    return out


def lowest(parts: Sequence[Scored], n: int) -> list[Scored]:
    """The `n` candidates with the lowest scores, of each structure in order of score."""
    import numpy as np

    if not parts:
        return []
    scores = np.concatenate([p.scores for p in parts])
    part = np.repeat(np.arange(len(parts)), [len(p) for p in parts])
    row = np.concatenate([np.arange(len(p)) for p in parts])
    best = np.argsort(scores, kind="stable")[:n]
    chosen = ((p, row[best[part[best] == k]]) for k, p in enumerate(parts))
    return [p[rows] for p, rows in chosen if len(rows)]


class Point(NamedTuple):
    """A candidate: its structure, its numbers as a batch of one row, and its score if it has one."""

    leaf: Leaf
    row: DecisionBatch
    score: float | None = None


def in_order(parts: Sequence[Scored]) -> Iterator[Point]:
    """The candidates one by one, the lowest scores first."""
    import numpy as np

    if not parts:
        return
    scores = np.concatenate([p.scores for p in parts])
    part = np.repeat(np.arange(len(parts)), [len(p) for p in parts])
    row = np.concatenate([np.arange(len(p)) for p in parts])
    for k in np.argsort(scores, kind="stable").tolist():
        p = parts[part[k]]
        yield Point(p.leaf, p.batch[row[k] : row[k] + 1], float(scores[k]))


def in_turn(parts: Sequence[Scored]) -> Iterator[Point]:
    """The candidates one by one: the best of each structure, then the second best of each, and so on."""
    import numpy as np

    orders = [np.argsort(p.scores, kind="stable").tolist() for p in parts]
    for place in range(max(map(len, orders), default=0)):
        for p, order in zip(parts, orders, strict=True):
            if place < len(order):
                k = order[place]
                yield Point(p.leaf, p.batch[k : k + 1], float(p.scores[k]))
