"""Ratios in the page on performance are known well enough to mean something."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

PAGE = (Path(__file__).parents[3] / "docs" / "performance.md").read_text()
NUMBER = r"(\d+(?:\.\d+)?)"
INTERVAL = re.compile(rf"\[{NUMBER}, {NUMBER}\]|\| *{NUMBER} to {NUMBER} *(?=\|)")
WIDEST = 2.0
"""How many times its lower end the upper end of an interval is at most."""


def intervals(text: str) -> list[tuple[float, float]]:
    """The intervals of tables: `[0.98, 1.03]`, or a cell `0.98 to 1.03`."""
    found = []
    for line in text.splitlines():
        if line.startswith("|"):
            for match in INTERVAL.finditer(line):
                low, high = (float(x) for x in match.groups() if x is not None)
                found.append((low, high))
    return found


def test_intervals_are_read() -> None:
    assert intervals("| gemm | 2.4 [0.7, 53.0] | 0.98 to 1.03 | 4 to 5 |\n3 to 9 s") == [
        (0.7, 53),
        (0.98, 1.03),
        (4, 5),
    ]


def test_the_page_has_intervals() -> None:
    assert len(intervals(PAGE)) >= 30


@pytest.mark.parametrize("interval", intervals(PAGE), ids=str)
def test_no_interval_is_so_wide_that_it_says_nothing(interval: tuple[float, float]) -> None:
    low, high = interval
    assert low <= high <= WIDEST * low
