"""The protocol of search strategies: generations of candidates out, what they cost in."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Protocol

import msgspec

from mslang.schedule.instruction import Label, Value
from mslang.schedule.space import Candidate, Space
from mslang.search.constraints import LimitsOf
from mslang.search.estimates import NO_MODELS, Models
from mslang.target.description import Target

if TYPE_CHECKING:
    from mslang.search.mutators import Mutator

MODELS, MUTATORS = "models", "mutators"
"""What the attribute `uses` of a strategy may name: parts of the problem that it need not use."""


class Proposal(msgspec.Struct, frozen=True):
    """A candidate to be measured, the structural hash of its program, and its place in the order of all proposals.

    `predicted` is the log2 of its time relative to the task's best that a cost model expects; None without a model.
    """

    candidate: Candidate
    hash: str
    number: int
    predicted: float | None = None


class Observed(msgspec.Struct, frozen=True):
    """What measuring a candidate gave.

    `cost` is in seconds at the nominal speed. A candidate that was cut off has no cost but a `bound`: it takes longer
    than that. One that failed has neither.
    """

    hash: str
    decisions: Mapping[str, Value]
    structure: tuple[tuple[str, Label], ...]
    cost: float | None = None
    bound: float | None = None


class Rejections(msgspec.Struct):
    """What was drawn and is not a proposal, counted: by the constraint it breaks, by why its structure is illegal, and
    programs that another candidate gives too. `drafted`: how many points were looked at."""

    constraint: Counter[str] = msgspec.field(default_factory=Counter)
    illegal: Counter[str] = msgspec.field(default_factory=Counter)
    duplicates: int = 0
    drafted: int = 0

    @property
    def total(self) -> int:
        """All of them."""
        return self.constraint.total() + self.illegal.total() + self.duplicates

    def take(self) -> Rejections:
        """The counts since the last call."""
        taken = Rejections(self.constraint, self.illegal, self.duplicates, self.drafted)
        self.constraint, self.illegal, self.duplicates, self.drafted = Counter(), Counter(), 0, 0
        return taken


def never_legal(structure: Sequence[tuple[str, Label]], reason: str) -> str:
    """Why no point of a structure is a candidate, with the cases that lead to it."""
    cases = ", ".join(f"{address} = {label}" for address, label in structure)
    return f"with {cases} no draw is legal: {reason}" if cases else f"no draw is legal: {reason}"


class Problem(msgspec.Struct, frozen=True):
    """What a strategy searches.

    Draws from `space` keep the limits of the machine, estimates of registers and code size included, so that all
    strategies search the same candidates. Points that a strategy takes from `space.sketches()` it checks itself, by
    `constraints_of` or `Leaves`.

    Args:
        space: the candidates.
        target: the machine.
        seed: the same seed and the same observations give the same proposals.
        trials: how many candidates will be measured at most, as far as that is known.
        known: what is known of candidates from before, to start from.
        stopped: whether to give up: a proposal that takes long asks now and then.
        models: the draft, the features and the cost model that rank candidates (`mslang.search.ranking.Ranking`).
        mutators: what changes candidates (None: the built-in ones and those of allowed packages).
    """

    space: Space
    target: Target
    seed: int = 0
    trials: int | None = None
    known: tuple[Observed, ...] = ()
    stopped: Callable[[], bool] = lambda: False
    models: Models = NO_MODELS
    mutators: tuple[Mutator, ...] | None = None

    def __post_init__(self) -> None:
        """Leave out of the space what exceeds a limit."""
        msgspec.structs.force_setattr(self, "space", self.space.rejecting(LimitsOf(self.target)))


class Strategy(Protocol):
    """Chooses the candidates of one search.

    `name` is what the user calls it; `rejections` are for the search to take.

    Example:
        A search of 64 candidates is

        >>> while proposals := strategy.propose(16):  # doctest: +SKIP
        ...     strategy.observe([measured(p) for p in proposals])
    """

    name: str
    rejections: Rejections

    def propose(self, n: int) -> Sequence[Proposal]:
        """The next generation: at most `n` valid candidates, none of them proposed before; none if nothing is left."""

    def observe(self, observed: Sequence[Observed]) -> None:
        """What measuring all proposals of the last generation gave, in their order."""

    def explanation(self) -> str:
        """How the space is searched, as one line for the user; empty if there is nothing to say."""


Factory = Callable[[Problem], Strategy]
"""What makes a strategy; also what an entry point of the group `mslang.strategies` names.

Its attribute `uses`, a tuple, names which of the problem's `models` and `mutators` the strategy uses (without it
neither).
"""


def uses(make: Factory, what: str) -> bool:
    """Whether a strategy says that it uses the problem's `models` or `mutators`.

    >>> class Ranked:
    ...     uses = ("models",)
    >>> uses(Ranked, "models"), uses(Ranked, "mutators")
    (True, False)
    """
    while isinstance(make, partial):
        make = make.func
    return what in getattr(make, "uses", ())
