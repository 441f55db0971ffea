"""What the log folder of a run says that its records do not."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import TypeVar

import msgspec

LARGEST = 64.0
"""No model expects that a candidate takes 2 ** 64 times as long as another."""


class GenerationLine(msgspec.Struct, frozen=True):
    """What a report needs of a line of `generations.jsonl`."""

    number: int
    drafted: int = 0
    duplicates: int = 0
    rejected: dict[str, int] | None = None
    quality: float | None = None


class TrialLine(msgspec.Struct, frozen=True):
    """What a report needs of a line of `trials.jsonl`."""

    candidate: str
    predicted: float | None = None
    cost: float | None = None


class EventLine(msgspec.Struct, frozen=True):
    """What a report needs of a line of `events.jsonl`."""

    kind: str
    resumed: int = 0
    strategy: str = ""


Line = TypeVar("Line", GenerationLine, TrialLine, EventLine)


class Log(msgspec.Struct, frozen=True):
    """The log of a run.

    Args:
        generations: the last line of each.
        trials: the first line of each candidate.
        resumed: the numbers of trials on record when the run was resumed.
        strategy: how candidates were searched, and how many there are; empty where that is not known.
        scopes: seconds by scope of the session.
    """

    generations: tuple[GenerationLine, ...]
    trials: tuple[TrialLine, ...]
    resumed: frozenset[int]
    strategy: str
    scopes: dict[str, float]

    @property
    def rejected(self) -> Counter[str]:
        """Candidates that constraints ruled out, by reason."""
        found: Counter[str] = Counter()
        for g in self.generations:
            found.update(g.rejected or {})
        return found

    def predicted(self) -> Iterator[tuple[float, float]]:
        """The cost that the model expected of each trial that it chose, and the one that was measured.

        A model says how many times as long as the best a candidate takes: the best of the trials before it.
        """
        best: float | None = None
        for t in self.trials:
            if t.cost is None or not t.cost > 0:
                continue
            if best is not None and t.predicted is not None and abs(t.predicted) < LARGEST:
                yield best * 2.0**t.predicted, t.cost
            best = t.cost if best is None else min(best, t.cost)


def read_log(folder: Path) -> Log:
    """The log in a folder; lines that cannot be read are left out, and a log that is not there has none.

    A resumed run appends what it replays: a generation that was interrupted is whole the last time, and a candidate
    that was known from other runs is there as often as it was proposed.
    """
    generations = {g.number: g for g in _lines(folder / "generations.jsonl", GenerationLine)}
    trials: dict[str, TrialLine] = {}
    for t in _lines(folder / "trials.jsonl", TrialLine):
        trials.setdefault(t.candidate, t)
    started = [e for e in _lines(folder / "events.jsonl", EventLine) if e.kind == "started"]
    return Log(
        tuple(generations.values()),
        tuple(trials.values()),
        frozenset(e.resumed for e in started if e.resumed),
        started[-1].strategy if started else "",
        _profile(folder / "profile.json"),
    )


def _lines(path: Path, kind: type[Line]) -> list[Line]:
    try:
        lines = path.read_bytes().splitlines()
    except OSError:
        return []
    found = []
    for line in lines:
        try:
            found.append(msgspec.json.decode(line, type=kind))
        except msgspec.DecodeError:
            continue
    return found


def _profile(path: Path) -> dict[str, float]:
    try:
        return msgspec.json.decode(path.read_bytes(), type=dict[str, float])
    except (OSError, msgspec.DecodeError):
        return {}
