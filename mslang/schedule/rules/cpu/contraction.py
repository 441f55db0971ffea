"""What a reduction with reuse looks like to a register tile: which axis runs along vectors, which along rows."""

from __future__ import annotations

from collections.abc import Sequence
from math import gcd

import msgspec

from mslang.ir.arith import linear
from mslang.ir.arith.convert import read_size
from mslang.ir.arith.domain import limits
from mslang.ir.dtype import size_of
from mslang.ir.expr import Binary, Const, Expr, Var
from mslang.ir.find import all_buffers
from mslang.ir.program import Block, Program, Region
from mslang.ir.visit import free_vars, walk_expr
from mslang.schedule.rules.multi_level import needs_tiling
from mslang.target.description import Target

SPARSE = 8
"""Vectors are read where they lie if their elements are at most so many elements apart."""
SHORTEST_ROW = 16
"""Rows of fewer elements are too short for vectors."""
FAR = 1 << 62


class Contraction(msgspec.Struct, frozen=True):
    """A block as a product of operands that vectors of results are computed from.

    `vector` is the spatial axis along which adjacent results are adjacent in memory. `row` is the spatial axis whose
    values share what is read along vectors, if there is one. `outer` are the other spatial axes in order, `reduced`
    the reduction axes. `streamed` are the buffers read along `vector`; `strided` those of them in which neighbours
    along it are far apart in memory. `lanes` is how many results a vector register holds.
    """

    block: str
    vector: str
    row: str | None
    outer: tuple[str, ...]
    reduced: tuple[str, ...]
    streamed: tuple[str, ...]
    strided: tuple[str, ...]
    lanes: int


def contraction(program: Program, block: Block, machine: Target) -> Contraction | None:
    """A reduction with reuse as a register tile sees it.

    None if adjacent results lie along no axis of its own, an axis has no greatest extent, or each result is the dot
    product of a row.
    """
    if not needs_tiling(program, block, dynamic=True) or len(greatest(block)) < len(block.axes):
        return None
    if is_dot_of_rows(program, block):
        return None
    return shape_of(program, block, machine)


def shape_of(program: Program, block: Block, machine: Target) -> Contraction | None:
    """As `contraction`, of a block whose loops are not asked about."""
    (written,) = block.writes
    spatial = [a.name for a in block.axes if a.kind == "spatial"]
    wide = {a.name for a in block.axes if a.extent != Const(1)}
    vector = next((a for a in spatial if contiguous(written, a)), None)
    if vector is None:
        return None
    reads = [r for r in block.reads if r.buffer != written.buffer]
    streamed = [r for r in reads if mentions(r, vector)]
    if not streamed:
        return None
    by_place = sorted((a for a in spatial if a != vector and a in wide), key=lambda a: _place(written, a))
    row = next((a for a in reversed(by_place) if any(steady(r, a) for r in streamed)), None)
    return Contraction(
        block.name,
        vector,
        row,
        tuple(sorted((a for a in spatial if a not in (vector, row)), key=lambda a: _place(written, a))),
        tuple(a.name for a in block.axes if a.kind == "reduce"),
        tuple(r.buffer for r in streamed),
        tuple(r.buffer for r in streamed if step(program, r, vector) > SPARSE),
        lanes_of(program, written.buffer, machine),
    )


def adjacent_reduction(block: Block) -> str | None:
    """The reduction axis along which a block reads adjacent elements, if it writes along none."""
    if block.init is None or not block.writes:
        return None
    reduced = {a.name for a in block.axes if a.kind == "reduce" and a.extent != Const(1)}
    for r in block.reads:
        if r.buffer == block.writes[0].buffer or not r.ranges:
            continue
        for axis in sorted(free_vars(r.ranges[-1].start) & reduced):
            found = linear.coefficients(r.ranges[-1].start, frozenset({axis}))
            if found is not None and found.get(axis) == Const(1):
                return axis
    return None


