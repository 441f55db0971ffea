"""The result of tuning from Python: the best program, its schedule and its figures."""

from __future__ import annotations

import msgspec

from mslang.diagnostics import MsError, problem
from mslang.ir.program import Program
from mslang.ir.work import operations
from mslang.notebook import page
from mslang.tune.progress import Finished
from mslang.tune.record import Record
from mslang.tune.recording import candidate_of
from mslang.tune.task import Task


class Tuned(msgspec.Struct, frozen=True):
    """The outcome of one search."""

    task: Task
    done: Finished

    @property
    def best(self) -> Record:
        """The best record; MS505 if nothing valid was found."""
        if self.done.best is None:
            raise MsError(
                problem(
                    "MS505",
                    f"no valid candidate of {self.task.program.name} was found",
                    why=", ".join(f"{o.value} {n}" for o, n in self.done.tally.outcomes.items()),
                )
            )
        return self.done.best

    @property
    def program(self) -> Program:
        """The best program."""
        return candidate_of(self.best, self.task.space).program

    @property
    def schedule(self) -> str:
        """The best schedule as `.ms` text, every decision pinned."""
        return self.best.trace

    @property
    def seconds(self) -> float:
        """The time of one call."""
        return self.best.seconds or 0.0

    @property
    def flops(self) -> float | None:
        """Operations a second."""
        count = operations(self.task.program)
        return None if count is None else count / self.seconds

    def __repr__(self) -> str:
        found = f"{self.seconds * 1e3:.4g} ms" if self.done.best is not None else "nothing valid"
        return f"<tuned {self.task.program.name}: {found} after {self.done.tally.trials} trials>"

    def _repr_html_(self) -> str:
        if self.done.best is None:
            return page(f"{self.task.program.name}: nothing valid was found")
        rows = [("time", f"{self.seconds * 1e3:.4g} ms"), ("trials", str(self.done.tally.trials))]
        if self.flops is not None:
            rows.insert(1, ("rate", f"{self.flops / 1e9:.4g} GFLOP/s"))
        rows += [(o.value, str(n)) for o, n in self.done.tally.outcomes.most_common()]
        return page(self.task.program.name, rows, self.schedule)
