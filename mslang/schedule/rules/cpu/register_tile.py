"""Multi-level tiling for CPUs: results accumulate in registers over the whole reduction, operands are read where they
lie, from a panel copied beside its use, or from a copy packed for all uses. Constant ones are packed ahead of time.

Around a register tile of `rows` by `vectors` there are two levels of loops: the outer ones run in parallel, the inner
ones are a tile for a cache. Sizes need not divide: lowering cuts off the tails.

A long reduction may be done in blocks, so that the part of an operand that a block reads stays in a cache (Goto and van
de Geijn, Anatomy of high-performance matrix multiplication, 2008): results are in memory between blocks.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import msgspec

from mslang.ir.expr import Binary, Const
from mslang.ir.program import Block, Program
from mslang.ir.visit import free_vars
from mslang.schedule.handles import Handle
from mslang.schedule.rules.cpu.contraction import (
    Contraction,
    contraction,
    extents,
    greatest,
    limited,
    mentions,
)
from mslang.schedule.rules.cpu.lanes import run_in_parallel, spread_copy, vectorize_along
from mslang.schedule.rules.cpu.packing import (
    converted,
    copy_operand,
    pack,
    pack_ahead,
    packable,
    packed_ahead,
    spread_panels,
    widen,
)
from mslang.schedule.rules.cpu.tile_sizes import draw_register_tile
from mslang.schedule.rules.cpu.tiles import VECTORS
from mslang.schedule.rules.nests import block_handle, block_of, do, do_if_legal, draw, leaf_blocks
from mslang.schedule.rules.rule import legal
from mslang.schedule.session import Session
from mslang.target.description import Target
from mslang.transform.getters import consumers, is_injective, is_output, producers
from mslang.transform.outcome import BlockRef, BufferRef

if TYPE_CHECKING:
    from mslang.schedule.interpret import Interpreter

OUTER_TILES = (*range(1, 13), 14, *range(16, 33, 4), *range(40, 65, 8), *range(80, 129, 16))
"""The numbers of register tiles, or of iterations, in a tile for a cache."""
STEPS = (0, 2, 4, 8, 16)
"""The largest number of copies of the innermost reduction loop."""
AHEAD = (0, 8, 16)
"""How many iterations of the innermost reduction loop ahead the operand that is read along vectors is fetched."""
WINDOW = 8
"""Reduction axes up to this extent are windows: they are not split."""
SHARE = 2
"""A reduction may be done in blocks if a panel of the widest register tile takes 1 / `SHARE` of the L2 cache: with a
panel in one piece, rows of the other operand find no place beside it."""


class Layout(msgspec.Struct, frozen=True):
    """One alternative: how the outer loops are ordered, and where operands come from.

    `order` is "columns" (the vector axis outermost) or "rows"; `operand` is "direct", "panel", "packed" or, where it is
    constant, "ahead"; `beside` says that producers are computed in the parallel loop, `inside` that each register tile
    computes what it reads of them, in registers, `wide` that operands are copied in the type of the results (bf16 as
    f32), so that no conversion is left in the innermost loops; `blocked` that the reduction is done in blocks.
    """

    order: str
    operand: str
    beside: bool = False
    inside: bool = False
    wide: bool = False
    blocked: bool = False

    @property
    def label(self) -> str:
        """The alternative's name."""
        marks = {"beside": self.beside, "inside": self.inside, "wide": self.wide, "blocked": self.blocked}
        return "_".join((self.order, self.operand, *(mark for mark, holds in marks.items() if holds)))


def layouts(program: Program, found: Contraction, machine: Target) -> tuple[Layout, ...]:
    """The alternatives for a contraction."""
    block = next(b for b in leaf_blocks(program) if b.name == found.block)
    before = _stages_before(program, found)
    operands = list(_operands(program, block, found, machine))
    out = [Layout(order, o) for order in ("columns", "rows") for o in operands]
    if before and found.outer:
        out += [Layout("rows", o, beside=True) for o in operands if o != "panel"]
        if "direct" in operands and _slides(block, found, before):
            out.append(Layout("rows", "direct", inside=True))
    if packable(block, found) in converted(program, block):
        out += [Layout(order, "packed", wide=True) for order in ("columns", "rows")]
    if _blocked_axis(block, found, machine) is not None:
        out += [Layout("columns", o, blocked=True) for o in operands if o in ("panel", "ahead")]
    return tuple(out)


