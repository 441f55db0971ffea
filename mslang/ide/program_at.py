"""The program at the cursor: what a schedule has made of it before and after the statement there."""

from __future__ import annotations

import difflib
from collections.abc import Iterator, Mapping

import msgspec

from mslang.diagnostics import Diagnostic, MsError, Span
from mslang.ide.facts import block_facts, buffer_facts, decision_text, loop_facts
from mslang.ide.runs import NO_PINS, Moment, Run, run, trace_until
from mslang.ide.snapshot import Snapshot
from mslang.ir.print import print_program
from mslang.ir.program import Program
from mslang.schedule.decisions import shown
from mslang.schedule.instruction import Value
from mslang.schedule.sketch import instantiate
from mslang.sema.module import Found, Module
from mslang.syntax import tree
from mslang.syntax.query import item_at
from mslang.transform.outcome import BlockRef, BufferRef, LoopRef
from mslang.transform.outcome import Handle as Ref


class HandleAt(msgspec.Struct, frozen=True):
    """A name of the schedule after the statement: "loop", "block" or "buffer", and what it stands for in words
    ("consumed" if it no longer exists)."""

    name: str
    kind: str
    text: str


class DecisionAt(msgspec.Struct, frozen=True):
    """A decision of the schedule: its address, its value in this draw, and what it is drawn from."""

    address: str
    value: str
    text: str


class ProgramAt(msgspec.Struct, frozen=True):
    """The answer: the statement (a span in the file; None: the cursor is before all of them), the programs, their
    difference, what the names stand for, the trace so far, and what is wrong, if anything.

    A statement in a loop or in an `fn` may run several times: `passes` says how often, and the last pass is shown.
    """

    statement: Span | None
    before: str
    after: str
    diff: str
    handles: tuple[HandleAt, ...]
    decisions: tuple[DecisionAt, ...]
    trace: str
    error: str | None
    passes: int = 0


def program_at(
    snapshot: Snapshot,
    path: str,
    offset: int,
    seed: int = 0,
    pins: Mapping[str, Value] = NO_PINS,
) -> ProgramAt | None:
    """The program before and after the statement of the schedule at an offset; None where there is no schedule.

    Open decisions are drawn from `seed`; a fork takes the case that the cursor is in, unless `pins` say otherwise.

    Raises:
        MsError: the file cannot be read.
    """
    module = snapshot.module(path)
    placed = item_at(module.file, offset)
    if placed is None or not isinstance(placed.item, tree.Schedule | tree.Space | tree.Rule | tree.Fn):
        return None
    place = _place(placed, offset - placed.start)
    answer: ProgramAt | None = None
    for found in _runners(module, placed):
        own = found.placed is placed
        try:
            done = run(found, seed, {**(place.cases if own else {}), **pins})
        except MsError as error:
            answer = answer or ProgramAt(place.span, "", "", "", (), (), "", _error_text(error.diagnostic))
            continue
        passes = [m for m in done.moments if m.site.path == path and m.site.span == place.span]
        if own or passes:
            return _answer(done, passes, place.span, whole=own and not place.statements)
    return answer


class _Place(msgspec.Struct, frozen=True):
    """The statement at the cursor (in the file), the cases of the forks around it, and whether there are any."""

    span: Span | None
    cases: dict[str, Value]
    statements: bool


def _place(placed: tree.PlacedItem, offset: int) -> _Place:
    item = placed.item
    body = item.body if isinstance(item, tree.Schedule | tree.Rule | tree.Fn) else None
    if body is None:
        return _Place(item.span.shifted(placed.start), {}, False)
    cases: dict[str, Value] = {}
    statement: tree.Stmt | None = None
    while body is not None:
        reached = [s for s in body.statements if s.span.start <= offset]
        if not reached:
            break
        statement = reached[-1]
        body = None
        for address, label, inner in _bodies(statement):
            if inner.span.start < offset <= inner.span.end:
                body = inner
                if address is not None and label is not None:
                    cases[address] = label
    return _Place(None if statement is None else statement.span.shifted(placed.start), cases, True)


def _bodies(s: tree.Stmt) -> Iterator[tuple[str | None, str | None, tree.Body]]:
    match s:
        case tree.Fork(name=name, cases=cases):
            address = "fork" if name is None else name.text
            yield from ((address, c.name.text, c.body) for c in cases if isinstance(c, tree.Case))
        case tree.For(body=body):
            yield None, None, body
        case tree.If(body=body, otherwise=otherwise):
            yield None, None, body
            if otherwise is not None:
                yield None, None, otherwise


def _runners(module: Module, placed: tree.PlacedItem) -> Iterator[Found]:
    """The schedule itself; for an fn or rule the schedules and spaces of the file that may use it."""
    if isinstance(placed.item, tree.Schedule | tree.Space):
        yield Found(module, placed)
        return
    for other in module.file.items:
        if isinstance(other.item, tree.Schedule | tree.Space):
            yield Found(module, other)


def _answer(done: Run, passes: list[Moment], span: Span | None, whole: bool) -> ProgramAt:
    if passes:
        moment = passes[-1]
        before, after, count, names = moment.before, moment.after, moment.instructions, moment.names
    elif span is None:
        before = after = done.program
        count, names = 0, {}
    else:
        # A schedule without a body is one statement; one that failed here has got no further.
        before = done.program if whole else done.last
        after, count, names = done.last, len(done.trace.instructions), {}
        if not whole and done.moments:
            names = done.moments[-1].names
    first, second = (print_program(instantiate(p, done.numbers)) for p in (before, after))
    shown_program = instantiate(after, done.numbers)
    handles = tuple(_handle(n, refs, shown_program) for n, refs in names.items())
    decisions = tuple(
        DecisionAt(d.address, shown(done.numbers.get(d.address)), decision_text(d.domain, done.numbers))
        for d in done.decisions
    )
    error = None if done.error is None else _error_text(done.error)
    return ProgramAt(
        span, first, second, _diff(first, second), handles, decisions, _trace(done, count), error, len(passes)
    )


def _trace(done: Run, count: int) -> str:
    try:
        return trace_until(done, count).as_ms()
    except MsError as error:
        # A draw that failed may lack the value of its last decision.
        return f"# {error.diagnostic.message}\n"


def _handle(name: str, refs: tuple[Ref | None, ...], program: Program) -> HandleAt:
    texts = [_fact(r, program) for r in refs]
    kind = next((type(r).__name__.removesuffix("Ref").lower() for r in refs if r is not None), "handle")
    return HandleAt(name, kind, "; ".join(texts))


def _fact(ref: Ref | None, program: Program) -> str:
    match ref:
        case LoopRef(name=name):
            loop = loop_facts(program, name)
            return "consumed" if loop is None else loop.text
        case BlockRef(name=name):
            block = block_facts(program, name)
            return "consumed" if block is None else block.text
        case BufferRef(name=name):
            buffer = buffer_facts(program, name)
            return "consumed" if buffer is None else buffer.text
    return "consumed"


def _diff(before: str, after: str) -> str:
    lines = difflib.unified_diff(before.split("\n"), after.split("\n"), "before", "after", lineterm="", n=2)
    return "\n".join(lines)


def _error_text(d: Diagnostic) -> str:
    parts = [f"{d.code}: {d.message}"]
    if d.why:
        parts.append(f"why: {d.why}")
    if d.help:
        parts.append(f"help: {d.help}")
    return "\n".join(parts)
