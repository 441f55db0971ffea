"""Stages fused by rows: softmax, normalisations and attention in one pass over memory.

All stages of a group (`groups`) are computed for a row, or a few rows, of the last one, in one parallel loop: what
they hand on stays in the cache. Reductions along a row run in vectors: each lane reduces its part, then the lanes are
joined. Products among the stages accumulate in registers. Without products, the number of rows may be
known only at the call.
"""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING

import msgspec

from mslang.ir.arith.convert import read_size
from mslang.ir.arith.domain import limits
from mslang.ir.expr import Expr
from mslang.ir.program import Block
from mslang.schedule.handles import Handle
from mslang.schedule.rules.cpu.contraction import adjacent_reduction, extents, lanes_of
from mslang.schedule.rules.cpu.groups import Group, group_of
from mslang.schedule.rules.cpu.lanes import vectorize_along
from mslang.schedule.rules.cpu.next_row import fetch_next_row
from mslang.schedule.rules.cpu.one_pass import is_long, roll_rows
from mslang.schedule.rules.cpu.packing import spread_panels
from mslang.schedule.rules.cpu.row_tiles import (
    Tiles,
    accumulate,
    draw_tiles,
    join_lanes,
    packed_copy,
    products_of,
    written_by,
)
from mslang.schedule.rules.cpu.shared_operands import draw_together, interleave_rows
from mslang.schedule.rules.nests import block_handle, block_of, do
from mslang.schedule.rules.rule import legal
from mslang.schedule.session import Session
from mslang.target.description import Target

if TYPE_CHECKING:
    from mslang.schedule.interpret import Interpreter

FUSED, ONE_PASS, SEPARATE = "fused", "one_pass", "apart"
"""The alternatives: all stages row by row; the same in one pass over tiles of each row; left to other rules."""
BUSY = 4
"""With so many rows for each core other parallelism is not tried."""


class RowFusion(msgspec.Struct, frozen=True):
    """Computes a chain of stages row by row; see the module."""

    name: str = "rows"

    def applies(self, it: Interpreter, block: Block) -> bool:
        """Whether the block ends a group of stages that share rows."""
        return group_of(it.session.program, block) is not None

    def alternatives(self, it: Interpreter, block: Block) -> tuple[str, ...]:
        """Where they are legal: `fused`, and `one_pass` if rows are long; where there are few rows also `apart`."""
        group = group_of(it.session.program, block)
        if group is None:
            return ()
        rows = prod(limits(read_size(a.extent))[0] or 1 for a in block.axes if a.name in group.rows)
        wanted = (FUSED, ONE_PASS) if is_long(it.session, group, it.machine) else (FUSED,)
        return (*legal(it, self, block, wanted), *(() if rows >= BUSY * it.machine.cores else (SEPARATE,)))

    def apply(self, it: Interpreter, block: Block, alternative: str) -> None:
        """Fuse the stages; it samples the register tile of products, or how many rows are computed together."""
        group = group_of(it.session.program, block)
        if alternative == SEPARATE or group is None:
            return
        fuse = fuse_rows if alternative == FUSED else roll_rows
        fuse(it.session, group, it.machine, f"{self.name}:{block.name}")


def fuse_rows(session: Session, group: Group, machine: Target, prefix: str) -> None:
    """Compute the stages of a group in the rows of the last.

    Args:
        session: the running schedule.
        group: the stages.
        machine: what it runs on.
        prefix: of the addresses, where there are products: `PREFIX/registers` of their register tiles and
            `PREFIX/tiles` of how many of these are computed together; else `PREFIX/together` of rows that share an
            operand, and of large parameters `PREFIX/prefetch`.
    """
    blocks = [block_of(session, block_handle(session, n)) for n in (*group.stages, group.last)]
    products = products_of(session, group, machine)
    packed = [c for b in blocks if b.name in products and (c := packed_copy(session, b, products[b.name])) is not None]
    rows = extents(blocks[-1]).get(group.rows[-1], 1)
    tiles = draw_tiles(session, rows, products, machine, prefix) if products else None
    together = None if products else draw_together(session, group, machine, prefix)
    loop, inner = _rows(session, group, tiles, together)
    for name in reversed(group.stages):
        do(session, "compute_at", block_handle(session, name), loop)
    do(session, "parallel", loop)
    for b in blocks:
        if tiles is not None and b.name in products:
            accumulate(session, b, products[b.name], tiles)
        elif (axis := adjacent_reduction(b)) is not None:
            join_lanes(session, block_handle(session, b.name), axis)
        elif b.init is None:
            vectorize_along(session, block_handle(session, b.name), lanes_of(session.program, written_by(b), machine))
    if tiles is None:
        fetch_next_row(session, group, machine, prefix, together)
    if inner is not None:
        interleave_rows(session, block_handle(session, group.last), inner)
    for copy in packed:
        spread_panels(session, copy, machine.vector_lanes)


def _rows(session: Session, group: Group, tiles: Tiles | None, together: Expr | None) -> tuple[Handle, Handle | None]:
    """The loop at which the stages are computed: all rows fused, the last in tiles if there are products; and the loop
    over rows that are computed together, if there is one.

    Where tiles do not divide, the loop over them is left apart if there are other rows enough: it can be cut.
    """
    last = block_handle(session, group.last)
    loops = [session.axis(last, a) for a in group.rows]
    axis, inner = group.rows[-1], None
    if tiles is not None:
        sizes = (None, tiles.count, tiles.rows)
        outer, some, rows = do(session, "split", loops[-1], sizes, names=[f"{axis}{k}" for k in range(3)])
        do(session, "fuse", some, rows)
        loops[-1] = outer
    elif together is not None:
        loops[-1], inner = do(session, "split", loops[-1], (None, together), names=[f"{axis}{k}" for k in range(2)])
    return loops[0] if len(loops) == 1 else do(session, "fuse", *loops)[0], inner
