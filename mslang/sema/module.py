"""A module: one `.ms` file with its items, and what its names mean."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import cached_property
from types import MappingProxyType
from typing import TypeVar

import msgspec

from mslang.diagnostics import Diagnostic, Severity
from mslang.sema.native import BUILTINS, MODULES, TARGET_KINDS, Native
from mslang.syntax import tree

NAMED = (tree.Const, tree.Target, tree.Program, tree.Schedule, tree.Rule, tree.Fn, tree.Space, tree.Intrin)
"""The items that have a name which others may use."""

NamedItem = tree.Const | tree.Target | tree.Program | tree.Schedule | tree.Rule | tree.Fn | tree.Space | tree.Intrin

_Item = TypeVar("_Item", bound=tree.Item)


class Found(msgspec.Struct, frozen=True):
    """What a name means: an item, the module it stands in and where the item starts there."""

    module: Module
    placed: tree.PlacedItem

    @property
    def item(self) -> NamedItem:
        """The item."""
        assert isinstance(self.placed.item, NAMED)
        return self.placed.item

    @property
    def role(self) -> str:
        """The keyword of the item."""
        return role_of(self.placed.item)


class Whole(msgspec.Struct, frozen=True):
    """A name that stands for a module: `use std.math as m`. `natives` is its dotted name in the table of natives."""

    module: Module | None
    natives: str | None = None


Thing = Found | Native | Whole


def role_of(item: tree.AnyItem) -> str:
    """The keyword of an item."""
    return item.keyword if isinstance(item, tree.BadItem) else type(item).__name__.lower()


class Module(msgspec.Struct, frozen=True, dict=True, eq=False):
    """A file with its names resolved. Two modules are equal only if they are the same object.

    `problems` are what was found of names and uses; `diagnostics` adds syntax and what `check` finds in each item.
    """

    path: str
    file: tree.File
    check: Callable[[Module], Iterable[Diagnostic]]
    items: Mapping[str, tree.PlacedItem] = MappingProxyType({})
    imports: Mapping[str, Thing] = MappingProxyType({})
    problems: tuple[Diagnostic, ...] = ()
    library: Mapping[str, Thing] = MappingProxyType({})
    """Modules named in full in the text (`std.tiling.multi_level`), by their dotted name."""
    lost: frozenset[str] = frozenset()
    """Names that a faulty `use` fails to import; uses of them are not reported again."""
    packages: frozenset[str] | None = None
    """The installed packages whose primitives its schedules may use (None: all)."""

    def _of(self, kind: type[_Item]) -> Mapping[str, _Item]:
        return MappingProxyType({n: p.item for n, p in self.items.items() if isinstance(p.item, kind)})

    @property
    def programs(self) -> Mapping[str, tree.Program]:
        """The module's own programs."""
        return self._of(tree.Program)

    @property
    def schedules(self) -> Mapping[str, tree.Schedule]:
        """The module's own schedules."""
        return self._of(tree.Schedule)

    @property
    def rules(self) -> Mapping[str, tree.Rule]:
        """The module's own rules."""
        return self._of(tree.Rule)

    @property
    def fns(self) -> Mapping[str, tree.Fn]:
        """The module's own helpers."""
        return self._of(tree.Fn)

    @property
    def spaces(self) -> Mapping[str, tree.Space]:
        """The module's own spaces."""
        return self._of(tree.Space)

    @property
    def targets(self) -> Mapping[str, tree.Target]:
        """The module's own targets."""
        return self._of(tree.Target)

    @property
    def consts(self) -> Mapping[str, tree.Const]:
        """The module's own consts."""
        return self._of(tree.Const)

    @property
    def intrins(self) -> Mapping[str, tree.Intrin]:
        """The module's own intrinsics."""
        return self._of(tree.Intrin)

    @property
    def tests(self) -> tuple[tree.PlacedItem, ...]:
        """The tests, in order."""
        return tuple(p for p in self.file.items if isinstance(p.item, tree.Test))

    @property
    def names(self) -> tuple[str, ...]:
        """Every name that an item of the module may use without dots."""
        return (*self.items, *self.imports, *BUILTINS)

    def find(self, name: str) -> Thing | None:
        """What `name` (dots allowed: `m.pi`, `std.cpu.avx512`) means in this module, or None."""
        if name in self.items:
            return Found(self, self.items[name])
        if name in self.imports:
            return self.imports[name]
        if name in self.library:
            return self.library[name]
        if name in BUILTINS:
            return BUILTINS[name]
        head, dot, last = name.rpartition(".")
        return member(self.find(head), last) if dot else None

    @cached_property
    def diagnostics(self) -> tuple[Diagnostic, ...]:
        """Everything found in the file, by place: syntax, names, programs."""
        found = (*self.file.diagnostics, *self.beside_syntax_errors((*self.problems, *self.check(self))))
        return tuple(sorted(dict.fromkeys(found), key=lambda d: (d.span is None, d.span, d.code)))

    def beside_syntax_errors(self, found: Iterable[Diagnostic]) -> Iterator[Diagnostic]:
        """The findings that do not follow from a syntax error of this file: those on a line without one, apart from
        unknown names that a line with one may declare."""
        text = self.file.text
        broken = {self._line(d.span.start) for d in self.file.diagnostics if d.span is not None}
        lines = (text[start:].partition("\n")[0] for start in broken)
        words = {word for line in lines for word in _WORD.findall(line)}
        for d in found:
            if d.span is None or (d.path is not None and d.path != self.path):
                yield d
                continue
            follows = d.code in ("MS101", "MS201") and text[d.span.start : d.span.end] in words
            if self._line(d.span.start) not in broken and not follows:
                yield d

    def _line(self, offset: int) -> int:
        return self.file.text.rfind("\n", 0, offset) + 1

    @property
    def errors(self) -> tuple[Diagnostic, ...]:
        """The diagnostics that are errors."""
        return tuple(d for d in self.diagnostics if d.severity is Severity.ERROR)


_WORD = re.compile(r"\w+")


def member(thing: Thing | None, name: str) -> Thing | None:
    """What `name` means in a module that another name stands for."""
    if not isinstance(thing, Whole):
        return None
    if thing.module is not None:
        found = thing.module.find(name) if name not in BUILTINS else None
        if found is not None:
            return found
    return MODULES.get(thing.natives or "", {}).get(name)


def exported(thing: Whole) -> tuple[str, ...]:
    """The names that can be used from a module."""
    own = () if thing.module is None else (*thing.module.items, *thing.module.imports)
    return (*own, *MODULES.get(thing.natives or "", {}))


__all__ = ["NAMED", "TARGET_KINDS", "Found", "Module", "NamedItem", "Thing", "Whole", "exported", "member", "role_of"]
