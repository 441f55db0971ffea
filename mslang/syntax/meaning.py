"""The meaning of a text, independent of layout: to compare a text with its replacement before a tool writes it."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any

from mslang.diagnostics import Span
from mslang.syntax import tree
from mslang.syntax.lexer import tokenize
from mslang.syntax.parse import parse_file

_REMARKS = ("COMMENT", "DOC")


def meaning(text: str, *, without: Collection[str] = (), snapshots: bool = True) -> tuple[Any, ...]:
    """The items of a text as plain data without spans; equal for texts that differ only in layout.

    Args:
        text: the text.
        without: names of items to omit.
        snapshots: whether the texts of snapshots count.
    """
    items = (p.item for p in parse_file("", text).items)
    return tuple(_plain(i, snapshots) for i in items if _name(i) not in without)


def same_meaning(before: Sequence[tree.ParsedItem], after: Sequence[tree.ParsedItem]) -> bool:
    """Whether items differ only in layout, and the second ones have no more syntax errors."""
    if sum(len(p.diagnostics) for p in after) > sum(len(p.diagnostics) for p in before):
        return False
    return [_plain(p.item, True) for p in before] == [_plain(p.item, True) for p in after]


def remarks(text: str) -> list[str]:
    """The comments of a text, unordered."""
    return sorted(" ".join(t.text.split()) for t in tokenize(text) if t.kind in _REMARKS)


def faults(text: str) -> int:
    """The number of syntax errors of a text."""
    return len(parse_file("", text).diagnostics)


def _name(item: tree.AnyItem) -> str | None:
    name = getattr(item, "name", None)
    return name.text if isinstance(name, tree.Name) else None


def _plain(value: object, snapshots: bool) -> Any:
    match value:
        case tree.Snapshot(value=of) if not snapshots:
            return "Snapshot", _plain(of, snapshots)
        case tree.Node():
            fields = (getattr(value, f) for f in value.__struct_fields__)
            return type(value).__name__, *(_plain(x, snapshots) for x in fields if not isinstance(x, Span))
        case tuple():
            return tuple(_plain(x, snapshots) for x in value)
    return repr(value)
