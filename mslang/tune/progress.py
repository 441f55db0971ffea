"""The events of a search: plain values, shown by a listener (for a terminal, a pipe, a notebook)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

import msgspec

from mslang.diagnostics import Diagnostic
from mslang.search.strategy import Rejections
from mslang.tune.comparison import Gap
from mslang.tune.record import TRIED, Outcome, Record, Result


class PlannedTask(msgspec.Struct, frozen=True):
    """A task of a session: its name there, what is searched, how much it counts, and what its times are worth.

    `duplicates` are `FILE:PROGRAM` of equal programs that get this task's result; `text` is the program's long form.
    """

    name: str
    program: str
    space: str
    file: str
    target: str
    weight: float = 1.0
    duplicates: tuple[str, ...] = ()
    text: str = ""


class Planned(msgspec.Struct, frozen=True):
    """A session begins: its tasks, the scheduler that shares the budget among them, and the budget (None: no limit)."""

    tasks: tuple[PlannedTask, ...]
    scheduler: str
    trials: int | None
    seconds: float | None
    database: str


class Preparing(msgspec.Struct, frozen=True):
    """The unscheduled program is compiled and run: candidates are compared with its results."""

    program: str
    task: str = ""


class Started(msgspec.Struct, frozen=True):
    """A search begins: what is searched, where records go, and how many trials it may take (None: no limit).

    `strategy` says in a line how it is searched. A resumed run has `resumed` trials on record, `best` among them.
    """

    program: str
    space: str
    target: str
    run: str
    database: str
    trials: int | None
    resumed: int = 0
    strategy: str = ""
    best: Record | None = None
    task: str = ""


class Sketched(msgspec.Struct, frozen=True):
    """The first candidate of a sketch is to be tried: its number within the task, counted from 0, and its `.ms` text.

    Decisions are open in the text (`~` without a value).
    """

    number: int
    text: str
    task: str = ""


class Trial(msgspec.Struct, frozen=True):
    """One candidate was tried and is on record. `known`: its record was there already, nothing was measured.

    `predicted` is the cost model's log2 of its time relative to the task's best; None where no model chose it.
    """

    record: Record
    better: bool
    known: bool = False
    predicted: float | None = None
    task: str = ""


class Generation(msgspec.Struct, frozen=True):
    """A generation is measured, or the search ends within it: its number, its trials, and how it was found.

    A resumed run reports those again that it replays: the last event of a number counts.

    Args:
        number: counted from 0 within the task.
        trials: candidates of it that were measured or failed.
        drafted: candidates that were looked at to choose them.
        rejected: candidates that no constraint allows, by reason.
        duplicates: programs that an earlier candidate gives, too.
        quality: rank correlation (Spearman, -1 to 1) of predicted and measured times; None where there is no model, or
            fewer than `quality.LEAST` times.
    """

    number: int
    trials: int
    drafted: int = 0
    rejected: dict[str, int] = {}
    duplicates: int = 0
    quality: float | None = None
    task: str = ""


class Confirming(msgspec.Struct, frozen=True):
    """The search is over for a reason; up to so many of the fastest are measured again."""

    reason: str
    finalists: int
    task: str = ""


class Finished(msgspec.Struct, frozen=True):
    """All is over: why, and how it went. A `confirmed` best was measured several times and verified on dense inputs.

    `ties` are other candidates whose times do not differ from the best one's by more than the noise, `gaps` the ratios
    of their times to its own; `known` counts trials whose records were there already.
    """

    reason: str
    tally: Tally
    best: Record | None
    seconds: float
    interrupted: bool = False
    confirmed: bool = False
    ties: tuple[Record, ...] = ()
    known: int = 0
    task: str = ""
    gaps: tuple[Gap, ...] = ()


class Failed(msgspec.Struct, frozen=True):
    """A task cannot be tuned; the others go on."""

    diagnostic: Diagnostic
    task: str = ""


class Warned(msgspec.Struct, frozen=True):
    """A warning, such as one about the record store."""

    diagnostic: Diagnostic
    task: str = ""


class Ended(msgspec.Struct, frozen=True):
    """The session is over: seconds in all and by scope (`draw`), those of worker processes as `workers/lower`."""

    seconds: float
    interrupted: bool = False
    scopes: dict[str, float] = {}


TaskEvent = Warned | Preparing | Started | Sketched | Trial | Generation | Confirming | Finished | Failed
"""Events of one task, which `task` names; empty where there is one task alone."""

Event = Planned | TaskEvent | Ended
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

    def reject(self, rejections: Rejections) -> None:
        """Count what a strategy drew that is not a candidate."""
        for outcome, reasons in (
            (Outcome.CONSTRAINT, rejections.constraint),
            (Outcome.ILLEGAL, rejections.illegal),
        ):
            for why, count in reasons.items():
                self.outcomes[outcome] += count
                self.reasons[outcome, why] += count
        if rejections.duplicates:
            self.outcomes[Outcome.DUPLICATE] += rejections.duplicates

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
