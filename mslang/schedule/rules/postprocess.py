"""Postprocessors: what is done with a whole program after its rules, and what may still refuse it.

A postprocessor is applied to the running schedule, last. It may rewrite the program with primitives; state conditions
on decisions (`it.session.require`), so that candidates that break them are left out, thousands at a time, and counted
by the reason; or raise, which rejects the structure.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Protocol, runtime_checkable

import msgspec

from mslang.diagnostics import MsError
from mslang.extensions import POSTPROCESSORS, allowed, loaded
from mslang.ir.find import blocks_of, path_to_block
from mslang.ir.program import Block, Program
from mslang.schedule.rules.nests import attempt, block_handle, do, handle, loops_around
from mslang.schedule.rules.rule import Rule, apply_rules
from mslang.transform.analysis.axes import axis_loops
from mslang.transform.outcome import BlockRef, LoopRef

if TYPE_CHECKING:
    from mslang.schedule.interpret import Interpreter


@runtime_checkable
class Postprocessor(Protocol):
    """What is applied once to the program that rules have made.

    Source: MetaSchedule, `Postproc`; there each works on a concrete program, and is run for each candidate.
    """

    @property
    def name(self) -> str:
        """The postprocessor's name."""

    def apply(self, it: Interpreter) -> None:
        """Rewrite the program, require conditions on decisions, or refuse.

        Raises:
            ScheduleError: the structure is refused for all values of its decisions.
        """


def postprocess(it: Interpreter, postprocessors: Iterable[Postprocessor]) -> None:
    """Apply postprocessors in their order; the trace marks where they begin.

    Raises:
        ScheduleError: one refuses the program.
    """
    for k, p in enumerate(postprocessors):
        if k == 0:
            it.session.enter_postproc()
        p.apply(it)


class AfterRules(msgspec.Struct, frozen=True):
    """Rules that are applied to what other postprocessors made."""

    rules: tuple[Rule, ...]
    name: str = "after_rules"

    def apply(self, it: Interpreter) -> None:
        """Apply the rules."""
        apply_rules(it, self.rules)


class ReductionBlocks(msgspec.Struct, frozen=True):
    """Make the init of every reduction a block of its own before its outermost reduction loop, unless threads share
    the reduction.

    Source: MetaSchedule, `RewriteReductionBlock`.
    """

    name: str = "reduction_blocks"

    def apply(self, it: Interpreter) -> None:
        """Decompose the reductions."""
        session = it.session
        for name in [b.name for b in blocks_of(session.program.body) if b.init is not None]:
            block = (path_to_block(session.program, name) or ())[-1]
            assert isinstance(block, Block)
            loop = outermost_reduction_loop(session.program, block)
            if loop is None:
                continue
            if attempt(session.program, "decompose_reduction", BlockRef(name), LoopRef(loop)) is not None:
                do(session, "decompose_reduction", block_handle(session, name), handle(session, loop))


def own_postprocessors() -> tuple[Postprocessor, ...]:
    """The postprocessors that allowed packages declare, in the order of their names.

    Raises:
        MsError: MS212 or MS213, one cannot be loaded.
    """
    packages = allowed()
    found = loaded(POSTPROCESSORS, Postprocessor, packages) if packages else ()
    broken = next((e.problem for e in found if e.problem is not None), None)
    if broken is not None:
        raise MsError(broken)
    return tuple(e.value for e in found if isinstance(e.value, Postprocessor))


def outermost_reduction_loop(program: Program, block: Block) -> str | None:
    """The outermost loop of a block's reduction axes; None if there is none, or threads share one of them."""
    path = path_to_block(program, block.name) or ()
    reduced = {s.var for a in block.axes if a.kind == "reduce" for s in axis_loops(path, a.name)}
    loops = [s for s in loops_around(program, block) if s.var in reduced]
    if not loops or any(s.kind.startswith("threadIdx") for s in loops):
        return None
    return loops[0].var
