"""Decisions and their sources: drawn from a seed, pinned, or forced while a space is enumerated."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from itertools import islice, permutations
from random import Random
from typing import Protocol

import msgspec

from mslang.diagnostics import Diagnostic, ScheduleError, Severity, problem
from mslang.ir.arith import evaluate, substitute_symbols
from mslang.ir.arith.evaluate import UndefinedResult
from mslang.ir.expr import Const, Domain, Expr
from mslang.schedule import distribution
from mslang.schedule.distribution import Number, Values
from mslang.schedule.instruction import Label, Value
from mslang.schedule.memo import exact
from mslang.schedule.seeds import generator


class Decision(msgspec.Struct, frozen=True):
    """A numeric decision: its address, its domain, and the value that its text pins it to, if any."""

    address: str
    domain: Domain
    given: Value | None = None


class Alternatives(msgspec.Struct, frozen=True):
    """The domain of a structural decision: `labels` with their weights, or the permutations of `orders` elements."""

    labels: tuple[Label, ...] = ()
    weights: tuple[float, ...] | None = None
    orders: int | None = None

    def all(self) -> Iterator[Label]:
        """Every alternative that a draw may give once, in a fixed order; `1` and `true` are two."""
        if self.orders is not None:
            return permutations(range(self.orders))
        weights = self.weights or (1.0,) * len(self.labels)
        return _distinct(x for x, w in zip(self.labels, weights, strict=True) if w > 0)

    def draw(self, rng: Random) -> Label:
        """Draw one alternative."""
        if self.orders is not None:
            return tuple(rng.sample(range(self.orders), self.orders))
        return rng.choices(self.labels, self.weights)[0]

    def find(self, wanted: object) -> Label | None:
        """The alternative equal to `wanted`, if any."""
        if self.orders is None:
            return next((x for x in self.labels if _same(x, wanted)), None)
        # 1.0 and true are no places, though they equal some.
        places = isinstance(wanted, tuple) and all(type(x) is int for x in wanted)
        if isinstance(wanted, tuple) and places and sorted(wanted) == list(range(self.orders)):
            return wanted
        return None

    def text(self) -> str:
        """The alternatives as messages list them."""
        named = self.all() if self.orders is not None else _distinct(self.labels)
        return ", ".join(str(x) for x in islice(named, 12))


class Structural(msgspec.Struct, frozen=True):
    """A structural decision: its address, its domain, and the outcome that its text pins it to, if any."""

    address: str
    alternatives: Alternatives
    given: Value | None = None


class Question(msgspec.Struct, frozen=True):
    """A condition on decisions that selects a branch; the branch is part of the structure."""

    condition: Expr


class Constraint(msgspec.Struct, frozen=True):
    """A `require`: a condition on decisions, with its reason."""

    condition: Expr
    why: str


class PinError(ScheduleError):
    """A pin that cannot be kept: an error of the pins, not of the structure."""


class PinLost(ScheduleError):
    """A pin at an address that this structure does not have; another structure may have it."""


class NoValue(ScheduleError):
    """A distribution that is empty for the decisions drawn so far."""


class Decider(Protocol):
    """The source of a replay's decisions."""

    def number(self, decision: Decision, values: Values) -> Number | None:
        """The value of a numeric decision, which the structure does not depend on; None if it is not needed."""

    def structure(self, choice: Structural) -> Label:
        """The outcome of a structural decision."""

    def branch(self, question: Question, values: Values) -> bool:
        """Whether a condition holds."""


class Drawing:
    """Decisions taken from pins where given, otherwise drawn from a seed.

    `warnings` collects the pins that had to be repaired; with `strict` such a pin is an error. `attempt` counts
    the redraws of one sample.
    """

    def __init__(
        self,
        seed: int,
        *,
        attempt: int = 0,
        pins: Mapping[str, Value] | None = None,
        strict: bool = False,
    ) -> None:
        self.seed, self.attempt, self.strict = seed, attempt, strict
        self.pins: Mapping[str, Value] = {a: _frozen(v) for a, v in (pins or {}).items()}
        self.warnings: dict[str, Diagnostic] = {}
        self.met: set[str] = set()
        self.drew = False
        """Whether any decision was drawn rather than pinned."""

    def number(self, decision: Decision, values: Values) -> Number:
        """A pinned value, repaired if it is stale, or a draw."""
        self.met.add(decision.address)
        wanted = self.pins.get(decision.address, decision.given)
        if wanted is not None:
            return self._kept(decision, wanted, values)
        self.drew = True
        drawn = distribution.draw(decision.domain, generator(self.seed, self.attempt, decision.address), values)
        if drawn is None:
            raise NoValue(
                problem(
                    "MS258",
                    f"`{decision.address}` has no value to draw",
                    why="nothing satisfies the limits of its distribution",
                )
            )
        return drawn

    def structure(self, choice: Structural) -> Label:
        """A pinned outcome, or a draw."""
        self.met.add(choice.address)
        wanted = self.pins.get(choice.address, choice.given)
        if wanted is None:
            self.drew = True
            return choice.alternatives.draw(generator(self.seed, self.attempt, choice.address))
        label = choice.alternatives.find(wanted)
        if label is not None:
            return label
        nearest = _nearest_label(wanted, choice.alternatives)
        why = f"it is none of: {choice.alternatives.text()}"
        if nearest is None or self.strict:
            raise PinError(_stale(choice.address, wanted, why, None))
        self._warn(_stale(choice.address, wanted, why, nearest))
        return nearest

    def branch(self, question: Question, values: Values) -> bool:
        """Whether the condition holds for the values drawn."""
        return holds(question.condition, values)

    def unused(self) -> tuple[str, ...]:
        """The pins that no decision used."""
        return tuple(a for a in self.pins if a not in self.met)

    def _kept(self, decision: Decision, wanted: Value, values: Values) -> Number:
        kept = distribution.kept(decision.domain, wanted, values)
        if kept is not None and kept[1] is None:
            return kept[0]
        why = distribution.objection(decision.domain, wanted, values) or ""
        if kept is None or self.strict:
            raise PinError(_stale(decision.address, wanted, why, None))
        self._warn(_stale(decision.address, wanted, why, kept[0]))
        return kept[0]

    def _warn(self, diagnostic: Diagnostic) -> None:
        self.warnings[diagnostic.message] = diagnostic