def _slides(block: Block, found: Contraction, stages: Sequence[Block]) -> bool:
    """Whether a block reduces over a window that slides over the stages, along vectors: it reads each element so few
    times that a copy in memory costs more than to compute it again."""
    made = {b.writes[0].buffer for b in stages}
    along = all(mentions(read, found.vector) for read in block.reads if read.buffer in made)
    return along and all(greatest(block).get(axis, WINDOW + 1) <= WINDOW for axis in found.reduced)


def _blocked_axis(block: Block, found: Contraction, machine: Target) -> str | None:
    """The reduction axis that may be done in blocks: the longest one, if a panel over all of it is large."""
    exact = extents(block)
    axis = max(found.reduced, key=lambda a: exact.get(a, 0))
    panel = exact.get(axis, 0) * max(VECTORS) * machine.vector_bits // 8
    return axis if panel >= machine.l2 // SHARE else None


def _operands(program: Program, block: Block, found: Contraction, machine: Target) -> Iterator[str]:
    """Where an operand read along vectors may come from."""
    shared = packable(block, found) is not None
    if not found.strided or not shared:
        yield "direct"
    if not shared:
        return
    if packed_ahead(program, block, found) is not None:
        yield "ahead"
        return
    if greatest(block).get(found.vector, 0) >= 4 * machine.cores * found.lanes:
        yield "panel"
    if not _batched(block, found):
        yield "packed"


def _batched(block: Block, found: Contraction) -> bool:
    """Whether every outer iteration has an operand of its own, so that packing all of it shares nothing."""
    name = packable(block, found)
    read = next(r for r in block.reads if r.buffer == name)
    wide = [a for a in found.outer if greatest(block).get(a) != 1]
    return bool(wide) and all(mentions(read, a) for a in wide)


def _stages_before(program: Program, found: Contraction) -> list[Block]:
    """The stages that only this block reads, which may be computed beside it."""
    ref = BlockRef(found.block)
    refs = [p for p in producers(program, ref) if consumers(program, p) == (ref,)]
    return [b for b in leaf_blocks(program) if BlockRef(b.name) in refs and all(a.kind == "spatial" for a in b.axes)]


class RegisterTiling(msgspec.Struct, frozen=True):
    """Tiles reductions with reuse so that their results accumulate in registers; see the module."""

    name: str = "tile"

    def applies(self, it: Interpreter, block: Block) -> bool:
        """Whether adjacent results of a reduction with reuse lie along one of its axes, and its loops are untouched."""
        return contraction(it.session.program, block, it.machine) is not None

    def alternatives(self, it: Interpreter, block: Block) -> tuple[str, ...]:
        """The orders of loops and the places of operands that are legal; see `Layout`."""
        found = contraction(it.session.program, block, it.machine)
        known = () if found is None else layouts(it.session.program, found, it.machine)
        return legal(it, self, block, (x.label for x in known))

    def apply(self, it: Interpreter, block: Block, alternative: str) -> None:
        """Tile the block; it samples the register tile, the tiles for a cache and the unrolling of the reduction."""
        found = contraction(it.session.program, block, it.machine)
        assert found is not None
        known = layouts(it.session.program, found, it.machine)
        layout = next(x for x in known if x.label == alternative)
        tile(it.session, block.name, it.machine, layout, f"{self.name}:{block.name}")


