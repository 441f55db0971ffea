"""The static checker of schedule items: names, kinds, arguments, and uses of consumed handles.

Nothing is run. A value of unknown kind is accepted everywhere, so that every report is a real error. Facts that
only execution reveals (is this primitive legal here?) are reported by execution.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec

from mslang.diagnostics import Diagnostic, Fix, Note, Span
from mslang.ops.signature import Kind
from mslang.schedule.check.addresses import addresses_of, unnamed_samplers
from mslang.schedule.check.expressions import Expressions
from mslang.schedule.check.forks import outcomes_of
from mslang.schedule.check.kinds import (
    ANY,
    EMPTY,
    Binding,
    Death,
    Environment,
    Static,
    describe,
    join,
    join_cases,
    where_outcome,
    with_more_axes,
)
from mslang.schedule.check.scope import builtin_names, params_of, program_names
from mslang.schedule.check.unpacking import unpacked
from mslang.schedule.statements import idle
from mslang.schedule.text import address_text
from mslang.sema.module import Found, Module
from mslang.sema.native import Native
from mslang.sema.refer import dotted_name
from mslang.sema.report import fault, unknown, warning
from mslang.syntax import tree
from mslang.transform.registries import REGISTRY, Registry
from mslang.transform.registry import OPERATIONS


class Mention(msgspec.Struct, frozen=True):
    """A name in the text, its value there, and where in the item it was bound (None: outside of it)."""

    span: Span
    name: str
    value: Static
    bound: Span | None
    binds: bool = False


class Checked(msgspec.Struct, frozen=True):
    """The findings of an item's check. Spans are relative to the item's start.

    `places` are the environments after each statement, by the statement's end offset, in text order.
    """

    diagnostics: tuple[Diagnostic, ...] = ()
    mentions: tuple[Mention, ...] = ()
    places: tuple[tuple[int, Environment], ...] = ()

    def at(self, offset: int) -> Environment:
        """The names in scope at an offset."""
        found: Environment = EMPTY
        for end, environment in self.places:
            if end > offset:
                break
            found = environment
        return found


def check_item(module: Module, item: tree.AnyItem, registry: Registry = REGISTRY) -> Checked:
    """Check a schedule, rule, fn, space or test; the result is empty for other items."""
    checker = _Checker(module, registry)
    if isinstance(item, tree.Rule | tree.Fn) and item.name.text in OPERATIONS:
        checker.diagnostics.append(
            warning(
                "MS216",
                item.name,
                f"an operation is called `{item.name.text}`, too",
                why="an operation comes first, so a call of this name never means this item",
                help="call it something else",
            )
        )
    match item:
        case tree.Schedule():
            checker.schedule(item)
        case tree.Rule(params=params, when=when, body=body):
            names = checker.start(params, item)
            if when is not None:
                checker.expressions.value(when, names)
            checker.body(body, names, "rule")
        case tree.Fn(params=params, body=body):
            checker.body(body, checker.start(params, item), "fn")
        case tree.Space(program=program, target=target, strategy=strategy):
            names = checker.start((), item, program, target)
            checker.strategy(strategy, names)
        case tree.Test(body=body):
            # A test may query the blocks of any program of the module: `s.loops(mm)`.
            names = builtin_names()
            for each in module.programs.values():
                names |= program_names(each)
            checker.body(body, names, "test")
        case _:
            return Checked()
    return checker.result()


class _Checker:
    """One item's check: collects diagnostics, mentions and places while it threads the environment through."""

    def __init__(self, module: Module, registry: Registry) -> None:
        self.module = module
        self.diagnostics: list[Diagnostic] = []
        self.mentions: list[Mention] = []
        self.places: list[tuple[int, Environment]] = []
        self.addresses: dict[str, Span] = {}
        self.expressions = Expressions(module, self.diagnostics.append, self._mention, registry)

    def result(self) -> Checked:
        """The findings, each diagnostic once."""
        places = tuple(sorted(self.places, key=lambda p: p[0]))
        return Checked(tuple(dict.fromkeys(self.diagnostics)), tuple(self.mentions), places)

    def _mention(self, span: Span, name: str, value: Static, bound: Span | None) -> None:
        self.mentions.append(Mention(span, name, value, bound))

    # ------------------------------------------------------------------ items
    def start(
        self,
        params: tuple[tree.Param, ...],
        item: tree.AnyItem,
        program: tuple[tree.Name, ...] | None = None,
        target: tree.Expr | None = None,
    ) -> dict[str, Binding]:
        """The names in scope at the start of an item's body."""
        names = builtin_names()
        names["machine"] = Binding(self.expressions.names.target(target))
        if program is not None:
            found = self._program(program)
            if found is not None:
                names |= program_names(found)
            else:
                # The names of its blocks are not known, so an unknown name is not an error.
                self.expressions.names.any_name = True
        for p in params:
            if p.default is not None:
                self.expressions.value(p.default, names)
        names |= params_of(params)
        self.places.append((item.span.start, names))
        return names

    def _program(self, path: tuple[tree.Name, ...]) -> tree.Program | None:
        name = ".".join(n.text for n in path)
        thing = self.module.find(name)
        if isinstance(thing, Found) and isinstance(thing.item, tree.Program):
            self.mentions.append(Mention(path[-1].span, name, Static(Kind.PROGRAM, item=thing.item), None))
            return thing.item
        if isinstance(thing, Found):
            self.diagnostics.append(fault("MS201", path[-1], f"`{name}` is a {thing.role}, not a program"))
        # An unknown name is reported by the module.
        return None

    def schedule(self, item: tree.Schedule) -> None:
        """A schedule with a body, or one that pins another's decisions."""
        names = self.start(item.params, item, item.program, item.target)
        self.expressions.names.no_program = item.program is None and not item.params
        if item.source is not None:
            self.expressions.value(item.source, names)
            self._pins(item.pins or (), names, item.source)
        if item.body is not None:
            self.body(item.body, names, "schedule")

    def strategy(self, part: tree.Strategy, names: Environment) -> None:
        """Check a space's strategy: its operands must be schedules, rules, fns or spaces."""
        match part:
            case tree.Union(parts=parts) | tree.Sequence(parts=parts):
                for p in parts:
                    self.strategy(p, names)
            case tree.Pinned(strategy=inner, pins=pins):
                self.strategy(inner, names)
                self._pins(pins, names, inner if isinstance(inner, tree.Ref | tree.Member | tree.Call) else None)
            case tree.Group(items=(inner,)):
                self.strategy(inner, names)
            case _:
                value = self.expressions.value(part, names)
                if value.kind not in (Kind.SPACE, Kind.RULE, Kind.ANY) and not self._is_strategy(part):
                    self.diagnostics.append(
                        fault(
                            "MS203",
                            part,
                            f"{describe(value)} cannot be part of a space",
                            help="a space is made of schedules, rules, fns and other spaces",
                        )
                    )

    def _is_strategy(self, part: tree.Expr) -> bool:
        """Is it the name of an item that can be part of a space, even if a block of the program is called so?"""
        name = dotted_name(part) if isinstance(part, tree.Ref | tree.Member) else None
        thing = None if name is None else self.module.find(name)
        items = tree.Schedule | tree.Space | tree.Rule | tree.Fn
        return isinstance(thing, Found) and isinstance(thing.item, items)

    def _pins(self, pins: Sequence[tree.Pin], names: Environment, of: tree.Expr | None = None) -> None:
        known = None if of is None or not pins else addresses_of(self.module, of)
        for pin in pins:
            if known is not None and pin.address not in known:
                listed = ", ".join(sorted(known)) or "none"
                why = f"the decisions here are: {listed}"
                self.diagnostics.append(
                    unknown("MS251", pin.place, "decision", pin.address, known, why=why, written=address_text)
                )
            # A pin may name a fork's case or a location, which are not names in scope.
            if not isinstance(pin.value, tree.Ref):
                self.expressions.value(pin.value, names, quiet=True)

    # ------------------------------------------------------------------ statements
    def body(self, body: tree.Body, names: Environment, where: str) -> Environment:
        """Check statements in order; returns the environment after them."""
        self.places.append((body.span.start, names))
        for statement in body.statements:
            names = self._statement(statement, names, where)
            self.places.append((statement.span.end, names))
        return names

    def _statement(self, s: tree.Stmt, names: Environment, where: str) -> Environment:
        for nameless in unnamed_samplers(self.module, s) if where != "test" else ():
            self.diagnostics.append(
                fault(
                    "MS264",
                    nameless,
                    "an fn that samples must be called under a `let`",
                    why="the binder is the first part of the addresses of its decisions",
                    help="write `let x = …`",
                )
            )
        match s:
            case tree.Let():
                return self._let(s, names)
            case tree.Sample():
                return self._sample(s, names)
            case tree.If(condition=condition, body=then, otherwise=otherwise):
                self.expressions.value(condition, names)
                holds, fails = outcomes_of(condition, names)
                first = self.body(then, names if holds is None else where_outcome(names, holds), where)
                second = names if fails is None else where_outcome(names, fails)
                second = second if otherwise is None else self.body(otherwise, second, where)
                return join(names, (first, second))
            case tree.Fork():
                return self._fork(s, names, where)
            case tree.For(loops=loops, body=inner):
                return self._for(loops, inner, names, where)
            case tree.Require(condition=condition) | tree.Check(condition=condition):
                return self._kept(condition, names, where, s)
            case tree.Snapshot(value=value):
                return self._kept(value, names, where, s)
            case tree.Return(values=values):
                for v in values:
                    names = self._evaluate(v, names)[1]
                return names
            case tree.CallStmt(call=call, pins=pins):
                self._pins(pins or (), names)
                before = len(self.diagnostics)
                names = self._evaluate(call, names)[1]
                if not isinstance(call, tree.Call) and len(self.diagnostics) == before:
                    self.diagnostics.append(
                        fault("MS207", call, "this does nothing", help="call a primitive, rule or fn: `x.f(…)`")
                    )
                elif isinstance(call, tree.Call):
                    self.diagnostics += self._idle(call, names)
                return names
            case tree.Bad():
                return names
        if isinstance(s, tree.Assign) and isinstance(s.target, tree.Ref) and s.op == "=":
            name = s.target.name
            help = f"write `let {name.text} = …`"
            fixes = (Fix("insert `let`", Span(name.span.start, name.span.start), "let "),)
            self.diagnostics.append(fault("MS207", s, f"`{name.text}` is not declared", help=help, fixes=fixes))
            bound = self.expressions.value(s.value, names)
            return {**names, name.text: Binding(bound if bound.length is None else ANY, name.span)}
        self.diagnostics.append(
            fault("MS207", s, f"a {where} has no `{_keyword(s)}` statements", why="it belongs in a program")
        )
        return names

    def _idle(self, call: tree.Call, names: Environment) -> tuple[Diagnostic, ...]:
        """The error of a call that gives what is not applied: a rule without a block, or another part of a space."""
        name = dotted_name(call.callee)
        if name is None or name.partition(".")[0] in names or name in OPERATIONS:
            return ()
        thing = self.module.find(name)
        match thing:
            case Found(item=tree.Schedule() | tree.Space()):
                return (idle(call, f"the {thing.role} `{name}`", is_rule=False),)
            case Found(item=tree.Rule()) | Native(role="rule") if all(a.name is not None for a in call.args):
                return (idle(call, f"the rule `{name}`", is_rule=True),)
        return ()

    def _kept(self, condition: tree.Expr, names: Environment, where: str, s: tree.Stmt) -> Environment:
        if (where == "test") != isinstance(s, tree.Check | tree.Snapshot):
            other = "`require`" if where != "test" else "`check`"
            self.diagnostics.append(
                fault("MS207", s, f"a {where} has no `{_keyword(s)}` statements", help=f"use {other}")
            )
        return self._evaluate(condition, names)[1]

    def _evaluate(self, e: tree.Expr, names: Environment) -> tuple[Static | tuple[Static, ...], Environment]:
        """The value of an expression, and the environment with the handles that it consumed marked dead."""
        value = self.expressions.results(e, names)
        return value, self._bury(names, self.expressions.calls.take_consumed(), ())

    def _bury(self, names: Environment, consumed: Mapping[str, Death], into: tuple[str, ...]) -> Environment:
        if self.expressions.calls.take_new_axes():
            names = with_more_axes(names)
        if not consumed:
            return names
        dead = {
            n: msgspec.structs.replace(names[n], death=msgspec.structs.replace(d, into=into))
            for n, d in consumed.items()
            if n in names
        }
        return {**names, **dead}

    def _let(self, s: tree.Let, names: Environment) -> Environment:
        results = self.expressions.results(s.value, names)
        bound = tuple(b.name.text for b in s.binders if b.name is not None)
        names = self._bury(names, self.expressions.calls.take_consumed(), bound)
        return self._bind(s.binders, unpacked(s, results, self.diagnostics.append), names)

    def _bind(self, binders: Sequence[tree.Binder], values: Sequence[Static], names: Environment) -> Environment:
        made = {}
        for binder, value in zip(binders, values, strict=True):
            if binder.name is not None:
                made[binder.name.text] = Binding(value, binder.name.span)
                self.mentions.append(Mention(binder.name.span, binder.name.text, value, binder.name.span, binds=True))
        return {**names, **made}

    def _sample(self, s: tree.Sample, names: Environment) -> Environment:
        value = self.expressions.calls.distribution(s.distribution, names)
        if s.value is not None and not isinstance(s.value, tree.Ref):
            # A pinned location is written `at(loop)`, which is a value, not a call.
            located = value.kind in (Kind.LOCATION, Kind.ANY)
            pinned = self.expressions.value(s.value, names, quiet=located)
            if value.length is not None and pinned.length is not None and pinned.length != value.length:
                self.diagnostics.append(
                    fault("MS206", s.value, f"{pinned.length} values pinned, {value.length} are drawn")
                )
        address = s.address.value if s.address is not None else s.name.text
        if address in self.addresses:
            self.diagnostics.append(
                fault(
                    "MS209",
                    s.name,
                    f"two decisions have the address `{address}`",
                    why="a pin or a record could not tell them apart",
                    help='give one another name, or another address: `let x as "address" ~ …`',
                    notes=(Note("the other one", self.addresses[address]),),
                )
            )
        self.addresses[address] = s.name.span
        return self._bind((tree.Binder(s.name.span, s.name),), (value,), names)

    def _fork(self, s: tree.Fork, names: Environment, where: str) -> Environment:
        cases = [c for c in s.cases if isinstance(c, tree.Case)]
        seen: set[str] = set()
        for case in cases:
            if case.name.text in seen:
                self.diagnostics.append(fault("MS210", case.name, f"two cases are called `{case.name.text}`"))
            seen.add(case.name.text)
        if s.pinned is not None and s.pinned.text not in seen:
            self.diagnostics.append(
                fault(
                    "MS210",
                    s.pinned,
                    f"there is no case `{s.pinned.text}`",
                    help=f"the cases are {', '.join(sorted(seen))}",
                )
            )
        if s.name is not None:
            chosen = Static(Kind.ANY, cases=tuple(c.name.text for c in cases))
            names = {**names, s.name.text: Binding(chosen, s.name.span)}
        before = dict(self.addresses)
        ends: dict[str, Environment] = {}
        for case in cases:
            # The cases are mutually exclusive, so they may share an address.
            self.addresses = dict(before)
            ends[case.name.text] = self.body(case.body, names, where)
        if s.name is None:
            return join(names, tuple(ends.values())) if ends else names
        return join_cases(names, s.name.span, ends) if ends else names

    def _for(self, loops: Sequence[tree.AxisLoop], body: tree.Body, names: Environment, where: str) -> Environment:
        inner = names
        for loop in loops:
            source = self.expressions.value(loop.domain, inner)
            element = source.element or (ANY if source.kind in (Kind.ANY, Kind.VALUES) else Static(Kind.SIZE))
            inner = self._bind((tree.Binder(loop.name.span, loop.name),), (element,), inner)
            if loop.place is not None:
                self.diagnostics.append(fault("MS207", loop.place, f"`@` has no meaning in a {where}'s `for`"))
        return join(names, (names, self.body(body, inner, where)))


_KEYWORDS = {"AttrSet": "attr", "Assign": "=", "CallStmt": "call"}


def _keyword(s: tree.Stmt) -> str:
    name = type(s).__name__
    return _KEYWORDS.get(name, name.lower())
