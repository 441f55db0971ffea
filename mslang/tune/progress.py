"""The events of a search: plain values, shown by a listener (for a terminal, a pipe, a notebook)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

import msgspec

from mslang.diagnostics import Diagnostic
from mslang.tune.record import TRIED, Outcome, Record, Result


class Preparing(msgspec.Struct, frozen=True):
    """The unscheduled program is compiled and run: candidates are compared with its results."""

    program: str


class Started(msgspec.Struct, frozen=True):
    """A search begins: what is searched, where records go, and how many trials it may take (None: no limit)."""

    program: str
    space: str
    target: str
    run: str
    database: str
    trials: int | None
    resumed: int = 0


class Trial(msgspec.Struct, frozen=True):
    """One candidate was tried and is on record. `known`: its record was there already, nothing was measured."""

    record: Record
    better: bool
    known: bool = False


class Confirming(msgspec.Struct, frozen=True):
    """The search is over for a reason; up to so many of the fastest are measured again."""

    reason: str
    finalists: int


class Finished(msgspec.Struct, frozen=True):
    """All is over: why, and how it went. A `confirmed` best was measured several times and verified on dense inputs.

    `ties` are other candidates whose times do not differ from the best one's by more than the noise; `known` counts
    trials whose records were there already.
    """

    reason: str
    tally: Tally
    best: Record | None
    seconds: float
    interrupted: bool = False
    confirmed: bool = False
    ties: tuple[Record, ...] = ()
    known: int = 0


class Warned(msgspec.Struct, frozen=True):
    """A warning about the record store."""

    diagnostic: Diagnostic


Event = Warned | Preparing | Started | Trial | Confirming | Finished
Listener = Callable[[Event], None]


class Tally(msgspec.Struct):
    """How many candidates ended in each outcome, and for which reasons."""

    outcomes: Counter[Outcome] = msgspec.field(default_factory=Counter)
    reasons: Counter[tuple[Outcome, str]] = msgspec.field(default_factory=Counter)

    def add(self, outcome: Outcome, reason: str = "") -> None:
        """Count one."""
        self.outcomes[outcome] += 1
        if reason:
            self.reasons[outcome, reason] += 1

    def change(self, before: Result, after: Result) -> None:
        """Count a candidate that was measured again by what came out last."""
        self.outcomes[before.outcome] -= 1
        if before.reason:
            self.reasons[before.outcome, before.reason] -= 1
        self.outcomes, self.reasons = +self.outcomes, +self.reasons
        self.add(after.outcome, after.reason)

    @property
    def trials(self) -> int:
        """Candidates that used up a trial."""
        return sum(n for o, n in self.outcomes.items() if o in TRIED)
