"""A product on a CPU with few decisions: a tile of results in registers, of fixed or drawn size, with the reduction
around it."""

from __future__ import annotations

import math
from collections.abc import Mapping

from mslang.ir.expr import Binary, Const, Expr
from mslang.ir.program import Block, Program
from mslang.ir.visit import free_vars
from mslang.schedule.handles import Handle
from mslang.schedule.rules.cpu.contraction import contraction, extents, greatest, lanes_of, mentions
from mslang.schedule.rules.cpu.lanes import run_in_parallel
from mslang.schedule.rules.cpu.packing import (
    copy_operand,
    pack,
    pack_ahead,
    packable,
    packed_ahead,
    spread_panels,
)
from mslang.schedule.rules.cpu.tiles import TENS, register_tiles
from mslang.schedule.rules.nests import (
    attempt,
    block_handle,
    block_of,
    do,
    do_if_legal,
    draw,
    handle,
    leaf_blocks,
    loops_around,
)
from mslang.schedule.session import Session
from mslang.target.description import Target
from mslang.transform.getters import consumers, is_output
from mslang.transform.outcome import BlockRef, BufferRef

JOBS = 4
"""Iterations for each core from which on one parallel loop gives all cores work, so that copies and producers may be
put in it."""

UNROLLED = 32
"""Copies of a reduction's body that the reduction loop around the register tile is unrolled to."""

MOST_STEPS = 8
"""So many iterations of a reduction are unrolled at most where that is drawn."""

SHARPNESS = 4
"""A tile is drawn with a weight of the inverse of its work to this power."""

SHARED = 8
"""Tiles of rows that read the same part of an operand, from which on a copy of it costs little."""


