"""A runner: the number of instructions in place of the time, which is the same wherever it is counted."""

import re
from collections.abc import Sequence

from mslang.backend.llvm.compile import Executable
from mslang.runtime.timing import Timing
from mslang.tune.comparison import Compared
from mslang.tune.job import CompareJob, MeasureJob, measured
from mslang.tune.record import Result


class Instructions:
    """Counts the instructions of the machine code, each as a nanosecond."""

    name = "instructions"

    def measure(self, job: MeasureJob) -> Result:
        """The count of one candidate; `measured` verifies it."""
        executable = job.built.executable
        assert isinstance(executable, Executable)
        lines = re.findall(r"^\t[a-z]", executable.assembly, re.M)
        return measured(job, lambda call, limits, backend: Timing((len(lines) * 1e-9,), 1))

    def compare(self, job: CompareJob) -> Sequence[Compared]:
        """The finalists one by one: nothing disturbs a count."""
        jobs = (MeasureJob(program, built, job.reference, job.limits) for program, built in job.candidates)
        return [Compared(self.measure(one)) for one in jobs]


instructions = Instructions()
