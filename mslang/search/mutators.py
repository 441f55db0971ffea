"""Mutators: small random changes of many candidates at once.

Source: the mutators of TVM's MetaSchedule (tile size, compute location, unroll, parallel, thread binding), with its
weights. Where TVM replays a trace for each mutant, these take columns of decisions.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Protocol, runtime_checkable

import msgspec

from mslang.attribution import attributed
from mslang.diagnostics import MsError
from mslang.extensions import allowed, loaded
from mslang.ir.expr import Choice, Uniform
from mslang.schedule.batch.layout import DecisionBatch, empty
from mslang.schedule.batch.random_words import Stream, below, chosen, thresholds
from mslang.schedule.batch.sketch_batch import UNSET, depends
from mslang.schedule.instruction import Label
from mslang.schedule.seeds import derive
from mslang.search.leaves import Leaf, Leaves
from mslang.search.roles import Role

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

Part = tuple[Leaf, DecisionBatch]
"""Candidates of one structure."""


@runtime_checkable
class Mutator(Protocol):
    """Changes candidates a little. An entry point of the group `mslang.mutators` names one."""

    @property
    def name(self) -> str:
        """What it is called."""

    @property
    def weight(self) -> float:
        """How often it is chosen, in proportion to the others that apply."""

    def applies(self, leaf: Leaf, leaves: Leaves) -> bool:
        """Whether candidates of a structure can be changed in this way."""

    def mutate(self, leaf: Leaf, leaves: Leaves, batch: DecisionBatch, stream: Stream) -> Sequence[Part]:
        """A mutant of each candidate of a batch; constraints may reject it, but its numbers are in their domains.

        Args:
            leaf: the structure of the candidates.
            leaves: the structures that are known.
            batch: the candidates.
            stream: random words for each of them.
        """


class MutateDecision(msgspec.Struct, frozen=True):
    """Gives one decision of a role another value: a neighbour, or (`anywhere`) any other one.

    A neighbour of a tile has one prime factor moved from one position to another, within the innermost limit. Numbers
    from a list, such as the shapes of register tiles, are as often replaced by any other one: what stands beside
    one in the list need not be like it. A decision with more values is chosen more often, by their logarithm.
    """

    name: str
    weight: float
    role: Role
    anywhere: bool = False

    def applies(self, leaf: Leaf, leaves: Leaves) -> bool:
        """Whether the structure has a decision of this role."""
        return self.role in leaf.roles

    def mutate(self, leaf: Leaf, leaves: Leaves, batch: DecisionBatch, stream: Stream) -> Sequence[Part]:
        """One decision of each candidate is changed; decisions that depend on it are drawn again if they must be."""
        import numpy as np

        addresses = leaf.roles[self.role]
        which = chosen(stream.words(self.name, "which"), thresholds([leaf.bits[a] for a in addresses]))
        words, far = stream.words(self.name, "to"), below(stream.words(self.name, "far"), 2) == 1
        domains = {d.address: d.domain for d in leaf.sketch.decisions}
        out = DecisionBatch(batch.layout, batch.array.copy(order="F"))
        for k, address in enumerate(addresses):
            at = batch.layout[address].columns
            table = leaf.neighbours(address)
            if table is None:
                out.array[which == k, at] = UNSET
                continue
            anywhere = np.ones_like(far) if self.anywhere else far & isinstance(domains[address], Choice | Uniform)
            for step, chose in ((table.another, anywhere), (table.step, ~anywhere)):
                rows = np.flatnonzero((which == k) & chose)
                out.array[rows, at] = step(batch.array[rows, at], words[rows])
        if any(depends(d) or leaf.neighbours(d.address) is None for d in leaf.sketch.decisions):
            seed, start = derive(stream.seed, stream.address, self.name), int(stream.rows[0]) if len(stream) else 0
            out = leaf.sketch.batch().repaired(out, seed, start)
        return [(leaf, out)]


class MutateStructure(msgspec.Struct, frozen=True):
    """Moves a candidate to a neighbouring structure: another compute location, case of a fork, or order.

    Decisions that both have, with the same domain, keep their values; the others are drawn.
    """

    name: str
    weight: float

    def applies(self, leaf: Leaf, leaves: Leaves) -> bool:
        """Whether another structure is known."""
        return len(leaves) > 1

    def mutate(self, leaf: Leaf, leaves: Leaves, batch: DecisionBatch, stream: Stream) -> Sequence[Part]:
        """Each candidate goes to one of the nearest structures."""
        import numpy as np

        near = nearest(leaf, leaves)
        which = below(stream.words(self.name), len(near))
        seed = derive(stream.seed, stream.address, self.name)
        return [
            (other, carried(leaf, other, batch[rows], seed))
            for k, other in enumerate(near)
            if len(rows := np.flatnonzero(which == k))
        ]


def nearest(leaf: Leaf, leaves: Leaves) -> Sequence[Leaf]:
    """The other structures that differ from one in the fewest structural decisions that both have."""
    own = dict(leaf.sketch.structure)
    apart = {x.number: _apart(own, dict(x.sketch.structure)) for x in leaves.all() if x is not leaf}
    least = min(apart.values())
    return [leaves[number] for number, distance in apart.items() if distance == least]


def _apart(a: dict[str, Label], b: dict[str, Label]) -> int:
    """In how many structural decisions that both have two structures differ; guards alone count as one."""
    return max(sum(b[address] != label for address, label in a.items() if address in b), 1)


def carried(leaf: Leaf, other: Leaf, batch: DecisionBatch, seed: int) -> DecisionBatch:
    """Candidates of one structure as candidates of another.

    Args:
        leaf: their structure.
        other: the structure that they are to have.
        batch: the candidates.
        seed: the seed of the decisions that they do not have; those that a text pins stay what it says.
    """
    many = other.sketch.batch()
    out = empty(many.layout, len(batch))
    out.array[:] = UNSET
    own = {d.address: d for d in leaf.sketch.decisions}
    for d in other.sketch.decisions:
        if d.given is None and d.address in own and own[d.address].domain == d.domain:
            out.array[:, many.layout[d.address].columns] = batch.array[:, batch.layout[d.address].columns]
    return many.repaired(out, seed)


MUTATORS: tuple[Mutator, ...] = (
    MutateDecision("tile size", 0.9, Role.TILE),
    MutateStructure("structure", 0.1),
    MutateDecision("unroll", 0.03, Role.UNROLL, anywhere=True),
    MutateDecision("parallel", 0.02, Role.PARALLEL, anywhere=True),
    MutateDecision("thread binding", 0.02, Role.THREADS, anywhere=True),
    MutateDecision("categorical", 0.05, Role.CATEGORICAL, anywhere=True),
)
"""The built-in mutators with TVM's weights. Structures, among which are the sketches of the space, have a greater one;
what TVM counts as a tile size, a categorical decision, has its own."""


GROUP = "mslang.mutators"
"""The entry points that name a user's own mutators."""


