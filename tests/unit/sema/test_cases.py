"""Each file in `cases/` says at the end of a line what is to be reported there: `# error: MS101`."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path

import pytest

from mslang.diagnostics import Diagnostic
from mslang.sema.modules import load

CASES = Path(__file__).parent / "cases"
EXPECTED = re.compile(r"# (error|warning): (MS\d{3})")


def expected(text: str) -> Counter[tuple[int, str, str]]:
    return Counter(
        (number, severity, code)
        for number, line in enumerate(text.splitlines(), 1)
        for severity, code in EXPECTED.findall(line)
    )


def found(diagnostics: tuple[Diagnostic, ...], text: str) -> Counter[tuple[int, str, str]]:
    return Counter(
        (text.count("\n", 0, d.span.start) + 1 if d.span else 0, str(d.severity), d.code) for d in diagnostics
    )


@pytest.mark.parametrize("name", sorted(p.name for p in CASES.glob("*.ms")))
def test_reports_exactly_what_the_text_says(name: str) -> None:
    path = CASES / name
    text = path.read_text(encoding="utf-8")
    module = load(str(path))
    assert found(module.diagnostics, text) == expected(text)


def test_every_code_has_a_case_and_a_page() -> None:
    pages = Path(__file__).parents[3] / "mslang" / "codes"
    sources = Path(__file__).parents[3] / "mslang" / "sema"
    used = {c for p in sources.glob("*.py") for c in re.findall(r'"(MS1\d\d)"', p.read_text(encoding="utf-8"))}
    cased = {code for p in CASES.glob("*.ms") for _, code in EXPECTED.findall(p.read_text(encoding="utf-8"))}
    assert used - cased == set()
    assert {c for c in used if not (pages / f"{c}.md").exists()} == set()