class Forced:
    """Structural decisions answered from a list, and by the first alternative after its end. Numbers stay open
    unless the text pins them. Used to enumerate structures."""

    def __init__(self, answers: Iterable[Label] = (), pins: Mapping[str, Value] | None = None) -> None:
        self._answers = iter(answers)
        self._pinned = Drawing(0, pins=pins)
        self.asked: list[tuple[Alternatives, Label]] = []

    def number(self, decision: Decision, values: Values) -> Number | None:
        """The pinned value, if any, unless it depends on an open one."""
        if decision.address not in self._pinned.pins and decision.given is None:
            return None
        if distribution.depends_on(decision.domain) - values.keys():
            return None
        return self._pinned.number(decision, values)

    def structure(self, choice: Structural) -> Label:
        """The next answer."""
        pinned = choice.address in self._pinned.pins or choice.given is not None
        options = Alternatives((self._pinned.structure(choice),)) if pinned else choice.alternatives
        return self._answer(options)

    def branch(self, question: Question, values: Values) -> bool:
        """The next answer."""
        known = substitute_symbols(question.condition, distribution.plain(values))
        options = (bool(known.value),) if isinstance(known, Const) else (True, False)
        return bool(self._answer(Alternatives(options)))

    def _answer(self, options: Alternatives) -> Label:
        answer = next(self._answers, None)
        if answer is None:
            answer = next(options.all())
        self.asked.append((options, answer))
        return answer

    def following(self) -> tuple[Label, ...] | None:
        """The answers that lead to the next structure; None if this was the last."""
        asked = list(self.asked)
        while asked:
            options, answer = asked.pop()
            later = _after(options.all(), answer)
            if later is not None:
                return (*(a for _, a in asked), later)
        return None


def _frozen(value: Value) -> Value:
    """A value read from JSON, with lists converted to tuples."""
    return tuple(value) if isinstance(value, list) else value


def _same(label: Label, other: object) -> bool:
    """Whether two labels are equal and of one type; NaN equals itself, and 0.0 is not -0.0."""
    return exact(label) == exact(other)


def _distinct(labels: Iterable[Label]) -> Iterator[Label]:
    found: dict[object, Label] = {}
    for x in labels:
        found.setdefault(exact(x), x)
    return iter(found.values())


def _after(labels: Iterator[Label], answer: Label) -> Label | None:
    for label in labels:
        if _same(label, answer):
            return next(labels, None)
    return None


def holds(condition: Expr, values: Values) -> bool:
    """Whether a condition on decisions holds for their values; one that divides by zero does not.

    Conditions that depend on dynamic sizes are refused where they are made.
    """
    try:
        return bool(evaluate(condition, {}, distribution.plain(values)))
    except UndefinedResult:
        return False


def _nearest_label(wanted: object, alternatives: Alternatives) -> Label | None:
    """The fallback for a stale location: the block stays where it is. Other structure has no fallback."""
    if isinstance(wanted, str) and wanted.startswith("at(") and "root" in alternatives.labels:
        return "root"
    return None


def _stale(address: str, value: Value, why: str, mended: Value | None) -> Diagnostic:
    if mended is None:
        return problem(
            "MS254",
            f"the pin `{address} = {shown(value)}` does not fit",
            why=why,
            help="delete the pin to draw the decision again",
        )
    return Diagnostic(
        "MS254",
        f"the pin `{address} = {shown(value)}` is stale: {shown(mended)} is taken",
        severity=Severity.WARNING,
        why=why,
        help="write the new value, or delete the pin to draw again",
    )


def shown(value: Value | None) -> str:
    """A decision's value as `.ms` text."""
    match value:
        case None:
            return "_"
        case bool():
            return "true" if value else "false"
        case tuple():
            return "[" + ", ".join(shown(x) for x in value) + "]"
    return str(value)
