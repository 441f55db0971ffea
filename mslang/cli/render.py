"""Diagnostics as text with carets, as JSON lines, as SARIF, and as GitHub annotations."""

from __future__ import annotations

import bisect
import json
import os
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any, TextIO

from mslang import __version__
from mslang.diagnostics import Diagnostic, MsError, Severity, Span

FORMATS = ("text", "json", "sarif", "github")

WIDEST = 160
"""Columns of a source line that a frame shows; of a longer line it shows what is around the place."""

_COLOURS = {
    "error": "\x1b[1;31m",
    "warning": "\x1b[1;33m",
    "information": "\x1b[1;36m",
    "note": "\x1b[1m",
    "rail": "\x1b[34m",
}


class Texts:
    """Source texts by path, read when first asked for, with the place of an offset in lines and columns."""

    def __init__(self, known: dict[str, str] | None = None) -> None:
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


def print_error(error: MsError, as_json: bool, texts: Texts | None = None) -> None:
    """What went wrong, for people on standard error, for machines on standard output."""
    print_diagnostics(
        error.diagnostics, "json" if as_json else "text", stream=sys.stdout if as_json else sys.stderr, texts=texts
    )


def print_diagnostics(
    diagnostics: Iterable[Diagnostic], form: str = "text", *, stream: TextIO | None = None, texts: Texts | None = None
) -> None:
    """Write diagnostics in one of `FORMATS`."""
    out = sys.stdout if stream is None else stream
    texts = Texts() if texts is None else texts
    match form:
        case "json":
            for d in diagnostics:
                print(json.dumps(as_json(d, texts)), file=out)
        case "sarif":
            print(json.dumps(as_sarif(diagnostics, texts), indent=2), file=out)
        case "github":
            for d in diagnostics:
                print(as_github(d, texts), file=out)
        case _:
            colour = out.isatty() and "NO_COLOR" not in os.environ
            for d in diagnostics:
                print(as_text(d, texts, colour), file=out)


# ------------------------------------------------------------------ text
def as_text(d: Diagnostic, texts: Texts, colour: bool = False) -> str:
    """A diagnostic framed with its line and carets, then why, help, notes and fixes."""

    def paint(kind: str, text: str) -> str:
        return f"{_COLOURS[kind]}{text}\x1b[0m" if colour else text

    lines = [f"{paint(d.severity.value, f'{d.severity.value}[{d.code}]')}: {paint('note', d.message)}"]
    if d.path is not None and d.span is not None:
        lines += _frame(d.path, d.span, texts, paint)
    elif d.path is not None:
        lines.append(f"  {paint('rail', '-->')} {d.path}")
    lines += [f"  {paint('rail', '=')} {label}: {text}" for label, text in (("why", d.why), ("help", d.help)) if text]
    for note in d.notes:
        lines.append(f"  {paint('rail', '=')} note: {note.message}")
        path = note.path or d.path
        if note.span is not None and path is not None:
            lines += _frame(path, note.span, texts, paint)
    lines += [f"  {paint('rail', '=')} fix: {fix.title}" for fix in d.fixes]
    return "\n".join(lines)


def _frame(path: str, span: Span, texts: Texts, paint: Any) -> list[str]:
    line, column = texts.place(path, span.start)
    last, end = texts.place(path, span.end)
    source = texts.line(path, line)
    stop = end - 1 if last == line else len(source)
    number = str(line)
    gutter = " " * len(number)
    shown, indent, width = _excerpt(source.replace("\t", " "), column - 1, stop)
    return [
        f"{gutter} {paint('rail', '-->')} {path}:{line}:{column}",
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


# ------------------------------------------------------------------ for machines
def as_json(d: Diagnostic, texts: Texts) -> dict[str, Any]:
    """A diagnostic as plain data; positions count from 1, offsets from 0."""
    return {
        "kind": "diagnostic",
        "code": d.code,
        "severity": d.severity.value,
        "message": d.message,
        "why": d.why,
        "help": d.help,
        **_position(d.path, d.span, texts),
        "notes": [{"message": n.message, **_position(n.path or d.path, n.span, texts)} for n in d.notes],
        "fixes": [{"title": f.title, "text": f.text, **_position(d.path, f.span, texts)} for f in d.fixes],
    }


def _position(path: str | None, span: Span | None, texts: Texts) -> dict[str, Any]:
    if path is None or span is None:
        return {"path": path}
    line, column = texts.place(path, span.start)
    end_line, end_column = texts.place(path, span.end)
    return {
        "path": path,
        "start": span.start,
        "end": span.end,
        "line": line,
        "column": column,
        "end_line": end_line,
        "end_column": end_column,
    }


_SARIF_LEVEL = {Severity.ERROR: "error", Severity.WARNING: "warning", Severity.INFORMATION: "note"}


def as_sarif(diagnostics: Iterable[Diagnostic], texts: Texts) -> dict[str, Any]:
    """One SARIF 2.1.0 log (OASIS, 2020)."""
    from urllib.parse import quote

    from mslang.ide.pages import code_pages

    found = tuple(diagnostics)
    results = []
    for d in found:
        message = "; ".join(x for x in (d.message, d.why, d.help) if x)
        result: dict[str, Any] = {"ruleId": d.code, "level": _SARIF_LEVEL[d.severity], "message": {"text": message}}
        at = _position(d.path, d.span, texts)
        if at["path"] is not None:
            region = {
                "startLine": at.get("line", 1),
                "startColumn": at.get("column", 1),
                "endLine": at.get("end_line", 1),
                "endColumn": at.get("end_column", 1),
            }
            place = {"artifactLocation": {"uri": quote(at["path"])}, "region": region}
            result["locations"] = [{"physicalLocation": place}]
        results.append(result)
    pages = code_pages() if found else {}
    rules = [
        {"id": c, "shortDescription": {"text": pages[c].title if c in pages else c}}
        for c in sorted({d.code for d in found})
    ]
    driver = {"name": "mslang", "version": __version__, "rules": rules}
    return {
        "version": "2.1.0",
        "$schema": "https://json.schemastore.org/sarif-2.1.0.json",
        "runs": [{"tool": {"driver": driver}, "columnKind": "unicodeCodePoints", "results": results}],
    }


def as_github(d: Diagnostic, texts: Texts) -> str:
    """One workflow command that GitHub shows beside the line."""
    level = {"error": "error", "warning": "warning"}.get(d.severity.value, "notice")
    at = _position(d.path, d.span, texts)
    place = ""
    if at["path"] is not None:
        place = f"file={_escaped(at['path'], _IN_PROPERTY)},line={at.get('line', 1)},col={at.get('column', 1)},"
    text = "; ".join(x for x in (d.message, d.why, d.help) if x)
    return f"::{level} {place}title={d.code}::{_escaped(text, _IN_TEXT)}"


_IN_TEXT = (("%", "%25"), ("\r", "%0D"), ("\n", "%0A"))
_IN_PROPERTY = (*_IN_TEXT, (":", "%3A"), (",", "%2C"))


def _escaped(text: str, signs: tuple[tuple[str, str], ...]) -> str:
    for plain, escaped in signs:
        text = text.replace(plain, escaped)
    return text
