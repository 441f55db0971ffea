"""A diagnostic as text for people: the source line with carets, then why, help, notes and fixes."""

from __future__ import annotations

import bisect
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from mslang.diagnostics import Diagnostic, Span

WIDEST = 160
"""Columns of a source line that a frame shows; of a longer line it shows what is around the place."""

_COLOURS = {
    "error": "\x1b[1;31m",
    "warning": "\x1b[1;33m",
    "information": "\x1b[1;36m",
    "note": "\x1b[1m",
    "rail": "\x1b[34m",
}


_UNSEEN = {
    **{c: 0x2400 + c for c in range(0x20) if chr(c) not in "\t\n"},
    0x7F: 0x2421,
    **dict.fromkeys((*range(0x80, 0xA0), 0x200E, 0x200F, *range(0x202A, 0x202F), *range(0x2066, 0x206A)), 0xFFFD),
}
"""Signs for control characters, which terminals obey: those that move the cursor or change the order of a line."""


class Texts:
    """Source texts by path, read when first asked for, with the place of an offset in lines and columns."""

    def __init__(self, known: Mapping[str, str] | None = None) -> None:
        self._texts: dict[str, str | None] = dict(known or {})
        self._starts: dict[str, list[int]] = {}

    def text(self, path: str) -> str | None:
        """The text, or None if it cannot be read."""
        if path not in self._texts:
            try:
                self._texts[path] = Path(path).read_text(encoding="utf-8-sig")
            except (OSError, UnicodeDecodeError):
                self._texts[path] = None
        return self._texts[path]

    def place(self, path: str, offset: int) -> tuple[int, int]:
        """Line and column of an offset, both from 1."""
        text = self.text(path)
        if text is None:
            return 1, 1
        if path not in self._starts:
            self._starts[path] = [0, *(k + 1 for k, c in enumerate(text) if c == "\n")]
        starts = self._starts[path]
        line = bisect.bisect_right(starts, min(offset, len(text))) - 1
        return line + 1, min(offset, len(text)) - starts[line] + 1

    def line(self, path: str, number: int) -> str:
        """One line's text, without its end."""
        text = self.text(path) or ""
        lines = text.split("\n")
        return lines[number - 1].rstrip("\r") if number <= len(lines) else ""


def as_text(d: Diagnostic, texts: Texts, colour: bool = False) -> str:
    """A diagnostic framed with its line and carets, then why, help, notes and fixes; control characters as signs."""

    def paint(kind: str, text: str) -> str:
        return f"{_COLOURS[kind]}{text}\x1b[0m" if colour else text

    lines = [f"{paint(d.severity.value, f'{d.severity.value}[{d.code}]')}: {paint('note', _shown(d.message))}"]
    if d.path is not None and d.span is not None:
        lines += _frame(d.path, d.span, texts, paint)
    elif d.path is not None:
        lines.append(f"  {paint('rail', '-->')} {_shown(d.path)}")
    more = (("why", d.why), ("help", d.help))
    lines += [f"  {paint('rail', '=')} {label}: {_shown(text)}" for label, text in more if text]
    for note in d.notes:
        lines.append(f"  {paint('rail', '=')} note: {_shown(note.message)}")
        path = note.path or d.path
        if note.span is not None and path is not None:
            lines += _frame(path, note.span, texts, paint)
    lines += [f"  {paint('rail', '=')} fix: {_shown(fix.title)}" for fix in d.fixes]
    return "\n".join(lines)


def _shown(text: str) -> str:
    return text.translate(_UNSEEN)


def _frame(path: str, span: Span, texts: Texts, paint: Any) -> list[str]:
    if texts.text(path) is None:
        return [f"  {paint('rail', '-->')} {_shown(path)}"]
    line, column = texts.place(path, span.start)
    last, end = texts.place(path, span.end)
    source = texts.line(path, line)
    stop = end - 1 if last == line else len(source)
    number = str(line)
    gutter = " " * len(number)
    shown, indent, width = _excerpt(_shown(source).replace("\t", " "), column - 1, stop)
    return [
        f"{gutter} {paint('rail', '-->')} {_shown(path)}:{line}:{column}",
        f"{gutter} {paint('rail', '|')}",
        f"{paint('rail', number + ' |')} {shown}",
        f"{gutter} {paint('rail', '|')} {' ' * indent}{paint('error', '^' * width)}",
    ]


def _excerpt(line: str, start: int, end: int) -> tuple[str, int, int]:
    """What to show of a line so that `start` is seen; before how many columns the carets stand, and how many."""
    first = max(0, start - WIDEST // 2) if len(line) > WIDEST else 0
    before, after = "…" if first else "", "…" if len(line) > first + WIDEST else ""
    end = min(max(end, start), first + WIDEST)
    shown = f"{before}{line[first : first + WIDEST]}{after}"
    return shown, _columns(before + line[first:start]), max(1, _columns(line[start:end]))


def _columns(text: str) -> int:
    """How many columns of a terminal a text fills."""
    if text.isascii():
        return len(text)
    import unicodedata

    return sum(0 if unicodedata.combining(c) else 2 if unicodedata.east_asian_width(c) in "WF" else 1 for c in text)
