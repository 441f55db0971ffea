"""Calls in schedules: of operations, functions, rules and distributions, and the names that they consume."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from mslang.diagnostics import Diagnostic
from mslang.ir.program import SCOPES
from mslang.ops.library import LIBRARY
from mslang.ops.signature import Group, Kind, Signature
from mslang.schedule.check.arguments import (
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
from mslang.schedule.check.kinds import (
    ANY,
    NOTHING,
    Death,
    Environment,
    Static,
    accepts,
    describe,
    list_of,
    of_kind,
)
from mslang.schedule.check.names import Mentioned, Names
from mslang.schedule.check.scope import item_value, native_value
from mslang.schedule.expressions import WORDS_OF
from mslang.sema.module import Found
from mslang.sema.native import Native
from mslang.sema.report import fault, unknown
from mslang.suggestions import listed
from mslang.syntax import tree
from mslang.transform.registry import OPERATIONS


class Calls:
    """The calls of one item. It collects the names that they consume."""

    def __init__(
        self,
        names: Names,
        value: Callable[[tree.Expr, Environment], Static],
        report: Callable[[Diagnostic], None],
        mention: Mentioned,
    ) -> None:
        self._names = names
        self._module = names.module
        self._registry = names.registry
        self._value = value
        self._report = report
        self._mention = mention
        self._consumed: dict[str, Death] = {}
        self._new_axes = False

    def take_consumed(self) -> Mapping[str, Death]:
        """The names consumed since the last call."""
        consumed, self._consumed = self._consumed, {}
        return consumed

    def take_new_axes(self) -> bool:
        """Whether an operation since the last call may have changed the axes of blocks."""
        found, self._new_axes = self._new_axes, False
        return found

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
            found = self.results(e, names)
            value = found if isinstance(found, Static) else list_of(ANY)
            if value.kind is Kind.TILE:
                return Static(Kind.TILE, length=tile_length(e, signature))
            return value
        self._report(fault("MS202", e, "expected a distribution after `~`", help="e.g. `perfect_tile(mm.i, n = 4)`"))
        return ANY

    def results(self, e: tree.Call, names: Environment) -> Static | tuple[Static, ...]:
        """The value of a call; a tuple if it has several results."""
        match e.callee:
            case tree.Ref(name=name):
                if name.text in names and name.text not in OPERATIONS:
                    self._arguments(e, names)
                    return self._called(self._names.value(name, names), name, e)
                return self._function(name, None, e, names)
            case tree.Member(base=base, name=name):
                item = self._names.dotted(e.callee, names)
                if item is not None:
                    self._arguments(e, names)
                    return self._called(item, name, e)
                return self._function(name, (base, self._value(base, names)), e, names)
        self._arguments(e, names)
        self._value(e.callee, names)
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
        self._names.unknown(name, names, called=True)
        return ANY

    def _called(self, value: Static, name: tree.Name, e: tree.Call) -> Static | tuple[Static, ...]:
        self._new_axes = self._names.changed = True
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
            value = self._scope(a, names) or self._value(a.value, names)
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
        self._names.changed |= signature.group not in (Group.GETTER, Group.SAMPLER)
        if method and signature.params and not accepts(signature.params[0].kind, given[0].static):
            what = f"`{signature.name}` is an operation of {signature.params[0].kind.with_article}"
            this = describe(given[0].static)
            self._report(fault("MS203", given[0].value, f"{what}, this is {this}", help=signature.text))
            return results_of(signature, ())
        bound = bind(signature, name, given, self._report)
        for param, at, value in bound:
            left_out = value.kind is Kind.NOTHING and (param.optional or param.default is None)
            # Where a word is expected it takes precedence over what has its name.
            word = isinstance(at, tree.Ref) and at.name.text in WORDS_OF.get(param.kind, ())
            if not left_out and not word and not accepts(param.kind, value):
                what = f"`{param.name}` of `{signature.name}` must be {param.kind.with_article}"
                help = list_help(param, at, value) or signature.text
                self._report(fault("MS203", at, f"{what}, this is {describe(value)}", help=help))
            if param.name in signature.consumes and isinstance(at, tree.Ref) and at.name.text in names:
                self._consumed[at.name.text] = Death(name.span, signature.name)
        return results_of(signature, bound)
