"""How diagnostics look: frames that point at the place, SARIF and annotations that other tools can read."""

import io
import json
import os
import sys
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from mslang.cli.main import main
from mslang.cli.render import FORMATS, print_diagnostics
from mslang.diagnostics import Diagnostic, Fix, Span, problem
from mslang.rendering import Texts, as_text


def at(text: str, what: str, path: str = "a b/c,d.ms") -> tuple[Diagnostic, Texts]:
    start = text.index(what)
    found = problem("MS101", "unknown name", span=Span(start, start + len(what)), why="100 %\nreally")
    return found.placed(path, 0), Texts({path: text})


@pytest.mark.parametrize(
    ("text", "before"),
    [
        ("    x = what", 8),
        ("\tx = what", 5),
        ("é = what", 4),
        ("🚀🚀 = what", 7),
        ("e\u0301 = what", 4),
        ("first line\nsecond = what", 9),
    ],
    ids=["plain", "tab", "accent", "wide", "combining", "second line"],
)
def test_carets_stand_under_the_place(text: str, before: int) -> None:
    lines = as_text(*at(text, "what")).splitlines()
    assert lines[4].split("|", 1)[1] == " " + " " * before + "^^^^"


def test_a_long_line_is_shown_around_the_place() -> None:
    text = "x = " + "a + " * 1000 + "what" + " + b" * 1000
    lines = as_text(*at(text, "what")).splitlines()
    assert max(map(len, lines)) < 180
    source, carets = lines[3], lines[4]
    assert source[carets.index("^") : carets.rindex("^") + 1] == "what"
    assert source.split("|")[1].startswith(" …") and source.endswith("…")


def test_a_place_over_several_lines_ends_with_the_first() -> None:
    text = "let x = (1 +\n 2)"
    lines = as_text(*at(text, "(1 +\n 2)")).splitlines()
    assert lines[4].rstrip().endswith("^^^^") and lines[4].count("^") == 4


def written(form: str, diagnostics: list[Diagnostic], texts: Texts) -> str:
    out = io.StringIO()
    print_diagnostics(diagnostics, form, stream=out, texts=texts)
    return out.getvalue()


def test_sarif_has_the_shape_of_the_standard() -> None:
    found, texts = at("x = 1\ny = what", "what")
    log: dict[str, Any] = json.loads(written("sarif", [found, problem("MS702", "no file")], texts))
    assert log["version"] == "2.1.0" and log["$schema"].endswith("sarif-2.1.0.json")
    run = log["runs"][0]
    rules = [r["id"] for r in run["tool"]["driver"]["rules"]]
    assert run["tool"]["driver"]["name"] == "mslang" and rules == ["MS101", "MS702"]
    assert all(r["ruleId"] in rules and r["message"]["text"] and r["level"] == "error" for r in run["results"])
    place = run["results"][0]["locations"][0]["physicalLocation"]
    assert place["artifactLocation"]["uri"] == "a%20b/c%2Cd.ms"
    assert place["region"] == {"startLine": 2, "startColumn": 5, "endLine": 2, "endColumn": 9}
    assert "locations" not in run["results"][1]


def test_annotations_escape_what_would_end_them() -> None:
    found, texts = at("what", "what")
    assert written("github", [found], texts) == (
        "::error file=a b/c%2Cd.ms,line=1,col=1,title=MS101::unknown name; 100 %25%0Areally\n"
    )


@pytest.mark.parametrize("form", FORMATS)
def test_nothing_found_is_said_in_every_form(form: str) -> None:
    text = written(form, [], Texts())
    assert (json.loads(text)["runs"][0]["results"] == []) if form == "sarif" else text == ""


def test_a_file_that_is_gone_is_no_fault() -> None:
    found = problem("MS101", "unknown", span=Span(5, 7)).placed("not/there.ms", 0)
    assert as_text(found, Texts()).splitlines() == ["error[MS101]: unknown", "  --> not/there.ms"]


def test_control_characters_are_signs() -> None:
    found, texts = at("x = `\x1b[31m\u202e` + what", "what", "\x9b.ms")
    found = replace(found, message="unknown \x07", why="a\tb\r", help="\x7f", fixes=(Fix("\x1b", Span(0, 0), ""),))
    shown = as_text(found, texts)
    assert all(c in "\t\n" or c.isprintable() for c in shown)
    source, carets = shown.splitlines()[3:5]
    assert source[carets.index("^") :] == "what"


@pytest.mark.parametrize("words", [["check"], ["expand"]])
def test_characters_that_the_output_has_not_are_escaped(
    words: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "x.ms").write_text(
        'program p(out Y: f32[8]) { attr "→" = 1 block b[i: 8] { Y[i] = → } }\n'
        if words == ["check"]
        else 'program p(out Y: f32[8]) { attr "→" = 1 block b[i: 8] { Y[i] = 1.0 } }\n',
        encoding="utf-8",
    )
    out = io.BytesIO()
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(out, encoding="ascii"))
    assert main([*words, str(tmp_path / "x.ms")]) == (words == ["check"])
    assert b"\\u2192" in out.getvalue()


def test_a_name_that_is_no_text_is_escaped() -> None:
    path = os.fsdecode(b"caf\xe9 1.ms")
    found, texts = at("what", "what", path)
    place = json.loads(written("sarif", [found], texts))["runs"][0]["results"][0]["locations"][0]
    assert place["physicalLocation"]["artifactLocation"]["uri"] == "caf%E9%201.ms"
