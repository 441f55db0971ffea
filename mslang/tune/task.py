"""What is tuned, and how."""

from __future__ import annotations

from functools import cached_property
from typing import Any

import msgspec

from mslang.backend.backend import BackEnd
from mslang.backend.registry import serving
from mslang.ir.equal import workload_hash
from mslang.ir.print import print_program
from mslang.ir.program import Program
from mslang.runtime.timing import Limits
from mslang.schedule.space import Space
from mslang.search.features.extractor import Extractor, PerStore
from mslang.search.models.registry import Factory as ModelFactory
from mslang.search.mutators import Mutator
from mslang.search.registry import AUTO
from mslang.search.strategy import Factory as StrategyFactory
from mslang.target.description import Target
from mslang.target.machine import Machine, this_machine
from mslang.tune.budget import Budget
from mslang.tune.builder import Builder
from mslang.tune.instances import Instance
from mslang.tune.record import Sources, Workload
from mslang.tune.runner import Runner


class Task(msgspec.Struct, frozen=True, dict=True):
    """What is tuned: a program, the space of its schedules, the machine; `file` is where it stands."""

    program: Program
    space: Space
    target: Target
    file: str
    sources: Sources = Sources()
    instances: tuple[Instance, ...] = ()
    """The sizes that a program with dynamic sizes is measured at."""
    allow_native: bool = False
    """Whether implementations in a back end's text may do more than compute."""
    backend: BackEnd[Any] | None = None
    """What compiles the candidates (default: what serves the target)."""

    builder: Builder | None = None
    """A builder of the user's own (default: the back end compiles in worker processes)."""
    runner: Runner | None = None
    """A runner of the user's own (default: verified and timed in a worker process)."""

    @cached_property
    def workload(self) -> Workload:
        """The program as the record store knows it: by a hash in which no name counts."""
        return Workload(workload_hash(self.program), self.program.name, print_program(self.program))

    @property
    def machine(self) -> Machine:
        """What runs the candidates."""
        device = self.compiler.device
        here = this_machine() if device is None else this_machine().with_device(device())
        return here if self.runner is None else here.with_runner(self.runner.name)

    @property
    def compiled_by(self) -> str:
        """Name and version of what compiles: times of different compilers are not compared."""
        version = self.compiler.version()
        return version if self.builder is None else f"{version}, {self.builder.name}"

    @property
    def compiler(self) -> BackEnd[Any]:
        """The back end that compiles the candidates."""
        return self.backend or serving(self.target)


class Settings(msgspec.Struct, frozen=True):
    """How: the seed, when to stop, and how to time. `name` is what the best schedule will be called.

    `strategy` chooses the candidates; it plans with `planned` trials (default: those of the budget), and asks the cost
    model `cost_model` (default: XGBoost where it is installed, else the draft), which learns from `features` (default:
    the built-in ones). Each of the three is a name or a value of the user's own. `mutators` change its candidates
    (default: the built-in ones and those of allowed packages).
    """

    seed: int = 0
    budget: Budget = Budget()
    limits: Limits = Limits(min_repeat=0.0005, enough=0.05)
    name: str = "best"
    strategy: StrategyFactory | str = AUTO
    planned: int | None = None
    cost_model: ModelFactory | str | None = None
    features: Extractor | str | None = None
    mutators: tuple[Mutator, ...] | None = None

    @property
    def extractor(self) -> str:
        """The name of what makes the features: only searches with the same ones learn from one another."""
        return PerStore.name if self.features is None else name_of(self.features)


OWN = "python:"
"""What begins the name of a value that was given from Python, by which no package declares anything."""


def name_of(given: object) -> str:
    """The name of a strategy, cost model or extractor in records: the one it was asked for by, or where it is defined.

    >>> name_of("draft"), name_of(Budget)
    ('draft', 'python:mslang.tune.budget.Budget')
    """
    if isinstance(given, str):
        return given
    defined = given if hasattr(given, "__qualname__") else type(given)
    return f"{OWN}{defined.__module__}.{defined.__qualname__}"
