"""Queries of tests on programs: blocks, loops, text, and whether a program fits a target."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec

from mslang.diagnostics import ScheduleError, problem
from mslang.ir.annotations import MAX_STEPS
from mslang.ir.dtype import size_of
from mslang.ir.expr import Const
from mslang.ir.find import all_buffers, blocks_of, loops_of, path_to_block
from mslang.ir.program import Buffer, For, Program, Stmt
from mslang.ir.visit import bodies
from mslang.schedule.frames import Frame
from mslang.schedule.interpret import Interpreter
from mslang.schedule.items import SizedProgram
from mslang.schedule.space import Candidate
from mslang.sema.program import instantiate
from mslang.syntax import tree
from mslang.target.description import Target


class Scheduled(msgspec.Struct, frozen=True):
    """A candidate in a test."""

    candidate: Candidate

    @property
    def program(self) -> Program:
        """Its program."""
        return self.candidate.program


class Truth(msgspec.Struct, frozen=True):
    """The result of a check, with the reason if it is false."""

    holds: bool
    why: str | None = None
    skipped: tuple[str, ...] = ()
    """The parts that could not be checked on this machine, each with its reason."""
    judged: bool = True


def concrete(value: SizedProgram) -> Program:
    """The program with its sizes substituted."""
    assert isinstance(value.found.item, tree.Program)
    return instantiate(value.found.module, value.found.item.name.text, value.values)


def method(it: Interpreter, receiver: object, name: str, e: tree.Call, frame: Frame) -> object:
    """The result of a method called on a program in a test."""
    assert isinstance(receiver, Scheduled | SizedProgram)
    program = receiver.program if isinstance(receiver, Scheduled) else concrete(receiver)
    match name, e.args:
        case "blocks", ():
            return tuple(b.name for b in blocks_of(program.body))
        case "loops", (tree.Arg(value=tree.Ref(name=tree.Name(text=block)) | tree.String(value=block)),):
            now = dict(receiver.candidate.sketch.blocks) if isinstance(receiver, Scheduled) else {}
            return _loops(program, now.get(block, block))
        case "text", ():
            from mslang.ir.print import print_program

            return print_program(program)
        case "trace", () if isinstance(receiver, Scheduled):
            return receiver.candidate.trace.as_ms()
        case "shared_bytes", ():
            return _shared_bytes(program)
    raise ScheduleError(
        problem(
            "MS202",
            f"a program has no `{name}` with these arguments",
            help="it has blocks(), loops(block), text(), trace() and shared_bytes()",
        )
    )


def _loops(program: Program, block: str) -> str:
    path = path_to_block(program, block)
    if path is None:
        names = ", ".join(b.name for b in blocks_of(program.body))
        raise ScheduleError(problem("MS201", f"there is no block `{block}`", help=f"the blocks are: {names}"))
    return ", ".join(" ".join(filter(None, (s.var, _kind(s)))) for s in loops_of(path))


def _kind(loop: For) -> str | None:
    """A loop's kind as listings show it; empty for a serial loop and for one unrolled only up to a limit."""
    return None if loop.kind == "serial" or MAX_STEPS in dict(loop.annotations) else loop.kind


def fits(it: Interpreter, args: Sequence[object], kwargs: Mapping[str, object]) -> object:
    """Whether a program stays within a target's `shared` bytes and `max_threads`, where the target states them."""
    if len(args) != 2 or kwargs or not isinstance(args[0], Scheduled) or not isinstance(args[1], Target):
        raise ScheduleError(problem("MS205", "`fits` takes a scheduled program and a target"))
    program, fields = args[0].program, args[1].fields
    used = {"shared": _shared_bytes(program), "max_threads": max((_threads(s) for s in program.body), default=1)}
    over = [
        f"{n} is {used[n]}, the limit of `{args[1].name}` is {limit}"
        for n, limit in fields.items()
        if n in used and isinstance(limit, int) and used[n] > limit
    ]
    return Truth(not over, "; ".join(over) or None)


def _threads(s: Stmt) -> int:
    """The largest number of threads per thread block under a statement."""
    inside = max((_threads(x) for body in bodies(s) for x in body), default=1)
    if not isinstance(s, For) or not s.kind.startswith("threadIdx"):
        return inside
    if not isinstance(s.extent, Const):
        raise ScheduleError(problem("MS256", f"the extent of loop `{s.var}` is known only at the call"))
    return inside * int(s.extent.value)


def _shared_bytes(program: Program) -> int:
    return sum(_bytes(b) for b in all_buffers(program).values() if b.scope.startswith("shared"))


def _bytes(buffer: Buffer) -> int:
    total = size_of(buffer.dtype)
    for extent in buffer.shape:
        if not isinstance(extent, Const):
            raise ScheduleError(problem("MS256", f"the size of `{buffer.name}` is known only at the call"))
        total *= int(extent.value)
    return total
