"""The structures of a space as leaves of its decision tree, each with what drawing its candidates takes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property
from itertools import islice
from math import log2, prod

from mslang.ir.equal import structural_hash
from mslang.schedule.batch.layout import DecisionBatch, empty
from mslang.schedule.batch.sketch_batch import ROWS
from mslang.schedule.instruction import Label
from mslang.schedule.seeds import derive
from mslang.schedule.sketch import Sketch
from mslang.schedule.space import Candidate, Illegal, Space
from mslang.search.bounds import bounds_of
from mslang.search.constraints import ELSEWHERE, Constraints, constraints_of
from mslang.search.neighbours import Neighbours, neighbours_of
from mslang.search.numbering import Numbering, numbering_of
from mslang.search.permutation import Permutation
from mslang.search.roles import Role, roles_of
from mslang.search.seen import Seen
from mslang.search.strata import Order, Strata, whole
from mslang.search.strategy import Rejections, never_legal
from mslang.target.description import Target

FEW = 16
"""So many structures at most are enumerated; of more a sample is taken, which grows while the search goes on."""

SAMPLE = 8
"""The structures of the sample to begin with: each costs a replay, and lowering it with open decisions."""

LAST_ATTEMPT = 2000
"""So many structures are drawn at most until one of them is legal."""

TRIES = 64
"""So many draws for each candidate wanted are made at most, where most draws are invalid."""

EVENLY = 1 << 16
"""Up to so many points are drawn evenly, even if their distribution is another."""

MANY = 1 << 40
"""The number of points assumed of a sketch whose points cannot be counted."""


class Leaf:
    """One structure of a space. What is compiled of its sketch is compiled when first needed.

    Args:
        number: its number among the leaves of the search.
        sketch: the structure.
        target: the machine.
        seed: the order in which its candidates are drawn.
        rejections: where draws that are rejected are counted.
    """

    def __init__(self, number: int, sketch: Sketch, target: Target, seed: int, rejections: Rejections) -> None:
        self.number, self.sketch, self._target = number, sketch, target
        self._seed = derive(seed, "leaf", *(f"{a}={v}" for a, v in sketch.structure), number)
        self._rejections = rejections
        self._drawn = 0
        self._before = 0
        """So many points were drawn before a restart: what is rejected of them was counted."""
        self._neighbours: dict[str, Neighbours | None] = {}
        self._order: Order | None = None
        self._seen: Seen | None = None
        self._left: DecisionBatch | None = None
        """Valid points that were drawn beyond what was wanted: the next ones."""

    @cached_property
    def constraints(self) -> Constraints:
        """What a candidate must satisfy."""
        return constraints_of(self.sketch, self._target)

    @cached_property
    def numbering(self) -> Numbering | None:
        """The points by number, those that break a bound left out; None if they cannot be counted."""
        conditions = [c.expr for c in self.constraints.conditions if c.holds]
        return numbering_of(self.sketch.decisions, bounds_of(conditions))

    @property
    def count(self) -> int | None:
        """The number of points within the bounds, those that other constraints reject included; None if unknown."""
        return None if self.numbering is None else self.numbering.count

    @cached_property
    def weight(self) -> int:
        """The number of points, or what is assumed of it."""
        if self.count is not None:
            return self.count
        return max(prod(self.sketch.batch().counts().values()), MANY)

    @cached_property
    def strata(self) -> Strata | None:
        """The parts of the points, each of which is drawn in an order of its own; None where draws are random."""
        if self.numbering is None:
            return None
        return whole(self.numbering.count) if self.numbering.count <= EVENLY else self.numbering.strata

    @cached_property
    def roles(self) -> Mapping[Role, tuple[str, ...]]:
        """The open decisions by what they decide."""
        return roles_of(self.sketch)

    @cached_property
    def bits(self) -> Mapping[str, float]:
        """How much there is to choose: the binary logarithm of one more than the number of values of each decision,
        four where that depends on other decisions."""
        counts = self.sketch.batch().counts()
        return {d.address: log2(1 + counts.get(d.address, 15)) for d in self.sketch.decisions}

    def neighbours(self, address: str) -> Neighbours | None:
        """The table of a decision's values and their neighbours, built once; None if it has none."""
        if address not in self._neighbours:
            decision = next(d for d in self.sketch.decisions if d.address == address)
            self._neighbours[address] = neighbours_of(decision)
        return self._neighbours[address]

    def key(self, row: DecisionBatch) -> tuple[int, int]:
        """What tells a point, a batch of one row, from the others of the search."""
        return self.number, int(self.sketch.batch().keys(row)[0])

    # ------------------------------------------------------------------ drawing
    def restart(self) -> None:
        """Begin again with the first point."""
        self._before = max(self._before, self._drawn)
        self._drawn, self._order, self._seen, self._left = 0, None, None, None

    def draw(self, n: int) -> DecisionBatch:
        """The next `n` valid points in the order of the seed, none twice before a `restart`; fewer where no more are
        found."""
        import numpy as np

        parts = [] if self._left is None else [self._left]
        found, end = sum(map(len, parts)), self._drawn + TRIES * n
        while found < n and self._drawn < end:
            again = self._drawn < self._before
            batch = self._next(min(max(n - found, 256), ROWS))
            if not len(batch):
                break
            kept = batch[self.constraints.satisfied(batch)] if again else self.checked(batch)
            parts.append(kept)
            found += len(kept)
        if len(parts) == 1:
            whole = parts[0]
        else:
            rows = [p.array for p in parts]
            array = np.concatenate(rows) if rows else empty(self.sketch.batch().layout, 0).array
            whole = DecisionBatch(self.sketch.batch().layout, np.asfortranarray(array))
        self._left = whole[n:] if len(whole) > n else None
        return whole[:n]

    def checked(self, batch: DecisionBatch) -> DecisionBatch:
        """The candidates of a batch that satisfy the constraints; why others do not is counted, unless they are
        points of another structure.

        Their numbers are known to be in the domains of their decisions.
        """
        holds = self.constraints.satisfied(batch)
        if holds.all():
            return batch
        reasons = self.constraints.rejections(batch[~holds])
        self._rejections.constraint.update({why: n for why, n in reasons.items() if why != ELSEWHERE})
        return batch[holds]

    def _next(self, n: int) -> DecisionBatch:
        """The next points, valid or not, all different; none when there are no more."""
        if self.strata is not None and self.numbering is not None:
            if self._order is None:
                self._order = Order(self.strata, self._seed)
            numbers = self._order.take(n)
            self._drawn += len(numbers)
            return self.numbering.rows(numbers)
        many = self.sketch.batch()
        drawn = many.draw(n, self._seed, self._drawn)
        again = self._drawn < self._before
        self._drawn += n
        drawn = drawn[many.members(drawn)]
        if self._seen is None:
            self._seen = Seen()
        new = self._seen.new(many.keys(drawn))
        self._rejections.duplicates += 0 if again else int((~new).sum())
        return drawn[new]

    @cached_property
    def valid_count(self) -> int | None:
        """The number of points that the constraints allow, all of which are looked at; None if it is not known."""
        import numpy as np

        if self.numbering is None:
            return None
        blocks = (np.arange(at, min(at + ROWS, self.numbering.count)) for at in range(0, self.numbering.count, ROWS))
        return sum(int(self.constraints.satisfied(self.numbering.rows(numbers)).sum()) for numbers in blocks)

    def all(self) -> DecisionBatch:
        """Every valid point once, in the order of the seed."""
        import numpy as np

        assert self.numbering is not None
        order = Permutation(self.numbering.count, self._seed)
        return self.checked(self.numbering.rows(order(np.arange(self.numbering.count))))

    def candidate(self, batch: DecisionBatch, row: int) -> tuple[Candidate, str]:
        """The concrete candidate of a point, and the structural hash of its program."""
        values = batch.row(row)
        sketch = self.sketch
        program = sketch.instantiate(values)
        return Candidate(program, sketch.trace_with(values), sketch.decided(values), sketch), structural_hash(program)


