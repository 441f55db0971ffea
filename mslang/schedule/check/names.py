"""Names in schedules: what each denotes, and errors of those that denote nothing."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from mslang.diagnostics import Diagnostic, Span
from mslang.ops.signature import Kind
from mslang.schedule.check.deaths import dead
from mslang.schedule.check.kinds import ANY, Environment, Static, may_be_made
from mslang.schedule.check.scope import item_value, native_value
from mslang.schedule.check.unknown_names import certain_help, in_scope
from mslang.sema.library_names import library_help
from mslang.sema.module import Found, Module
from mslang.sema.native import BUILTINS, Native
from mslang.sema.refer import dotted_name
from mslang.sema.report import unknown
from mslang.syntax import tree
from mslang.transform.registries import Registry
from mslang.transform.registry import OPERATIONS

Mentioned = Callable[[Span, str, Static, Span | None], None]


class Names:
    """The names of one item: those of its scope, of its module and of the library."""

    def __init__(
        self, module: Module, registry: Registry, report: Callable[[Diagnostic], None], mention: Mentioned
    ) -> None:
        self.module = module
        self.registry = registry
        self._report = report
        self._mention = mention
        self.any_name = False
        """Whether names may denote blocks and buffers of an unknown program."""
        self.no_program = False
        """Whether the item is a schedule that names no program."""
        self.changed = False
        """Whether the program was changed: it may have blocks and buffers that the text does not show."""

    def target(self, e: tree.Expr | None) -> Static:
        """The value of `machine`: the target named after `on`."""
        if e is not None and isinstance(e, tree.Ref | tree.Member):
            name = dotted_name(e)
            thing = self.module.find(name) if name is not None else None
            if isinstance(thing, Found):
                self._mention(e.span, name or "", item_value(thing.item), None)
        return Static(Kind.ANY)

    def value(self, name: tree.Name, names: Environment) -> Static:
        """What a name denotes."""
        bound = names.get(name.text)
        if bound is not None:
            self._mention(name.span, name.text, bound.value, bound.span)
            if bound.death is not None:
                self._report(dead(name, bound.death, names))
            return bound.value
        if name.text in OPERATIONS:
            return ANY
        thing = self.module.find(name.text)
        if thing is None:
            if self.registry.find(name.text) is None and not (self.changed and may_be_made(name.text, names)):
                self.unknown(name, names)
            return ANY
        value = item_value(thing.item) if isinstance(thing, Found) else native_value(thing)
        self._mention(name.span, name.text, value, None)
        return value

    def dotted(self, e: tree.Member, names: Environment) -> Static | None:
        """The value of a name of the module that is written with dots; None if `e` is a member of a value."""
        whole = dotted_name(e)
        if whole is None or whole.partition(".")[0] in names:
            return None
        thing = self.module.find(whole)
        if thing is None:
            return None
        value = item_value(thing.item) if isinstance(thing, Found) else native_value(thing)
        self._mention(e.name.span, whole, value, None)
        return value

    def unknown(self, name: tree.Name, names: Environment, called: bool = False) -> None:
        """Report a name that denotes nothing, where it is certain that it denotes nothing."""
        reason = self.registry.problem(name.text)
        if reason is not None:
            self._report(reason.at(name.span))
        elif called:
            known = (*_callable(names, self.module), *self.registry.operations, *BUILTINS)
            self._report(unknown("MS201", name, "function", name.text, known, help=library_help(name.text)))
        elif not self.any_name:
            known = () if self.no_program else (*names, *self.module.names)
            help = library_help(name.text) or (_NO_PROGRAM if self.no_program else in_scope(names))
            certain = certain_help(name, names)
            self._report(certain or unknown("MS201", name, "name", name.text, known, help=help))


_NO_PROGRAM = "write `schedule … for PROGRAM { … }`: the blocks and buffers of that program are then in scope"
"""Help where a name is unknown in a schedule that names no program."""


def _callable(names: Environment, module: Module) -> Iterator[str]:
    """The names that can be called."""
    yield from (n for n, b in names.items() if b.value.kind in (Kind.ANY, Kind.RULE, Kind.SPACE))
    for name in module.names:
        thing = module.find(name)
        if isinstance(thing, Native) or (
            isinstance(thing, Found) and isinstance(thing.item, tree.Fn | tree.Rule | tree.Schedule | tree.Space)
        ):
            yield name
