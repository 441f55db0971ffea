"""A builder: what the back end compiles, unless it is too much code."""

from mslang.backend.llvm.compile import Executable
from mslang.tune.builder import StandardBuilder
from mslang.tune.job import BuildJob, Built
from mslang.tune.record import Outcome, Result

MOST = 5000
"""Characters of LLVM text."""


class Small:
    """Builds as usual, but refuses much code. It is sent to the worker processes with each candidate."""

    name = "small"

    def build(self, job: BuildJob) -> Built:
        """The executable, or why there is none."""
        made = StandardBuilder().build(job)
        if isinstance(made.executable, Executable) and len(made.executable.llvm) > MOST:
            return Built(result=Result(Outcome.COMPILE_ERROR, "too much text"))
        return made


small = Small()
