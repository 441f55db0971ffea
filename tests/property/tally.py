"""What a campaign did: counts by primitive and sampler, and the faults it found."""

from __future__ import annotations

from collections import Counter
from typing import Any, TypeVar

import msgspec

T = TypeVar("T")


class Fault(msgspec.Struct, frozen=True):
    """A pair that went wrong: its number, what it did, and how it showed."""

    pair: int
    what: str
    steps: tuple[str, ...]
    program: str
    generator: str = "stages"


class Tally(msgspec.Struct):
    """What a campaign did: by primitive how often it was tried, applied, and applied after at least three others; by
    sampler how often it was asked, used by a primitive that was applied, and drawn anew for the same structure."""

    pairs: int = 0
    tried: Counter[str] = msgspec.field(default_factory=Counter)
    applied: Counter[str] = msgspec.field(default_factory=Counter)
    late: Counter[str] = msgspec.field(default_factory=Counter)
    drawn: Counter[str] = msgspec.field(default_factory=Counter)
    used: Counter[str] = msgspec.field(default_factory=Counter)
    anew: Counter[str] = msgspec.field(default_factory=Counter)
    checks: Counter[str] = msgspec.field(default_factory=Counter)
    faults: list[Fault] = msgspec.field(default_factory=list)

    def add(self, other: Tally) -> None:
        """Join the other's counts to these."""
        self.pairs += other.pairs
        for mine, its in (
            (self.tried, other.tried),
            (self.applied, other.applied),
            (self.late, other.late),
            (self.drawn, other.drawn),
            (self.used, other.used),
            (self.anew, other.anew),
            (self.checks, other.checks),
        ):
            mine.update(its)
        self.faults += other.faults


def read(data: bytes, kind: type[T]) -> T:
    """A tally, or what holds one, from JSON."""

    def counted(wanted: type, value: Any) -> Any:
        return Counter(value)

    return msgspec.json.decode(data, type=kind, dec_hook=counted)
