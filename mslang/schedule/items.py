"""Values of a module's names in schedules: programs, schedules, rules, fns, spaces, and native functions."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from mslang.brevity import brief
from mslang.ir.expr import Symbol
from mslang.sema.module import Found
from mslang.sema.native import Native
from mslang.syntax import tree


class ItemValue(msgspec.Struct, frozen=True):
    """A name of a module: the item, and the arguments that it was called with, if any (`text` shows both)."""

    found: Found
    text: str
    args: tuple[object, ...] = ()
    kwargs: tuple[tuple[str, object], ...] = ()

    @property
    def item(self) -> tree.AnyItem:
        """The item."""
        return self.found.item

    @property
    def is_rule(self) -> bool:
        """Whether it is a rule."""
        return isinstance(self.item, tree.Rule)

    def __str__(self) -> str:
        return f"the {self.found.role} `{brief(self.text)}`"


class SizedProgram(msgspec.Struct, frozen=True):
    """`p[64, 64, 64]`: a program with its sizes."""

    found: Found
    sizes: tuple[tuple[str, int | Symbol], ...] = ()

    @property
    def values(self) -> Mapping[str, int | Symbol]:
        """The sizes by name."""
        return dict(self.sizes)

    def __str__(self) -> str:
        item = self.found.item
        assert isinstance(item, tree.Program)
        return f"the program `{item.name.text}`"


class NativeValue(msgspec.Struct, frozen=True):
    """A native function or rule, and the arguments that it was called with, if any."""

    native: Native
    args: tuple[object, ...] = ()
    kwargs: tuple[tuple[str, object], ...] = ()

    @property
    def is_rule(self) -> bool:
        """Whether it is a rule."""
        return self.native.role == "rule"

    def __str__(self) -> str:
        return f"the {self.native.role} `{self.native.address}`"
