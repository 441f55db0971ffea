"""What a report says of each run, from the record store and the log folder next to it."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Collection, Sequence
from datetime import datetime
from pathlib import Path
from typing import TypeVar

import msgspec

from mslang.diagnostics import Diagnostic, MsError, problem
from mslang.ir.expr import Const
from mslang.ir.program import Program
from mslang.ir.work import operations
from mslang.report.importance import importance
from mslang.sema.program import parse_program
from mslang.target.description import Target
from mslang.target.limits import MachineLimits, measured_limits
from mslang.target.machine import this_machine
from mslang.target.named import named_target
from mslang.tune.database import Database, keys_here
from mslang.tune.record import TRIED, Record, Run
from mslang.tune.roofline import rated_dtype
from mslang.tune.scale import Scale
from mslang.tune.verification import DENSE

MOST = 50
"""So many runs are in one report at most, the last ones."""


class Point(msgspec.Struct, frozen=True):
    """A trial: its number, when it was done, its time, and its cost and the least so far.

    It was done so many seconds (`at`) after the run began, not counting the pauses before it was resumed. A cost is the
    time on a core of the nominal speed, by which candidates are ordered.
    """

    trial: int
    at: float
    seconds: float | None
    cost: float | None
    best: float | None


class Rated(msgspec.Struct, frozen=True):
    """The program's operations, the bytes of its parameters, and the limits of what ran it, as far as they are known.

    `core` is the rate of the yardstick on one core at the limit; `elsewhere`: the run was made on another machine.
    """

    operations: int
    bytes: int
    limits: MachineLimits | None
    core: float | None = None
    elsewhere: bool = False

    @property
    def intensity(self) -> float:
        """Operations for each byte of the parameters."""
        return self.operations / max(self.bytes, 1)

    @property
    def scale(self) -> Scale:
        """What a time is worth."""
        return Scale(self.operations, None if self.limits is None else self.limits.peak, self.core)


class GenerationLine(msgspec.Struct, frozen=True):
    """What a report needs of a line of `generations.jsonl`."""

    number: int
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


class Found(msgspec.Struct, frozen=True):
    """All of one run: what a section of the report shows."""

    run: Run
    program: str
    text: str
    points: tuple[Point, ...]
    best: Record | None
    outcomes: dict[str, int]
    reasons: tuple[tuple[str, str, int], ...]
    """Outcome, reason and count of what gave no time."""
    rejected: tuple[tuple[str, int], ...]
    """Constraints that ruled candidates out, with counts (from the log)."""
    stages: dict[str, float]
    scopes: dict[str, float]
    importance: tuple[tuple[str, float], ...]
    quality: tuple[tuple[int, float], ...]
    """Generations with the rank correlation of predicted and measured times (from the log)."""
    predicted: tuple[tuple[float, float], ...]
    """What the cost model expected of each trial that it chose, as log2 relative to the best, and the cost (from the
    log)."""
    rated: Rated | None
    damaged: int = 0


Line = TypeVar("Line", GenerationLine, TrialLine, EventLine)


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


def _found(database: Database, run: Run, log: Path, here: Collection[str]) -> Found | None:
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
    stages: Counter[str] = Counter()
    for r in records:
        stages.update(r.result.stages)
    # A resumed run appends what it replays: a generation that was interrupted is whole the last time, and a candidate
    # that was known from other runs is there as often as it was proposed.
    generations = {g.number: g for g in _lines(log / "generations.jsonl", GenerationLine)}.values()
    trials: dict[str, TrialLine] = {}
    for t in _lines(log / "trials.jsonl", TrialLine):
        trials.setdefault(t.candidate, t)
    rejected: Counter[str] = Counter()
    for g in generations:
        rejected.update(g.rejected or {})
    measured = [(msgspec.json.decode(r.decisions), r.cost) for r in proposed if r.cost is not None]
    return Found(
        run,
        records[0].program,
        "" if workload is None else workload.text,
        tuple(_points(run, list(first.values()), _resumed(log))),
        _best(list(last.values())),
        dict(outcomes.most_common()),
        tuple((o, why, n) for (o, why), n in reasons.most_common(12)),
        tuple(rejected.most_common(12)),
        dict(stages),
        _profile(log / "profile.json"),
        tuple(importance([(d, c) for d, c in measured if isinstance(d, dict) and c > 0])[:16]),
        tuple((g.number, g.quality) for g in generations if g.quality is not None),
        tuple((t.predicted, t.cost) for t in trials.values() if t.predicted is not None and t.cost and t.cost > 0),
        None if workload is None else _rated(workload.text, run, here),
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
        points.append(Point(number, at, r.seconds, r.cost, best))
    return points


def _between(begin: str, end: str) -> float:
    try:
        return max((datetime.fromisoformat(end) - datetime.fromisoformat(begin)).total_seconds(), 0.0)
    except (ValueError, TypeError):
        return 0.0


def _resumed(log: Path) -> set[int]:
    """The numbers of trials on record when a run was resumed, as far as its log says."""
    return {e.resumed for e in _lines(log / "events.jsonl", EventLine) if e.kind == "started" and e.resumed}


def _rated(text: str, run: Run, here: Collection[str]) -> Rated | None:
    """What the program does, if it is floating point with sizes that are known."""
    try:
        program = parse_program(text)
    except MsError:
        return None
    dtype, count = rated_dtype(program), operations(program)
    size = _bytes(program)
    if dtype is None or not count or size is None:
        return None
    if run.machine != this_machine().key:
        # Of its devices no limits are measured.
        return Rated(count, size, None, elsewhere=run.machine not in here)
    return Rated(count, size, measured_limits(_target(run.target), dtype), measured_limits().peak_core)


def _target(name: str) -> Target | None:
    """The target of a run, whose instructions bound it; None if only the file that was tuned tells what it is."""
    try:
        return named_target(name)
    except MsError:
        return None


def _bytes(program: Program) -> int | None:
    total = 0
    for p in program.params:
        extents = [e.value for e in p.buffer.shape if isinstance(e, Const)]
        if len(extents) < len(p.buffer.shape):
            return None
        width = "".join(c for c in p.buffer.dtype if c.isdigit())
        total += math.prod(map(int, extents)) * (int(width or 8) // 8)
    return total


def _lines(path: Path, kind: type[Line]) -> list[Line]:
    """The lines of a log; those that cannot be read are left out, and a log that is not there has none."""
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
