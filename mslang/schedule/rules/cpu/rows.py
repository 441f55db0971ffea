"""Stages fused by rows: softmax, normalisations and attention in one pass over memory.

All stages of a group (`groups`) are computed for a row, or a few rows, of the last one, in one parallel loop: what
they hand on stays in the cache. Reductions along a row run in vectors: each lane reduces its part, then the lanes are
joined. Products among the stages accumulate in registers.
"""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING

import msgspec

from mslang.ir.expr import Binary, Const, Expr, Var
from mslang.ir.program import Block
from mslang.schedule.handles import Handle
from mslang.schedule.rules.cpu.contraction import Contraction, extents, lanes_of, limited, shape_of
from mslang.schedule.rules.cpu.groups import Group, adjacent_reduction, group_of
from mslang.schedule.rules.cpu.lanes import spread_copy, vectorize_along
from mslang.schedule.rules.cpu.packing import copy_operand, pack, packable
from mslang.schedule.rules.cpu.tiles import TENS, intensities, register_tiles
from mslang.schedule.rules.multi_level import needs_tiling
from mslang.schedule.rules.nests import block_handle, block_of, do, draw, handle, loops_around
from mslang.schedule.session import Session
from mslang.target.description import Target
from mslang.transform.outcome import BufferRef

if TYPE_CHECKING:
    from mslang.schedule.interpret import Interpreter

ACCUMULATORS = (1, 2, 4, 8)
"""The numbers of vectors that a reduction along a row keeps its parts in."""
BUSY = 4
"""With so many rows for each core other parallelism is not tried."""


class RowFusion(msgspec.Struct, frozen=True):
    """Computes a chain of stages row by row; see the module."""

    name: str = "rows"

    def applies(self, it: Interpreter, block: Block) -> bool:
        """Whether the block ends a group of stages that share rows."""
        return group_of(it.session.program, block) is not None

    def alternatives(self, it: Interpreter, block: Block) -> tuple[str, ...]:
        """`fused`; where there are few rows also `apart`, which leaves the stages to other rules."""
        group = group_of(it.session.program, block)
        if group is None:
            return ()
        sizes = extents(block)
        rows = prod(sizes.get(a, 1) for a in group.rows)
        return ("fused",) if rows >= BUSY * it.machine.cores else ("fused", "apart")

    def apply(self, it: Interpreter, block: Block, alternative: str) -> None:
        """Fuse the stages; it samples the register tile of products and the accumulators of reductions."""
        group = group_of(it.session.program, block)
        if alternative == "fused" and group is not None:
            fuse_rows(it.session, group, it.machine, f"{self.name}:{block.name}")


def fuse_rows(session: Session, group: Group, machine: Target, prefix: str) -> None:
    """Compute the stages of a group in the rows of the last.

    Args:
        session: the running schedule.
        group: the stages.
        machine: what it runs on.
        prefix: of the addresses: `PREFIX/registers` of the register tile of products, `PREFIX/STAGE` of the
            accumulators of a reduction.
    """
    blocks = [block_of(session, block_handle(session, n)) for n in (*group.stages, group.last)]
    products = {
        b.name: s for b in blocks if needs_tiling(session.program, b) and (s := shape_of(session.program, b, machine))
    }
    packed = [c for b in blocks if b.name in products and (c := _packed(session, b, products[b.name])) is not None]
    code = _register_tile(session, group, blocks[-1], products, machine, prefix)
    partial = {
        b.name: made
        for b in blocks
        if b.name not in products and (made := _partial(session, b, machine, prefix)) is not None
    }
    loop = _rows(session, group, code)
    for name in reversed(group.stages):
        do(session, "compute_at", block_handle(session, name), loop)
        if name in partial:
            do(session, "compute_at", partial[name], loop)
    do(session, "parallel", loop)
    for b in blocks:
        if b.name in products and code is not None:
            _accumulate(session, b, products[b.name], code)
        elif b.init is None:
            vectorize_along(session, block_handle(session, b.name), lanes_of(session.program, _written(b), machine))
    for made in partial.values():
        _lanes_innermost(session, made)
    for copy in packed:
        spread_copy(session, copy, machine.vector_lanes)


