"""Running schedules for the editor: the program after every statement, for one draw."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from types import MappingProxyType
from typing import cast

import msgspec
from msgspec.structs import replace

from mslang.diagnostics import Diagnostic, MsError
from mslang.ide.dependencies import depends_on
from mslang.ide.keyed import Keyed
from mslang.ir.program import Program
from mslang.schedule.decisions import Decision
from mslang.schedule.distribution import Number
from mslang.schedule.events import Branched, Chosen
from mslang.schedule.handles import Handle, Site
from mslang.schedule.instruction import Label, Value
from mslang.schedule.interpret import World
from mslang.schedule.items import ItemValue
from mslang.schedule.session import Session
from mslang.schedule.space import Candidate, Space
from mslang.schedule.statements import Step
from mslang.schedule.strategies import machine_of, program_of, run_item, sizes_of
from mslang.schedule.trace import Trace
from mslang.sema.module import Found
from mslang.transform.outcome import Handle as Ref
from mslang.transform.registries import registry_of

NO_PINS: Mapping[str, Value] = MappingProxyType({})

Structure = tuple[tuple[tuple[str, Label], ...], tuple[bool, ...]]


class Moment(msgspec.Struct, frozen=True, eq=False):
    """A statement that ran: its place, the programs before and after (decisions are symbols), the length of the trace
    then, and the value of each name: a loop, block or buffer, several, or None if it was consumed."""

    site: Site
    before: Program
    after: Program
    instructions: int
    names: Mapping[str, tuple[Ref | None, ...]]


class Run(msgspec.Struct, frozen=True, eq=False):
    """A run of a schedule for one draw: its program, the statements in the order of execution, the decisions, and the
    error that ended it, if any. `numbers` are the values of the symbols in the programs."""

    program: Program
    moments: tuple[Moment, ...]
    trace: Trace
    decisions: tuple[Decision, ...]
    numbers: Mapping[str, Number]
    last: Program
    error: Diagnostic | None = None


class _Recording:
    """The statements of one replay, while it runs and after."""

    def __init__(self, session: Session) -> None:
        self.session = session
        self.moments: list[Moment] = []

    def step(self, step: Step) -> None:
        """Note a statement."""
        names = {n: self._refs(v) for n, v in step.names.items()}
        self.moments.append(
            Moment(
                step.site, step.before, step.after, step.instructions, {n: r for n, r in names.items() if r is not None}
            )
        )

    def _refs(self, value: object) -> tuple[Ref | None, ...] | None:
        match value:
            case Handle():
                handles = self.session.handles
                return (handles.resolve(value) if handles.alive(value) else None,)
            case tuple() if value and all(isinstance(v, Handle) for v in value):
                return tuple(r for v in value for r in self._refs(v) or ())
        return None

    @property
    def structure(self) -> Structure:
        """Which structure this replay was of."""
        events = self.session.draws.events
        return (
            tuple((e.choice.address, e.label) for e in events if isinstance(e, Chosen)),
            tuple(e.answer for e in events if isinstance(e, Branched)),
        )


def run(found: Found, seed: int = 0, pins: Mapping[str, Value] = NO_PINS) -> Run:
    """Run a schedule or space for the draw of a seed; runs are cached.

    Raises:
        MsError: its program or target is faulty, so that nothing can be run.
    """
    key = (found.item.name.text, depends_on(found), seed, tuple(sorted(pins.items())))
    return _run(Keyed(key, (found, seed, pins)))


@lru_cache(maxsize=64)
def _run(work: Keyed[tuple[Found, int, Mapping[str, Value]]]) -> Run:
    found, seed, pins = work.value
    program = program_of(found)
    world = World(
        machine=machine_of(found),
        sizes=sizes_of(found, program),
        registry=registry_of(found.module),
        module=found.module,
    )
    recordings: list[_Recording] = []

    def recipe(session: Session) -> str | None:
        recording = _Recording(session)
        recordings.append(recording)
        value = ItemValue(found, found.item.name.text)
        return run_item(session, value, replace(world, on_step=recording.step))

    space = Space(program, recipe, name=found.item.name.text, registry=world.registry)
    try:
        candidate = space.sample(seed, pins)
    except MsError as error:
        return _failed(space.program, recordings, error.diagnostic)
    return _done(space.program, recordings, candidate)


def _done(program: Program, recordings: list[_Recording], candidate: Candidate) -> Run:
    structure = candidate.sketch.structure, tuple(g.answer for g in candidate.sketch.guards)
    recording = next(r for r in reversed(recordings) if r.structure == structure)
    values = cast("Mapping[str, Number]", candidate.decisions)
    numbers = {d.address: values[d.address] for d in candidate.sketch.decisions}
    return Run(
        program,
        tuple(recording.moments),
        candidate.trace,
        candidate.sketch.decisions,
        numbers,
        recording.session.program,
    )


def _failed(program: Program, recordings: list[_Recording], error: Diagnostic) -> Run:
    if not recordings:
        return Run(program, (), Trace(program.name), (), {}, program, error)
    last = recordings[-1]
    session = last.session
    decisions = tuple(e for e in session.draws.events if isinstance(e, Decision))
    return Run(program, tuple(last.moments), session.trace(), decisions, session.draws.numbers, session.program, error)


def trace_until(run: Run, instructions: int) -> Trace:
    """The trace of a run up to so many instructions, with the decisions made so far."""
    kept = run.trace.instructions[:instructions]
    gone = {i.address for i in run.trace.instructions[instructions:]} - {i.address for i in kept}
    return replace(run.trace, instructions=kept, values=tuple(v for v in run.trace.values if v[0] not in gone))
