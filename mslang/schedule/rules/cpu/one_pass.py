"""Attention in one pass over tiles of keys: online softmax (FlashAttention), for rows longer than what a cache holds.

Fused row by row (`rows`), scores and weights of some rows are in the cache, and all keys and values go past them. Where
keys and values outgrow the cache, only as many rows as it holds scores of share what is read of them. In one pass over
tiles (`rolling_update`) no memory grows with the row: many rows share a tile of keys and values.
"""

from __future__ import annotations

from collections.abc import Mapping
from math import prod

import msgspec

from mslang.diagnostics import ScheduleError, problem
from mslang.ir.dtype import size_of
from mslang.ir.expr import Binary, Const, Expr
from mslang.ir.find import all_buffers, blocks_of
from mslang.ir.program import Block, Program
from mslang.ir.reduction import is_maximum
from mslang.schedule.handles import Handle
from mslang.schedule.rules.cpu.contraction import Contraction, extents, shape_of
from mslang.schedule.rules.cpu.groups import Group
from mslang.schedule.rules.cpu.lanes import run_in_parallel, vectorize_along
from mslang.schedule.rules.cpu.packing import spread_panels
from mslang.schedule.rules.cpu.row_tiles import (
    Tiles,
    accumulate,
    draw_tiles,
    join_lanes,
    packed_copy,
    products_of,
)
from mslang.schedule.rules.nests import block_handle, block_of, do, do_if_legal, draw, handle, leaf_blocks, loops_around
from mslang.schedule.session import Session
from mslang.target.description import Target

TOGETHER = (1, 2, 4, 8, 16, 32)
"""The numbers of register tiles whose rows share a tile of keys."""
ALONG = (2, 4, 8, 16)
"""The numbers of register tiles of scores in a tile of keys."""
WIDEST = 4
"""The most vectors of such a register tile."""


class Rolling(msgspec.Struct, frozen=True):
    """What one pass is made of: the stage of the maximum, the axis that it reduces, the axis of its rows in register
    tiles, the sums that follow, and the products by their stages."""

    maximum: str
    reduced: str
    row: str
    sums: tuple[str, ...]
    products: Mapping[str, Contraction]

    @property
    def scores(self) -> tuple[str, ...]:
        """The products before the maximum."""
        return tuple(n for n in self.products if n not in self.sums)


def is_long(session: Session, group: Group, machine: Target) -> bool:
    """Whether what the products of a group read again for every row outgrows half of the L2 cache."""
    found = rolling_of(session, group, machine)
    if found is None:
        return False
    blocks = {b.name: b for b in leaf_blocks(session.program)}
    return 2 * sum(_streamed(session.program, blocks[n], p) for n, p in found.products.items()) >= machine.l2


def _streamed(program: Program, block: Block, found: Contraction) -> int:
    """Bytes of the operands that all rows of a product share."""
    sizes = extents(block)
    count = prod(sizes.get(a, 1) for a in (found.vector, *found.reduced))
    return sum(count * size_of(all_buffers(program)[b].dtype) for b in found.streamed)


def rolling_of(session: Session, group: Group, machine: Target) -> Rolling | None:
    """A maximum along rows of a product's results, with the sums after it, a product among them; None without one."""
    members = [block_of(session, block_handle(session, n)) for n in (*group.stages, group.last)]
    place = next((k for k, b in enumerate(members) if is_maximum(b)), None)
    if place is None:
        return None
    maximum = members[place]
    products = products_of(session, group, machine)
    before = [b.name for b in members[:place] if b.name in products]
    after = tuple(b.name for b in members[place + 1 :] if b.init is not None)
    reduced = [a.name for a in maximum.axes if a.kind == "reduce"]
    if len(before) != 1 or len(reduced) != 1 or maximum.name in products or not set(after) & set(products):
        return None
    rows = group.axes[before[0]].get(products[before[0]].row or "")
    row = next((a for a, of in group.axes[maximum.name].items() if of == rows), None)
    return None if row is None else Rolling(maximum.name, reduced[0], row, after, products)


