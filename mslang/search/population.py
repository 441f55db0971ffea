"""Candidates of several structures with their scores."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import zip_longest
from typing import TYPE_CHECKING, NamedTuple

import msgspec

from mslang.schedule.batch.layout import DecisionBatch
from mslang.search.leaves import Leaf

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

LARGE = 1e300
"""Stands for a score that is infinite or no number."""


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
    if not parts:
        return []
    part, row, order = _ordered(parts)
    best = order[:n]
    chosen = ((p, row[best[part[best] == k]]) for k, p in enumerate(parts))
    return [p[rows] for p, rows in chosen if len(rows)]


def lowest_of_each(parts: Sequence[Scored], share: float, least: int) -> list[Scored]:
    """The share of the candidates of each structure that have its lowest scores, in order of score.

    Args:
        parts: the candidates of each structure.
        share: the share that is kept.
        least: so many of each structure are kept at least.
    """
    import numpy as np

    return [p[np.argsort(p.scores, kind="stable")[: max(round(share * len(p)), least)]] for p in parts]


class Point(NamedTuple):
    """A candidate: its structure, its numbers as a batch of one row, and its score if it has one."""

    leaf: Leaf
    row: DecisionBatch
    score: float | None = None


def in_order(parts: Sequence[Scored]) -> Iterator[Point]:
    """The candidates one by one, the lowest scores first."""
    if not parts:
        return
    part, row, order = _ordered(parts)
    for k in order.tolist():
        yield _point(parts[part[k]], row[k])


def spread(parts: Sequence[Scored], penalty: float, most: int = 512) -> Iterator[Point]:
    """The candidates one by one, the lowest scores first, but those that are like one that came before later.

    The scores of candidates that differ in few decisions have errors in common: if one is slower than predicted, they
    all are. Each candidate therefore adds to the scores of those of its structure: `penalty` where one decision
    differs, a quarter of it where two do, and so on.

    Args:
        parts: the candidates of each structure.
        penalty: what is added to the score of a candidate that differs in one decision.
        most: so many are looked at, those with the lowest scores; the others follow in order.

    Source: local penalization (González et al., Batch Bayesian Optimization via Local Penalization, AISTATS 2016)
    """
    import numpy as np

    if not parts:
        return
    part, row, order = _ordered(parts)
    first, rest = order[:most], order[most:]
    scores = np.concatenate([p.scores for p in parts])[first].astype(np.float64)
    scores = np.nan_to_num(scores, nan=LARGE, posinf=LARGE, neginf=-LARGE)
    part_of, row_of = part[first], row[first]
    for _ in range(len(first)):
        k = int(np.argmin(scores))
        p = parts[part_of[k]]
        yield _point(p, row_of[k])
        scores[k] = np.inf
        alike = np.flatnonzero((part_of == part_of[k]) & np.isfinite(scores))
        if len(alike):
            scores[alike] += penalty * 4.0 ** (1 - _differing(p, row_of[k], row_of[alike]))
    for k in rest.tolist():
        yield _point(parts[part[k]], row[k])


def _differing(part: Scored, one: int, others: NDArray[np.int64]) -> NDArray[np.float64]:
    """In how many decisions candidates of a structure differ from one of them."""
    import numpy as np

    out = np.zeros(len(others))
    for d in part.leaf.sketch.decisions:
        columns = part.batch.array[:, part.batch.layout[d.address].columns]
        out += (columns[others] != columns[one]).any(axis=1)
    return out


def _ordered(parts: Sequence[Scored]) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
    """Of all candidates: their part, their row in it, and the order of their scores; of equal ones the parts take
    turns."""
    import numpy as np

    scores = np.concatenate([p.scores for p in parts])
    part = np.repeat(np.arange(len(parts)), [len(p) for p in parts])
    row = np.concatenate([np.arange(len(p)) for p in parts])
    return part, row, np.lexsort((part, row, scores))


def _point(part: Scored, row: int) -> Point:
    return Point(part.leaf, part.batch[row : row + 1], float(part.scores[row]))


def in_turn(orders: Iterable[Iterator[Point]]) -> Iterator[Point]:
    """The first of each order, the second of each, and so on."""
    return (point for points in zip_longest(*orders) for point in points if point is not None)
