"""Records of what a search finds, and what they say to its strategy."""

from __future__ import annotations

from typing import NamedTuple

import msgspec

from mslang import __version__
from mslang.diagnostics import MsError
from mslang.ir.equal import structural_hash
from mslang.schedule.instruction import Label
from mslang.schedule.replay import space_of_text
from mslang.schedule.space import Candidate, Space
from mslang.search.strategy import Observed
from mslang.target.yardstick import NOMINAL_RATE
from mslang.tune.database import Database
from mslang.tune.origin import complete, stale
from mslang.tune.record import Outcome, Record, Result
from mslang.tune.task import Settings, Task


class Texts(NamedTuple):
    """What a record says of a candidate, whatever measuring it gives: its pinned schedule, its flat trace, and its
    decisions as JSON."""

    schedule: str
    trace: str
    decisions: str


def texts_of(candidate: Candidate, name: str) -> Texts:
    """The texts of a candidate, under the name that the best schedule will have."""
    trace, decisions = candidate.trace, msgspec.json.encode(candidate.decisions).decode()
    flat = trace.as_ms(name)
    # A schedule that refers to itself means nothing.
    pinned = trace.source not in (None, name)
    return Texts(trace.as_ms(name, pinned=True) if pinned else flat, flat, decisions)


def record_of(task: Task, settings: Settings, run: str, texts: Texts, hash: str, result: Result, trial: int) -> Record:
    """The record of a candidate that was tried.

    Args:
        task: what is tuned.
        settings: the seed.
        run: the run that the record belongs to.
        texts: what was tried.
        hash: the structural hash of its program.
        result: how it went.
        trial: its number among the trials of the run; `INCUMBENT` if it is none.
    """
    return Record(
        workload=task.workload.hash,
        source=task.workload.source,
        program=task.program.name,
        target=task.target.name,
        device=task.machine.name,
        machine=task.machine.key,
        compiler=task.compiled_by,
        candidate=hash,
        schedule=texts.schedule,
        trace=texts.trace,
        decisions=texts.decisions,
        result=result,
        run=run,
        trial=trial,
        seed=settings.seed,
        version=__version__,
        sources=complete(task.sources),
    )


class Recorder:
    """Keeps the records of one run.

    Args:
        task: what is tuned.
        settings: the seed, and the name of the best schedule.
        run: the run.
        database: where records are kept.
    """

    def __init__(self, task: Task, settings: Settings, run: str, database: Database) -> None:
        self._task, self._settings, self._run, self._database = task, settings, run, database

    def texts(self, candidate: Candidate) -> Texts:
        """What a record says of a candidate."""
        return texts_of(candidate, self._settings.name)

    def record(self, hash: str, texts: Texts, result: Result, trial: int) -> Record:
        """A record that is not kept yet; see `record_of`."""
        return record_of(self._task, self._settings, self._run, texts, hash, result, trial)

    def reused(self, record: Record, candidate: Candidate, trial: int) -> Record:
        """The record of another run as a trial of this one."""
        return adopted(record, self.record(record.candidate, self.texts(candidate), record.result, trial))

    def keep(self, record: Record) -> Record:
        """Commit a record; gives it back with its number."""
        return self._database.add(record)


def adopted(record: Record, own: Record) -> Record:
    """A record of another run as one of this run, which may have another space, and names: `own` with the number and
    the date of the record that was taken over."""
    return msgspec.structs.replace(own, id=record.id, created=record.created)


def candidate_of(record: Record, space: Space) -> Candidate:
    """The candidate that a record is of: a point of the space, or what its trace makes of the program.

    The decisions may be those of another space, or of an older text of this one; a default schedule is of none.

    Raises:
        MsError: MS610, neither makes the program that was measured; or what is wrong with the trace.
    """
    try:
        found = space.replay(msgspec.json.decode(record.decisions), strict=False)
    except MsError:
        found = None
    if found is None or structural_hash(found.program) != record.candidate:
        found = space_of_text(record.trace, space.program).sample(0)
    if structural_hash(found.program) != record.candidate:
        raise stale(record, "its trace makes another program than the one that was measured")
    return found


def lower_bound(record: Record) -> float | None:
    """The least that a candidate costs which was cut off, at the nominal speed."""
    timing = record.result.timing
    return None if timing is None else timing.min * (timing.yardstick or NOMINAL_RATE) / NOMINAL_RATE


def observed_of(record: Record, structure: tuple[tuple[str, Label], ...]) -> Observed:
    """What a record says to a strategy."""
    bound = lower_bound(record) if record.result.outcome is Outcome.CUT_OFF else None
    return Observed(record.candidate, msgspec.json.decode(record.decisions), structure, record.cost, bound)
