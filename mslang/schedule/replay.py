"""Replaying traces: always symbolically; for a pinned trace the values are substituted afterwards."""

from __future__ import annotations

from collections.abc import Mapping

from msgspec.structs import replace

from mslang.diagnostics import MsError, ScheduleError, problem
from mslang.ir.arith import simplify
from mslang.ir.expr import Expr, Symbol
from mslang.ir.index_map import IndexMap, on_ends
from mslang.ir.program import Program
from mslang.ir.visit import map_expr
from mslang.ops.signature import Group
from mslang.schedule.arguments import Bound, unwritten
from mslang.schedule.decisions import Decider, Drawing, PinError
from mslang.schedule.frames import Place
from mslang.schedule.handles import Site
from mslang.schedule.instruction import ENTER_POSTPROC, REQUIRE, Argument, Condition, Instruction, Value
from mslang.schedule.interpret import PLAIN, Interpreter, World
from mslang.schedule.session import Session
from mslang.schedule.sketch import sketch_of
from mslang.schedule.space import Candidate, Space
from mslang.schedule.trace import Trace
from mslang.sema.module import Module
from mslang.syntax import tree
from mslang.syntax.parse import parse_item


def replay(program: Program, trace: Trace, *, strict: bool = False, seed: int = 0) -> Candidate:
    """The candidate of a trace, on the program that it was recorded on or on a changed one.

    Args:
        program: the program.
        trace: the trace; decisions without a value are drawn from `seed`.
        strict: a stale value is an error, not repaired with a warning.
        seed: the seed for decisions without a value.

    Raises:
        ScheduleError: an instruction does not apply to this program; MS254, a value does not fit.
    """
    drawing = Drawing(seed, pins=trace.decisions, strict=strict)
    session = run_trace(program, trace, drawing)
    sketch = sketch_of(session, target=trace.target, source=trace.source)
    numbers = session.draws.numbers
    violated = sketch.violation(numbers)
    if violated is not None:
        raise PinError(problem("MS260", f"the decisions of this trace are rejected: {violated}"))
    values: dict[str, Value] = {**trace.decisions, **session.draws.values}
    done = replace(sketch.trace, values=tuple(values.items()))
    return Candidate(sketch.instantiate(numbers), done, values, sketch, tuple(drawing.warnings.values()))


def run_trace(program: Program, trace: Trace, decider: Decider) -> Session:
    """Run a trace's instructions on a program, with decisions as symbols.

    Raises:
        ScheduleError: an instruction does not apply; the diagnostic's note says which.
    """
    session = Session(program, decider, trace.registry)
    values = trace.decisions
    for k, instruction in enumerate(trace.instructions):
        try:
            step(session, instruction, values)
        except MsError as error:
            where = f"instruction {k + 1} of the trace, `{instruction.op}`"
            first = error.diagnostic
            kind = type(error) if isinstance(error, PinError) else ScheduleError
            raise kind(replace(first, why=f"{first.why}; {where}" if first.why else where)) from error
    return session


def step(session: Session, instruction: Instruction, values: Mapping[str, Value]) -> None:
    """Run one instruction; `values` are the trace's decisions."""
    if instruction.op == ENTER_POSTPROC:
        session.enter_postproc()
        return
    if instruction.op == REQUIRE:
        why = instruction.argument("why")
        session.require(_current(session, instruction.argument("condition")), why if isinstance(why, str) else None)
        return
    bound = bound_of(session, instruction)
    samples = session.registry.signature(instruction.op).group is Group.SAMPLER
    if samples is not (instruction.address is not None) or (samples and len(instruction.results) != 1):
        raise ScheduleError(problem("MS263", f"`{instruction.op}` and the address do not go together"))
    if instruction.address is None:
        session.apply(instruction.op, bound, names=instruction.results, site=Site(instruction.op))
        return
    session.sample(
        instruction.op,
        bound,
        address=instruction.address,
        name=instruction.results[0],
        given=values.get(instruction.address),
    )


def bound_of(session: Session, instruction: Instruction) -> Bound:
    """The arguments of an instruction by parameter: handles of this session, sizes over this session's symbols.

    Raises:
        ScheduleError: MS263, the operation is unknown, or takes other arguments.
    """
    signature = session.registry.find(instruction.op)
    if signature is None:
        raise ScheduleError(
            session.registry.problem(instruction.op)
            or problem("MS263", f"the trace holds an unknown operation, `{instruction.op}`")
        )
    kinds = {p.name: p.kind for p in signature.params}
    if [n for n, _ in instruction.arguments] != list(kinds):
        raise ScheduleError(
            problem(
                "MS263",
                f"`{instruction.op}` is called with other arguments than it takes",
                why=f"it takes {', '.join(kinds)}",
            )
        )
    return {
        name: unwritten(_current(session, argument), kinds[name], session.operand_value)
        for name, argument in instruction.arguments
    }


def _current(session: Session, argument: Argument) -> Argument:
    """An argument over the symbols of this replay, whose domains may have changed."""
    match argument:
        case Expr():
            return _current_size(session, argument)
        case Condition(expr=e, loops=loops):
            return Condition(_current_size(session, e), loops)
        case IndexMap(params=params, results=results):
            return IndexMap(params, tuple(on_ends(e, lambda x: _current_size(session, x)) for e in results))
        case tuple():
            return tuple(_current(session, x) for x in argument)
    return argument


def _current_size(session: Session, e: Expr) -> Expr:
    changed = map_expr(e, lambda x: session.draws.symbol(x) if isinstance(x, Symbol) else None)
    return e if changed == e else simplify(changed)


def space_of_text(text: str, program: Program, world: World = PLAIN, module: Module | None = None) -> Space:
    """The space of a schedule given as text, such as a flat trace.

    Args:
        text: one `schedule` item with a body.
        program: what to schedule.
        world: the machine, native names.
        module: where the text's other names are looked up.

    Raises:
        MsError: the text is not such an item.
    """
    parsed = parse_item(text)
    if parsed.diagnostics:
        raise MsError(*parsed.diagnostics)
    item = parsed.item
    if not isinstance(item, tree.Schedule) or item.body is None:
        raise MsError(problem("MS263", "one `schedule` item with a body is needed here"))
    place = Place(module, None, 0, text)
    target = None if item.target is None else " ".join(text[item.target.span.start : item.target.span.end].split())

    def recipe(session: Session) -> str | None:
        Interpreter(session, world).run_text(item, place)
        return item.name.text

    return Space(program, recipe, name=item.name.text, target=target, registry=world.registry)
