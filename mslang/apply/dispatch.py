"""`dispatch`: programs that match a pattern take the schedule that was written for it by hand.

A pattern is a program with sizes and a schedule for it: those of the library's workloads and of a user's own files.
`matching.py` says what matches.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache

import msgspec

from mslang.apply.matching import sizes_of_match
from mslang.apply.passes import Missed, Served
from mslang.diagnostics import MsError
from mslang.ir.equal import correspondence
from mslang.ir.program import Program
from mslang.resources import stdlib_folder
from mslang.schedule.interpret import World
from mslang.schedule.renaming import renamed
from mslang.schedule.replay import replay
from mslang.schedule.space import Candidate
from mslang.schedule.strategies import machine_of, space_of
from mslang.sema.module import Found, Module
from mslang.sema.modules import load
from mslang.target.description import Target


class Pattern(msgspec.Struct, frozen=True):
    """A program of a module and the schedule that serves what matches it."""

    module: Module
    program: str
    schedule: str

    @property
    def text(self) -> str:
        """How explanations call it."""
        return f"`{self.schedule}` of `{self.program}` ({self.module.path.rpartition('/')[2]})"


class ByPattern(msgspec.Struct, frozen=True):
    """The pass `dispatch`: the first of its patterns that a program matches.

    Args:
        patterns: in the order in which they are tried.
    """

    patterns: tuple[Pattern, ...]
    name: str = "dispatch"

    def serve(self, program: Program, target: Target) -> Served | Missed:
        """The schedule of the first pattern that the program matches, where that applies."""
        failures: list[str] = []
        for pattern in self.patterns:
            try:
                candidate = _candidate(pattern, program, target)
            except MsError as error:
                failures.append(f"{pattern.text} does not apply: {error.diagnostic.message}")
                continue
            if candidate is None:
                continue
            return Served(candidate.program, f"{pattern.text}", candidate.trace)
        if failures:
            return Missed("; ".join(failures))
        return Missed(f"it matches none of {len(self.patterns)} patterns")


def _candidate(pattern: Pattern, program: Program, target: Target) -> Candidate | None:
    """The program with a pattern's schedule; None if it does not match, or the schedule is for another kind of target.

    Raises:
        MsError: the schedule, or its target, cannot be used.
    """
    found = pattern.module.find(pattern.schedule)
    if not isinstance(found, Found):
        return None
    sizes = sizes_of_match(pattern.module, pattern.program, program)
    if isinstance(sizes, str) or machine_of(found, target).kind != target.kind:
        return None
    space = space_of(pattern.module, pattern.schedule, world=World(machine=target), sizes=sizes)
    candidate = space.sample(0)
    names = correspondence(space.program, program)
    assert names is not None
    return replay(program, renamed(candidate.trace, names, program), strict=True)


def patterns_of(module: Module) -> tuple[Pattern, ...]:
    """The programs of a module that have a schedule, each with the first that is written for it.

    >>> from mslang.sema.modules import load
    >>> text = "program p(A: f32[4], out B: f32[4]) { block b[i: 4] { B[i] = A[i] } }"
    >>> text += " schedule s for p { b.i.vectorize() }"
    >>> [(p.program, p.schedule) for p in patterns_of(load("own.ms", text))]
    [('p', 's')]
    """
    found: dict[str, Pattern] = {}
    for name, item in module.schedules.items():
        # A program of another module, `other.p`, is none of its own.
        program = item.program[0].text if item.program is not None and len(item.program) == 1 else None
        if program is not None and program in module.programs and program not in found:
            found[program] = Pattern(module, program, name)
    return tuple(found.values())


@cache
def library_patterns() -> tuple[Pattern, ...]:
    """The patterns of the standard library."""
    files = sorted((stdlib_folder() / "workloads").glob("*.ms"))
    return tuple(p for path in files for p in patterns_of(load(str(path))))


def dispatch(modules: Sequence[Module] = (), library: bool = True) -> ByPattern:
    """The pass with the patterns of some modules, then those of the library."""
    own = tuple(p for m in modules for p in patterns_of(m))
    return ByPattern((*own, *(library_patterns() if library else ())))
