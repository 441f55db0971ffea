"""`dispatch`: programs that match a pattern take the schedule that was written for it by hand.

A pattern is a program with sizes and a schedule for it: those of the library's workloads and of a user's own files. A
program matches if it is the same workload for some sizes, so names do not count and everything else does. Sizes are
read off the shapes of the parameters; those that no shape says take their default or a small number.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from itertools import product

import msgspec

from mslang.apply.passes import Missed, Served
from mslang.diagnostics import MsError
from mslang.ir.equal import correspondence
from mslang.ir.expr import Const
from mslang.ir.program import Program
from mslang.resources import stdlib_folder
from mslang.schedule.interpret import World
from mslang.schedule.renaming import renamed
from mslang.schedule.replay import replay
from mslang.schedule.space import Candidate
from mslang.schedule.strategies import machine_of, space_of
from mslang.sema.module import Found, Module
from mslang.sema.modules import load
from mslang.sema.program import instantiate
from mslang.syntax import tree
from mslang.target.description import Target

SMALL = (0, 1, 2, 3)
"""What is tried for a size that no shape says, such as a stride, after its default."""

UNSAID = 2
"""Patterns with more such sizes take their defaults alone."""


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
            found = pattern.module.find(pattern.schedule)
            if not isinstance(found, Found) or machine_of(found, target).kind != target.kind:
                continue
            for sizes in sizes_of_match(pattern, program):
                try:
                    candidate = _scheduled(pattern, sizes, program, target)
                except MsError as error:
                    failures.append(f"{pattern.text} does not apply: {error.diagnostic.message}")
                    break
                return Served(candidate.program, f"{pattern.text}", candidate.trace)
        if failures:
            return Missed("; ".join(failures))
        return Missed(f"it matches none of {len(self.patterns)} patterns")


def _scheduled(pattern: Pattern, sizes: Mapping[str, int], program: Program, target: Target) -> Candidate:
    space = space_of(pattern.module, pattern.schedule, world=World(machine=target), sizes=sizes)
    candidate = space.sample(0)
    names = correspondence(space.program, program)
    assert names is not None
    return replay(program, renamed(candidate.trace, names, program), strict=True)


def sizes_of_match(pattern: Pattern, program: Program) -> Iterator[Mapping[str, int]]:
    """The sizes for which a pattern is a program: none or one."""
    item = pattern.module.programs[pattern.program]
    said = _said(item, program)
    if said is None:
        return
    unsaid = [s.name.text for s in item.sizes if s.name.text not in said]
    tried: list[tuple[int | None, ...]] = (
        [(None, *SMALL)] * len(unsaid) if len(unsaid) <= UNSAID else [(None,)] * len(unsaid)
    )
    for values in product(*tried):
        sizes = {**said, **{n: v for n, v in zip(unsaid, values, strict=True) if v is not None}}
        try:
            made = instantiate(pattern.module, pattern.program, sizes)
        except MsError:
            continue
        same = all(a.buffer.shape == b.buffer.shape for a, b in zip(made.params, program.params, strict=True))
        if same and correspondence(made, program) is not None:
            yield sizes
            return


def _said(item: tree.Program, program: Program) -> dict[str, int] | None:
    """The sizes that the shapes of a program's parameters give those of a pattern; None if it cannot match."""
    if len(item.params) != len(program.params):
        return None
    known = {s.name.text for s in item.sizes}
    found: dict[str, int] = {}
    for mine, theirs in zip(item.params, program.params, strict=True):
        shape = mine.type.shape or ()
        buffer = theirs.buffer
        if mine.direction != theirs.direction or mine.type.name.text != buffer.dtype or len(shape) != len(buffer.shape):
            return None
        for written, extent in zip(shape, buffer.shape, strict=True):
            match written, extent:
                case tree.Ref(name=tree.Name(text=name)), Const(value=int() as value) if name in known:
                    if found.setdefault(name, value) != value:
                        return None
    return found


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
        program = item.program[-1].text if item.program is not None else None
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
