"""TVM's code generation beyond the schedule."""

from __future__ import annotations

from msgspec.structs import replace

from mslang.ir.program import Program
from mslang.kernel.nodes import AUTO_VECTORIZE


def as_compiled_there(program: Program) -> Program:
    """The program, with LLVM free to vectorize serial loops, as it is for TVM: MetaSchedule's schedules count on it."""
    if AUTO_VECTORIZE in dict(program.annotations):
        return program
    return replace(program, annotations=(*program.annotations, (AUTO_VECTORIZE, True)))
