"""The width of documents, so that they can be read and compared beside code."""

from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
WIDTH = 120
PAGES = [
    *(ROOT / name for name in ("README.md", "ARCHITECTURE.md", "CHANGELOG.md")),
    *sorted((ROOT / "docs").glob("*.md")),
    *sorted((ROOT / "mslang" / "codes").glob("*.md")),
]


def prose(text: str) -> Iterator[tuple[int, str]]:
    """Lines that can be broken, with their numbers: neither of tables nor of fenced blocks, and of more than a word."""
    fenced = False
    for number, line in enumerate(text.splitlines(), 1):
        if line.lstrip().startswith("```"):
            fenced = not fenced
        elif not fenced and not line.lstrip().startswith("|") and " " in line.strip():
            yield number, line


@pytest.mark.parametrize("page", PAGES, ids=lambda p: p.name)
def test_no_line_of_prose_is_too_long(page: Path) -> None:
    long = [f"{page.name}:{n}: {len(line)}" for n, line in prose(page.read_text("utf-8")) if len(line) > WIDTH]
    assert not long


def test_tables_and_fenced_blocks_are_not_prose() -> None:
    text = "a b\n| c d |\n```text\ne f\n```\ng h\nhttps://example.org\n"
    assert list(prose(text)) == [(1, "a b"), (6, "g h")]
