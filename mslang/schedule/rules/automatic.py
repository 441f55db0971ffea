"""The default space of a program without a schedule."""

from __future__ import annotations

from mslang.ir.program import Program
from mslang.schedule.interpret import Interpreter, World
from mslang.schedule.rules.auto_parallel import auto_parallel
from mslang.schedule.rules.multi_level import multi_level
from mslang.schedule.session import Session
from mslang.schedule.space import Space
from mslang.target.description import Target

NAME = "automatic"
"""The space's name in records and messages; it is not an item of a file."""


def automatic_space(program: Program, machine: Target) -> Space:
    """`std.tiling.multi_level("SSRSRS") >> std.cpu.auto_parallel` on a program.

    Args:
        program: what to schedule.
        machine: the value of `machine`.
    """
    world = World(machine=machine)

    def recipe(session: Session) -> None:
        it = Interpreter(session, world)
        multi_level(it, ("SSRSRS",), {})
        auto_parallel(it, (), {})

    return Space(program, recipe, name=NAME, item=False)
