"""The decisions of a running schedule: draws by address, pins, and conditions on them.

A `Decider` gives each number a representative value, on which nothing in the program depends. It also answers
structural decisions and branches. These answers are logged as events, so that a space can remember which structure
they lead to.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager

from msgspec.structs import replace

from mslang.diagnostics import RequireFailed, ScheduleError, problem
from mslang.ir import arith
from mslang.ir.arith.domain import is_dynamic
from mslang.ir.expr import Domain, DynamicRange, Expr, Symbol
from mslang.schedule import sampling
from mslang.schedule.decisions import Alternatives, Constraint, Decider, Decision, PinLost, Question, Structural
from mslang.schedule.distribution import Number
from mslang.schedule.events import Branched, Chosen, Event
from mslang.schedule.instruction import Label, Value


class Draws:
    """The decisions made so far. An address names one of them; it must be claimed before the draw."""

    def __init__(self, decider: Decider) -> None:
        self.decider = decider
        self.events: list[Event] = []
        self.values: dict[str, Value] = {}
        self._answers: dict[Expr, bool] = {}
        self._drawn: dict[str, object] = {}
        self._addresses: set[str] = set()
        self._pins: list[Mapping[str, Value]] = []
        self._settle: Callable[[Decision], Value | None] | None = None

    # ------------------------------------------------------------------ addresses
    def claim(self, address: str) -> None:
        """Take an address for a decision.

        Raises:
            ScheduleError: MS209, another decision has this address.
        """
        if address in self._addresses:
            raise ScheduleError(
                problem(
                    "MS209",
                    f"two decisions have the address `{address}`",
                    why="an address names one decision",
                    help='rename the binder, or say the address: `let x as "name" ~ …`',
                )
            )
        self._addresses.add(address)

    def release(self, address: str) -> None:
        """Release an address whose draw failed."""
        self._addresses.discard(address)

    @contextmanager
    def pinned(self, pins: Mapping[str, Value]) -> Iterator[None]:
        """Pin decisions within a context; outer pins take precedence.

        Raises:
            PinLost: MS251, no decision made in the context has one of the addresses.
        """
        self._pins.append(pins)
        before = set(self._addresses)
        try:
            yield
        finally:
            self._pins.pop()
        lost = [a for a in pins if a not in self._addresses - before]
        if lost:
            known = sorted(self._addresses - before)
            raise PinLost(
                problem(
                    "MS251",
                    f"no decision has the address `{lost[0]}`",
                    help=f"the decisions here are: {', '.join(known) or 'none'}",
                )
            )

    @contextmanager
    def settled(self, settle: Callable[[Decision], Value | None]) -> Iterator[None]:
        """Pin numbers drawn within a context to what a function gives for them; None leaves one open."""
        before, self._settle = self._settle, settle
        try:
            yield
        finally:
            self._settle = before

    def _given(self, address: str, given: Value | None) -> Value | None:
        return next((p[address] for p in self._pins if address in p), given)

    # ------------------------------------------------------------------ drawing
    def number(self, address: str, domain: Domain, given: Value | None) -> object:
        """Decide a number or a tile; returns its symbols."""
        decision = Decision(address, domain, self._given(address, given))
        if decision.given is None and self._settle is not None:
            decision = replace(decision, given=self._settle(decision))
        value = self.decider.number(decision, self.numbers)
        if value is not None:
            self.values[address] = value
        self.events.append(decision)
        return sampling.symbols(address, domain)

    def choose(self, address: str, alternatives: Alternatives, given: Value | None = None) -> Label:
        """Decide structure: a fork's case, a location, an order."""
        if not alternatives.labels and not alternatives.orders:
            raise ScheduleError(problem("MS203", f"`{address}` has nothing to choose from"))
        choice = Structural(address, alternatives, self._given(address, given))
        label = self.decider.structure(choice)
        self.values[address] = label
        self.events.append(Chosen(choice, label))
        return label

    def imply(self, address: str) -> None:
        """Leave an outcome out of the values: it follows from the source of the trace."""
        del self.values[address]
        self.events = [
            replace(e, implied=True) if isinstance(e, Chosen) and e.choice.address == address else e
            for e in self.events
        ]

    def record(self, address: str, value: object) -> None:
        """Record the value of a decision in the schedule: its symbols, or its structural outcome."""
        self._drawn[address] = value

    def drawn(self, address: str) -> object:
        """What a decision is in the schedule: its symbols, or its structural outcome; None if it was not made."""
        return self._drawn.get(address)

    def symbol(self, like: Symbol) -> Expr:
        """This replay's symbol for a factor of a decision.

        Raises:
            ScheduleError: MS251, no decision was drawn at its address.
        """
        drawn = self._drawn.get(like.name)
        if isinstance(drawn, tuple) and like.position is not None and like.position < len(drawn):
            drawn = drawn[like.position]
        if isinstance(drawn, Expr):
            return drawn
        if like.name in self._drawn or not isinstance(like.domain, DynamicRange):
            raise ScheduleError(problem("MS251", f"nothing was drawn that `{like.text}` could be"))
        return like

    @property
    def open(self) -> int:
        """How many numbers are open so far: not pinned by text or context."""
        return sum(isinstance(e, Decision) and e.given is None for e in self.events)

    @property
    def numbers(self) -> dict[str, Number]:
        """The representative values of the numeric decisions so far, as far as they are known."""
        numeric = {e.address for e in self.events if isinstance(e, Decision)}
        return {a: v for a, v in self.values.items() if a in numeric}  # type: ignore[misc]

    # ------------------------------------------------------------------ conditions
    def branch(self, condition: Expr) -> bool:
        """Whether a condition on decisions holds. The answer is part of the structure unless the domains decide it."""
        match _decided(condition):
            case arith.Verdict.PROVED:
                return True
            case arith.Verdict.REFUTED:
                return False
        if condition in self._answers:
            return self._answers[condition]
        question = Question(condition)
        answer = self.decider.branch(question, self.numbers)
        self._answers[condition] = answer
        self.events.append(Branched(question, answer))
        return answer

    def require(self, condition: Expr | bool, why: str | None) -> None:
        """Reject decisions for which a condition does not hold.

        Raises:
            RequireFailed: MS260, the condition holds for no value of the decisions.
        """
        refuted = not condition if isinstance(condition, bool) else _decided(condition) is arith.Verdict.REFUTED
        if refuted:
            raise RequireFailed(problem("MS260", f"a requirement never holds: {why or 'no reason is given'}"))
        if isinstance(condition, Expr):
            self.events.append(Constraint(condition, why or "requirement"))


def _decided(condition: Expr) -> arith.Verdict:
    verdict = arith.decide(condition)
    if verdict in (arith.Verdict.PROVED, arith.Verdict.REFUTED) or not is_dynamic(condition):
        return verdict
    raise ScheduleError(
        problem(
            "MS256",
            "this condition depends on a size that is known only when the kernel is called",
            help="write the alternatives as schedules of their own, or give the size a number",
        )
    )
