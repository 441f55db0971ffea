"""The schedule of a program that has none: `std.cuda.auto`, each step of which must be lowered and keep the limits."""

from __future__ import annotations

from mslang.diagnostics import MsError
from mslang.ir.program import Program
from mslang.target.description import Target


def default_schedule(program: Program, target: Target) -> Program:
    """A program whose nests are shared by blocks and threads; one that binds any loop itself is left as it is.

    Args:
        program: a concrete program, or one with sizes that are known only at the call.
        target: the GPU, whose limits the result keeps.
    """
    from mslang.lower.gpu import lower
    from mslang.lower.summary import require_within_limits
    from mslang.schedule.decisions import Drawing
    from mslang.schedule.rules.gpu.auto import schedule_threads
    from mslang.schedule.rules.gpu.nests import has_bound_loop
    from mslang.schedule.session import Session

    def accepts(candidate: Program) -> bool:
        try:
            require_within_limits(candidate, target)
            lower(candidate, target)
        except MsError:
            return False
        return True

    if has_bound_loop(program):
        return program
    session = Session(program, Drawing(0))
    schedule_threads(session, accepts)
    return session.program
