"""What an edit leaves as it was: the items before it and, shifted, those after it."""

from __future__ import annotations

from typing import NamedTuple

from mslang.syntax.literals import LONG_QUOTE
from mslang.syntax.split import has_odd_quotes, looks_like_head
from mslang.syntax.tree import File, PlacedItem


class Change(NamedTuple):
    """The first `kept` items stand; reading goes on at `start`, up to a place in `stops`, after which
    the old items stand again, `shift` characters later.
    """

    kept: int
    start: int
    stops: frozenset[int]
    shift: int


def find_change(old: File, text: str) -> Change | None:
    """How far the items of `old` hold for the changed text; None if all must be read again."""
    if has_odd_quotes(text) or has_odd_quotes(old.text) or not text.startswith(old.leading):
        return None
    kept = _items_before(old, text)
    if any(_may_reach_on(placed) for placed in old.items[:kept]):
        return None
    start = old.items[kept].start if kept < len(old.items) else len(old.leading)
    shift = len(text) - len(old.text)
    stops = frozenset(place + shift for place in _places_after(old, text, start) if place + shift > start)
    return Change(kept, start, stops, shift)


def _items_before(old: File, text: str) -> int:
    """The number of items that the edit cannot touch: one that it touches can swallow, or free, the item before it."""
    same = 0
    for placed in old.items:
        if not text.startswith(placed.parsed.text, placed.start):
            break
        same += 1
    kept = max(0, same - 2)
    while kept and not looks_like_head(old.text, old.items[kept].start):
        kept -= 1
    return kept


def _may_reach_on(placed: PlacedItem) -> bool:
    """Could a string that is open in this item be closed by text after it?"""
    return bool(placed.parsed.diagnostics) and LONG_QUOTE in placed.parsed.text


def _places_after(old: File, text: str, start: int) -> list[int]:
    """The starts of the items from which on the text is as it was."""
    places: list[int] = []
    end = len(text)
    for placed in reversed(old.items):
        begin = end - len(placed.parsed.text)
        if placed.start <= start or begin < 0 or text[begin:end] != placed.parsed.text:
            break
        if looks_like_head(old.text, placed.start):
            places.append(placed.start)
        end = begin
    return places
