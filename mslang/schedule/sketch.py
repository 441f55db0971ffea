"""Sketches: one structure of a space, replayed once with symbolic decisions.

A sketch's program is parametric. A candidate's program is that program with the decisions' values substituted
for the symbols, and nothing else. This is the only way in which mslang makes a concrete program.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property
from itertools import product

import msgspec
from msgspec.structs import replace

from mslang.ir.arith import substitute_symbols
from mslang.ir.expr import ZERO, Const, Expr
from mslang.ir.program import AttrValue, For, Program, Stmt
from mslang.ir.visit import map_bodies, map_program_exprs, walk
from mslang.schedule import distribution
from mslang.schedule.batch.sketch_batch import SketchBatch
from mslang.schedule.decisions import Constraint, Decision, Question, holds
from mslang.schedule.distribution import Number, Values
from mslang.schedule.events import Branched, Chosen
from mslang.schedule.instruction import Label, Value
from mslang.schedule.session import Session
from mslang.schedule.trace import Trace
from mslang.schedule.trace_ms import sketch_text


class Guard(msgspec.Struct, frozen=True):
    """A condition on decisions, and its answer in this sketch's structure."""

    question: Question
    answer: bool


class Sketch(msgspec.Struct, frozen=True, dict=True):
    """One structure: its parametric program, its trace, and the domains of its numeric decisions.

    `structure` are the outcomes of forks, locations and other structural decisions by address; `decisions` are the
    numeric ones in order; a candidate must satisfy `constraints` and `guards`. The `trace`
    holds no values yet; `addresses` are those of all decisions in order, `implied` those that follow from the
    trace's source; `open` are those that the text does not pin.
    `blocks` maps the original blocks that still exist to their current names.
    """

    program: Program
    trace: Trace
    structure: tuple[tuple[str, Label], ...]
    decisions: tuple[Decision, ...]
    constraints: tuple[Constraint, ...]
    guards: tuple[Guard, ...]
    addresses: tuple[str, ...]
    implied: tuple[str, ...] = ()
    blocks: tuple[tuple[str, str], ...] = ()
    open: tuple[str, ...] = ()

    def __repr__(self) -> str:
        return f"<sketch of {self.program.name}: {', '.join(self.addresses) or 'no decisions'}>"

    def as_ms(self, name: str = "sketch") -> str:
        """The sketch as a `.ms` schedule with this one structure: what is open is drawn by sampling statements."""
        return sketch_text(self, name)

    def instantiate(self, values: Values) -> Program:
        """The program of a candidate: the parametric program with the decisions' values substituted."""
        return instantiate(self.program, values)

    def decided(self, values: Values) -> dict[str, Value]:
        """All decisions of a candidate, structural ones included, in order."""
        known: dict[str, Value] = {**dict(self.structure), **values}
        return {a: known[a] for a in self.addresses}

    def trace_with(self, values: Values) -> Trace:
        """The trace of a candidate."""
        known = self.decided(values)
        return replace(self.trace, values=tuple((a, v) for a, v in known.items() if a not in self.implied))

    def violation(self, values: Values) -> str | None:
        """The first reason why values are not a candidate of this sketch; None if they are."""
        for decision in self.decisions:
            objection = distribution.objection(decision.domain, values[decision.address], values)
            if objection is not None:
                return f"{decision.address}: {objection}"
        if any(holds(g.question.condition, values) is not g.answer for g in self.guards):
            return "another structure"
        return next((c.why for c in self.constraints if not holds(c.condition, values)), None)

    def count(self, limit: int = 1_000_000) -> int:
        """The number of decision vectors, ignoring constraints and guards, counted up to `limit`."""
        if not any(_depends(d) for d in self.decisions):
            total = 1
            for d in self.decisions:
                total *= distribution.count(d.domain, {}) if d.given is None else 1
            return min(total, limit)
        found = 0
        for found, _ in enumerate(self._vectors(), 1):
            if found >= limit:
                break
        return found

    def batch(self) -> SketchBatch:
        """The sketch over arrays of decisions: many candidates drawn, checked and evaluated at once; compiled once."""
        return self._batch

    @cached_property
    def _batch(self) -> SketchBatch:
        return SketchBatch(self)

    def points(self) -> Iterator[dict[str, Number]]:
        """Every valid decision vector, in a fixed order."""
        return (v for v in self._vectors() if self.violation(v) is None)

    def _vectors(self) -> Iterator[dict[str, Number]]:
        if not any(_depends(d) for d in self.decisions):
            names = [d.address for d in self.decisions]
            columns = [_choices(d, {}) for d in self.decisions]
            yield from (dict(zip(names, row, strict=True)) for row in product(*columns))
            return

        def extend(k: int, values: dict[str, Number]) -> Iterator[dict[str, Number]]:
            if k == len(self.decisions):
                yield dict(values)
                return
            decision = self.decisions[k]
            for x in _choices(decision, values):
                yield from extend(k + 1, {**values, decision.address: x})

        yield from extend(0, {})


