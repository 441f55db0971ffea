"""Values as short texts: long ones and lists cut to what a message can hold, times in a suitable unit."""

from __future__ import annotations

from collections.abc import Iterable

LONGEST = 72
"""Characters of a value that a message quotes."""

MOST = 12
"""Names of a list that a message says."""


def brief(text: object, longest: int = LONGEST) -> str:
    """A text on one line; of a long one the start and the end.

    >>> brief("x" * 100, 11)
    'xxxxx…xxxxx'
    """
    line = " ".join(str(text).split())
    if len(line) <= longest:
        return line
    half = (longest - 1) // 2
    return f"{line[: longest - 1 - half]}…{line[len(line) - half :]}"


def listed(names: Iterable[object], most: int = MOST, empty: str = "none") -> str:
    """Names with commas between them; of many the first and how many more there are.

    >>> listed(["a", "b", "c"], 2)
    'a, b and 1 more'
    """
    known = [brief(n) for n in names]
    if not known:
        return empty
    more = f" and {len(known) - most} more" if len(known) > most else ""
    return ", ".join(known[:most]) + more


def seconds_text(seconds: float, digits: int = 4) -> str:
    """A time in a suitable unit.

    >>> seconds_text(1.52e-3), seconds_text(2.5e-10)
    ('1.52 ms', '0.25 ns')
    """
    for unit, scale in (("s", 1.0), ("ms", 1e-3), ("µs", 1e-6)):
        if seconds >= scale:
            return f"{seconds / scale:.{digits}g} {unit}"
    return f"{seconds / 1e-9:.{digits}g} ns"