def _written(block: Block) -> str:
    return block.writes[0].buffer


def _packed(session: Session, block: Block, found: Contraction) -> Handle | None:
    """A packed copy of an operand whose vectors are scattered in memory."""
    name = packable(block, found)
    if name is None or name not in found.strided:
        return None
    return pack(session, block, found, copy_operand(session, block, name))


def _register_tile(
    session: Session,
    group: Group,
    last: Block,
    products: dict[str, Contraction],
    machine: Target,
    prefix: str,
) -> Expr | None:
    if not products:
        return None
    rows = extents(last).get(group.rows[-1], 1)
    codes = register_tiles(machine.registers, rows, 4)
    code = draw(session, "choose", codes, weights=intensities(codes), address=f"{prefix}/registers")
    assert isinstance(code, Expr)
    return code


def _partial(session: Session, block: Block, machine: Target, prefix: str) -> Handle | None:
    """Make each lane of some vectors reduce its part of a row; returns the block that does."""
    axis = adjacent_reduction(block)
    if axis is None:
        return None
    lanes = lanes_of(session.program, _written(block), machine)
    counts = limited(ACCUMULATORS, extents(block).get(axis, lanes) // lanes)
    count = draw(session, "choose", counts, address=f"{prefix}/{block.name}") if len(counts) > 1 else counts[0]
    width: Expr | int = count * lanes if isinstance(count, int) else Binary("*", count, Const(lanes))  # type: ignore[arg-type]
    loop = session.axis(block_handle(session, block.name), axis)
    _, inner = do(session, "split", loop, (None, width), names=[f"{block.name}_part", f"{block.name}_lane"])
    (made,) = do(session, "rfactor", inner, axis=len(block.writes[0].ranges))
    return made


def _rows(session: Session, group: Group, code: Expr | None) -> Handle:
    """The loop at which the stages are computed: all rows fused, the last in tiles if there are products."""
    last = block_handle(session, group.last)
    loops = [session.axis(last, a) for a in group.rows]
    if code is not None:
        size = Binary("//", code, Const(TENS))
        axis = group.rows[-1]
        outer, _ = do(session, "split", loops[-1], (None, size), names=[f"{axis}0", f"{axis}1"])
        loops[-1] = outer
    if len(loops) == 1:
        return loops[0]
    return do(session, "fuse", *loops)[0]


def _lanes_innermost(session: Session, made: Handle) -> None:
    """Move the loop over lanes innermost and vectorize it."""
    block = block_of(session, made)
    at = block.writes[0].ranges[-1].start
    assert isinstance(at, Var)
    loop = session.axis(made, at.name)
    loops = [handle(session, x.var) for x in loops_around(session.program, block) if x.kind == "serial"]
    own = [x for x in loops if session.handles.resolve(x) != session.handles.resolve(loop)]
    do(session, "reorder", *own, loop)
    do(session, "vectorize", loop)


def _accumulate(session: Session, block: Block, found: Contraction, code: Expr) -> None:
    """Compute a product of the tile's rows a few vectors at a time, in registers."""
    target = block_handle(session, block.name)
    width = Binary("*", Binary("%", code, Const(TENS)), Const(found.lanes))
    loop = session.axis(target, found.vector)
    outer, inner = do(session, "split", loop, (None, width), names=[f"{block.name}_{found.vector}{k}" for k in (0, 1)])
    reduced = [session.axis(target, a) for a in found.reduced]
    row = None if found.row is None else session.axis(target, found.row)
    do(session, "reorder", outer, *reduced, *(() if row is None else (row,)), inner)
    written = session.handles.handle(BufferRef(_written(block)))
    (results,) = do(session, "cache_write", target, written, "local")
    do(session, "reverse_compute_at", results, outer)
    do(session, "vectorize", inner)
    if row is not None:
        do(session, "unroll", row)
    do(session, "decompose_reduction", target, reduced[0])
    vectorize_along(session, results, found.lanes)
