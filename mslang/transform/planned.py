"""Primitives that the language has, whose implementations are not part of this version: running one is refused."""

from __future__ import annotations

from collections.abc import Callable

from mslang.ir.program import Program
from mslang.transform.outcome import Outcome, refuse


def not_yet(primitive: str) -> Callable[..., Outcome]:
    """An implementation that refuses."""

    def implementation(program: Program, **arguments: object) -> Outcome:
        raise refuse(
            "MS399",
            primitive,
            "known, but not part of this version",
            why="schedules that use it can be written, checked and formatted; they cannot run yet",
            help="leave the statement out, or pin a fork to a case without it",
        )

    return implementation
