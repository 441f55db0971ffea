"""Running the statements of schedules."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import msgspec

from mslang.diagnostics import Diagnostic, MsError
from mslang.ir.expr import Expr
from mslang.ir.program import Program
from mslang.ops.signature import Group
from mslang.ops.table import SAMPLERS
from mslang.schedule.arguments import bind
from mslang.schedule.decisions import Alternatives
from mslang.schedule.expressions import arguments, elements, evaluate, unpack
from mslang.schedule.frames import Frame, element_name
from mslang.schedule.handles import Handle, Site
from mslang.schedule.items import ItemValue, NativeValue
from mslang.schedule.pins import pin_value, pin_values
from mslang.schedule.values import Outcome, describe, loops_in
from mslang.sema.report import failure, fault
from mslang.syntax import tree

if TYPE_CHECKING:
    from mslang.schedule.interpret import Interpreter


class Step(msgspec.Struct, frozen=True):
    """An executed statement: its place, the programs before and after it, and the length of the trace after it.

    `names` are the item's names after it, with handles replaced by their referents.
    """

    site: Site
    statement: tree.Stmt
    before: Program
    after: Program
    instructions: int
    names: dict[str, object]


class Returned(Exception):
    """`return` was reached."""

    def __init__(self, value: object) -> None:
        super().__init__()
        self.value = value


def run_body(it: Interpreter, body: tree.Body, frame: Frame) -> None:
    """Run statements in order.

    Raises:
        ScheduleError: a statement fails; the diagnostic points at it.
    """
    for statement in body.statements:
        before = it.session.program
        try:
            it.spend(1, statement)
            _run(it, statement, frame)
        except MsError as error:
            raise frame.blame(error, statement.span) from error
        it.stepped(
            Step(
                frame.site(statement),
                statement,
                before,
                it.session.program,
                len(it.session.instructions),
                dict(frame.names),
            )
        )


def _run(it: Interpreter, s: tree.Stmt, frame: Frame) -> None:
    match s:
        case tree.Let():
            _let(it, s, frame)
        case tree.Sample():
            _sample(it, s, frame)
        case tree.CallStmt(call=call, pins=pins):
            before = it.session.steps
            with it.session.draws.pinned(pin_values(pins or ())):
                value = evaluate(it, call, frame.with_address(frame.address.under(None)))
            if isinstance(value, ItemValue | NativeValue) and it.session.steps == before:
                raise MsError(idle(call, describe(value), value.is_rule))
        case tree.Require(condition=condition, why=why):
            raw = frame.place.text[condition.span.start : condition.span.end]
            it.session.require(evaluate(it, condition, frame), why.value if why is not None else " ".join(raw.split()))
        case tree.Fork():
            _fork(it, s, frame)
        case tree.If(condition=condition, body=body, otherwise=otherwise):
            if it.truth(condition, frame):
                run_body(it, body, frame)
            elif otherwise is not None:
                run_body(it, otherwise, frame)
        case tree.For(loops=loops, body=body, where=where):
            _for(it, loops, where, body, frame)
        case tree.Return(values=values):
            results = tuple(evaluate(it, v, frame) for v in values)
            raise Returned(None if not results else results[0] if len(results) == 1 else results)
        case tree.Check() | tree.Snapshot():
            it.judge(s, frame)
        case tree.Bad():
            raise failure("MS207", s, "this could not be parsed")
        case _:
            raise failure("MS207", s, "this statement has no meaning here", why="it belongs in a program")


def idle(call: tree.Node, what: str, is_rule: bool) -> Diagnostic:
    """The error of a call that gives a rule, or another part of a space, which is not applied."""
    help = "run schedules in sequence by a space: `space s for p = a >> b`"
    if is_rule:
        help = "apply a rule to all blocks by `apply(rule)`, to one by `rule(block)`"
    return fault("MS207", call, "this does nothing", why=f"it gives {what}, which is not applied", help=help)


def _let(it: Interpreter, s: tree.Let, frame: Frame) -> None:
    names = [None if b.name is None or b.star else b.name.text for b in s.binders]
    first = next((n for n in names if n is not None), None)
    binders = s.binders
    single = len(binders) == 1 and not binders[0].star

    def named(count: int) -> Sequence[str | None]:
        """The binders of a number of results; a list bound to one name stays a list."""
        if single:
            return names if count == 1 else ()
        star = next((k for k, b in enumerate(binders) if b.star), None)
        if star is None:
            return names
        after = names[star + 1 :]
        return [*names[:star], *[None] * (count - star - len(after)), *after]

    value = evaluate(it, s.value, frame.with_address(frame.address.under(first)), named)
    frame.names.update(unpack(binders, value, s))


def _sample(it: Interpreter, s: tree.Sample, frame: Frame) -> None:
    call = s.distribution
    if not isinstance(call, tree.Call) or not isinstance(call.callee, tree.Ref | tree.Member):
        raise failure("MS202", call, "expected a distribution after `~`", help="e.g. `perfect_tile(mm.i, n = 4)`")
    op = call.callee.name.text
    signature = it.session.registry.find(op)
    if signature is None or signature.group is not Group.SAMPLER:
        names = ", ".join(o.name for o in SAMPLERS)
        raise failure("MS202", call.callee, f"`{op}` is not a distribution", help=f"the distributions are {names}")
    args, kwargs = arguments(it, call.args, frame)
    if isinstance(call.callee, tree.Member):
        args.insert(0, evaluate(it, call.callee.base, frame))
    address = s.address.value if s.address is not None else frame.address.of(s.name.text)
    bound = bind(signature, args, kwargs)
    given = None if s.value is None else pin_value(s.value, lambda n: _loop_name(it, n, frame))
    frame.names[s.name.text] = it.session.sample(op, bound, address=address, name=s.name.text, given=given)


def _loop_name(it: Interpreter, name: str, frame: Frame) -> str:
    """The name in the program of the loop that a local name denotes, or that has the name of one that is gone."""
    value = frame.names.get(name)
    handles = it.session.handles
    return handles.resolve(value).name if isinstance(value, Handle) and handles.alive(value) else name


def _fork(it: Interpreter, s: tree.Fork, frame: Frame) -> None:
    cases = {c.name.text: c.body for c in s.cases if isinstance(c, tree.Case)}
    address = frame.address.of(s.name.text if s.name is not None else "fork")
    it.session.draws.claim(address)
    given = s.pinned.text if s.pinned is not None else None
    label = it.session.draws.choose(address, Alternatives(tuple(cases)), given)
    if s.name is not None:
        frame.names[s.name.text] = Outcome(str(label), tuple(cases))
    run_body(it, cases[str(label)], frame)


def _for(
    it: Interpreter,
    loops: Sequence[tree.AxisLoop],
    where: tree.Expr | None,
    body: tree.Body,
    frame: Frame,
) -> None:
    if not loops:
        if where is None or it.truth(where, frame):
            run_body(it, body, frame)
        return
    for k, element in enumerate(elements(it, loops[0].domain, frame)):
        frame.names[loops[0].name.text] = element
        inner = frame.with_address(frame.address.at(element_name(element, k)))
        _for(it, loops[1:], where, body, inner)


def truth(it: Interpreter, e: tree.Expr, frame: Frame) -> bool:
    """Whether a condition holds; one on decisions is answered as part of the structure."""
    found = evaluate(it, e, frame)
    match found:
        case bool():
            return found
        case Expr() if loops_in(found):
            raise failure(
                "MS203",
                e,
                f"{describe(found)} has no answer while a schedule runs",
                why="it holds in some iterations of the loop and not in others",
                help="`specialize` makes a copy of a nest for each answer; the extent of a loop is `loop.extent()`",
            )
        case Expr():
            return it.session.draws.branch(found)
    raise failure("MS203", e, "this is not a condition")