def roll_rows(session: Session, group: Group, machine: Target, prefix: str) -> None:
    """Compute the stages of a group for some rows in one pass over tiles of the axis that their maximum reduces.

    Args:
        session: the running schedule.
        group: the stages.
        machine: what it runs on.
        prefix: of the addresses: `PREFIX/registers` of the register tiles of products, `PREFIX/tiles` and
            `PREFIX/panels` of how many of them there are in a tile, along rows and along the reduced axis.

    Raises:
        ScheduleError: MS367 and others, the sums cannot be rescaled, or a stage cannot be moved.
    """
    found = rolling_of(session, group, machine)
    if found is None:
        raise ScheduleError(problem("MS203", "no maximum with sums that depend on it is among the stages"))
    names = (*group.stages, group.last)
    blocks = {n: block_of(session, block_handle(session, n)) for n in names}
    packed = [c for n in found.products if (c := packed_copy(session, blocks[n], found.products[n])) is not None]
    sizes = extents(blocks[found.maximum])
    tiles = draw_tiles(session, sizes[found.row], found.products, machine, prefix, TOGETHER, found.scores)
    keys = _keys(session, found, tiles, sizes[found.reduced], prefix)
    place, outer, parts = _rolled(session, found, tiles, keys)
    for n in reversed(names[: names.index(found.maximum)]):
        do(session, "compute_at", block_handle(session, n), place)
    for n in names[names.index(found.maximum) + 1 :]:
        if not _is_under(session, n, outer[-1]):
            do(session, "reverse_compute_at", block_handle(session, n), outer[-1])
    run_in_parallel(session, outer)
    _finish(session, found, tiles, parts, machine)
    for copy in packed:
        spread_panels(session, copy, machine.vector_lanes)


def _keys(session: Session, found: Rolling, tiles: Tiles, extent: int, prefix: str) -> Expr:
    """The size of a tile of the axis that the maximum reduces: whole register tiles of scores, which divide it."""
    (name,) = found.scores
    lanes = found.products[name].lanes
    fitting = tuple(n for n in ALONG if extent % (n * WIDEST * lanes) == 0)
    if not fitting:
        why = f"{extent} is no multiple of {ALONG[0] * WIDEST} vectors of {lanes} elements"
        raise ScheduleError(problem("MS203", f"axis `{found.reduced}` is not done in tiles", why=why))
    count = draw(session, "choose", fitting, address=f"{prefix}/panels") if len(fitting) > 1 else Const(fitting[0])
    assert isinstance(count, Expr)
    return Binary("*", count, Binary("*", tiles.vectors[name], Const(lanes)))


def _rolled(
    session: Session, found: Rolling, tiles: Tiles, keys: Expr
) -> tuple[Handle, list[Handle], dict[str, Handle]]:
    """Roll the sums; gives the loop over tiles, those around it, and the new blocks of partial sums by their stages."""
    maximum = block_handle(session, found.maximum)
    spatial = [a.name for a in block_of(session, maximum).axes if a.kind == "spatial"]
    around = [session.axis(maximum, a) for a in spatial if a != found.row]
    names = [f"{found.row}{k}" for k in range(3)]
    split = session.axis(maximum, found.row), (None, tiles.count, tiles.rows)
    outer, some, rows = do(session, "split", *split, names=names)
    (inside,) = do(session, "fuse", some, rows)
    names = [f"{found.reduced}{k}" for k in range(2)]
    place, within = do(session, "split", session.axis(maximum, found.reduced), (None, keys), names=names)
    do(session, "reorder", *around, outer, place, inside, within)
    sums = tuple(block_handle(session, n) for n in found.sums)
    made = do(session, "rolling_update", maximum, place, sums)
    return place, [*around, outer], dict(zip((found.maximum, *found.sums), made, strict=True))


def _is_under(session: Session, name: str, loop: Handle) -> bool:
    var = session.handles.resolve(loop).name
    return var in {s.var for s in loops_around(session.program, block_of(session, block_handle(session, name)))}


def _finish(session: Session, found: Rolling, tiles: Tiles, parts: Mapping[str, Handle], machine: Target) -> None:
    """Schedule the stages under the parallel loop: products in registers, reductions in lanes, the rest in vectors."""
    root = next(s for s in session.program.body if found.maximum in {b.name for b in blocks_of((s,))})
    inner = [b.name for b in blocks_of((root,))]
    partial = {session.handles.resolve(h).name: n for n, h in parts.items()}
    for name in inner:
        block = block_of(session, block_handle(session, name))
        of = partial.get(name, name)
        if name in partial and of in found.products:
            shape = shape_of(session.program, block, machine)
            assert shape is not None  # It is a product with one more axis.
            accumulate(session, block, shape, _for(tiles, name, of))
        elif name in found.scores:
            accumulate(session, block, found.products[name], tiles)
        elif name in partial:
            (reduced,) = (a.name for a in block.axes if a.kind == "reduce")
            join_lanes(session, block_handle(session, name), reduced)
        else:
            _vectorize(session, block_handle(session, name), machine.vector_lanes)


def _for(tiles: Tiles, name: str, of: str) -> Tiles:
    return Tiles(tiles.count, tiles.rows, {**tiles.vectors, name: tiles.vectors[of]})


def _vectorize(session: Session, block: Handle, lanes: int) -> None:
    """Vectorize the innermost loop of a stage, in vectors where its extent is open."""
    loop = loops_around(session.program, block_of(session, block))[-1]
    if isinstance(loop.extent, Const):
        vectorize_along(session, block, lanes)
        return
    _, lane = do(session, "split", handle(session, loop.var), (None, lanes))
    do_if_legal(session, "vectorize", lane)
