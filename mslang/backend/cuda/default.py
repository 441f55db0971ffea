"""The schedule of a program that has none: `std.cuda.auto`, each step of which must be lowered and keep the limits."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mslang.diagnostics import MsError
from mslang.ir.program import Program
from mslang.target.description import Target

if TYPE_CHECKING:
    from mslang.schedule.session import Session
    from mslang.schedule.space import Candidate

NAME = "default"
"""The space's name; it has one candidate."""


def default_schedule(program: Program, target: Target) -> Candidate:
    """A schedule by which blocks and threads share all nests; one without steps if the program binds a loop itself.

    Args:
        program: a concrete program, or one with sizes that are known only at the call.
        target: the GPU, whose limits the result keeps.
    """
    from mslang.schedule.rules.gpu.auto import schedule_threads
    from mslang.schedule.rules.gpu.nests import has_bound_loop
    from mslang.schedule.space import Space

    def recipe(session: Session) -> None:
        if not has_bound_loop(program):
            schedule_threads(session, lambda candidate: _can_run(candidate, target))

    return Space(program, recipe, name=NAME, item=False).sample(0)


def finish(session: Session, target: Target) -> None:
    """Schedule the nests that a schedule has left on no thread as the default does, and bind what then remains.

    Args:
        session: the running schedule, with the values of all decisions.
        target: the GPU, whose limits the nests keep.
    """
    from mslang.schedule.rules.gpu.auto import finish_threads
    from mslang.schedule.rules.gpu.finish import bind_unbound
    from mslang.schedule.rules.gpu.machine import most_threads
    from mslang.schedule.sketch import instantiate

    numbers = session.draws.numbers
    finish_threads(session, lambda candidate: _can_run(instantiate(candidate, numbers), target))
    bind_unbound(session, most_threads(target))


def _can_run(program: Program, target: Target) -> bool:
    """Whether a program can be lowered for a GPU and printed, and keeps its limits."""
    from mslang.backend.cuda.source import cuda_source
    from mslang.lower.gpu import lower
    from mslang.lower.summary import require_within_limits

    try:
        require_within_limits(program, target)
        cuda_source(lower(program, target), target)
    except MsError:
        return False
    return True
