"""The outcome of a candidate as a value: the result of measuring, and what the database keeps."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from datetime import UTC, datetime
from enum import StrEnum
from typing import NamedTuple, TypeVar

import msgspec

from mslang.runtime.timing import Timing
from mslang.target.yardstick import NOMINAL_RATE
from mslang.tune.instances import Instance, instances_text


class Outcome(StrEnum):
    """What happened to a candidate; every candidate ends as exactly one of these."""

    MEASURED = "measured"
    """Verified and timed."""
    CUT_OFF = "cut off"
    """Verified; timing stopped because it is far slower than the best. Its time is a lower bound."""
    CONSTRAINT = "rejected by constraint"
    ILLEGAL = "illegal"
    COMPILE_ERROR = "compile error"
    WRONG_RESULT = "wrong result"
    CRASH = "crash"
    TIME_OUT = "time-out"
    IMPLAUSIBLE = "implausible"
    """Verified, but faster than this machine can be; the time is rejected."""
    DUPLICATE = "duplicate"
    """The same program as an earlier candidate; not measured again."""
    ELSEWHERE = "measured elsewhere"
    """Imported from another tool: its time is not of this machine and is compared with no other."""


TRIED = frozenset(
    {
        Outcome.MEASURED,
        Outcome.CUT_OFF,
        Outcome.COMPILE_ERROR,
        Outcome.WRONG_RESULT,
        Outcome.CRASH,
        Outcome.TIME_OUT,
        Outcome.IMPLAUSIBLE,
    }
)
"""Outcomes that used up a trial; the others cost no measurement."""

INCUMBENT = -1
"""The `trial` of what a search did not propose, but measured with its best: a default schedule, or one in a file."""


class Verification(msgspec.Struct, frozen=True):
    """How a result was checked: on which inputs, and the largest error found there."""

    inputs: str
    """"sparse integers" (exact comparison) or "dense" (within a tolerance)."""
    max_error: float


class Conditions(NamedTuple):
    """What a time depends on beside candidate, machine and compiler: only times under equal conditions are compared."""

    cold: bool
    """Whether each run found the caches empty."""
    sizes: str
    """The dynamic sizes with their weights, as `instances_text` writes them."""


def conditions_of(cold: bool | None, instances: Iterable[Instance]) -> Conditions | None:
    """The conditions of an outcome; None where `cold` is: it is the same with any caches and at any sizes."""
    return None if cold is None else Conditions(cold, instances_text(instances))


class Result(msgspec.Struct, frozen=True):
    """What measuring one candidate gave: the outcome, why, its times, how it was verified, and where the time went."""

    outcome: Outcome
    reason: str = ""
    timing: Timing | None = None
    verified: tuple[Verification, ...] = ()
    stages: dict[str, float] = msgspec.field(default_factory=dict)
    """Seconds spent in each stage (lower, compile, verify, time)."""
    cold: bool | None = None
    """Of one that timed out: whether it ran with emptied caches. None: `timing` says so, or caches do not matter."""
    instances: tuple[Instance, ...] = ()
    """The dynamic sizes that it ran at, with weights; older results do not say."""

    @property
    def seconds(self) -> float | None:
        """The median time of one call, or None if it was not measured (a cut-off time is not a measurement)."""
        return None if self.outcome is not Outcome.MEASURED or self.timing is None else self.timing.median

    @property
    def cost(self) -> float | None:
        """What candidates of one machine are ordered by: `seconds` on a core of the nominal speed.

        None where `seconds` is None. A time without a yardstick counts as one at the nominal speed.
        """
        return None if self.seconds is None or self.timing is None else cost_of(self.timing)


def cost_of(timing: Timing) -> float:
    """The median time on a core of the nominal speed."""
    return timing.median if timing.yardstick is None else timing.median * timing.yardstick / NOMINAL_RATE


class Workload(msgspec.Struct, frozen=True):
    """An unscheduled program that records belong to: its workload hash, its name, and its long-form text.

    Programs that differ in names alone have one hash, and a text each.
    """

    hash: str
    name: str
    text: str

    @property
    def source(self) -> str:
        """What records say to name this text: a hash of it."""
        return hashlib.sha256(self.text.encode(errors="surrogatepass")).hexdigest()[:16]


class Run(msgspec.Struct, frozen=True):
    """One tuning run: what was searched, with which seed and arguments; `source` names the program's text."""

    id: str
    file: str
    space: str
    workload: str
    target: str
    seed: int
    arguments: str
    created: str = ""
    machine: str = ""
    source: str = ""


class RunLesson(msgspec.Struct, frozen=True):
    """What a run teaches the searches of other programs, as it is kept: see `mslang.tune.lessons`.

    `columns` says which features these are: only lessons with equal ones can be learned from together.
    """

    run: str
    workload: str
    machine: str
    columns: str
    created: str = ""
    data: bytes = b""


class Sources(msgspec.Struct, frozen=True):
    """Hashes of what a candidate was made from, where they are known: the text of its space, the rules, the library.

    The decisions of a record mean the same again only where these are the same; its flat trace depends on none of them.
    """

    space: str = ""
    rules: str = ""
    library: str = ""


class Record(msgspec.Struct, frozen=True):
    """A candidate and its result as the database keeps it.

    `workload` is the hash of the unscheduled program without any name, `source` names the text of the very program that
    the trace is in the names of, `candidate` is the structural hash of the scheduled one;
    `schedule` is the pinned schedule as `.ms` text and `trace` the flat one. `device` names the machine for people,
    `machine` is its key: times of different machines are never compared. `schema` is the version of the tables that it
    was written to first.
    """

    workload: str
    program: str
    target: str
    device: str
    compiler: str
    candidate: str
    schedule: str
    trace: str
    decisions: str
    result: Result
    run: str
    trial: int
    seed: int
    version: str
    sources: Sources = Sources()
    created: str = ""
    machine: str = ""
    source: str = ""
    schema: int = 0
    id: int | None = None

    @property
    def seconds(self) -> float | None:
        """That of the result."""
        return self.result.seconds

    @property
    def cold(self) -> bool | None:
        """Whether each run found the caches empty; None if that has no influence on the outcome."""
        return self.result.cold if self.result.timing is None else self.result.timing.cold

    @property
    def conditions(self) -> Conditions | None:
        """What its outcome holds under; None: under any conditions."""
        return conditions_of(self.cold, self.result.instances)

    @property
    def cost(self) -> float | None:
        """That of the result: what candidates of one machine are ordered by."""
        return self.result.cost


Dated = TypeVar("Dated", Run, RunLesson, Record)
"""What a store keeps with the time when it was made."""


def dated(made: Dated) -> Dated:
    """The same record, run or lesson, made now unless it says when."""
    return made if made.created else msgspec.structs.replace(made, created=_now())


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="milliseconds")
