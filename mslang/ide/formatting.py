"""Formatting, as the edits that lead to the one layout."""

from __future__ import annotations

from difflib import SequenceMatcher

from mslang.diagnostics import Span
from mslang.ide.snapshot import Snapshot
from mslang.syntax.format import Edit, format_range, format_text


def formatting(snapshot: Snapshot, path: str, span: Span | None = None) -> tuple[Edit, ...]:
    """The edits that format a file, or the items that a span overlaps; none if nothing is to be done.

    Raises:
        MsError: the file cannot be read.
    """
    text = snapshot.module(path).file.text
    return format_range(text, span) if span is not None else line_edits(text, format_text(text))


def line_edits(old: str, new: str) -> tuple[Edit, ...]:
    """Edits of whole lines that turn one text into another."""
    before, after = _lines(old), _lines(new)
    starts = [0]
    for line in before:
        starts.append(starts[-1] + len(line))
    matcher = SequenceMatcher(a=before, b=after, autojunk=False)
    return tuple(
        Edit(Span(starts[a], starts[b]), "".join(after[c:d]))
        for tag, a, b, c, d in matcher.get_opcodes()
        if tag != "equal"
    )


def _lines(text: str) -> list[str]:
    """The lines of a text with their ends. `str.splitlines` would also split at form feeds and the like."""
    *whole, rest = text.split("\n")
    return [*(f"{line}\n" for line in whole), *([rest] if rest else [])]
