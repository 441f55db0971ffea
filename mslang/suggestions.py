"""The known name that an unknown one was probably meant to be."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

FARTHEST = 2
"""Names that differ by more edits than this are not suggested."""


def nearest(name: str, candidates: Iterable[str]) -> str | None:
    """The candidate that `name` was probably meant to be, or None.

    Differences of case come first; then the fewest edits (a character inserted, removed or replaced, or two neighbours
    swapped), at most two, and at most one in names of up to five characters. The caller passes candidates of the kind
    that is wanted.

    >>> nearest("perfect_tlie", ["tile", "perfect_tile"])
    'perfect_tile'
    >>> nearest("gather", ["vectorize"]) is None
    True
    """
    known = sorted(set(candidates))
    folded = [c for c in known if c != name and c.lower() == name.lower()]
    if folded:
        return folded[0]
    if len(name) < 2:
        return None
    allowed = 1 if len(name) < 6 else FARTHEST
    near = [(d, c) for c in known if len(c) > 1 and 0 < (d := _edits(name, c, allowed)) <= allowed]
    return min(near)[1] if near else None


def did_you_mean(name: str, candidates: Iterable[str]) -> str | None:
    """The help of a message about an unknown name, or None if nothing known is near."""
    near = nearest(name, candidates)
    return None if near is None else f"did you mean `{near}`?"


def listed(words: Sequence[str], last: str) -> str:
    """Words as a list in a sentence.

    >>> listed(["`i`", "`j`", "`k`"], "or")
    '`i`, `j` or `k`'
    """
    return f" {last} ".join(filter(None, (", ".join(words[:-1]), words[-1])))


def _edits(a: str, b: str, most: int) -> int:
    """The edits between two names (optimal string alignment), or `most + 1` if there are more."""
    if abs(len(a) - len(b)) > most:
        return most + 1
    before: list[int] = []
    last = list(range(len(b) + 1))
    for i, x in enumerate(a, 1):
        row = [i]
        for j, y in enumerate(b, 1):
            edits = min(last[j] + 1, row[j - 1] + 1, last[j - 1] + (x != y))
            if i > 1 and j > 1 and x == b[j - 2] and a[i - 2] == y:
                edits = min(edits, before[j - 2] + 1)
            row.append(edits)
        if min(row) > most:
            return most + 1
        before, last = last, row
    return last[-1]
