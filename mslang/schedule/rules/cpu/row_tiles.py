"""How stages are computed a tile of rows at a time: products in registers, reductions along rows in lanes."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

import msgspec

from mslang.ir.expr import Binary, Const, Expr
from mslang.ir.program import Block
from mslang.schedule.handles import Handle
from mslang.schedule.rules.cpu.contraction import Contraction, extents, limited, shape_of
from mslang.schedule.rules.cpu.groups import Group
from mslang.schedule.rules.cpu.lanes import vectorize_along
from mslang.schedule.rules.cpu.packing import copy_operand, pack, pack_ahead, packable, packed_ahead
from mslang.schedule.rules.cpu.tiles import TENS, shared_tiles
from mslang.schedule.rules.nests import block_handle, block_of, do, do_if_legal, draw, handle, loops_around
from mslang.schedule.session import Session
from mslang.target.description import Target
from mslang.transform.outcome import BufferRef

TOGETHER = (1, 2, 3, 4, 5, 6, 7, 8)
"""The numbers of register tiles whose rows are computed together."""
SHORT = 16
"""Together they have at most so large a part of all rows."""


def written_by(block: Block) -> str:
    """The buffer that a block writes first."""
    return block.writes[0].buffer


def packed_copy(session: Session, block: Block, found: Contraction) -> Handle | None:
    """A packed copy of an operand whose vectors are scattered in memory; a constant one is packed ahead of time."""
    name = packable(block, found)
    if name is None or name not in found.strided:
        return None
    if packed_ahead(session.program, block, found) is not None:
        pack_ahead(session, block, found, name)
        return None
    return pack(session, block, found, copy_operand(session, block, name))


def products_of(session: Session, group: Group, machine: Target) -> dict[str, Contraction]:
    """The products of a group, by their stages."""
    blocks = [block_of(session, block_handle(session, n)) for n in group.products]
    return {b.name: found for b in blocks if (found := shape_of(session.program, b, machine)) is not None}


class Tiles(msgspec.Struct, frozen=True):
    """Register tiles of products that share their rows: how many are computed together, and the sizes of one."""

    count: Expr | int
    rows: Expr
    vectors: Mapping[str, Expr]


def draw_tiles(
    session: Session,
    rows: int,
    products: Mapping[str, Contraction],
    machine: Target,
    prefix: str,
    together: Sequence[int] = TOGETHER,
    even: Collection[str] = (),
) -> Tiles:
    """Draw the register tiles of products that share rows, and how many of them are computed together.

    Args:
        session: the running schedule.
        rows: how many rows there are.
        products: the products by their blocks.
        machine: what they run on.
        prefix: of the addresses: `PREFIX/registers` and `PREFIX/tiles`.
        together: the numbers of register tiles to draw from.
        even: the products whose tiles have no three vectors.
    """
    widths = {
        name: -(-extents(block_of(session, block_handle(session, name)))[found.vector] // found.lanes)
        for name, found in products.items()
    }
    digits = {name: TENS**k for k, name in enumerate(reversed(widths))}
    found = shared_tiles(machine.registers, rows, tuple(widths.values()))
    codes = {c: w for c, w in found.items() if all(c // digits[name] % TENS != 3 for name in even)}
    code = draw(session, "choose", tuple(codes), weights=tuple(codes.values()), address=f"{prefix}/registers")
    assert isinstance(code, Expr)
    vectors: dict[str, Expr] = {}
    for name in reversed(widths):
        vectors[name] = Binary("%", code, Const(TENS))
        code = Binary("//", code, Const(TENS))
    heights = {c // TENS ** len(widths) for c in codes}
    counts = tuple(n for n in together if all(rows % (n * r) == 0 for r in heights)) or limited(together, rows // SHORT)
    count = draw(session, "choose", counts, address=f"{prefix}/tiles") if len(counts) > 1 else counts[0]
    assert isinstance(count, Expr | int)
    return Tiles(count, code, vectors)


def join_lanes(session: Session, block: Handle, axis: str) -> None:
    """Reduce along a row in vectors."""
    loop = session.axis(block, axis)
    loops = [handle(session, x.var) for x in loops_around(session.program, block_of(session, block))]
    own = [x for x in loops if session.handles.resolve(x) != session.handles.resolve(loop)]
    if own:
        do_if_legal(session, "reorder", *own[-1:], loop)
    do_if_legal(session, "vectorize", loop, reduction=True)


def accumulate(session: Session, block: Block, found: Contraction, tiles: Tiles) -> None:
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
    written = session.handles.handle(BufferRef(written_by(block)))
    (results,) = do(session, "cache_write", target, written, "local")
    do(session, "reverse_compute_at", results, place)
    do(session, "vectorize", inner)
    for row in tile[:-1]:
        do(session, "unroll", row)
    (zero,) = do(session, "decompose_reduction", target, reduced[0])
    if found.row is not None:
        do(session, "unroll", session.axis(zero, found.row))
    vectorize_along(session, results, found.lanes)
