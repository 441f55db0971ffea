"""Operands whose elements lie in groups along the reduction, as instructions that sum several products read them."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from mslang.ir.dtype import size_of
from mslang.ir.expr import Binary, Const, Var
from mslang.ir.find import all_buffers
from mslang.ir.index_map import IndexMap
from mslang.ir.program import Block, Region
from mslang.schedule.handles import Handle
from mslang.schedule.rules.cpu.contraction import Contraction, contiguous, contraction, extents, mentions
from mslang.schedule.rules.cpu.lanes import spread_copy
from mslang.schedule.rules.cpu.packing import copy_operand, is_constant
from mslang.schedule.rules.nests import block_handle, block_of, do, do_if_legal, leaf_blocks
from mslang.schedule.session import Session
from mslang.target.description import Target
from mslang.transform.getters import consumers, producers
from mslang.transform.outcome import BlockRef, BufferRef, refuse

LINE = 64
"""Bytes of a cache line: the panels that it is spread over are packed together, so that it is read once."""


class Grouping(msgspec.Struct, frozen=True):
    """How an instruction reads its right operand: panels of `lanes` columns, in which `group` rows are adjacent; the
    intrinsic `pack` arranges one group of rows of one panel."""

    pack: str
    lanes: int
    group: int


class Product(msgspec.Struct, frozen=True):
    """A contraction `A[…, k] · B[…, k, j]`: `left` and `right` are its operands, `along` is the axis `k`.

    `packed`: it is `A[…, k] · B[…, j, k]`, the right operand in groups along the reduction already.
    """

    found: Contraction
    left: Region
    right: Region
    along: str
    packed: bool = False


def product_of(session: Session, block: Block, machine: Target) -> Product | None:
    """A block as a product whose operands an instruction can read; None if it is none.

    Rows may be of a number that is known only at the call.
    """
    found = contraction(session.program, block, machine)
    if found is None or not {found.vector, *found.reduced} <= set(extents(block)):
        return None
    reads = [r for r in block.reads if r.buffer != block.writes[0].buffer]
    if len(reads) != 2:
        return None
    left, right = sorted(reads, key=lambda r: mentions(r, found.vector))
    if mentions(left, found.vector) or not all(isinstance(r.start, Var) for r in right.ranges) or len(right.ranges) < 2:
        return None
    outer, inner = (r.start for r in right.ranges[-2:])
    packed = outer == Var(found.vector)
    vector, along = (outer, inner) if packed else (inner, outer)
    if vector != Var(found.vector) or not isinstance(along, Var) or along.name not in found.reduced:
        return None
    return Product(found, left, right, along.name, packed) if contiguous(left, along.name) else None


def require_product(session: Session, name: str, machine: Target) -> Product:
    """The product that a block is.

    Raises:
        ScheduleError: MS380, it is none.
    """
    found = product_of(session, block_of(session, block_handle(session, name)), machine)
    if found is None:
        raise refuse("MS380", "tensorize", f"block `{name}` is not a product `A[…, k] · B[…, k, j]`")
    return found


def types_of(session: Session, block: Block, product: Product) -> tuple[str, str, str]:
    """The element types of a product's left and right operands and of its sums."""
    types = {n: b.dtype for n, b in all_buffers(session.program).items()}
    return types[product.left.buffer], types[product.right.buffer], types[block.writes[0].buffer]


def pad_to(session: Session, name: str, multiples: Mapping[str, int], lanes: int) -> bool:
    """Fill a product up with zeros to multiples of an instruction's sizes, by axis; whether there was any need.

    What follows reads the filled result itself, where it can.
    """
    block = block_of(session, block_handle(session, name))
    sizes = extents(block)
    if all(sizes[axis] % n == 0 for axis, n in multiples.items()):
        return False
    before = {b.name for b in leaf_blocks(session.program)}
    do(session, "pad_einsum", block_handle(session, name), tuple(multiples.get(a.name, 1) for a in block.axes))
    for p in producers(session.program, BlockRef(name)):
        if p.name not in before:
            spread_copy(session, block_handle(session, p.name), lanes)
    for copy in consumers(session.program, BlockRef(name)):
        do_if_legal(session, "compute_inline", block_handle(session, copy.name))
    return True


def order_ahead(session: Session, block: Block, buffer: str, grouping: Grouping) -> None:
    """Lay a constant operand of a product out as an instruction reads it, ahead of time."""
    target = session.handles.handle(BufferRef(buffer))
    do(session, "transform_layout", block_handle(session, block.name), target, _order(session, buffer, grouping))


def order_copy(session: Session, copy: Handle, grouping: Grouping) -> None:
    """Lay a copied operand out as an instruction reads it."""
    buffer = block_of(session, copy).writes[0].buffer
    target = session.handles.handle(BufferRef(buffer))
    do(session, "transform_layout", copy, target, _order(session, buffer, grouping))


def pack_panel(session: Session, copy: Handle, grouping: Grouping) -> None:
    """Compute an ordered copy of some panels by the instruction that packs, along rows of the operand."""
    *outer, along, across = (session.axis(copy, a.name) for a in block_of(session, copy).axes)
    k0, k1 = do(session, "split", along, (None, grouping.group))
    j0, j1 = do(session, "split", across, (None, grouping.lanes))
    do(session, "reorder", *outer, k0, j0, k1, j1)
    do(session, "tensorize", k1, grouping.pack)


def _pack_all(session: Session, copy: Handle, grouping: Grouping) -> None:
    """Compute an ordered copy by the instruction that packs, in parallel; those panels together that share lines."""
    source = block_of(session, copy)
    size = size_of(all_buffers(session.program)[source.writes[0].buffer].dtype)
    *outer, along, across = (session.axis(copy, a.name) for a in source.axes)
    k0, k1 = do(session, "split", along, (None, grouping.group))
    beside = max(LINE // (grouping.lanes * size), 1)
    j0, panel, j1 = do(session, "split", across, (None, beside, grouping.lanes))
    do(session, "reorder", j0, *outer, k0, panel, k1, j1)
    do(session, "tensorize", k1, grouping.pack)
    do(session, "parallel", j0)


def group_operand(session: Session, block: Block, buffer: str, grouping: Grouping) -> None:
    """Lay the right operand of a product out as an instruction reads it: ahead of time if constant, else in a copy."""
    if is_constant(session.program, buffer):
        order_ahead(session, block, buffer, grouping)
        return
    copy = copy_operand(session, block, buffer)
    order_copy(session, copy, grouping)
    _pack_all(session, copy, grouping)


def _order(session: Session, buffer: str, grouping: Grouping) -> IndexMap:
    """The map of an operand to how the instruction reads it."""
    params = tuple(f"d{k}" for k in range(len(all_buffers(session.program)[buffer].shape)))
    *rest, k, j = (Var(p) for p in params)
    lanes, group = Const(grouping.lanes), Const(grouping.group)
    order = (Binary("//", j, lanes), *rest, Binary("//", k, group), Binary("%", j, lanes), Binary("%", k, group))
    return IndexMap(params, order)