def tile(session: Session, block: str, machine: Target, layout: Layout, prefix: str) -> None:
    """Schedule a contraction, the copies of its operands and what follows it element by element.

    Args:
        session: the running schedule.
        block: the contraction's name.
        machine: what it runs on.
        layout: the alternative.
        prefix: of the addresses of decisions: `PREFIX/registers`, `PREFIX/AXIS` for tiles of an axis, `PREFIX/unroll`,
            `PREFIX/prefetch`.
    """
    source = block_of(session, block_handle(session, block))
    found = contraction(session.program, source, machine)
    assert found is not None
    before = _stages_before(session.program, found)
    user = epilogue(session.program, block)
    streamed = packable(source, found)
    operand = streamed if layout.operand != "direct" else None
    if layout.operand == "ahead" and operand is not None:
        pack_ahead(session, source, found, operand)
        operand = None
    panel = None if operand is None else copy_operand(session, source, operand)
    others: list[Handle] = []
    if layout.wide and panel is not None:
        narrow = converted(session.program, source)
        others = [copy_operand(session, source, b) for b in narrow if b != operand]
        for copy in (panel, *others):
            widen(session, source, copy)
    if layout.operand == "packed" and panel is not None:
        panel = pack(session, source, found, panel)
    loops = _split(session, source, found, machine, layout.blocked, prefix)
    shared, beside, inner = _ordered(session, source, found, layout, loops)
    do(session, "reorder", *shared, *loops.blocks, *beside, *inner, *loops.reduced, *loops.tile)
    if layout.blocked:
        results = None if user is None else _after_blocks(session, block_handle(session, user), shared[-1], found.lanes)
    else:
        results = write_back(session, block_handle(session, block), user, (*shared, *beside, *inner)[-1])
    if panel is not None and layout.operand == "panel":
        do(session, "compute_at", panel, (*shared, *loops.blocks)[-1])
    outer = run_in_parallel(session, shared)
    if layout.beside:
        for b in before:
            do_if_legal(session, "compute_at", block_handle(session, b.name), outer)
    if layout.inside:
        for b in before:
            _compute_inside(session, b, loops.reduced[0])
    _finish(session, source, found, loops, results, prefix)
    if streamed is not None:
        read = streamed if panel is None else block_of(session, panel).writes[0].buffer
        ahead = draw(session, "choose", AHEAD, address=f"{prefix}/prefetch")
        do(session, "prefetch", loops.reduced[-1], session.handles.handle(BufferRef(read)), ahead)
    for copy in () if panel is None else (panel,):
        (vectorize_along if layout.operand == "panel" else spread_panels)(session, copy, found.lanes)
    for copy in others:
        spread_copy(session, copy, found.lanes)
    for b in before:
        around = layout.beside or layout.inside
        (vectorize_along if around else spread_copy)(session, block_handle(session, b.name), found.lanes)


class _Loops(msgspec.Struct, frozen=True):
    """The loops of a tiled contraction: outer and inner ones by axis, blocks of the reduction and the reduction in
    them, the register tile, and the axes of its rows."""

    outer: dict[str, Handle]
    inner: dict[str, Handle]
    blocks: tuple[Handle, ...]
    reduced: tuple[Handle, ...]
    tile: tuple[Handle, ...]
    rows: tuple[str, ...]


