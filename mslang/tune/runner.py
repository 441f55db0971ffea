"""Runners: what verifies and times compiled candidates; a user's own by protocol and entry point."""

from __future__ import annotations

import pickle
from collections.abc import Sequence
from typing import Protocol, runtime_checkable

import msgspec

from mslang.extensions import allowed, load
from mslang.tune.call import Timer, time_call
from mslang.tune.comparison import Compared
from mslang.tune.job import CompareJob, MeasureJob, compared, measured
from mslang.tune.record import Result

RUNNERS = "mslang.runners"
"""The group of entry points that name runners."""


@runtime_checkable
class Runner(Protocol):
    """Verifies and times candidates in the runner's process.

    It is sent there with each candidate, so it can be pickled. Its `name` belongs to the records: times of different
    runners are never compared. A runner with a name of its own may measure anything that is the better the smaller it
    is, as seconds; its times are not held against the peak of the machine.

    Source: `Runner` of TVM's MetaSchedule.
    """

    name: str

    def measure(self, job: MeasureJob) -> Result:
        """The result of one candidate. It must not count a time of unverified code."""

    def compare(self, job: CompareJob) -> Sequence[Compared]:
        """The results of finalists that stood `measure`, in their order, under the same conditions."""


class StandardRunner(msgspec.Struct, frozen=True):
    """Verifies, then times by `timer`: in turn with a loop of known work, unless it is another timer.

    Example:
        Processor time instead of wall time, where `processor_time(call, limits, backend)` gives a `Timing`:

        >>> StandardRunner("processor time", timer=processor_time)  # doctest: +SKIP
    """

    name: str = ""
    timer: Timer = time_call

    def measure(self, job: MeasureJob) -> Result:
        """The verified result of one candidate."""
        return measured(job, self.timer)

    def compare(self, job: CompareJob) -> Sequence[Compared]:
        """The finalists in turn; each alone where the timer is another one."""
        if self.timer is time_call:
            return compared(job)
        return [
            Compared(measured(MeasureJob(program, built, job.reference, job.limits), self.timer))
            for program, built in job.candidates
        ]


def runner_named(name: str) -> Runner:
    """The runner that an allowed package declares under a name; the standard one for the empty name.

    Raises:
        MsError: MS271, MS272, MS212 or MS213: there is none, or it cannot be loaded.
    """
    found = load(RUNNERS, name, allowed(), Runner) if name else StandardRunner()
    assert isinstance(found, Runner)
    return found


class RunWith(msgspec.Struct, frozen=True):
    """What a worker process does with a runner: bytes to bytes."""

    runner: Runner

    def measure(self, job: bytes) -> bytes:
        """A pickled `Result`."""
        return pickle.dumps(self.runner.measure(pickle.loads(job)))

    def compare(self, job: bytes) -> bytes:
        """A pickled tuple of `Compared`."""
        return pickle.dumps(tuple(self.runner.compare(pickle.loads(job))))