def is_dot_of_rows(program: Program, block: Block) -> bool:
    """Whether each result has a row of its own, of elements that are adjacent along the reduction and are read once: a
    matrix times a vector.

    Vectors of results would gather such elements; so the reduction itself runs along vectors.
    """
    axis = adjacent_reduction(block)
    if axis is None or extents(block).get(axis, 0) < SHORTEST_ROW:
        return False
    spatial = [a.name for a in block.axes if a.kind == "spatial" and a.extent != Const(1)]
    reads = [r for r in block.reads if r.buffer != block.writes[0].buffer]
    own = any(contiguous(r, axis) and all(mentions(r, a) for a in spatial) for r in reads)
    return own and all(step(program, r, a) > SPARSE for r in reads for a in spatial if mentions(r, a))


def lanes_of(program: Program, buffer: str, machine: Target) -> int:
    """How many elements of a buffer a vector register holds."""
    return max(machine.vector_bits // (8 * size_of(all_buffers(program)[buffer].dtype)), 1)


def contiguous(region: Region, axis: str) -> bool:
    """Whether the next value of an axis is the next element of a buffer."""
    if not region.ranges or any(axis in free_vars(r.start) for r in region.ranges[:-1]):
        return False
    found = linear.coefficients(region.ranges[-1].start, frozenset({axis}))
    return found is not None and found.get(axis) == Const(1)


def step(program: Program, region: Region, axis: str) -> int:
    """How many elements of a buffer the next value of an axis lies further on; very far if that is not a number."""
    total, size = 0, 1
    for r, extent in zip(reversed(region.ranges), reversed(all_buffers(program)[region.buffer].shape), strict=True):
        found = linear.coefficients(r.start, frozenset({axis}))
        coefficient = None if found is None else found.get(axis, Const(0))
        if not isinstance(coefficient, Const) or (coefficient.value and size == FAR):
            return FAR
        total += int(coefficient.value) * size
        size = size * int(extent.value) if isinstance(extent, Const) and size != FAR else FAR
    return total


def mentions(region: Region, axis: str) -> bool:
    """Whether an access depends on an axis."""
    return any(axis in free_vars(r.start) for r in region.ranges)


def steady(region: Region, axis: str) -> bool:
    """Whether adjacent values of an axis mostly read the same elements: it occurs under floor divisions alone."""
    return all(axis not in _moving(r.start) for r in region.ranges)


def sharers(block: Block, axis: str) -> int:
    """How many adjacent values of an axis read the same elements where it is divided (by the channels of a group, of a
    grouped convolution); 0 if it is not."""
    indices = (x for r in block.reads for y in r.ranges for x in walk_expr(y.start))
    counts = [
        int(x.right.value)
        for x in indices
        if isinstance(x, Binary) and x.op == "//" and x.left == Var(axis) and isinstance(x.right, Const)
    ]
    return gcd(*counts)


def _moving(e: Expr) -> frozenset[str]:
    """The variables of an index, without those that are divided."""
    match e:
        case Var(name=name):
            return frozenset({name})
        case Binary("//", _, right):
            return _moving(right)
        case Binary(_, left, right):
            return _moving(left) | _moving(right)
    return free_vars(e)


def _place(region: Region, axis: str) -> int:
    """The last dimension of a region that an axis occurs in."""
    return max((k for k, r in enumerate(region.ranges) if axis in free_vars(r.start)), default=-1)


def extents(block: Block) -> dict[str, int]:
    """The extents of a block's axes that are numbers."""
    return {a.name: int(a.extent.value) for a in block.axes if isinstance(a.extent, Const)}


def greatest(block: Block) -> dict[str, int]:
    """The extents of a block's axes, of dynamic ones the largest; none of those without a bound."""
    found = {a.name: limits(read_size(a.extent))[1] for a in block.axes if not free_vars(a.extent)}
    return {name: n for name, n in found.items() if n is not None}


def limited(values: Sequence[int], most: int) -> tuple[int, ...]:
    """The values up to a limit, the least at any rate."""
    return tuple(v for v in values if v <= most) or (min(values),)