def _split(session: Session, block: Block, found: Contraction, machine: Target, blocked: bool, prefix: str) -> _Loops:
    sizes = greatest(block)
    drawn = draw_register_tile(session, block, found, machine.registers, found.lanes, prefix)
    outer: dict[str, Handle] = {}
    inner: dict[str, Handle] = {}
    tile: list[Handle] = []
    for axis in (*found.outer, *((found.row,) if found.row else ()), found.vector):
        size = (drawn[axis],) if axis in drawn else ()
        if axis == found.vector:
            size = (Binary("*", drawn[axis], Const(found.lanes)),)
        most = -(-sizes[axis] // (found.lanes if axis == found.vector else 1))
        tiles = limited(OUTER_TILES, most)
        count = draw(session, "choose", tiles, address=f"{prefix}/{axis}") if len(tiles) > 1 else 1
        loop = session.axis(block_handle(session, block.name), axis)
        names = [f"{axis}{k}" for k in range(2 + len(size))]
        first, second, *rest = do(session, "split", loop, (None, count, *size), names=names)
        outer[axis], inner[axis] = first, second
        tile += rest
    in_blocks = _blocked_axis(block, found, machine) if blocked else None
    rows = tuple(a for a in outer if a in drawn and a != found.vector)
    return _Loops(outer, inner, *_reduction(session, block, found, in_blocks, prefix), tuple(tile), rows)


def _reduction(
    session: Session, block: Block, found: Contraction, in_blocks: str | None, prefix: str
) -> tuple[tuple[Handle, ...], tuple[Handle, ...]]:
    """Split long reduction axes in two: windows run between their halves. One may be done in blocks, the first loop."""
    blocks: list[Handle] = []
    first: list[Handle] = []
    second: list[Handle] = []
    sizes, exact = greatest(block), extents(block)
    for axis in found.reduced:
        loop = session.axis(block_handle(session, block.name), axis)
        if sizes[axis] <= WINDOW or axis not in exact:
            first.append(loop)
            continue
        parts = 3 if axis == in_blocks else 2
        tile = draw(session, "perfect_tile", loop, parts, address=f"{prefix}/{axis}")
        *around, a, b = do(session, "split", loop, tile, names=[f"{axis}{k}" for k in range(parts)])
        blocks += around
        first.insert(len(second), a)
        second.append(b)
    return tuple(blocks), (*first, *second)


def _ordered(
    session: Session, block: Block, found: Contraction, layout: Layout, loops: _Loops
) -> tuple[list[Handle], list[Handle], list[Handle]]:
    """The parallel loops, the serial ones under them, and those of the tile for a cache."""
    rows = [*found.outer, *((found.row,) if found.row else ())]
    order = [found.vector, *rows] if layout.order == "columns" else _as_written(block, [*rows, found.vector])
    shared = order
    if layout.operand == "panel" and layout.order == "columns":
        name = packable(block, found)
        read = next(r for r in block.reads if r.buffer == name)
        shared = [*(a for a in found.outer if mentions(read, a)), found.vector]
    elif layout.beside or layout.inside:
        shared = list(found.outer)
    rest = [a for a in order if a not in shared]
    inner = [found.vector, *rows]
    return [loops.outer[a] for a in shared], [loops.outer[a] for a in rest], [loops.inner[a] for a in inner]


def _as_written(block: Block, axes: Sequence[str]) -> list[str]:
    """Axes in the order of the dimensions of what the block writes."""
    written = [r.start for r in block.writes[0].ranges]
    return sorted(axes, key=lambda a: max((k for k, e in enumerate(written) if a in free_vars(e)), default=-1))


def epilogue(program: Program, block: str) -> str | None:
    """The one stage that uses a block's results, if it does so element by element and nothing else has them: what the
    program returns does not stay in registers."""
    if is_output(program, BlockRef(block)):
        return None
    users = consumers(program, BlockRef(block))
    return users[0].name if len(users) == 1 and is_injective(program, users[0]) else None


def write_back(session: Session, target: Handle, user: str | None, place: Handle) -> Handle:
    """Keep the results of a tile in registers until they are complete: what follows, or a copy, takes them from there.

    Returns the block that takes them.
    """
    written = session.handles.handle(BufferRef(block_of(session, target).writes[0].buffer))
    if user is not None:
        results = block_handle(session, user)
        if do_if_legal(session, "reverse_compute_at", results, place) is not None:
            do(session, "set_scope", target, written, "local")
            return results
    (results,) = do(session, "cache_write", target, written, "local")
    do(session, "reverse_compute_at", results, place)
    return results


def _compute_inside(session: Session, stage: Block, place: Handle) -> None:
    """Compute the part of a stage that a tile reads in one iteration of a loop, in registers."""
    made = block_handle(session, stage.name)
    do(session, "compute_at", made, place)
    do(session, "set_scope", made, session.handles.handle(BufferRef(stage.writes[0].buffer)), "local")
    for axis in stage.axes[:-1]:
        do(session, "unroll", session.axis(made, axis.name))


def _after_blocks(session: Session, user: Handle, place: Handle, lanes: int) -> Handle | None:
    """Run the stage that uses the results after all blocks of a tile, which is returned, or else by itself."""
    if do_if_legal(session, "reverse_compute_at", user, place) is not None:
        return user
    spread_copy(session, user, lanes)
    return None


def _finish(
    session: Session, block: Block, found: Contraction, loops: _Loops, results: Handle | None, prefix: str
) -> None:
    """Vectorize the register tile, unroll it and a part of the reduction, and set it to 0 before."""
    target = block_handle(session, block.name)
    steps = draw(session, "choose", STEPS, address=f"{prefix}/unroll")
    do(session, "vectorize", loops.tile[-1])
    for row in loops.tile[:-1]:
        do(session, "unroll", row)
    do(session, "unroll", loops.reduced[-1], max_steps=steps)
    (zero,) = do(session, "decompose_reduction", target, (*loops.blocks, *loops.reduced)[0])
    for axis in loops.rows if not loops.blocks else ():
        do(session, "unroll", session.axis(zero, axis))
    if results is not None:
        vectorize_along(session, results, found.lanes)
