"""Kinds of expressions in schedules: names, axis look-ups, calls with their arguments, and consumed handles."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

from mslang.diagnostics import Diagnostic, Fix, Span
from mslang.ir.program import SCOPES
from mslang.ops.library import LIBRARY
from mslang.ops.signature import Group, Kind, Signature
from mslang.schedule.check.calls import (
    Argument,
    Given,
    bind,
    check_library,
    check_parameters,
    list_help,
    may_give_axes,
    methods_of,
    results_of,
    tile_length,
)
from mslang.schedule.check.deaths import dead
from mslang.schedule.check.kinds import (
    ANY,
    BOOL,
    FLOAT,
    HOLE,
    INDEX_MAP,
    LOOP,
    NOTHING,
    SIZE,
    STR,
    Binding,
    Death,
    Environment,
    Outcomes,
    Static,
    accepts,
    describe,
    list_of,
    may_be_made,
    of_kind,
)
from mslang.schedule.check.scope import item_value, native_value
from mslang.schedule.check.unknown_names import certain_help, in_scope
from mslang.sema.library_names import library_help
from mslang.sema.module import Found, Module
from mslang.sema.native import BUILTINS, Native
from mslang.sema.refer import dotted_name
from mslang.sema.report import fault, unknown
from mslang.suggestions import listed
from mslang.syntax import tree
from mslang.transform.registries import REGISTRY, Registry
from mslang.transform.registry import OPERATIONS

Mentioned = Callable[[Span, str, Static, Span | None], None]

_COMPARISONS = frozenset({"==", "!=", "<", "<=", ">", ">=", "and", "or"})


class Expressions:
    """The expression part of one item's check. It collects the names that calls consume."""

    def __init__(
        self, module: Module, report: Callable[[Diagnostic], None], mention: Mentioned, registry: Registry = REGISTRY
    ) -> None:
        self._module = module
        self._registry = registry
        self._reporter = report
        self._mention = mention
        self._quiet = 0
        self._consumed: dict[str, Death] = {}
        self._new_axes = False
        self._changed = False
        self.any_name = False
        """Whether names may denote blocks and buffers of an unknown program."""
        self.no_program = False
        """Whether the item is a schedule that names no program."""

    def _report(self, diagnostic: Diagnostic) -> None:
        if not self._quiet:
            self._reporter(diagnostic)

    def take_consumed(self) -> Mapping[str, Death]:
        """The names consumed since the last call."""
        consumed, self._consumed = self._consumed, {}
        return consumed

    def take_new_axes(self) -> bool:
        """Whether an operation since the last call may have changed the axes of blocks."""
        found, self._new_axes = self._new_axes, False
        return found

    def target(self, e: tree.Expr | None) -> Static:
        """The value of `machine`: the target named after `on`."""
        if e is not None and isinstance(e, tree.Ref | tree.Member):
            name = dotted_name(e)
            thing = self._module.find(name) if name is not None else None
            if isinstance(thing, Found):
                self._mention(e.span, name or "", item_value(thing.item), None)
        return Static(Kind.ANY)

    def value(self, e: tree.Expr, names: Environment, quiet: bool = False) -> Static:
        """The value of an expression with a single value."""
        self._quiet += quiet
        found = self.results(e, names)
        self._quiet -= quiet
        if isinstance(found, tuple):
            return list_of(found[0] if found else ANY, len(found))
        return found

    def results(self, e: tree.Expr, names: Environment) -> Static | tuple[Static, ...]:
        """The value of an expression; a tuple for a call with several results."""
        match e:
            case tree.Number(value=v):
                return FLOAT if isinstance(v, float) else SIZE
            case tree.Size():
                return SIZE
            case tree.String():
                return STR
            case tree.Bool():
                return BOOL
            case tree.Hole():
                return HOLE
            case tree.Ref(name=name):
                return self._name(name, names)
            case tree.Member():
                return self._member(e, names)
            case tree.Call():
                return self._call(e, names)
            case tree.Index():
                return self._index(e, names)
            case tree.Binary(op="..", left=a, right=b):
                self.value(a, names), self.value(b, names)
                return list_of(SIZE)
            case tree.Binary(op="==" | "!=", left=a, right=b) if self._fork_compared(a, b, names):
                return BOOL
            case tree.Binary():
                return self._binary(e, names)
            case tree.Unary(op=op, operand=x):
                inner = self.value(x, names)
                return BOOL if op == "not" else inner
            case tree.List(items=items):
                values = [self.value(x, names) for x in items]
                plain = [v for v in values if v is not HOLE]
                same = plain[0] if plain and all(v.kind == plain[0].kind for v in plain) else ANY
                return list_of(same, len(items))
            case tree.Group(items=(inner,)):
                return self.results(inner, names)
            case tree.Group(items=items):
                return tuple(self.value(x, names) for x in items)
            case tree.Comprehension():
                return self._comprehension(e, names)
            case tree.IndexMap(params=params, results=results):
                known = {**names, **{p.text: Binding(SIZE, p.span) for p in params}}
                for x in results:
                    self.value(x, known)
                return INDEX_MAP
        return ANY

    # ------------------------------------------------------------------ names
    def _name(self, name: tree.Name, names: Environment) -> Static:
        bound = names.get(name.text)
        if bound is not None:
            self._mention(name.span, name.text, bound.value, bound.span)
            if bound.death is not None:
                self._report(dead(name, bound.death, names))
            return bound.value
        if name.text in OPERATIONS:
            return ANY
        thing = self._module.find(name.text)
        if thing is None:
            if self._registry.find(name.text) is None and not (self._changed and may_be_made(name.text, names)):
                self._unknown(name, names)
            return ANY
        value = item_value(thing.item) if isinstance(thing, Found) else native_value(thing)
        self._mention(name.span, name.text, value, None)
        return value

    def _member(self, e: tree.Member, names: Environment) -> Static:
        whole = dotted_name(e)
        if whole is not None and whole.partition(".")[0] not in names:
            thing = self._module.find(whole)
            if thing is not None:
                value = item_value(thing.item) if isinstance(thing, Found) else native_value(thing)
                self._mention(e.name.span, whole, value, None)
                return value
        base = self.value(e.base, names)
        name = e.name.text
        match base.kind:
            case Kind.BLOCK:
                if base.axes is not None and name not in base.axes and not base.more_axes:
                    known = (*base.axes, *(s.name for s in methods_of(Kind.BLOCK, self._registry)))
                    self._report(
                        unknown(
                            "MS204", e.name, "axis", name, known, help=f"the axes are {', '.join(base.axes) or 'none'}"
                        )
                    )
                elif name in OPERATIONS:
                    self._report(fault("MS207", e.name, f"`{name}` is not called", help=f"write `.{name}(…)`"))
                self._mention(e.name.span, name, LOOP, None)
                return LOOP
            case Kind.SCOPE | Kind.AXIS:
                return base
            case Kind.LOOP | Kind.BUFFER | Kind.SIZE | Kind.TILE | Kind.VALUES:
                if name in OPERATIONS:
                    self._report(fault("MS207", e.name, f"`{name}` is not called", help=f"write `.{name}(…)`"))
                else:
                    self._report(fault("MS204", e.name, f"{describe(base)} has no member `{name}`"))
        return ANY

    def _index(self, e: tree.Index, names: Environment) -> Static:
        base = self.value(e.base, names)
        for x in e.items:
            self.value(x, names)
        match base.kind:
            case Kind.TILE:
                if base.length is not None and len(e.items) == 1 and isinstance(e.items[0], tree.Number):
                    at = e.items[0].value
                    if isinstance(at, int) and not -base.length <= at < base.length:
                        self._report(
                            fault(
                                "MS203",
                                e.items[0],
                                f"there is no factor {at}",
                                why=f"{base.length} are drawn, counted from 0",
                            )
                        )
                return SIZE
            case Kind.VALUES | Kind.LOOPS | Kind.BLOCKS:
                return base.element or ANY
            case Kind.PROGRAM:
                return base
            case Kind.LOOP | Kind.BLOCK | Kind.SIZE:
                self._report(_no_elements(e, base))
        return ANY

    def _binary(self, e: tree.Binary, names: Environment) -> Static:
        left, right = self.value(e.left, names), self.value(e.right, names)
        handles = (Kind.BLOCK, Kind.BUFFER)
        for side, value in ((e.left, left), (e.right, right)):
            if value.kind in handles and e.op not in ("==", "!="):
                self._report(fault("MS203", side, f"`{e.op}` does not apply to {describe(value)}"))
        about_loops = {Kind.LOOP, Kind.CONDITION} & {left.kind, right.kind}
        if e.op in _COMPARISONS:
            same = e.op in ("==", "!=") and left.kind is right.kind is Kind.LOOP
            return Static(Kind.CONDITION) if about_loops and not same else BOOL
        if about_loops:
            return Static(Kind.LOOP)
        if FLOAT.kind in (left.kind, right.kind):
            return FLOAT
        return SIZE if SIZE.kind in (left.kind, right.kind) else ANY

    def _fork_compared(self, a: tree.Expr, b: tree.Expr, names: Environment) -> bool:
        """Check a comparison of a fork's outcome with one of its cases; False if `e` is no such comparison."""
        for side, other in ((a, b), (b, a)):
            bound = names.get(side.name.text) if isinstance(side, tree.Ref) else None
            cases = bound.value.cases if bound is not None else None
            if cases is None:
                continue
            self.value(side, names)
            name = other.name.text if isinstance(other, tree.Ref) else getattr(other, "value", None)
            if name not in cases:
                listed = f"its cases are {', '.join(cases)}"
                self._report(unknown("MS210", other, "case", str(name), cases, why=listed))
            return True
        return False

    def _comprehension(self, e: tree.Comprehension, names: Environment) -> Static:
        source = self.value(e.source, names)
        element = source.element or ANY
        made = {b.name.text: Binding(element, b.name.span) for b in e.binders if b.name is not None}
        inner = {**names, **made}
        if e.condition is not None:
            self.value(e.condition, inner)
        return list_of(self.value(e.element, inner))

    # ------------------------------------------------------------------ calls
    def distribution(self, e: tree.Expr, names: Environment) -> Static:
        """The value drawn from the distribution `e`."""
        if isinstance(e, tree.Call):
            name = e.callee.name if isinstance(e.callee, tree.Ref | tree.Member) else None
            signature = OPERATIONS.get(name.text) if name is not None else None
            if name is not None and (signature is None or signature.group is not Group.SAMPLER):
                samplers = [s.name for s in OPERATIONS.values() if s.group is Group.SAMPLER]
                if signature is None and self._module.find(name.text) is None:
                    self._report(
                        unknown(
                            "MS202",
                            name,
                            "distribution",
                            name.text,
                            samplers,
                            help=f"the distributions are {', '.join(samplers)}",
                        )
                    )
                else:
                    self._report(
                        fault(
                            "MS202",
                            name,
                            f"`{name.text}` is not a distribution",
                            help=f"the distributions are {', '.join(samplers)}",
                        )
                    )
                return ANY
            found = self._call(e, names)
            value = found if isinstance(found, Static) else list_of(ANY)
            if value.kind is Kind.TILE:
                return Static(Kind.TILE, length=tile_length(e, signature))
            return value
        self._report(fault("MS202", e, "expected a distribution after `~`", help="e.g. `perfect_tile(mm.i, n = 4)`"))
        return ANY

    def _call(self, e: tree.Call, names: Environment) -> Static | tuple[Static, ...]:
        match e.callee:
            case tree.Ref(name=name):
                if name.text in names and name.text not in OPERATIONS:
                    self._arguments(e, names)
                    return self._called(self._name(name, names), name, e)
                return self._function(name, None, e, names)
            case tree.Member(base=base, name=name):
                whole = dotted_name(e.callee)
                if whole is not None and whole.partition(".")[0] not in names and self._module.find(whole) is not None:
                    self._arguments(e, names)
                    return self._called(self._member(e.callee, names), name, e)
                return self._function(name, (base, self.value(base, names)), e, names)
        self._arguments(e, names)
        self.value(e.callee, names)
        return ANY

    def _operation_named(self, name: str, names: Environment) -> Signature | None:
        """The operation with a name; an item of the text hides a user's own primitive of that name."""
        if name in OPERATIONS:
            return OPERATIONS[name]
        return None if name in names or self._module.find(name) is not None else self._registry.find(name)

    def _function(
        self, name: tree.Name, receiver: tuple[tree.Expr, Static] | None, e: tree.Call, names: Environment
    ) -> Static | tuple[Static, ...]:
        signature = self._operation_named(name.text, names)
        own = [Argument(None, *receiver, receiver[0].span)] if receiver else []
        given = own + self._arguments(e, names)
        if receiver is not None and receiver[1].kind in (Kind.PROGRAM, Kind.SPACE, Kind.ANY):
            # Scheduled programs have methods of their own (`s.loops(mm)`, `p.blocks()`); nothing is known of ANY.
            return ANY if signature is None or receiver[1].kind is not Kind.ANY else results_of(signature, ())
        if signature is not None:
            return self._operation(signature, name, given, receiver is not None, names)
        thing = self._module.find(name.text)
        if isinstance(thing, Found) and isinstance(thing.item, tree.Fn | tree.Rule | tree.Schedule | tree.Space):
            value = item_value(thing.item)
            self._mention(name.span, name.text, value, None)
            check_parameters(thing.item, name, given, self._report)
            return self._called(value, name, e)
        if isinstance(thing, Found | Native):
            self._mention(name.span, name.text, native_value(thing) if isinstance(thing, Native) else ANY, None)
            called = LIBRARY.get(thing.address) if isinstance(thing, Native) else None
            if called is not None:
                check_library(called, name, given, self._report)
            return ANY if called is None or not called.results else of_kind(called.results[0])
        if receiver is not None and self._registry.problem(name.text) is None:
            kind = receiver[1]
            known = tuple(s.name for s in methods_of(kind.kind, self._registry))
            self._report(unknown("MS202", name, f"operation of {describe(kind)}", name.text, known))
            return ANY
        self._unknown(name, names, called=True)
        return ANY

    def _unknown(self, name: tree.Name, names: Environment, called: bool = False) -> None:
        reason = self._registry.problem(name.text)
        if reason is not None:
            self._report(reason.at(name.span))
        elif called:
            known = (*_callable(names, self._module), *self._registry.operations, *BUILTINS)
            self._report(unknown("MS201", name, "function", name.text, known, help=library_help(name.text)))
        elif not self.any_name:
            known = () if self.no_program else (*names, *self._module.names)
            help = library_help(name.text) or (_NO_PROGRAM if self.no_program else in_scope(names))
            certain = certain_help(name, names)
            self._report(certain or unknown("MS201", name, "name", name.text, known, help=help))

    def _called(self, value: Static, name: tree.Name, e: tree.Call) -> Static | tuple[Static, ...]:
        self._new_axes = self._changed = True
        match value.item:
            case tree.Rule() | tree.Schedule() | tree.Space():
                return value
            case tree.Fn(body=body):
                last = body.statements[-1] if body.statements else None
                return ANY if isinstance(last, tree.Return) else NOTHING
        if value.kind in (Kind.LOOP, Kind.BLOCK, Kind.BUFFER, Kind.SIZE, Kind.TILE):
            self._report(fault("MS203", name, f"`{name.text}` is {describe(value)}, not a function"))
        return ANY

    def _arguments(self, e: tree.Call, names: Environment) -> list[Argument]:
        given: list[Argument] = []
        for a in e.args:
            value = self._scope(a, names) or self.value(a.value, names)
            name = "*" if a.splat else a.name.text if a.name is not None else None
            given.append(Argument(name, a.value, value, a.value.span if a.name is None else a.name.span))
        return given

    def _scope(self, a: tree.Arg, names: Environment) -> Static | None:
        """The value of `scope = …` if it names no scope, which is reported; else None."""
        if a.name is None or a.name.text != "scope" or not isinstance(a.value, tree.Ref) or a.value.name.text in names:
            return None
        name = a.value.name
        help = f"the scopes are {listed(sorted(SCOPES), 'and')}"
        self._report(unknown("MS201", name, "storage scope", name.text, SCOPES, help=help))
        return ANY

    def _operation(
        self,
        signature: Signature,
        name: tree.Name,
        given: Given,
        method: bool,
        names: Environment,
    ) -> Static | tuple[Static, ...]:
        self._mention(name.span, name.text, Static(Kind.ANY), None)
        self._new_axes |= may_give_axes(signature)
        self._changed |= signature.group not in (Group.GETTER, Group.SAMPLER)
        if method and signature.params and not accepts(signature.params[0].kind, given[0].static):
            what = f"`{signature.name}` is an operation of {signature.params[0].kind.with_article}"
            this = describe(given[0].static)
            self._report(fault("MS203", given[0].value, f"{what}, this is {this}", help=signature.text))
            return results_of(signature, ())
        bound = bind(signature, name, given, self._report)
        for param, at, value in bound:
            if not accepts(param.kind, value):
                what = f"`{param.name}` of `{signature.name}` must be {param.kind.with_article}"
                help = list_help(param, at, value) or signature.text
                self._report(fault("MS203", at, f"{what}, this is {describe(value)}", help=help))
            if param.name in signature.consumes and isinstance(at, tree.Ref) and at.name.text in names:
                self._consumed[at.name.text] = Death(name.span, signature.name)
        return results_of(signature, bound)