def all_mutators() -> tuple[Mutator, ...]:
    """The built-in mutators, and those of installed packages that were allowed.

    Raises:
        MsError: MS212 or MS213, one cannot be loaded.
    """
    own: list[Mutator] = []
    for found in loaded(GROUP, Mutator, allowed()):
        if found.problem is not None:
            raise MsError(found.problem)
        assert isinstance(found.value, Mutator)
        own.append(found.value)
    return (*MUTATORS, *own)


def mutate(
    mutators: Sequence[Mutator], leaf: Leaf, leaves: Leaves, batch: DecisionBatch, stream: Stream
) -> Sequence[Part]:
    """A mutant of each candidate, each by one of the mutators that apply, chosen by weight."""
    import numpy as np

    able = [m for m in mutators if _applies(m, leaf, leaves)]
    if not able or not len(batch):
        return []
    which: NDArray[np.int64] = chosen(stream.words("mutator"), thresholds([m.weight for m in able]))
    parts: list[Part] = []
    for k, mutator in enumerate(able):
        rows = np.flatnonzero(which == k)
        if len(rows):
            with attributed("mutator", mutator, "mutate"):
                parts += mutator.mutate(leaf, leaves, batch[rows], stream.at(rows))
    return parts


def _applies(mutator: Mutator, leaf: Leaf, leaves: Leaves) -> bool:
    with attributed("mutator", mutator, "applies"):
        return mutator.weight > 0 and mutator.applies(leaf, leaves)
