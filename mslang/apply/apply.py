"""`apply`: the best schedule known for each program, by passes in the user's order; nothing is measured."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from mslang.apply.passes import Applied, Missed, Pass
from mslang.ir.program import Program
from mslang.target.description import Target


def apply(programs: Iterable[Program], passes: Sequence[Pass], target: Target) -> tuple[Applied, ...]:
    """Serve each program by the first pass that can.

    Args:
        programs: programs without a schedule.
        passes: in the order in which they are tried.
        target: what will run the programs.

    Returns what came of each program, in their order.

    Raises:
        MsError: what a pass draws on cannot be used.

    >>> apply([], (), Target())
    ()
    """
    return tuple(_applied(program, passes, target) for program in programs)


def _applied(program: Program, passes: Sequence[Pass], target: Target) -> Applied:
    missed: list[tuple[str, str]] = []
    for each in passes:
        found = each.serve(program, target)
        if not isinstance(found, Missed):
            return Applied(program, each.name, found, tuple(missed))
        missed.append((each.name, found.why))
    return Applied(program, None, None, tuple(missed))
