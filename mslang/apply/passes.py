"""What a pass of `apply` is: a source of schedules, or of other code, that serves a program or says why it does not."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

import msgspec

from mslang.backend.backend import BackEnd
from mslang.ir.buckets import Bucket
from mslang.ir.program import Program
from mslang.schedule.trace import Trace
from mslang.target.description import Target


class Served(msgspec.Struct, frozen=True):
    """A pass served a program.

    Args:
        program: the scheduled program.
        how: one line for explanations.
        trace: the schedule; None: there is no trace of it.
        backend: what compiles the program in place of the target's back end (None: that one does).
    """

    program: Program
    how: str
    trace: Trace | None = None
    backend: BackEnd[Any] | None = None


class Missed(msgspec.Struct, frozen=True):
    """A pass did not serve a program: why."""

    why: str


class Pass(Protocol):
    """A source of schedules. One of a user's own is an object with a name and this method."""

    @property
    def name(self) -> str:
        """The name by which explanations call it."""

    def serve(self, program: Program, target: Target) -> Served | Missed:
        """Schedule a program for a target, or say why not.

        Args:
            program: a program without a schedule.
            target: what will run it.

        Raises:
            MsError: what the pass draws on cannot be used; that a program has no schedule there is no error.
        """


class Case(msgspec.Struct, frozen=True):
    """A bucket of a program's dynamic sizes, and what `apply` made of the program for them."""

    bucket: Bucket
    applied: Applied


class Applied(msgspec.Struct, frozen=True):
    """A program and what `apply` made of it: which pass served it, and why each pass before that missed.

    `cases` are the buckets of dynamic sizes that are served otherwise than the program as a whole, which serves every
    other size.
    """

    source: Program
    by: str | None
    served: Served | None
    missed: tuple[tuple[str, str], ...] = ()
    cases: tuple[Case, ...] = ()

    def at(self, sizes: Mapping[str, int]) -> Applied:
        """What serves some values of the dynamic sizes."""
        return next((c.applied for c in self.cases if c.bucket.holds(sizes)), self)

    @property
    def program(self) -> Program:
        """The scheduled program, or the program as it was where no pass served it."""
        return self.source if self.served is None else self.served.program

    @property
    def backend(self) -> BackEnd[Any] | None:
        """What compiles the program in place of the target's back end; None: that one does."""
        return None if self.served is None else self.served.backend

    @property
    def headline(self) -> str:
        """Which pass served the program, and how, in one line."""
        return "no pass serves it" if self.served is None else f"{self.by}: {self.served.how}"

    def explanation(self) -> str:
        """Which pass served the program and why others missed, one line each.

        >>> from mslang.sema.program import parse_program
        >>> p = parse_program("program p(A: f32[4], out B: f32[4]) { block b[i: 4] { B[i] = A[i] } }")
        >>> print(Applied(p, None, None, (("db", "no record"),)).explanation())
        p: no pass serves it
          db missed: no record
        """
        lines = [f"{self.source.name}: {self.headline}", *(f"  {name} missed: {why}" for name, why in self.missed)]
        for case in self.cases:
            lines.append(f"  {case.bucket.text}: {case.applied.headline}")
            lines += [f"    {name} missed: {why}" for name, why in case.applied.missed]
        return "\n".join(lines)
