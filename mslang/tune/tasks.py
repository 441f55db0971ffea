"""Which tasks a file holds: each program with the spaces written for it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import msgspec

from mslang.diagnostics import MsError, problem
from mslang.ir.program import Program
from mslang.schedule.interpret import World
from mslang.schedule.strategies import space_of
from mslang.sema.module import Module
from mslang.syntax import tree
from mslang.target.description import Target
from mslang.tune.reference import small_program
from mslang.tune.search import Task


class Named(msgspec.Struct, frozen=True):
    """A task with the names it goes by: its program's, its space's, and what the best schedule will be called."""

    task: Task
    program: str
    space: str
    best: str
    small: Program | None


def tasks_of(module: Module, name: str | None, sizes: Mapping[str, int], target: Target) -> Iterator[Named]:
    """The tasks that a file, or one item of it, stands for.

    A program is tuned in the spaces written for it: its `space` items, else its schedules that leave something open
    (all in one union). A space or schedule is tuned alone.

    Raises:
        MsError: MS504 if there is nothing to search; of a whole file, programs without a space are passed over.
    """
    if name is not None and name not in module.programs:
        item = module.spaces.get(name) or module.schedules.get(name)
        assert item is not None
        program = _program_name(item)
        yield _task(module, program, name, sizes, target)
        return
    programs = [name] if name is not None else list(module.programs)
    found = [(program, space) for program in programs for space in spaces_for(module, program)]
    if not found:
        shown = programs[0] if programs else "program"
        raise MsError(problem(
            "MS504", f"nothing to search for {shown}" if programs else f"{module.path} has no program to tune",
            why="the file has no space or schedule for it" if programs else None,
            help=f"write `schedule s for {shown} {{ … }}` with sampled sizes, or `space c for {shown} = …`",
        ))
    yield from (_task(module, program, space, sizes, target) for program, space in found)


def spaces_for(module: Module, program: str) -> list[str]:
    """The spaces written for a program, else the schedules for it that are not pinned."""
    spaces = [n for n, s in module.spaces.items() if _is_for(s, program)]
    return spaces or [n for n, s in module.schedules.items() if _is_for(s, program) and s.body is not None]


def _is_for(item: tree.Space | tree.Schedule, program: str) -> bool:
    return item.program is not None and item.program[-1].text == program


def _program_name(item: tree.Space | tree.Schedule) -> str:
    if item.program is None:
        raise MsError(problem("MS504", f"`{item.name.text}` does not say which program it is for",
                              help="write `for program`"))
    return item.program[-1].text


def _task(module: Module, program: str, space: str, sizes: Mapping[str, int], target: Target) -> Named:
    drawn = space_of(module, space, world=World(machine=target), sizes=sizes)
    task = Task(drawn.program, drawn, target, module.path)
    small = small_program(module, program, sizes) if program in module.programs else None
    return Named(task, program, space, f"{program}_best", small)
