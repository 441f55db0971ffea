"""Spaces: all candidates of a schedule, or of a union or sequence of schedules.

A space stores known structures as a tree: numbers to draw and constraints to check along the edges, a
structural decision or a condition at each fork, a sketch (or the reason why there is none) at each leaf. A
draw walks the tree; only a new structure is replayed.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from copy import copy
from typing import NamedTuple

import msgspec

from mslang.diagnostics import Diagnostic, MsError, RequireFailed, ScheduleError, problem
from mslang.ir.print import print_program
from mslang.ir.program import Program
from mslang.notebook import page
from mslang.schedule.decisions import (
    Constraint,
    Decider,
    Decision,
    Drawing,
    Forced,
    NoValue,
    PinError,
    PinLost,
    holds,
    shown,
)
from mslang.schedule.distribution import Number, Values, objection
from mslang.schedule.events import Branched, Chosen, Event
from mslang.schedule.instruction import Label, Value
from mslang.schedule.memo import exact
from mslang.schedule.session import Session
from mslang.schedule.sketch import Sketch, sketch_of
from mslang.schedule.trace import Trace
from mslang.transform.registries import REGISTRY, Registry

Recipe = Callable[[Session], str | None]
"""A recipe runs statements on a session, and returns the text that refers to what ran (a schedule with its
arguments), or None if that is the space itself."""

Objection = Callable[[Sketch, Values], str | None]
"""Why a point of a sketch, given by the values of its numbers, is no candidate; None if it is one."""

DRAWS = 1024
"""The maximal number of draws for one sample; each takes a fifth of a millisecond."""


class Candidate(msgspec.Struct, frozen=True):
    """A point of a space: a concrete program, its trace, and its sketch."""

    program: Program
    trace: Trace
    decisions: dict[str, Value]
    sketch: Sketch
    warnings: tuple[Diagnostic, ...] = ()

    def __repr__(self) -> str:
        values = ", ".join(f"{a} = {shown(v)}" for a, v in self.decisions.items())
        return f"<candidate of {self.program.name}: {values or 'no decisions'}>"

    def objection(self, address: str, value: Value) -> str | None:
        """Why a decision of this candidate cannot have a value, given the decisions before it; None if it can, or
        if there is no such decision."""
        taken = self.decisions.get(address)
        numbers = {d.address: d for d in self.sketch.decisions}
        if address in numbers:
            return objection(numbers[address].domain, value, _numbers(self.decisions))
        return None if address not in self.decisions or taken == value else f"{shown(taken)} is taken instead"

    def _repr_html_(self) -> str:
        rows = ((a, shown(v)) for a, v in self.decisions.items())
        return page(f"candidate of {self.program.name}", rows, print_program(self.program))


def _numbers(decisions: Mapping[str, Value]) -> dict[str, Number]:
    return {a: v for a, v in decisions.items() if isinstance(v, int | tuple)}


class Illegal(msgspec.Struct, frozen=True):
    """A structure that a primitive or a requirement refuses for all values: the answers that lead to it, and why."""

    structure: tuple[tuple[str, Label], ...]
    diagnostic: Diagnostic


class Rejection(msgspec.Struct, frozen=True):
    """A rejected draw: why, and whether its structure (the answers at forks) is refused for all values.

    Such a structure is `dead`; it is `illegal` as well if a primitive refuses it, not a requirement.
    """

    reason: str
    illegal: bool = False
    error: MsError | None = None
    structure: tuple[tuple[str, Label], ...] = ()
    dead: bool = False


class NoCandidate(ScheduleError):
    """No draw was valid; `reasons` counts why."""

    def __init__(self, diagnostic: Diagnostic, reasons: Mapping[str, int]) -> None:
        super().__init__(diagnostic)
        self.reasons = dict(reasons)


class _Leaf(NamedTuple):
    sketch: Sketch | None
    failure: MsError | None
    structure: tuple[tuple[str, Label], ...]


class _Node:
    """A sequence of events without alternatives, then a fork (`fork`, and `children` by answer) or a leaf."""

    __slots__ = ("children", "events", "fork", "leaf")

    def __init__(self) -> None:
        self.events: list[Decision | Constraint] = []
        self.fork: Chosen | Branched | None = None
        self.children: dict[object, _Node] = {}
        self.leaf: _Leaf | None = None


class Space:
    """The candidates of one program: a pinned call refers to `name`; `recipe` makes the candidates.

    Without an `item` of that name candidates have no pinned call; they print flat.
    """

    def __init__(
        self,
        program: Program,
        recipe: Recipe,
        *,
        name: str = "space",
        target: str | None = None,
        item: bool = True,
        registry: Registry = REGISTRY,
    ) -> None:
        self.program = program
        self.name = name
        self.target = target
        self._item = item
        self._registry = registry
        self._recipe = recipe
        self._root = _Node()
        self._objection: Objection | None = None
        self.replays = 0

    def __repr__(self) -> str:
        return f"<space {self.name} of {self.program.name}>"

    def _repr_html_(self) -> str:
        return page(f"space {self.name} of {self.program.name}", text=print_program(self.program))

    def rejecting(self, objection: Objection) -> Space:
        """The same space, with the structures known so far, in which points with an objection are no candidates.

        Draws and replays ask for it, once the space's own constraints hold; structures and sketches are the same.
        """
        other = copy(self)
        other._objection = objection
        return other

    # ------------------------------------------------------------------ drawing
    def sample(self, seed: int, pins: Mapping[str, Value] | None = None, *, strict: bool = False) -> Candidate:
        """Draw a candidate; the same seed and pins give the same one in every process.

        Args:
            seed: each decision depends on it and on its own address.
            pins: fixed decisions, by address. A stale one is repaired, with a warning.
            strict: a stale pin is an error.

        Raises:
            NoCandidate: MS261, no draw of 1024 was valid.
            ScheduleError: MS254, a pin does not fit; MS251, no decision has that address.
        """
        reasons: Counter[str] = Counter()
        last: MsError | None = None
        for attempt in range(DRAWS):
            drawing = Drawing(seed, attempt=attempt, pins=pins, strict=strict)
            drawn = self._draw(drawing)
            if isinstance(drawn, Candidate):
                return drawn
            reasons[drawn.reason] += 1
            last = last if isinstance(last, PinLost) else drawn.error or last
            if not drawing.drew:
                raise _as_error(drawn)
        raise self._failed(reasons, last)

    def attempt(
        self,
        seed: int,
        attempt: int = 0,
        pins: Mapping[str, Value] | None = None,
        *,
        strict: bool = False,
    ) -> Candidate | Rejection:
        """One draw of the sequence of a seed; `sample(seed)` is the first valid one.

        Raises:
            ScheduleError: MS254, a pin does not fit.
        """
        return self._draw(Drawing(seed, attempt=attempt, pins=pins, strict=strict))

    def structure(self, seed: int, attempt: int = 0) -> Sketch | Illegal:
        """The structure of one draw of the sequence of a seed, whether or not its numbers keep the constraints."""
        drawing = Drawing(seed, attempt=attempt)
        values: dict[str, Number] = {}
        node: _Node | None = self._root
        try:
            while node is not None:
                if node.leaf is not None:
                    return _found(node.leaf)
                for event in node.events:
                    if isinstance(event, Decision):
                        values[event.address] = drawing.number(event, values)
                node = None if node.fork is None else node.children.get(exact(_answer(node.fork, drawing, values)))
            return _found(self._grow(Drawing(seed, attempt=attempt)))
        except NoValue as failure:
            return Illegal((), failure.diagnostic)

    def replay(self, decisions: Mapping[str, Value], *, strict: bool = True) -> Candidate:
        """The candidate with exactly these decisions.

        Raises:
            ScheduleError: MS254, one does not fit or is missing; MS251, no decision has that address; or the
                error that rejects them.
        """
        drawn = self._draw(Drawing(0, pins=decisions, strict=strict))
        if isinstance(drawn, Rejection):
            raise _as_error(drawn)
        missing = [a for a in drawn.decisions if a not in decisions]
        if strict and missing:
            raise PinError(
                problem(
                    "MS254",
                    f"the decision `{missing[0]}` has no value",
                    help="give it one, or replay without `strict` to draw it",
                )
            )
        return drawn

    def _draw(self, drawing: Drawing) -> Candidate | Rejection:
        values: dict[str, Number] = {}
        node = self._root
        while True:
            rejection = self._pass(node, drawing, values)
            if rejection is not None:
                return rejection
            if node.leaf is not None:
                return self._arrive(node.leaf, drawing, values)
            child = None if node.fork is None else node.children.get(exact(_answer(node.fork, drawing, values)))
            if child is not None:
                node = child
                continue
            # A new structure: replay it with exactly the decisions drawn here.
            again = Drawing(drawing.seed, attempt=drawing.attempt, pins=drawing.pins, strict=drawing.strict)
            try:
                self._grow(again)
            except NoValue as failure:
                return Rejection(failure.diagnostic.message, error=failure)
            values.clear()
            node = self._root

    def _pass(self, node: _Node, drawing: Drawing, values: dict[str, Number]) -> Rejection | None:
        for event in node.events:
            if isinstance(event, Constraint):
                if not holds(event.condition, values):
                    return Rejection(event.why)
                continue
            try:
                values[event.address] = drawing.number(event, values)
            except NoValue as failure:
                return Rejection(failure.diagnostic.message, error=failure)
        return None

    def _arrive(self, leaf: _Leaf, drawing: Drawing, values: dict[str, Number]) -> Candidate | Rejection:
        if leaf.failure is not None:
            reason = leaf.failure.diagnostic.message
            illegal = not isinstance(leaf.failure, RequireFailed)
            return Rejection(reason, illegal, leaf.failure, leaf.structure, dead=True)
        assert leaf.sketch is not None
        unused = drawing.unused()
        if unused:
            known = ", ".join(leaf.sketch.addresses) or "none"
            lost = PinLost(
                problem(
                    "MS251",
                    f"no decision has the address `{unused[0]}`",
                    help=f"the decisions of this structure are: {known}",
                )
            )
            return Rejection(lost.diagnostic.message, error=lost)
        why = None if self._objection is None else self._objection(leaf.sketch, values)
        if why is not None:
            # Without open decisions there is no other point.
            return Rejection(why, structure=leaf.structure, dead=not leaf.sketch.open)
        return Candidate(
            leaf.sketch.instantiate(values),
            leaf.sketch.trace_with(values),
            leaf.sketch.decided(values),
            leaf.sketch,
            tuple(drawing.warnings.values()),
        )

    def _failed(self, reasons: Counter[str], last: MsError | None) -> MsError:
        if last is not None and (len(reasons) == 1 or isinstance(last, PinLost)):
            return last
        counts = "; ".join(f"{n} × {why}" for why, n in reasons.most_common())
        return NoCandidate(
            problem(
                "MS261",
                f"no valid candidate of `{self.name}` in {DRAWS} draws",
                why=counts,
                help="loosen the requirements, or pin decisions that satisfy them",
            ),
            reasons,
        )

    # ------------------------------------------------------------------ structures
    def structures(self, pins: Mapping[str, Value] | None = None) -> Iterator[Sketch | Illegal]:
        """Every structure once, legal or not, in a fixed order; lazily."""
        answers: tuple[Label, ...] | None = ()
        while answers is not None:
            forced = Forced(answers, pins)
            try:
                leaf = self._grow(forced)
            except PinError as error:
                yield Illegal((), error.diagnostic)
            else:
                yield _found(leaf)
            answers = forced.following()

    def never_legal(self, most: int = 256) -> dict[tuple[str, Label], Diagnostic]:
        """The outcomes of structural decisions with which every structure is refused, and the first refusal of each.

        Empty if no structure is legal, or if there are more than `most` structures.
        """
        legal: set[tuple[str, Label]] = set()
        refused: dict[tuple[str, Label], Diagnostic] = {}
        for count, found in enumerate(self.structures()):
            if count == most:
                return {}
            if isinstance(found, Illegal):
                for outcome in found.structure:
                    refused.setdefault(outcome, found.diagnostic)
            else:
                legal.update(found.structure)
        return {o: d for o, d in refused.items() if o not in legal} if legal else {}

    def sketches(self, pins: Mapping[str, Value] | None = None) -> Iterator[Sketch]:
        """Every legal structure once, in a fixed order; lazily."""
        return (s for s in self.structures(pins) if isinstance(s, Sketch))

    def _grow(self, decider: Decider) -> _Leaf:
        """Replay once and add its events to the tree."""
        session = Session(self.program, decider, self._registry)
        self.replays += 1
        failure: MsError | None = None
        source: str | None = None
        try:
            source = self._recipe(session)
        except (PinError, NoValue):
            raise
        except MsError as error:
            failure = error
        source = source or (self.name if self._item else None)
        sketch = None if failure is not None else sketch_of(session, target=self.target, source=source)
        structure = tuple((e.choice.address, e.label) for e in session.draws.events if isinstance(e, Chosen))
        leaf = _Leaf(sketch, failure, structure)
        _graft(self._root, session.draws.events, leaf)
        return leaf


def _found(leaf: _Leaf) -> Sketch | Illegal:
    if leaf.sketch is not None:
        return leaf.sketch
    assert leaf.failure is not None
    return Illegal(leaf.structure, leaf.failure.diagnostic)


def _as_error(rejection: Rejection) -> MsError:
    """The error of pinned decisions that are rejected."""
    return rejection.error or ScheduleError(
        problem(
            "MS260",
            f"these decisions are rejected: {rejection.reason}",
            help="change or delete a pin that it depends on",
        )
    )


def _graft(root: _Node, events: list[Event], leaf: _Leaf) -> None:
    node, known = root, _complete(root)
    for event in events:
        match event:
            case Chosen() | Branched():
                answer = event.label if isinstance(event, Chosen) else event.answer
                node.fork = event
                node = node.children.setdefault(exact(answer), _Node())
                known = _complete(node)
            case _ if not known:
                node.events.append(event)
    node.leaf = leaf


def _complete(node: _Node) -> bool:
    return node.fork is not None or node.leaf is not None


def _answer(fork: Chosen | Branched, drawing: Drawing, values: dict[str, Number]) -> Label:
    return drawing.structure(fork.choice) if isinstance(fork, Chosen) else drawing.branch(fork.question, values)