class Leaves:
    """The structures of a space that a search knows.

    They are all structures where they are few. Otherwise they are a sample, by the weights of the structural decisions,
    which `grow` makes larger. What is refused for all values is counted.

    Args:
        space: the space.
        target: the machine.
        seed: the order of draws, and the sample.
        rejections: where rejected draws and illegal structures are counted.
        few: so many structures are enumerated.
        sample: so many are sampled of more.
    """

    def __init__(
        self, space: Space, target: Target, seed: int, rejections: Rejections, few: int = FEW, sample: int = SAMPLE
    ) -> None:
        self._space, self._target, self._seed, self.rejections = space, target, seed, rejections
        self._attempt = 0
        self._illegal: set[tuple[tuple[str, Label], ...]] = set()
        """The structures that were refused, each of which counts once."""
        self._leaves: list[Leaf] = []
        found = list(islice(space.structures(), few + 1))
        self.complete = len(found) <= few
        if not self.complete:
            self.grow(sample)
        if not self._leaves:
            for x in found:
                self._look_at(x)
        while not (self._leaves or self.complete) and self._attempt < LAST_ATTEMPT:
            self.grow(sample)

    def __len__(self) -> int:
        """How many are known."""
        return len(self._leaves)

    def __getitem__(self, number: int) -> Leaf:
        """One of them, by its number."""
        return self._leaves[number]

    def all(self) -> Sequence[Leaf]:
        """Those known, by number."""
        return tuple(self._leaves)

    @property
    def points(self) -> int | None:
        """The number of points of the structures known, invalid ones included; None if it is not known of all."""
        counts = [leaf.count for leaf in self._leaves]
        known = [c for c in counts if c is not None]
        return sum(known) if len(known) == len(counts) else None

    def grow(self, n: int) -> None:
        """Look for `n` more structures by drawing; nothing if all are known."""
        if self.complete:
            return
        wanted, last = len(self._leaves) + n, self._attempt + 4 * n
        while len(self._leaves) < wanted and self._attempt < last:
            drawn = self._space.structure(derive(self._seed, "structures"), self._attempt)
            self._attempt += 1
            # A draw that finds no value for a number says nothing of a structure.
            if isinstance(drawn, Sketch) or drawn.structure:
                self._look_at(drawn)

    def _look_at(self, found: Sketch | Illegal) -> None:
        """Add a structure, or count why it is none."""
        if isinstance(found, Sketch):
            self.add(found)
        elif found.structure not in self._illegal:
            self._illegal.add(found.structure)
            self.rejections.illegal[never_legal(found.structure, found.diagnostic.message)] += 1

    def add(self, sketch: Sketch) -> Leaf:
        """The leaf of a structure, a new one if it was not known."""
        for leaf in self._leaves:
            if leaf.sketch is sketch or (leaf.sketch.structure, leaf.sketch.guards) == (
                sketch.structure,
                sketch.guards,
            ):
                return leaf
        self._leaves.append(Leaf(len(self._leaves), sketch, self._target, self._seed, self.rejections))
        return self._leaves[-1]

    def draw(self, n: int) -> list[tuple[Leaf, DecisionBatch]]:
        """Valid points that were not drawn since the start, allocated to the leaves by their number of points."""
        shares = allocate(n, [leaf.weight for leaf in self._leaves])
        return [(leaf, leaf.draw(k)) for leaf, k in zip(self._leaves, shares, strict=True) if k]

    def restart(self) -> None:
        """Let all points be drawn again."""
        for leaf in self._leaves:
            leaf.restart()


def allocate(n: int, counts: Sequence[int]) -> list[int]:
    """Shares of `n` draws: in proportion to the numbers of points, but a few for each leaf that has points.

    Half of an even share is what a leaf gets at least (if it has as many points), so that a structure with few points
    is looked at, too.

    Args:
        n: how many draws.
        counts: the number of points of each leaf.

    Example:
        >>> allocate(100, [3, 1_000_000, 1_000_000])
        [3, 49, 48]
    """
    least = [min(c, n // (2 * len(counts))) for c in counts]
    left, whole = n - sum(least), sum(counts)
    if not whole:
        return least
    shares = [b + left * c // whole for b, c in zip(least, counts, strict=True)]
    rest = sorted(range(len(counts)), key=lambda k: (-(left * counts[k] % whole), k))
    for k in rest[: n - sum(shares)]:
        shares[k] += 1
    return [min(s, c) for s, c in zip(shares, counts, strict=True)]
