"""Which records of a candidate count, and how candidates are ordered: one rule for all stores."""

from __future__ import annotations

from collections.abc import Iterable
from operator import attrgetter
from typing import NamedTuple, TypeVar

from mslang.brevity import brief
from mslang.diagnostics import MsError, problem
from mslang.tune.record import Conditions, Record


class Brief(NamedTuple):
    """What decides the place of a record among others; all of it is read only where it has one."""

    id: int
    workload: str
    target: str
    machine: str
    compiler: str
    candidate: str
    cost: float | None
    conditions: Conditions | None


E = TypeVar("E", Brief, Record)

candidate_of = attrgetter("workload", "target", "machine", "compiler", "candidate")
"""What is one candidate, in whichever run it was tried: another compiler makes another one of it."""

place_of = attrgetter("workload", "target", "machine", "compiler")
"""Candidates of which are compared with each other."""


def ranked(records: Iterable[E]) -> list[E]:
    """The candidates that have a time, fastest first.

    Outcomes with warm and with cold caches are judged apart, and so are those at different sizes: a time-out with cold
    caches leaves a warm time as it is.

    Args:
        records: in the order that they were made; of a candidate that has several the last one counts.
    """
    last: dict[tuple[object, Conditions], E] = {}
    known: set[Conditions] = set()
    for r in records:
        candidate, own = candidate_of(r), r.conditions
        for each in known if own is None else (own,):
            last.pop((candidate, each), None)  # (so that the values stay in the order that they were made)
        if own is not None:
            known.add(own)
            last[candidate, own] = r
    return sorted(alike(r for r in last.values() if r.cost is not None), key=lambda r: r.cost or 0.0)


def require_count(n: object) -> None:
    """Raise MsError MS706 unless `n` is a number of records to give."""
    if isinstance(n, bool) or not isinstance(n, int) or n < 0:
        why = "it is a whole number from 0 on"
        raise MsError(problem("MS706", f"`n`, the number of records to give, is {brief(repr(n))}", why=why))


def alike(records: Iterable[E]) -> list[E]:
    """Those whose times may be compared: with warm and with cold caches they are not, nor at different sizes.

    Args:
        records: with a time each, in the order that they were made: of each program, target, machine and compiler
            those count that were taken under the conditions of the last one.
    """
    found = list(records)
    last = {place_of(r): r.conditions for r in found}
    return [r for r in found if r.conditions == last[place_of(r)]]
