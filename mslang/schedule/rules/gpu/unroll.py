"""Unrolling of what a thread does: so that its results stay in registers, which have no addresses."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from mslang.ir import arith
from mslang.ir.expr import ONE, ZERO, Binary, Const, Expr
from mslang.ir.find import blocks_of
from mslang.ir.program import Block, Program
from mslang.schedule.rules.nests import do, draw, handle, loops_around

if TYPE_CHECKING:
    from mslang.schedule.interpret import Interpreter

STEPS = (0, 16, 32, 64, 128, 256, 512, 1024)


class GpuUnroll(msgspec.Struct, frozen=True):
    """Unroll the serial loops of a thread around a reduction, up to a drawn number of copies of its statement.

    A loop is unrolled if its iterations and those of the loops in it make no more copies than that.

    Decisions: `gpu_unroll:block/steps`.

    Source: MetaSchedule, `ParallelizeVectorizeUnroll` with its postprocessor.
    """

    name: str = "gpu_unroll"
    unroll_steps: tuple[int, ...] = STEPS

    def applies(self, it: Interpreter, block: Block) -> bool:
        """Whether a reduction has serial loops within its threads."""
        reduces = any(a.kind == "reduce" for a in block.axes) and not blocks_of(block.body)
        return reduces and bool(_inner(it.session.program, block))

    def alternatives(self, it: Interpreter, block: Block) -> tuple[str, ...]:
        """One way."""
        return ("unrolled",)

    def apply(self, it: Interpreter, block: Block, alternative: str) -> None:
        """Mark the loops, the innermost first."""
        session = it.session
        steps = draw(session, "choose", self.unroll_steps, address=f"{self.name}:{block.name}/steps")
        assert isinstance(steps, Expr | int)
        copies: Expr = ONE
        extents = {s.var: s.extent for s in loops_around(session.program, block)}
        for var in reversed(_inner(session.program, block)):
            limit = arith.floordiv(steps, copies) if isinstance(steps, Expr) else Const(steps)
            if not arith.proved(Binary("<=", ZERO, limit)):
                return
            do(session, "unroll", handle(session, var), max_steps=limit)
            copies = arith.mul(copies, extents[var])


def _inner(program: Program, block: Block) -> tuple[str, ...]:
    """The serial loops around a block that contain nothing else and lie within all bound loops, outermost first."""
    found: list[str] = []
    for s in reversed(loops_around(program, block)):
        if s.kind != "serial" or len(s.body) != 1:
            break
        found.append(s.var)
    return tuple(reversed(found))
