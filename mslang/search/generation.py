"""From points to proposals: what was chosen becomes concrete, and nothing is proposed twice."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

from mslang.schedule.batch.layout import DecisionBatch
from mslang.search.leaves import Leaf
from mslang.search.population import Point, Scored
from mslang.search.ranking import Measured
from mslang.search.strategy import Observed, Proposal, Rejections


class Generations:
    """The proposals of a search so far, and the points that they are of.

    Args:
        rejections: where points whose programs were proposed already are counted.
    """

    def __init__(self, rejections: Rejections) -> None:
        self._rejections = rejections
        self._taken: set[tuple[int, int]] = set()
        self._of_leaf: Counter[int] = Counter()
        self._hashes: set[str] = set()
        self._last: list[tuple[Leaf, DecisionBatch]] = []

    @property
    def count(self) -> int:
        """How many candidates were proposed."""
        return len(self._hashes)

    def of(self, leaf: Leaf) -> int:
        """How many candidates of a structure were proposed."""
        return self._of_leaf[leaf.number]

    def leave_out(self, points: Iterable[Measured]) -> None:
        """Take points for proposed: they are not proposed from now on."""
        self._taken.update(m.key for m in points)

    def left(self, parts: Iterable[Scored]) -> list[Scored]:
        """The candidates that were not proposed yet."""
        import numpy as np

        out: list[Scored] = []
        for p in parts:
            keys = p.leaf.sketch.batch().keys(p.batch).tolist()
            rows = np.asarray([k for k, key in enumerate(keys) if (p.leaf.number, key) not in self._taken], np.int64)
            if len(rows):
                out.append(p[rows])
        return out

    def take(self, points: Iterable[Point], n: int, *, predicted: bool = False) -> list[Proposal]:
        """Proposals of the first `n` points that were not proposed before.

        Args:
            points: in the order in which they are taken.
            n: how many at most.
            predicted: whether scores are what a model predicts.
        """
        out: list[Proposal] = []
        for leaf, row, score in points:
            if len(out) >= n:
                break
            key = leaf.key(row)
            if key in self._taken:
                continue
            self._taken.add(key)
            candidate, hash = leaf.candidate(row, 0)
            if hash in self._hashes:
                self._rejections.duplicates += 1
                continue
            self._hashes.add(hash)
            self._last.append((leaf, row))
            self._of_leaf[leaf.number] += 1
            out.append(Proposal(candidate, hash, len(self._hashes) - 1, score if predicted else None))
        return out

    def measured(self, observed: Sequence[Observed]) -> list[Measured]:
        """What was observed of the points proposed since the last call, in their order."""
        last, self._last = self._last, []
        return [Measured(leaf, row, o.cost, o.bound) for (leaf, row), o in zip(last, observed, strict=True)]
