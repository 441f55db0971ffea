"""A fault to plant: a function that does something else than the one in its place."""

from __future__ import annotations

import sys
from collections.abc import Callable
from importlib import import_module
from typing import Any

import msgspec

Function = Callable[..., Any]


class Planted(msgspec.Struct, frozen=True):
    """A fault: `hook` names a function as a module knows it (`package.module:name`, `package.module:Class.name`), its
    own or one that it imports; `wrong` makes the faulty one of the right one.

    `pair` is the number of a pair of the campaign by `generator` that showed it, in which half of the tries were of the
    primitives `only`: the first pair to look at. `caught_by` is a file of tests that catch what the campaign cannot;
    `needs` a feature of the processor without which the faulty code is not reached.
    """

    name: str
    hook: str
    wrong: Callable[[Function], Function]
    pair: int = 0
    needs: str | None = None
    only: tuple[str, ...] = ()
    generator: str = "stages"
    caught_by: str | None = None

    @property
    def module(self) -> str:
        """The module that comes to call the faulty function."""
        return self.hook.partition(":")[0]

    @property
    def right(self) -> Function:
        """The function that the fault takes the place of; importing its module."""
        holder, name = self._place()
        found: Function = getattr(holder, name)
        return found

    def plant(self) -> None:
        """Put the fault in place, in this process; before anything else of the program is imported, so that whoever
        imports the function gets the faulty one."""
        assert self.module not in sys.modules
        holder, name = self._place()
        setattr(holder, name, self.wrong(getattr(holder, name)))

    def _place(self) -> tuple[Any, str]:
        path, _, name = self.hook.partition(":")
        holder: Any = import_module(path)
        *outer, last = name.split(".")
        for part in outer:
            holder = getattr(holder, part)
        return holder, last


def finds_nothing(_: Function) -> Function:
    """A check that never objects: it gives no reason, and raises nothing."""
    return lambda *args, **named: None


def says_yes(_: Function) -> Function:
    """A question that is always answered with yes."""
    return lambda *args, **named: True


def as_it_is(_: Function) -> Function:
    """A rewriting that leaves what it is given."""
    return lambda given, *args, **named: given


def says_no(_: Function) -> Function:
    """A question that is always answered with no."""
    return lambda *args, **named: False
