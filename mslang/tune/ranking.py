"""Which records of a candidate count, and how candidates are ordered: one rule for all stores."""

from __future__ import annotations

from collections.abc import Iterable
from operator import attrgetter
from typing import NamedTuple, TypeVar

from mslang.tune.record import Record


class Brief(NamedTuple):
    """What decides the place of a record among others; all of it is read only where it has one."""

    id: int
    workload: str
    target: str
    machine: str
    candidate: str
    cost: float | None
    cold: bool | None


E = TypeVar("E", Brief, Record)

candidate_of = attrgetter("workload", "target", "machine", "candidate")
"""What is one candidate, in whichever run it was tried."""

place_of = attrgetter("workload", "target", "machine")
"""Candidates of which are compared with each other."""


def ranked(records: Iterable[E]) -> list[E]:
    """The candidates that have a time, fastest first.

    Args:
        records: in the order that they were made; of a candidate that has several the last one counts.
    """
    last = {candidate_of(r): r for r in alike(records)}
    timed = [(r.cost, place, r) for place, r in enumerate(last.values()) if r.cost is not None]
    return [r for _, _, r in sorted(timed, key=lambda t: t[:2])]


def alike(records: Iterable[E]) -> list[E]:
    """Those without a time, and those whose times may be compared: with warm and with cold caches they are not.

    Of each program, target and machine the last time decides which of the two count.
    """
    found = list(records)
    cold = {place_of(r): r.cold for r in found if r.cost is not None}
    return [r for r in found if r.cold in (None, cold.get(place_of(r)))]
