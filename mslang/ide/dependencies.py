"""Dependencies of items: the names that an item mentions, and everything that these mean."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from functools import lru_cache
from typing import NamedTuple

from mslang.caching import cached
from mslang.ide.keyed import Keyed
from mslang.sema.module import Found, Module, Thing, Whole
from mslang.sema.refer import dotted_names
from mslang.syntax import tree
from mslang.transform.registry import OPERATIONS

Dependency = tuple[str, str, str]
"""A name, the file or library that declares it, and the text of the declaration."""


# ------------------------------------------------------------------ names
def names_in(placed: tree.PlacedItem) -> tuple[str, ...]:
    """The names that an item may mention: dotted ones whole and each of their heads, `f` of `x.f()`, and strings that
    are one word: `named("r")` names a rule."""
    return _names_in(Keyed(placed.parsed.text, placed.item))


@cached(budget=1 << 20, weight=lambda names, item: 100 + len(item.key), key=lambda item: item.key)
def _names_in(item: Keyed[tree.AnyItem]) -> tuple[str, ...]:
    text = str(item.key)
    methods = (name for name in _MEMBER.findall(text) if name not in OPERATIONS)
    return tuple(dict.fromkeys((*dotted_names(item.value), *methods, *_QUOTED.findall(text))))


# Read off the text, because another walk of the tree would be felt at every key stroke in a long item.
_MEMBER = re.compile(r"\.(?:\s|#[^\n]*\n)*`?(\w+)")
_QUOTED = re.compile(r'"(\w+)"')


def uses(found: Found) -> Iterator[tuple[str, Thing]]:
    """What the names in an item mean. A test may name the blocks of any program of its module."""
    module = found.module
    if isinstance(found.placed.item, tree.Test):
        yield from ((n, Found(module, module.items[n])) for n in module.programs)
    for name in names_in(found.placed):
        thing = module.find(name)
        if thing is not None:
            yield name, thing


# ------------------------------------------------------------------ what an item depends on
def depends_on(found: Found) -> tuple[Dependency, ...]:
    """The text of an item, and what each name means in it and in the items that it reaches: everything that its check
    and its run may depend on."""
    return _closure(found.module).depends_on(found)


def reached(found: Found) -> tuple[Found, ...]:
    """An item and all items that it names, transitively."""
    return _closure(found.module).reached(found)


@lru_cache(maxsize=8)
def _closure(home: Module) -> _Closure:
    return _Closure(home)


_Place = tuple[str, int]
"""The file and the start of an item."""


class _Item(NamedTuple):
    """What an item depends on directly, and the items among that."""

    dependencies: tuple[Dependency, ...]
    items: Mapping[_Place, Found]


class _Closure:
    """What the items of a module depend on. `home` is that module, whose rules `named` finds; items are read once."""

    def __init__(self, home: Module) -> None:
        self._home = home
        self._items: dict[_Place, _Item] = {}
        self._depends_on: dict[_Place, tuple[Dependency, ...]] = {}

    def depends_on(self, found: Found) -> tuple[Dependency, ...]:
        """See `depends_on`."""
        place = _place(found)
        if place not in self._depends_on:
            used = (d for item in self.reached(found) for d in self._read(item).dependencies)
            self._depends_on[place] = ("", *_meaning(found)), *used
        return self._depends_on[place]

    def reached(self, found: Found) -> tuple[Found, ...]:
        """See `reached`."""
        seen = {_place(found): found}
        queue = [found]
        for this in queue:
            new = {p: item for p, item in self._read(this).items.items() if p not in seen}
            seen |= new
            queue += new.values()
        return tuple(queue)

    def _read(self, found: Found) -> _Item:
        place = _place(found)
        if place not in self._items:
            used = (*uses(found), *self._rules(found))
            items = {_place(thing): thing for _, thing in used if isinstance(thing, Found)}
            self._items[place] = _Item(tuple((name, *_meaning(thing)) for name, thing in used), items)
        return self._items[place]

    def _rules(self, found: Found) -> Iterator[tuple[str, Thing]]:
        """What the strings in an item of another module name at home."""
        if found.module is not self._home:
            for name in _QUOTED.findall(found.placed.parsed.text):
                thing = self._home.find(name)
                if thing is not None:
                    yield name, thing


def _place(found: Found) -> _Place:
    return found.module.path, found.placed.start


def _meaning(thing: Thing) -> tuple[str, str]:
    match thing:
        case Found(module=module, placed=placed):
            return module.path, placed.parsed.text
        case Whole(module=module, natives=natives):
            return natives or "", "" if module is None else module.file.text
    return thing.address, ""
