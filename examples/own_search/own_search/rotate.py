"""A mutator: the sizes of a tile move by one position."""

from collections.abc import Sequence

import numpy as np

from mslang.ir.expr import PerfectTile
from mslang.schedule.batch.layout import DecisionBatch
from mslang.schedule.batch.random_words import Stream, below
from mslang.search.leaves import Leaf, Leaves
from mslang.search.mutators import Part


class Rotate:
    """Moves all sizes of one perfect tile outwards by one position, the outermost to the innermost.

    Where that breaks the innermost limit, the tile is drawn again.
    """

    name = "rotate"
    weight = 0.1

    def applies(self, leaf: Leaf, leaves: Leaves) -> bool:
        """Whether there is such a tile."""
        return bool(self._tiles(leaf))

    def mutate(self, leaf: Leaf, leaves: Leaves, batch: DecisionBatch, stream: Stream) -> Sequence[Part]:
        """A mutant of each candidate."""
        tiles = self._tiles(leaf)
        which = below(stream.words(self.name), len(tiles))
        out = DecisionBatch(batch.layout, batch.array.copy(order="F"))
        for k, address in enumerate(tiles):
            rows, at = np.flatnonzero(which == k), batch.layout[address].columns
            out.array[rows, at] = np.roll(batch.array[rows, at], -1, axis=1)
        return [(leaf, leaf.sketch.batch().repaired(out, stream.seed))]

    def _tiles(self, leaf: Leaf) -> list[str]:
        return [d.address for d in leaf.sketch.decisions if isinstance(d.domain, PerfectTile) and d.given is None]


ROTATE = Rotate()
"""What the entry point names."""
