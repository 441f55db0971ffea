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
from mslang.diagnostics import Diagnostic, Severity, Span

FORMATS = ("text", "json", "sarif", "github")

_COLOURS = {"error": "\x1b[1;31m", "warning": "\x1b[1;33m", "information": "\x1b[1;36m", "note": "\x1b[1m", "rail": "\x1b[34m"}


class Texts:
    """Source texts by path, read when first asked for, with the place of an offset in lines and columns."""

    def __init__(self, known: dict[str, str] | None = None) -> None:
        self._texts: dict[str, str | None] = dict(known or {})
        self._starts: dict[str, list[int]] = {}

    def text(self, path: str) -> str | None:
        """The text, or None if it cannot be read."""
        if path not in self._texts:
            try:
                self._texts[path] = Path(path).read_text(encoding="utf-8")
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
    width = (end - column if last == line else len(source) - column + 1) or 1
    number = str(line)
    gutter = " " * len(number)
    shown = source.replace("\t", " ")
    return [
        f"{gutter} {paint('rail', '-->')} {path}:{line}:{column}",
        f"{gutter} {paint('rail', '|')}",
        f"{paint('rail', number + ' |')} {shown}",
        f"{gutter} {paint('rail', '|')} {' ' * (column - 1)}{paint('error', '^' * max(width, 1))}",
    ]


# ------------------------------------------------------------------ for machines
def as_json(d: Diagnostic, texts: Texts) -> dict[str, Any]:
    """A diagnostic as plain data; positions count from 1, offsets from 0."""
    return {
        "kind": "diagnostic", "code": d.code, "severity": d.severity.value, "message": d.message, "why": d.why,
        "help": d.help, **_position(d.path, d.span, texts),
        "notes": [{"message": n.message, **_position(n.path or d.path, n.span, texts)} for n in d.notes],
        "fixes": [{"title": f.title, "text": f.text, **_position(d.path, f.span, texts)} for f in d.fixes],
    }


def _position(path: str | None, span: Span | None, texts: Texts) -> dict[str, Any]:
    if path is None or span is None:
        return {"path": path}
    line, column = texts.place(path, span.start)
    end_line, end_column = texts.place(path, span.end)
    return {"path": path, "start": span.start, "end": span.end, "line": line, "column": column,
            "end_line": end_line, "end_column": end_column}


_SARIF_LEVEL = {Severity.ERROR: "error", Severity.WARNING: "warning", Severity.INFORMATION: "note"}


def as_sarif(diagnostics: Iterable[Diagnostic], texts: Texts) -> dict[str, Any]:
    """One SARIF 2.1.0 log (OASIS, 2020)."""
    found = tuple(diagnostics)
    results = []
    for d in found:
        message = " ".join(x for x in (d.message, d.why, d.help) if x)
        result: dict[str, Any] = {"ruleId": d.code, "level": _SARIF_LEVEL[d.severity], "message": {"text": message}}
        at = _position(d.path, d.span, texts)
        if at["path"] is not None:
            region = {"startLine": at.get("line", 1), "startColumn": at.get("column", 1),
                      "endLine": at.get("end_line", 1), "endColumn": at.get("end_column", 1)}
            result["locations"] = [{"physicalLocation": {"artifactLocation": {"uri": at["path"]}, "region": region}}]
        results.append(result)
    driver = {"name": "mslang", "version": __version__, "rules": [{"id": c} for c in sorted({d.code for d in found})]}
    return {"version": "2.1.0", "$schema": "https://json.schemastore.org/sarif-2.1.0.json",
            "runs": [{"tool": {"driver": driver}, "results": results}]}


def as_github(d: Diagnostic, texts: Texts) -> str:
    """One workflow command that GitHub shows beside the line."""
    level = {"error": "error", "warning": "warning"}.get(d.severity.value, "notice")
    at = _position(d.path, d.span, texts)
    place = f"file={at['path']},line={at.get('line', 1)},col={at.get('column', 1)}," if at["path"] else ""
    text = " ".join(x for x in (d.message, d.why, d.help) if x)
    for plain, escaped in (("%", "%25"), ("\r", "%0D"), ("\n", "%0A")):
        text = text.replace(plain, escaped)
    return f"::{level} {place}title={d.code}::{text}"
