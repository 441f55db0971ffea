"""What is tuned, and how."""

from __future__ import annotations

from functools import cached_property
from typing import Any

import msgspec

from mslang.backend.backend import BackEnd
from mslang.backend.registry import serving
from mslang.ir.equal import structural_hash
from mslang.ir.program import Program
from mslang.runtime.timing import Limits
from mslang.schedule.space import Space
from mslang.target.description import Target
from mslang.tune.budget import Budget


class Task(msgspec.Struct, frozen=True, dict=True):
    """What is tuned: a program, the space of its schedules, the machine; `file` is where it stands."""

    program: Program
    space: Space
    target: Target
    file: str
    sources: str = ""
    allow_native: bool = False
    """Whether implementations in a back end's text may do more than compute."""
    backend: BackEnd[Any] | None = None
    """What compiles the candidates (default: what serves the target)."""

    @cached_property
    def workload(self) -> str:
        """The structural hash of the program."""
        return structural_hash(self.program)

    @property
    def compiler(self) -> BackEnd[Any]:
        """The back end that compiles the candidates."""
        return self.backend or serving(self.target)


class Settings(msgspec.Struct, frozen=True):
    """How: the seed, when to stop, and how to time. `name` is what the best schedule will be called.

    `strategy` names what chooses the candidates.
    """

    seed: int = 0
    budget: Budget = Budget()
    limits: Limits = Limits(min_repeat=0.0005, enough=0.05)
    name: str = "best"
    strategy: str = "replay_trace"
