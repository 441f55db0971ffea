"""Record stores as a whole: which records may go, how two stores differ, counts and rates."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable
from datetime import UTC, datetime, timedelta

import msgspec

from mslang.tune.database import Database
from mslang.tune.ranking import candidate_of, ranked
from mslang.tune.record import INCUMBENT, TRIED, Conditions, Outcome, Record

KEPT = frozenset({Outcome.MEASURED, Outcome.CUT_OFF, Outcome.ELSEWHERE})
"""Outcomes of candidates that did not fail."""


class Pruning(msgspec.Struct, frozen=True):
    """Which records may go: those that all the conditions given hold of.

    Args:
        days: made longer ago than so many days.
        keep: not among so many fastest candidates of their program, target, machine and compiler, nor an incumbent
            that these were timed together with: without its time `apply` does not know that they are faster.
        machine: of the machine of this key.
        failed: that did not end with a time or a bound of it.
    """

    days: float | None = None
    keep: int | None = None
    machine: str | None = None
    failed: bool = False


def prunable(records: Iterable[Record], wanted: Pruning, now: datetime | None = None) -> list[int]:
    """The numbers of the records that may go.

    Args:
        records: all records of a store, in order.
        wanted: the conditions.
        now: the time that ages count from (default: the present).
    """
    found = list(records)
    before = None if wanted.days is None else _days_before(now or datetime.now(UTC), wanted.days)
    kept = frozenset[tuple[str, ...]]() if wanted.keep is None else _kept(found, wanted.keep)

    def goes(r: Record) -> bool:
        return not (
            (before is not None and not _made_before(r, before))
            or (wanted.keep is not None and candidate_of(r) in kept)
            or (wanted.machine is not None and r.machine != wanted.machine)
            or (wanted.failed and r.result.outcome in KEPT)
        )

    return [r.id for r in found if r.id is not None and goes(r)]


def _days_before(now: datetime, days: float) -> datetime:
    try:
        return now - timedelta(days=days)
    except OverflowError:  # (before the year 1)
        return datetime.min.replace(tzinfo=UTC)


def _made_before(r: Record, time: datetime) -> bool:
    try:
        made = datetime.fromisoformat(r.created)
    except ValueError:
        return False
    return (made if made.tzinfo is not None else made.replace(tzinfo=UTC)) < time


def _kept(records: list[Record], n: int) -> frozenset[tuple[str, ...]]:
    """The `n` fastest candidates of each program, target, machine and compiler, and the incumbents there."""
    fastest = _fastest(records, n)
    groups = {key[:-1] for key in fastest}
    incumbents = {candidate_of(r) for r in records if r.trial == INCUMBENT}
    return fastest | {key for key in incumbents if key[:-1] in groups}


def _fastest(records: list[Record], n: int) -> frozenset[tuple[str, ...]]:
    """The `n` fastest candidates of each program, target, machine and compiler, under all conditions on record."""
    found: set[tuple[str, ...]] = set()
    for conditions in {r.conditions for r in records} - {None}:
        groups: defaultdict[tuple[str, ...], list[tuple[str, ...]]] = defaultdict(list)
        for key in map(candidate_of, ranked([r for r in records if r.conditions in (None, conditions)])):
            groups[key[:-1]].append(key)
        found.update(key for group in groups.values() for key in group[:n])
    return frozenset(found)


class Difference(msgspec.Struct, frozen=True):
    """The best times of one program, target and machine in two stores, in seconds at the nominal speed (None: none)."""

    program: str
    workload: str
    target: str
    machine: str
    ours: float | None
    theirs: float | None

    @property
    def ratio(self) -> float | None:
        """How many times as long theirs takes."""
        return None if self.ours is None or self.theirs is None else self.theirs / self.ours


def differences(ours: Database, theirs: Database) -> list[Difference]:
    """The best times of two stores by workload, target and machine, those of one store alone too.

    Times with warm and with cold caches are apart, and so are times at different sizes.
    """
    a, b = _bests(ours), _bests(theirs)
    found = []
    for key in sorted({*a, *b}):
        one, other = a.get(key), b.get(key)
        name = next(r.program for r in (one, other) if r is not None)
        costs = [None if r is None else r.cost for r in (one, other)]
        found.append(Difference(name, *key[:3], *costs))
    return sorted(found, key=lambda d: (d.program, d.workload, d.target, d.machine))


def _bests(store: Database) -> dict[tuple[str, str, str, Conditions | None], Record]:
    found: dict[tuple[str, str, str, Conditions | None], Record] = {}
    for r in ranked(r for r in store.records() if isinstance(r, Record)):
        found.setdefault((r.workload, r.target, r.machine, r.conditions), r)
    return found


class ProgramStats(msgspec.Struct, frozen=True):
    """Counts of one program's records by outcome."""

    program: str
    workload: str
    outcomes: dict[str, int]


class RunStats(msgspec.Struct, frozen=True):
    """How fast a run went: trials, seconds from its first record to its last, seconds by stage (mean of a trial)."""

    run: str
    program: str
    trials: int
    seconds: float
    stages: dict[str, float]

    @property
    def rate(self) -> float | None:
        """Trials a minute; None where there is no time between the records."""
        return 60.0 * (self.trials - 1) / self.seconds if self.trials > 1 and self.seconds > 0 else None


class Stats(msgspec.Struct, frozen=True):
    """Counts of all records by outcome, of each program's, and how fast runs went."""

    records: int
    outcomes: dict[str, int]
    programs: tuple[ProgramStats, ...]
    runs: tuple[RunStats, ...]


def stats(records: Iterable[Record]) -> Stats:
    """Counts and rates of records, in the order that they were made in."""
    found = list(records)
    programs: defaultdict[str, list[Record]] = defaultdict(list)
    runs: defaultdict[str, list[Record]] = defaultdict(list)
    for r in found:
        programs[r.workload].append(r)
        runs[r.run].append(r)
    by_program = (ProgramStats(rs[0].program, h, _outcomes(rs)) for h, rs in programs.items())
    by_run = (_run_stats(run, rs) for run, rs in runs.items())
    return Stats(
        len(found),
        _outcomes(found),
        tuple(sorted(by_program, key=lambda p: (p.program, p.workload))),
        tuple(by_run),
    )


def _outcomes(records: list[Record]) -> dict[str, int]:
    return {o.value: n for o, n in Counter(r.result.outcome for r in records).most_common()}


def _run_stats(run: str, records: list[Record]) -> RunStats:
    # A finalist's second record is not a trial, nor is the incumbent.
    trials = (r for r in reversed(records) if r.result.outcome in TRIED and r.trial != INCUMBENT)
    tried = list({r.candidate: r for r in trials}.values())
    times = sorted(t for t in (_time(r) for r in tried) if t is not None)
    stages: defaultdict[str, list[float]] = defaultdict(list)
    for r in tried:
        for name, seconds in r.result.stages.items():
            stages[name].append(seconds)
    span = times[-1] - times[0] if times else 0.0
    means = {name: sum(xs) / len(xs) for name, xs in stages.items()}
    return RunStats(run, records[0].program, len(tried), span, means)


def _time(r: Record) -> float | None:
    try:
        return datetime.fromisoformat(r.created).timestamp()
    except ValueError:
        return None