def _choices(decision: Decision, values: Values) -> tuple[Number, ...]:
    if decision.given is None:
        return tuple(distribution.enumerate_values(decision.domain, values))
    kept = distribution.kept(decision.domain, decision.given, values)
    return () if kept is None else (kept[0],)


def _depends(decision: Decision) -> bool:
    return distribution.depends_on(decision.domain) != frozenset()


def sketch_of(session: Session, *, target: str | None = None, source: str | None = None) -> Sketch:
    """The sketch of a finished replay."""
    events = session.draws.events
    structure = tuple((e.choice.address, e.label) for e in events if isinstance(e, Chosen))
    decisions = tuple(e for e in events if isinstance(e, Decision))
    made = tuple(e.choice if isinstance(e, Chosen) else e for e in events if isinstance(e, Decision | Chosen))
    return Sketch(
        session.program,
        replace(session.trace(target=target, source=source), values=()),
        structure,
        decisions,
        tuple(e for e in events if isinstance(e, Constraint)),
        tuple(Guard(e.question, e.answer) for e in events if isinstance(e, Branched)),
        tuple(d.address for d in made),
        tuple(e.choice.address for e in events if isinstance(e, Chosen) and e.implied),
        session.blocks(),
        tuple(d.address for d in made if d.given is None),
    )


def instantiate(program: Program, values: Values) -> Program:
    """A program with the values of decisions substituted for their symbols, without further simplification."""
    plain = distribution.plain(values)
    memo: dict[Expr, Expr] = {}

    def put_in(e: Expr) -> Expr:
        found = memo.get(e)
        if found is None:
            found = memo[e] = substitute_symbols(e, plain)
        return found

    done = map_program_exprs(program, put_in)
    if any(_runs_backwards(s) for s in walk(done.body)):
        done = replace(done, body=_at_least_empty(done.body))
    notes = tuple((k, _annotation(v, put_in)) for k, v in program.annotations)
    return done if notes == program.annotations else replace(done, annotations=notes)


def _runs_backwards(s: Stmt) -> bool:
    return isinstance(s, For) and isinstance(s.extent, Const) and s.extent.value < 0


def _at_least_empty(body: tuple[Stmt, ...]) -> tuple[Stmt, ...]:
    """Statements in which loops of a negative number of iterations, which run not at all, have none."""
    return tuple(
        map_bodies(replace(s, extent=ZERO) if _runs_backwards(s) and isinstance(s, For) else s, _at_least_empty)
        for s in body
    )


def _annotation(value: AttrValue, put_in: object) -> AttrValue:
    match value:
        case Expr():
            assert callable(put_in)
            found: AttrValue = put_in(value)
            return found
        case tuple():
            return tuple(_annotation(x, put_in) for x in value)
    return value


def skeleton(program: Program) -> tuple[object, ...]:
    """The shape of a program: its blocks and its loops' variables and kinds, with their nesting, without extents."""
    from mslang.ir.program import Block, For
    from mslang.ir.visit import bodies

    def of(s: Stmt) -> object:
        inside = tuple(of(x) for body in bodies(s) for x in body)
        match s:
            case For(var=v, kind=k):
                return ("for", v, k, inside)
            case Block(name=n, axes=axes, init=init):
                return ("block", n, tuple((a.name, a.kind) for a in axes), init is not None, inside)
        return (type(s).__name__, inside)

    return tuple(of(s) for s in program.body)