def tile_sizes(rows: int, columns: int, lanes: int, registers: int, masks: bool) -> tuple[int, int]:
    """Rows and columns of a tile of results in registers: least work on padding, then fewest loads a product; one
    vector where not even that fits.

    Args:
        rows: iterations of the loop over rows.
        columns: iterations of the loop over contiguous elements.
        lanes: elements of a vector.
        registers: vector registers.
        masks: a part of a vector is one under a mask; without, it is several, each of a power of two.

    >>> tile_sizes(512, 512, 8, 16, masks=False)
    (4, 24)
    >>> tile_sizes(512, 512, 16, 32, masks=True)
    (6, 64)
    >>> tile_sizes(512, 7, 8, 16, masks=False)
    (4, 7)
    """
    if columns < lanes:
        vectors = 1 if masks else columns.bit_count()
        return max(min(rows, registers // 2, (registers - 1) // vectors - 1), 1), columns
    found = []
    for vectors in range(1, 5):
        for r in range(1, registers):
            if r * vectors + vectors + 1 > registers or r > rows or (vectors - 1) * lanes >= columns:
                continue
            found.append((_work(r, vectors, rows, columns, lanes), -r * vectors, r, vectors * lanes))
    _, _, r, c = min(found, default=(0.0, 0, 1, lanes))
    return r, c


def _work(height: int, vectors: int, rows: int, columns: int, lanes: int) -> float:
    """What a product costs in tiles of so many rows and vectors: work on padding, and loads for each multiplication."""
    padded = -(-rows // height) * height / rows * (-(-columns // (vectors * lanes)) * vectors * lanes) / columns
    return padded * (1 + 1 / height + 1 / vectors)


def tile(session: Session, b: Handle, machine: Target, prefix: str | None = None) -> None:
    """Split off a tile of rows by columns, put the reduction around it, and keep it in registers.

    Args:
        session: the running schedule.
        b: the product.
        machine: the CPU.
        prefix: of the addresses at which sizes are drawn: `PREFIX/registers` of the tile, `PREFIX/unroll` of the
            reduction (None: they are fixed).
    """
    block = block_of(session, b)
    spatial = [a.name for a in block.axes if a.kind == "spatial"]
    (written,) = block.writes
    along = [v for r in written.ranges for v in free_vars(r.start)]
    columns = next((v for v in reversed(along) if v in spatial), None)
    if columns is None:
        return
    sizes = greatest(block)
    if not sizes.keys() >= {*spatial}:
        return
    rows = _rows(block, columns, sizes)
    lanes = lanes_of(session.program, written.buffer, machine)
    within = sizes[rows] if rows else 1, sizes[columns], lanes, machine.registers, machine.has("avx512f")
    size = tile_sizes(*within)
    outer = [a for a in spatial if a not in (rows, columns)]
    counts = {a: sizes[a] for a in outer} | {columns: -(-sizes[columns] // size[1])}
    panel = None
    if rows is not None:
        tiles = -(-sizes[rows] // size[0])
        panel = _pack(session, block, rows, tiles, counts, machine)
        counts[rows] = tiles
    loops = {a: session.axis(b, a) for a in outer}
    inner: list[Handle] = []
    height, width = size if prefix is None else _drawn_size(session, within, f"{prefix}/registers")
    for axis, n in ((columns, width), (rows, height)):
        if axis is not None:
            loops[axis], part = do(session, "split", session.axis(b, axis), (None, n), names=[f"{axis}0", f"{axis}1"])
            inner.insert(0, part)
    around = [loops[a] for a in _order(block, counts, rows, panel is not None, machine)]
    reduced = [session.axis(b, a.name) for a in block.axes if a.kind == "reduce"]
    do(session, "reorder", *around, *reduced, *inner)
    if panel is not None:
        do_if_legal(session, "compute_at", panel, around[-2])
    _results(session, b, around[-1])
    if _iterations(session, b, around[0]) >= JOBS * machine.cores:
        _producers(session, b, around[0])
    run_in_parallel(session, around[: max(1, len(around) - 1)] if len(around) > 2 else around)
    do_if_legal(session, "vectorize", inner[-1])
    for loop in inner[:-1]:
        do_if_legal(session, "unroll", loop)
    begun = do_if_legal(session, "decompose_reduction", b, reduced[0])
    if begun is not None:
        for each in loops_around(session.program, block_of(session, begun[0]))[-len(inner) : -1]:
            do_if_legal(session, "unroll", handle(session, each.var))
    if prefix is None:
        _unroll_reduction(session, b, reduced[-1], size[0] * max(1, size[1] // lanes))
    else:
        _draw_unrolling(session, b, reduced[-1], f"{prefix}/unroll")


def _drawn_size(
    session: Session, within: tuple[int, int, int, int, bool], address: str
) -> tuple[Expr | int, Expr | int]:
    """Rows and columns of a tile, drawn as one number for the rows, columns, lanes and registers of `tile_sizes`."""
    rows, columns, lanes, registers, _ = within
    codes = register_tiles(registers, rows, -(-columns // lanes))
    if len(codes) < 2:
        return tile_sizes(*within)
    work = [_work(c // TENS, c % TENS, rows, columns, lanes) for c in codes]
    weights = tuple(round((min(work) / w) ** SHARPNESS, 4) for w in work)
    code = draw(session, "choose", codes, weights=weights, address=address)
    assert isinstance(code, Expr)
    width = columns if columns < lanes else Binary("*", Binary("%", code, Const(TENS)), Const(lanes))
    return Binary("//", code, Const(TENS)), width


def _rows(block: Block, columns: str, sizes: dict[str, int]) -> str | None:
    """The axis whose iterations read the same elements along the columns: the widest, of equal ones the last."""
    names = [a.name for a in block.axes if a.kind == "spatial" and a.name != columns]
    along = [r for r in block.reads if any(columns in free_vars(x.start) for x in r.ranges)]
    used = {v for r in along for x in r.ranges for v in free_vars(x.start)}
    reusing = [n for n in names if n not in used and sizes[n] > 1] or [n for n in names if sizes[n] > 1]
    last = [n for n in reversed(reusing) if sizes[n] >= 4] or list(reversed(reusing))
    return last[0] if last else None


def _order(block: Block, counts: Mapping[str, int], rows: str | None, panel: bool, machine: Target) -> list[str]:
    """The axes of the loops around a tile, the outermost first; the first of them run in parallel.

    Rows are the innermost, so that what all of them read stays in the cache. An axis of dynamic extent, which may be 1,
    is inside the others, unless these have too few iterations for all cores.

    Args:
        block: the product, not yet tiled.
        counts: iterations of the loops by axis, the most of dynamic ones.
        rows: its axis along rows.
        panel: whether a copy of an operand belongs into the loop outside rows.
        machine: the CPU.
    """
    exact = extents(block)
    static = math.prod(n for a, n in counts.items() if a in exact and a != rows)
    enough = static >= min(JOBS * machine.cores, next((n for a, n in counts.items() if a not in exact), 1))
    last = rows if enough or panel else None
    return sorted(counts, key=lambda a: (a == last, (a in exact) != enough))


# ------------------------------------------------------------------ operands and results
def _pack(
    session: Session, block: Block, rows: str, tiles: int, counts: dict[str, int], machine: Target
) -> Handle | None:
    """Lay the operand that is read along the columns out anew, so that a tile reads adjacent, aligned vectors.

    Args:
        session: the running schedule.
        block: the product, not yet tiled.
        rows: its axis along rows.
        tiles: tiles along the rows.
        counts: iterations of the loops around them, by axis: the others, and over tiles along the columns.
        machine: the CPU.

    Returns a copy for which the loop over columns is the place; None where a constant operand is packed ahead of time,
    or a whole copy in front of the product, or the operand is read where it lies, because few tiles share it and its
    vectors are contiguous.
    """
    found = contraction(session.program, block, machine)
    name = None if found is None or found.row != rows else packable(block, found)
    if found is None or name is None:
        return None
    if packed_ahead(session.program, block, found) is not None:
        pack_ahead(session, block, found, name)
        return None
    read = next(r for r in block.reads if r.buffer == name)
    sharing = [a for a in counts if not mentions(read, a)]
    # What lies across vectors is gathered element by element, also for a panel of columns; a whole copy transposes it.
    across = name in found.strided
    if not across and tiles * math.prod(counts[a] for a in sharing) < SHARED:
        return None
    copy = copy_operand(session, block, name)
    if not across and not sharing and math.prod(counts.values()) >= JOBS * machine.cores:
        return copy
    pack(session, block, found, copy)
    spread_panels(session, copy, found.lanes)
    return None


def _results(session: Session, b: Handle, place: Handle) -> None:
    """Keep the tile in registers: its only reader works on it there, or a copy takes it out, if either is legal."""
    block = block_of(session, b)
    written = session.handles.handle(BufferRef(block.writes[0].buffer))
    user = _only_reader(session.program, block.name)
    if user is not None and do_if_legal(session, "reverse_compute_at", block_handle(session, user), place) is not None:
        do_if_legal(session, "set_scope", b, written, "local")
        return
    loop = session.handles.resolve(place)
    made = attempt(session.program, "cache_write", BlockRef(block.name), BufferRef(block.writes[0].buffer), "local")
    if made is not None and attempt(made.program, "reverse_compute_at", made.handles[0], loop) is not None:
        (copy,) = do(session, "cache_write", b, written, "local")
        do(session, "reverse_compute_at", copy, place)


def _only_reader(program: Program, block: str) -> str | None:
    found = consumers(program, BlockRef(block))
    if len(found) != 1 or is_output(program, BlockRef(block)):
        return None
    reader = next(b for b in leaf_blocks(program) if b.name == found[0].name)
    return reader.name if all(a.kind == "spatial" for a in reader.axes) else None


def _producers(session: Session, b: Handle, place: Handle) -> None:
    """Compute what only this block reads next to it, where each iteration reads another part."""
    block, var = block_of(session, b), session.handles.resolve(place).name
    along = {a.name for a in block.axes if var in free_vars(a.binding)}
    read = {r.buffer for r in block.reads if any(along & free_vars(x.start) for x in r.ranges)}
    for producer in leaf_blocks(session.program):
        if producer.name != block.name and read.intersection(r.buffer for r in producer.writes):
            do_if_legal(session, "compute_at", block_handle(session, producer.name), place)


# ------------------------------------------------------------------ loops
def _iterations(session: Session, b: Handle, loop: Handle) -> float:
    """Those of a loop around a block; infinite if known only at the call."""
    name = session.handles.resolve(loop).name
    extent = next(s.extent for s in loops_around(session.program, block_of(session, b)) if s.var == name)
    return extent.value if isinstance(extent, Const) else math.inf


def _unroll_reduction(session: Session, b: Handle, loop: Handle, copies: int) -> None:
    """Unroll a few iterations of the innermost reduction loop."""
    extent = _iterations(session, b, loop)
    fits = [n for n in (4, 2) if n * copies <= UNROLLED and extent % n == 0]
    if fits:
        _, inner = do(session, "split", loop, (None, fits[0]))
        do_if_legal(session, "unroll", inner)


def _draw_unrolling(session: Session, b: Handle, loop: Handle, address: str) -> None:
    """Draw how many iterations of the innermost reduction loop are unrolled, of those that divide it."""
    extent = _iterations(session, b, loop)
    counts = tuple(n for n in range(1, MOST_STEPS + 1) if extent % n == 0)
    if len(counts) > 1:
        steps = draw(session, "choose", counts, address=address)
        _, inner = do(session, "split", loop, (None, steps))
        do_if_legal(session, "unroll", inner)
