"""Diagnostics as text with carets, as JSON lines, as SARIF, and as GitHub annotations."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterable
from typing import Any, TextIO

from mslang import __version__
from mslang.diagnostics import Diagnostic, MsError, Severity, Span
from mslang.rendering import Texts, as_text

FORMATS = ("text", "json", "sarif", "github")


def print_error(error: MsError, as_json: bool, texts: Texts | None = None) -> None:
    """Print an error: as text on standard error, or as data on standard output."""
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


# ------------------------------------------------------------------ machine-readable formats
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
            place = {"artifactLocation": {"uri": quote(os.fsencode(at["path"]))}, "region": region}
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
    """One workflow command that GitHub shows next to the line."""
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
