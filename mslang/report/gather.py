"""What a report says of each run, from the record store and the log folder next to it."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Collection, Sequence
from datetime import datetime
from pathlib import Path

import msgspec

from mslang.diagnostics import Diagnostic, MsError, problem
from mslang.report.importance import importance
from mslang.report.log import read_log
from mslang.report.rated import Rated, rated
from mslang.tune.database import Database, keys_here
from mslang.tune.record import INCUMBENT, TRIED, Outcome, Record, Run
from mslang.tune.recording import lower_bound
from mslang.tune.verification import DENSE

MOST = 50
"""So many runs are in one report at most, the last ones."""


class Point(msgspec.Struct, frozen=True):
    """A trial: its number, when it was done, its time, its cost and the least so far, and its outcome.

    It was done so many seconds (`at`) after the run began, not counting the pauses before it was resumed. A cost is the
    time on a core of the nominal speed, by which candidates are ordered; `bound` is the least cost of one that was cut
    off.
    """

    trial: int
    at: float
    seconds: float | None
    cost: float | None
    best: float | None
    outcome: str = Outcome.MEASURED
    bound: float | None = None


class Found(msgspec.Struct, frozen=True):
    """All of one run: what a section of the report shows."""

    run: Run
    program: str
    text: str
    points: tuple[Point, ...]
    best: Record | None
    before: Record | None
    """The schedule before the run, timed together with the best: a default one, or one in the file."""
    outcomes: dict[str, int]
    reasons: tuple[tuple[str, str, int], ...]
    """Outcome, reason and count of what gave no time."""
    rejected: tuple[tuple[str, int], ...]
    """Constraints that ruled candidates out, with counts, most frequent first (from the log)."""
    considered: int
    """Candidates that were looked at to choose the trials (from the log)."""
    duplicates: int
    """Of these, programs that an earlier candidate gives, too (from the log)."""
    stages: dict[str, float]
    scopes: dict[str, float]
    importance: tuple[tuple[str, float], ...]
    quality: tuple[tuple[int, float], ...]
    """Generations with the rank correlation of predicted and measured times (from the log)."""
    predicted: tuple[tuple[float, float], ...]
    """The cost that the model expected of each trial that it chose, and the one that was measured (from the log)."""
    rated: Rated | None
    strategy: str = ""
    """How candidates were searched (from the log)."""
    damaged: int = 0


def gather(database: Database, wanted: str | None = None, logs: Path | None = None) -> list[Found]:
    """The runs of a store that have records, the last of each program, space, target and machine.

    Args:
        database: the store.
        wanted: only this run, by the beginning of its name.
        logs: the folder of logs (default: `logs` next to the store).

    Raises:
        MsError: MS547, there is nothing to report; MS548, there is no such run; MS6xx, the store cannot be used.
    """
    runs = database.runs()
    if wanted is not None:
        runs = [r for r in runs if r.id.startswith(wanted)]
        if not runs:
            known = ", ".join(r.id for r in database.runs()[-8:]) or "none"
            why = f"the last runs of {database.path} are: {known}"
            raise MsError(problem("MS548", f"there is no run `{wanted}`", why=why, help="mslang db ls"))
    folder = Path(database.path).parent / "logs" if logs is None else logs
    here = keys_here(database.known_machines())
    last: dict[tuple[str, str, str, str], Found] = {}
    for r in reversed(runs):
        # A run that only tried what was known has no records of its own: the one before it is shown.
        key = r.source or r.workload, r.space, r.target, r.machine
        if key not in last and (one := _found(database, r, folder / r.id, here)) is not None:
            last[key] = one
        if len(last) == MOST:
            break
    found = list(last.values())[::-1]
    if not found:
        why = "no run has a record"
        if wanted is not None:
            why = f"the run {runs[-1].id} has no record of its own; what it tried was known, if anything"
        raise MsError(
            problem(
                "MS547",
                f"there is nothing to report in {database.path}",
                why=why,
                help="tune first: `mslang tune FILE`" if wanted is None else "mslang db ls",
            )
        )
    return found


def _found(database: Database, run: Run, log_folder: Path, here: Collection[str]) -> Found | None:
    """All of a run, None if it has no records; `here` are the keys of this machine."""
    rows = list(database.records(run=run.id))
    records = [r for r in rows if isinstance(r, Record)]
    if not records:
        return None
    # Finalists are measured again: the first record of a candidate is its trial, the last one says how it fared.
    first: dict[str, Record] = {}
    for r in records:
        if r.trial >= 0:
            first.setdefault(r.candidate, r)
    last = {r.candidate: r for r in records}
    texts = {w.source: w for w in database.texts(run.workload)}
    workload = texts.get(run.source) or next(iter(texts.values()), None)
    # What was only timed together with the best is none of what the search proposed.
    proposed = [r for c, r in last.items() if c in first]
    outcomes = Counter(r.result.outcome.value for r in proposed)
    reasons = Counter((r.result.outcome.value, r.result.reason) for r in proposed if r.result.reason)
    before = next((r for r in reversed(records) if r.trial == INCUMBENT and r.cost is not None), None)
    stages: Counter[str] = Counter()
    for r in records:
        stages.update(r.result.stages)
    log = read_log(log_folder)
    measured = [(msgspec.json.decode(r.decisions), r.cost) for r in proposed if r.cost is not None]
    return Found(
        run,
        records[0].program,
        "" if workload is None else workload.text,
        tuple(_points(run, list(first.values()), log.resumed)),
        _best(list(last.values())),
        before,
        dict(outcomes.most_common()),
        tuple((o, why, n) for (o, why), n in reasons.most_common(12)),
        tuple(log.rejected.most_common()),
        sum(g.drafted for g in log.generations),
        sum(g.duplicates for g in log.generations),
        dict(stages),
        log.scopes,
        tuple(importance([(d, c) for d, c in measured if isinstance(d, dict) and c > 0])[:16]),
        tuple((g.number, g.quality) for g in log.generations if g.quality is not None),
        tuple(log.predicted()),
        None if workload is None else rated(workload.text, run.target, run.machine, here),
        log.strategy,
        sum(isinstance(r, Diagnostic) for r in rows),
    )


def _best(records: Sequence[Record]) -> Record | None:
    """The fastest that was verified on dense inputs, too; else the fastest."""
    timed = [r for r in records if r.cost is not None]
    confirmed = [r for r in timed if any(v.inputs == DENSE for v in r.result.verified)]
    return min(confirmed or timed, key=lambda r: r.cost or math.inf, default=None)


def _points(run: Run, records: Sequence[Record], resumed: Collection[int]) -> list[Point]:
    """The trials of a run that was `resumed` after these numbers of trials."""
    points: list[Point] = []
    best: float | None = None
    at, before = 0.0, run.created
    tried = [r for r in records if r.result.outcome in TRIED]
    for number, r in enumerate(tried, 1):
        best = r.cost if best is None or (r.cost is not None and r.cost < best) else best
        # Of the first trial after a pause its own seconds count.
        paused = number - 1 in resumed
        at += sum(r.result.stages.values()) if paused else _between(before, r.created)
        before = r.created
        bound = lower_bound(r) if r.result.outcome is Outcome.CUT_OFF else None
        points.append(Point(number, at, r.seconds, r.cost, best, r.result.outcome.value, bound))
    return points


def _between(begin: str, end: str) -> float:
    try:
        return max((datetime.fromisoformat(end) - datetime.fromisoformat(begin)).total_seconds(), 0.0)
    except (ValueError, TypeError):
        return 0.0
