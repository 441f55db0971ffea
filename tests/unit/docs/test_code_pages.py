"""Every code that is raised has a page, every page a code; a page has a title and an example, and the example is true.

A page is `# MSnnn: Title in sentence case`, prose, and at least one fenced block. In a block marked
- ```` ```ms error ````   `mslang check` (its static part and its trial draws) reports the page's code;
- ```` ```ms ````         `mslang check` reports no error;
- ```` ```ms shown ````   nothing is checked: the example fails only where it is compiled, run, tuned or imported.
Blocks of other languages (`sh`, `python`, `text`, …) are not checked.
"""

import re
from pathlib import Path
from typing import NamedTuple

import pytest

from mslang.cli.check import refusals
from mslang.diagnostics import Diagnostic, Severity
from mslang.ide.findings import findings
from mslang.ide.snapshot import Snapshot

ROOT = Path(__file__).parents[3]
PAGES = {p.stem: p for p in sorted((ROOT / "mslang" / "codes").glob("*.md"))}
TO_CONVERT = frozenset((Path(__file__).parent / "pages_to_convert.txt").read_text().split())
"""Pages that do not have this form yet; the list only shrinks."""

TITLE = re.compile(r"# (MS\d{3}): (?:[A-Z]|`|[^\w\s]).*[^.\s]")


class Example(NamedTuple):
    code: str
    info: str
    text: str
    number: int


def examples(code: str) -> list[Example]:
    text = PAGES[code].read_text()
    blocks = re.findall(r"^```([^\n`]*)\n(.*?)^```\s*$", text, re.MULTILINE | re.DOTALL)
    return [Example(code, info.strip(), body, k) for k, (info, body) in enumerate(blocks, 1)]


CONVERTED = sorted(PAGES.keys() - TO_CONVERT)
CHECKED = [e for c in CONVERTED for e in examples(c) if e.info in ("ms", "ms error")]


def checked(text: str) -> list[Diagnostic]:
    """What `mslang check` reports of a text."""
    snapshot = Snapshot({"page.ms": text})
    return [*findings(snapshot.module("page.ms")), *refusals(snapshot, "page.ms", 8)]


def test_every_code_has_a_page_and_every_page_a_code() -> None:
    text = "".join(p.read_text() for folder in ("mslang", "lsp") for p in (ROOT / folder).rglob("*.py"))
    used = set(re.findall(r'"(MS\d{3})"', text)) | set(re.findall(r"\[(MS\d{3})\]", text))
    assert used - PAGES.keys() == set()
    assert PAGES.keys() - used == set()


@pytest.mark.parametrize("code", CONVERTED)
def test_a_page_has_a_title_and_a_fenced_example(code: str) -> None:
    first, _, rest = PAGES[code].read_text().partition("\n")
    title = TITLE.fullmatch(first)
    assert title is not None and title[1] == code, first
    assert rest.split("```")[0].strip(), "prose comes before the example"
    assert examples(code)


@pytest.mark.parametrize("example", CHECKED, ids=lambda e: f"{e.code}-{e.number}")
def test_an_example_is_true(example: Example) -> None:
    found = checked(example.text)
    if example.info == "ms error":
        assert example.code in {d.code for d in found}, [f"{d.code}: {d.message}" for d in found]
    else:
        assert [f"{d.code}: {d.message}" for d in found if d.severity is Severity.ERROR] == []