_NO_PROGRAM = "write `schedule … for PROGRAM { … }`: the blocks and buffers of that program are then in scope"
"""Help where a name is unknown in a schedule that names no program."""


def outcomes_of(condition: tree.Expr, names: Environment) -> tuple[Outcomes | None, Outcomes | None]:
    """The outcomes of a fork for which a condition holds, and for which it fails; None where it is not about a fork."""
    match condition:
        case tree.Group(items=(inner,)):
            return outcomes_of(inner, names)
        case tree.Unary(op="not", operand=inner):
            holds, fails = outcomes_of(inner, names)
            return fails, holds
        case tree.Binary(op="==" | "!=" as op, left=tree.Ref(name=a), right=tree.Ref(name=b)):
            for name, case in ((a.text, b.text), (b.text, a.text)):
                bound = names.get(name)
                cases = bound.value.cases if bound is not None else None
                if bound is None or bound.span is None or cases is None or case not in cases:
                    continue
                same, other = Outcomes(bound.span, frozenset({case})), Outcomes(bound.span, frozenset(cases) - {case})
                return (same, other) if op == "==" else (other, same)
    return None, None


def _callable(names: Environment, module: Module) -> Iterator[str]:
    """The names that can be called."""
    yield from (n for n, b in names.items() if b.value.kind in (Kind.ANY, Kind.RULE, Kind.SPACE))
    for name in module.names:
        thing = module.find(name)
        if isinstance(thing, Native) or (
            isinstance(thing, Found) and isinstance(thing.item, tree.Fn | tree.Rule | tree.Schedule | tree.Space)
        ):
            yield name


def _no_elements(e: tree.Index, base: Static) -> Diagnostic:
    """The error of indexing what is not a list; a block's axis by its name in quotes is a member."""
    match base.kind, e.base, e.items:
        case Kind.BLOCK, tree.Ref(name=block), (tree.String(value=axis),):
            right = f"{block.text}.{axis}"
            fixes = (Fix(f"write `{right}`", e.span, right),)
            return fault("MS203", e, f"{describe(base)} has no elements", help=f"write `{right}`", fixes=fixes)
    return fault("MS203", e, f"{describe(base)} has no elements")
