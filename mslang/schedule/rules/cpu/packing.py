"""Operands laid out in panels of one vector, so that the innermost loops read them in order: a copy, or the operand
itself where it is a constant parameter, which is packed ahead of time.
"""

from __future__ import annotations

from collections import Counter

from mslang.ir.dtype import is_float, widens
from mslang.ir.expr import Binary, Cast, Const, Expr, Load, Var
from mslang.ir.find import all_buffers
from mslang.ir.index_map import IndexMap
from mslang.ir.program import Block, Program
from mslang.ir.visit import stmt_exprs, walk, walk_expr
from mslang.schedule.handles import Handle
from mslang.schedule.rules.cpu.contraction import Contraction, contiguous, extents, mentions
from mslang.schedule.rules.cpu.lanes import run_in_parallel, spread_copy
from mslang.schedule.rules.nests import attempt, block_handle, block_of, do, do_if_legal, handle, loops_around
from mslang.schedule.session import Session
from mslang.transform.outcome import BlockRef, BufferRef


def packable(block: Block, found: Contraction) -> str | None:
    """The operand to pack: read along vectors by plain axes, and shared by all rows."""
    if found.row is None:
        return None
    for r in block.reads:
        plain = all(isinstance(x.start, Var) for x in r.ranges)
        if r.buffer in found.streamed and plain and not mentions(r, found.row):
            return r.buffer
    return None


def is_constant(program: Program, buffer: str) -> bool:
    """Whether a buffer is a constant parameter whose shape is known."""
    found = next((q for q in program.params if q.buffer.name == buffer), None)
    return found is not None and found.constant and all(isinstance(n, Const) for n in found.buffer.shape)


def packed_ahead(program: Program, block: Block, found: Contraction) -> str | None:
    """The operand to pack, if that costs nothing in a call: a constant parameter whose layout can be changed."""
    name = packable(block, found)
    if name is None or not is_constant(program, name):
        return None
    layout, pad = _panels(program, block, found, name)
    made = attempt(program, "transform_layout", BlockRef(block.name), BufferRef(name), layout, pad=pad)
    return None if made is None else name


def pack_ahead(session: Session, block: Block, found: Contraction, buffer: str) -> None:
    """Give a constant parameter the panels itself."""
    layout, pad = _panels(session.program, block, found, buffer)
    target = session.handles.handle(BufferRef(buffer))
    do(session, "transform_layout", block_handle(session, block.name), target, layout, pad=pad)


def copy_operand(session: Session, block: Block, buffer: str) -> Handle:
    """A copy of an operand for a block."""
    operand = session.handles.handle(BufferRef(buffer))
    (copy,) = do(session, "cache_read", block_handle(session, block.name), operand, "global")
    return copy


def converted(program: Program, block: Block) -> tuple[str, ...]:
    """The operands of a block that it converts to the wider floating type of its results wherever it reads them."""
    types = {n: b.dtype for n, b in all_buffers(program).items()}
    wide = types[block.writes[0].buffer]
    exprs = [x for s in walk(block.body) for e in stmt_exprs(s) for x in walk_expr(e)]
    loads = Counter(x.buffer for x in exprs if isinstance(x, Load))
    casts = Counter(
        x.operand.buffer for x in exprs if isinstance(x, Cast) and x.dtype == wide and isinstance(x.operand, Load)
    )
    reads = dict.fromkeys(r.buffer for r in block.reads)
    return tuple(
        n for n in reads if is_float(wide) and casts[n] == loads[n] > 0 and types[n] != wide and widens(types[n], wide)
    )


def widen(session: Session, block: Block, copy: Handle) -> None:
    """Convert an operand where it is copied, to the type of a block's results."""
    buffer = block_of(session, copy).writes[0].buffer
    dtype = all_buffers(session.program)[block.writes[0].buffer].dtype
    do(session, "unsafe_set_dtype", copy, session.handles.handle(BufferRef(buffer)), dtype)


def pack(session: Session, block: Block, found: Contraction, copy: Handle) -> Handle:
    """Lay a copied operand out in panels of one vector, those of an outer iteration together."""
    buffer = block_of(session, copy).writes[0].buffer
    reader = block_of(session, block_handle(session, block.name))
    layout, pad = _panels(session.program, reader, found, buffer)
    do(session, "transform_layout", copy, session.handles.handle(BufferRef(buffer)), layout, pad=pad)
    return copy


def _panels(program: Program, block: Block, found: Contraction, buffer: str) -> tuple[IndexMap, int | None]:
    """The map of a buffer that a block reads into panels, and what the last panel is filled up with."""
    read = next(r for r in block.reads if r.buffer == buffer)
    params = tuple(f"d{k}" for k in range(len(read.ranges)))
    at = next(k for k, r in enumerate(read.ranges) if r.start == Var(found.vector))
    lane = Const(found.lanes)
    spatial = [Var(a) for a in found.outer]
    outer: list[Expr] = [Var(p) for k, p in enumerate(params) if read.ranges[k].start in spatial]
    rest: list[Expr] = [Var(p) for k, p in enumerate(params) if k != at and Var(p) not in outer]
    v = Var(params[at])
    layout = IndexMap(params, (*outer, Binary("//", v, lane), *rest, Binary("%", v, lane)))
    # The buffer may be wider than what the block reads of it.
    width = all_buffers(program)[buffer].shape[at]
    whole = isinstance(width, Const) and width.value % found.lanes == 0
    return layout, None if whole else 0


TRANSPOSED = (16, 8)
"""Sizes of tiles that `std.cpu.transpose` turns in registers."""


def spread_panels(session: Session, copy: Handle, lanes: int) -> None:
    """Vectorize a copy into panels, and run its other loops in parallel.

    Vectors are along the lanes of a panel; where the source lies across them, tiles are transposed in registers.
    """
    block = block_of(session, copy)
    axis = next((a.name for a in block.axes if _in_lanes(block, a.name)), None)
    if axis is None:
        spread_copy(session, copy, lanes)
        return
    _, lane = do(session, "split", session.axis(copy, axis), (None, lanes))
    across = next((a.name for a in block.axes if a.name != axis and contiguous(block.reads[0], a.name)), None)
    tile: tuple[Handle, ...] = (lane,)
    if across is not None and _transposable(session, block, axis, across, lanes):
        tile = (lane, do(session, "split", session.axis(copy, across), (None, lanes))[1])
    around = [handle(session, s.var) for s in loops_around(session.program, block_of(session, copy))]
    outer = [x for x in around if x not in tile]
    do(session, "reorder", *outer, *tile)
    if len(tile) == 2:
        do(session, "tensorize", lane, f"std.cpu.transpose.transpose_{lanes}x{lanes}")
    else:
        do_if_legal(session, "vectorize", lane)
    if outer:
        run_in_parallel(session, outer)


def _in_lanes(block: Block, axis: str) -> bool:
    """Whether an axis runs along the lanes of the panels that a block writes."""
    match block.writes[0].ranges[-1].start:
        case Binary(op="%", left=Var(name=name)):
            return name == axis
    return False


def _transposable(session: Session, block: Block, axis: str, across: str, lanes: int) -> bool:
    """Whether tiles of two axes are whole, and of a size and type that can be transposed in registers."""
    sizes = extents(block)
    dtype = all_buffers(session.program)[block.writes[0].buffer].dtype
    whole = all(sizes.get(a, 1) % lanes == 0 for a in (axis, across))
    return dtype == "f32" and lanes in TRANSPOSED and whole
