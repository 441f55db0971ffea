"""Blocks of loops, of drawn sizes, for nests that reuse nothing in registers: elementwise stages, windows."""

from __future__ import annotations

from collections.abc import Iterator, Set
from typing import TYPE_CHECKING

import msgspec

from mslang.ir.expr import Binary, Const, Expr
from mslang.ir.program import Axis, Block, Program
from mslang.ir.visit import free_vars
from mslang.schedule.handles import Handle
from mslang.schedule.rules.cpu.contraction import lanes_of, limited, mentions
from mslang.schedule.rules.nests import (
    block_handle,
    do,
    do_if_legal,
    draw,
    leaf_blocks,
    loops_around,
    stands_alone,
    untiled,
)
from mslang.schedule.rules.parallelize_vectorize_unroll import vector_loop
from mslang.schedule.rules.rule import legal
from mslang.schedule.session import Session
from mslang.target.description import Target
from mslang.transform.getters import consumers, is_output, producers
from mslang.transform.outcome import BlockRef

if TYPE_CHECKING:
    from mslang.schedule.interpret import Interpreter

ROWS = (1, 2, 4, 8, 16, 32)
"""Iterations of a block along its rows."""

VECTORS = (1, 2, 4, 8, 16)
"""Vectors of a block along its columns."""


class LoopBlocks(msgspec.Struct, frozen=True):
    """Runs a nest in blocks of columns, the axis along which adjacent elements are written, and of rows, the spatial
    axis before that.

    The sizes are drawn at `loop_blocks:BLOCK/columns`, in vectors, and `loop_blocks:BLOCK/rows`. The loops over blocks
    are the outermost; a reduction runs for one row of a block at a time. Elementwise stages that only this nest reads
    are computed in its blocks, where that is legal.
    """

    only_reductions: bool = False
    """Other blocks are left to another rule."""
    name: str = "loop_blocks"

    def applies(self, it: Interpreter, block: Block) -> bool:
        """Whether the block stands alone in loops of its own, of which none is scheduled, and writes whole vectors; not
        if it has one loop alone."""
        program = it.session.program
        if self.only_reductions and all(a.kind != "reduce" for a in block.axes):
            return False
        alone = untiled(program, block) and stands_alone(program, block) and len(loops_around(program, block)) > 1
        return alone and _columns(program, block, it.machine) is not None

    def alternatives(self, it: Interpreter, block: Block) -> tuple[str, ...]:
        """One, if it is legal: what is open are numbers."""
        return legal(it, self, block, ("applied",))

    def apply(self, it: Interpreter, block: Block, alternative: str) -> None:
        """Split the axes, order the loops, and move the stages before."""
        session, own, prefix = it.session, block_handle(it.session, block.name), f"{self.name}:{block.name}"
        columns = _columns(session.program, block, it.machine)
        assert columns is not None  # as for `applies`
        lanes = lanes_of(session.program, block.writes[0].buffer, it.machine)
        others = [a for a in block.axes if a.kind == "spatial" and a != columns]
        rows = next((a for a in reversed(others) if a.extent != Const(1)), None)
        outer = {a.name: session.axis(own, a.name) for a in others}
        outer[columns.name], *inner = _cut(session, own, columns, VECTORS, lanes, f"{prefix}/columns")
        inner = [*(session.axis(own, a.name) for a in block.axes if a.kind == "reduce"), *inner]
        if rows is not None:
            outer[rows.name], row = _cut(session, own, rows, ROWS, 1, f"{prefix}/rows")
            inner = [row, *inner]
        do(session, "reorder", *outer.values(), *inner)
        wide = {a.name for a in (*others, columns) if a.extent != Const(1)}
        for producer in _producers(session.program, block, wide):
            do_if_legal(session, "compute_at", block_handle(session, producer.name), list(outer.values())[-1])


def _producers(program: Program, block: Block, axes: Set[str]) -> Iterator[Block]:
    """The elementwise stages that only this block reads, at elements that depend on all of some axes: in blocks of
    these axes little of a stage is computed twice."""
    ref = BlockRef(block.name)
    names = {p.name for p in producers(program, ref) if consumers(program, p) == (ref,) and not is_output(program, p)}
    for producer in leaf_blocks(program):
        plain = producer.name in names and all(a.kind == "spatial" for a in producer.axes)
        if plain and untiled(program, producer) and stands_alone(program, producer):
            written = {r.buffer for r in producer.writes}
            if all(mentions(r, a) for r in block.reads if r.buffer in written for a in axes):
                yield producer


def _cut(
    session: Session, block: Handle, axis: Axis, counts: tuple[int, ...], unit: int, address: str
) -> tuple[Handle, ...]:
    """Split an axis by a number of units that is drawn, at most as many as there are."""
    assert isinstance(axis.extent, Const)
    known = limited(counts, -(-int(axis.extent.value) // unit))
    count = draw(session, "choose", known, address=address) if len(known) > 1 else Const(known[0])
    assert isinstance(count, Expr)
    size = count if unit == 1 else Binary("*", count, Const(unit))
    return do(session, "split", session.axis(block, axis.name), (None, size), names=[f"{axis.name}0", f"{axis.name}1"])


def _columns(program: Program, block: Block, machine: Target) -> Axis | None:
    """The spatial axis along which the block writes adjacent elements, if it is a vector or more."""
    loop = vector_loop(program, block)
    axis = None if loop is None else next((a for a in block.axes if loop.var in free_vars(a.binding)), None)
    if axis is None or axis.kind != "spatial" or not isinstance(axis.extent, Const):
        return None
    return axis if axis.extent.value >= lanes_of(program, block.writes[0].buffer, machine) else None
