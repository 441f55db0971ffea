"""Stages fused by rows: softmax, normalisations and attention in one pass over memory.

All stages of a group (`groups`) are computed for a row, or a few rows, of the last one, in one parallel loop: what
they hand on stays in the cache. Reductions along a row run in vectors: each lane reduces its part, then the lanes are
joined. Products among the stages accumulate in registers.
"""

from __future__ import annotations

from collections.abc import Mapping
from math import prod
from typing import TYPE_CHECKING

import msgspec

from mslang.ir.expr import Binary, Const, Expr
from mslang.ir.program import Block
from mslang.schedule.handles import Handle
from mslang.schedule.rules.cpu.contraction import Contraction, extents, lanes_of, limited, shape_of
from mslang.schedule.rules.cpu.groups import Group, adjacent_reduction, group_of
from mslang.schedule.rules.cpu.lanes import vectorize_along
from mslang.schedule.rules.cpu.packing import copy_operand, pack, pack_ahead, packable, packed_ahead, spread_panels
from mslang.schedule.rules.cpu.tiles import TENS, shared_tiles
from mslang.schedule.rules.multi_level import needs_tiling
from mslang.schedule.rules.nests import block_handle, block_of, do, do_if_legal, draw, handle, loops_around
from mslang.schedule.session import Session
from mslang.target.description import Target
from mslang.transform.outcome import BufferRef

if TYPE_CHECKING:
    from mslang.schedule.interpret import Interpreter

TOGETHER = (1, 2, 3, 4, 5, 6, 7, 8)
"""The numbers of register tiles whose rows are computed together."""
SHORT = 16
"""Together they have at most so large a part of all rows."""
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
        prefix: of the addresses, where there are products: `PREFIX/registers` of their register tiles and
            `PREFIX/tiles` of how many of these are computed together.
    """
    blocks = [block_of(session, block_handle(session, n)) for n in (*group.stages, group.last)]
    products = {
        b.name: s for b in blocks if needs_tiling(session.program, b) and (s := shape_of(session.program, b, machine))
    }
    packed = [c for b in blocks if b.name in products and (c := _packed(session, b, products[b.name])) is not None]
    tiles = _tiles(session, group, blocks[-1], products, machine, prefix) if products else None
    loop = _rows(session, group, tiles)
    for name in reversed(group.stages):
        do(session, "compute_at", block_handle(session, name), loop)
    do(session, "parallel", loop)
    for b in blocks:
        if tiles is not None and b.name in products:
            _accumulate(session, b, products[b.name], tiles)
        elif (axis := adjacent_reduction(b)) is not None:
            _join_lanes(session, block_handle(session, b.name), axis)
        elif b.init is None:
            vectorize_along(session, block_handle(session, b.name), lanes_of(session.program, _written(b), machine))
    for copy in packed:
        spread_panels(session, copy, machine.vector_lanes)


def _written(block: Block) -> str:
    return block.writes[0].buffer


def _packed(session: Session, block: Block, found: Contraction) -> Handle | None:
    """A packed copy of an operand whose vectors are scattered in memory; a constant one is packed ahead of time."""
    name = packable(block, found)
    if name is None or name not in found.strided:
        return None
    if packed_ahead(session.program, block, found) is not None:
        pack_ahead(session, block, found, name)
        return None
    return pack(session, block, found, copy_operand(session, block, name))


class _Tiles(msgspec.Struct, frozen=True):
    """Register tiles of products that share their rows: how many are computed together, and the sizes of one."""

    count: Expr | int
    rows: Expr
    vectors: Mapping[str, Expr]


def _tiles(
    session: Session, group: Group, last: Block, products: Mapping[str, Contraction], machine: Target, prefix: str
) -> _Tiles:
    rows = extents(last).get(group.rows[-1], 1)
    widths = {
        name: -(-extents(block_of(session, block_handle(session, name)))[found.vector] // found.lanes)
        for name, found in products.items()
    }
    codes = shared_tiles(machine.registers, rows, tuple(widths.values()))
    code = draw(session, "choose", tuple(codes), weights=tuple(codes.values()), address=f"{prefix}/registers")
    assert isinstance(code, Expr)
    vectors: dict[str, Expr] = {}
    for name in reversed(widths):
        vectors[name] = Binary("%", code, Const(TENS))
        code = Binary("//", code, Const(TENS))
    heights = {c // TENS ** len(widths) for c in codes}
    counts = tuple(n for n in TOGETHER if all(rows % (n * r) == 0 for r in heights)) or limited(TOGETHER, rows // SHORT)
    count = draw(session, "choose", counts, address=f"{prefix}/tiles") if len(counts) > 1 else counts[0]
    assert isinstance(count, Expr | int)
    return _Tiles(count, code, vectors)


def _rows(session: Session, group: Group, tiles: _Tiles | None) -> Handle:
    """The loop at which the stages are computed: all rows fused, the last in tiles if there are products.

    Where tiles do not divide, the loop over them is left apart if there are other rows enough: it can be cut.
    """
    last = block_handle(session, group.last)
    loops = [session.axis(last, a) for a in group.rows]
    if tiles is not None:
        axis = group.rows[-1]
        sizes = (None, tiles.count, tiles.rows)
        outer, some, rows = do(session, "split", loops[-1], sizes, names=[f"{axis}{k}" for k in range(3)])
        do(session, "fuse", some, rows)
        loops[-1] = outer
    if len(loops) == 1:
        return loops[0]
    return do(session, "fuse", *loops)[0]


def _join_lanes(session: Session, block: Handle, axis: str) -> None:
    """Reduce along a row in vectors."""
    loop = session.axis(block, axis)
    loops = [handle(session, x.var) for x in loops_around(session.program, block_of(session, block))]
    own = [x for x in loops if session.handles.resolve(x) != session.handles.resolve(loop)]
    if own:
        do_if_legal(session, "reorder", *own[-1:], loop)
    do_if_legal(session, "vectorize", loop, reduction=True)


def _accumulate(session: Session, block: Block, found: Contraction, tiles: _Tiles) -> None:
    """Compute a product of some rows in register tiles, those of the same vectors one after the other."""
    target = block_handle(session, block.name)
    width = Binary("*", tiles.vectors[block.name], Const(found.lanes))
    loop = session.axis(target, found.vector)
    outer, inner = do(session, "split", loop, (None, width), names=[f"{block.name}_{found.vector}{k}" for k in (0, 1)])
    reduced = [session.axis(target, a) for a in found.reduced]
    tile, place = [inner], outer
    order = [outer]
    if found.row is not None:
        split = session.axis(target, found.row), (None, tiles.rows)
        place, row = do(session, "split", *split, names=[f"{block.name}_{found.row}{k}" for k in (0, 1)])
        order, tile = [outer, place], [row, inner]
    do(session, "reorder", *order, *reduced, *tile)
    written = session.handles.handle(BufferRef(_written(block)))
    (results,) = do(session, "cache_write", target, written, "local")
    do(session, "reverse_compute_at", results, place)
    do(session, "vectorize", inner)
    for row in tile[:-1]:
        do(session, "unroll", row)
    (zero,) = do(session, "decompose_reduction", target, reduced[0])
    if found.row is not None:
        do(session, "unroll", session.axis(zero, found.row))
    vectorize_along(session, results, found.lanes)
