"""Operands copied into panels of one vector, so that the innermost loops read them in order."""

from __future__ import annotations

from mslang.ir.expr import Binary, Const, Var
from mslang.ir.index_map import IndexMap
from mslang.ir.program import Block
from mslang.schedule.handles import Handle
from mslang.schedule.rules.cpu.contraction import Contraction, extents, mentions
from mslang.schedule.rules.nests import block_handle, block_of, do
from mslang.schedule.session import Session
from mslang.transform.outcome import BufferRef


def packable(block: Block, found: Contraction) -> str | None:
    """The operand to pack: read along vectors by plain axes, and shared by all rows."""
    if found.row is None:
        return None
    for r in block.reads:
        plain = all(isinstance(x.start, Var) for x in r.ranges)
        if r.buffer in found.streamed and plain and not mentions(r, found.row):
            return r.buffer
    return None


def copy_operand(session: Session, block: Block, buffer: str) -> Handle:
    """A copy of an operand for a block."""
    operand = session.handles.handle(BufferRef(buffer))
    (copy,) = do(session, "cache_read", block_handle(session, block.name), operand, "global")
    return copy


def pack(session: Session, block: Block, found: Contraction, copy: Handle) -> Handle:
    """Lay a copied operand out in panels of one vector."""
    buffer = block_of(session, copy).writes[0].buffer
    read = next(r for r in block_of(session, block_handle(session, block.name)).reads if r.buffer == buffer)
    params = tuple(f"d{k}" for k in range(len(read.ranges)))
    at = next(k for k, r in enumerate(read.ranges) if r.start == Var(found.vector))
    lane = Const(found.lanes)
    rest = tuple(Var(p) for k, p in enumerate(params) if k != at)
    v = Var(params[at])
    layout = IndexMap(params, (Binary("//", v, lane), *rest, Binary("%", v, lane)))
    whole = extents(block).get(found.vector, 0) % found.lanes == 0
    target = session.handles.handle(BufferRef(buffer))
    do(session, "transform_layout", copy, target, layout, pad=None if whole else 0)
    return copy
