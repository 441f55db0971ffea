"""Transposition: stages that write along one axis and read along another, in tiles of both.

Whichever of the two loops is innermost, one side is scattered in memory. In a tile each cache line is used in full
while it is in a cache. Tiles of one vector by one vector are transposed in registers, if there is an instruction for
it: what the stage does with the elements then runs on whole vectors on both sides. Elements beyond the last whole tile
of an axis are left to other rules.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import msgspec

from mslang.ir.expr import Binary, Const, Expr, Var
from mslang.ir.find import all_buffers, blocks_of
from mslang.ir.index_map import IndexMap
from mslang.ir.intrin import intrin_of
from mslang.ir.program import Block, Program, Region
from mslang.ir.visit import free_vars
from mslang.schedule.handles import Handle
from mslang.schedule.rules.cpu.contraction import (
    FAR,
    SPARSE,
    contiguous,
    extents,
    greatest,
    lanes_of,
    limited,
    mentions,
    step,
)
from mslang.schedule.rules.cpu.lanes import run_in_parallel
from mslang.schedule.rules.cpu.packing import TRANSPOSED
from mslang.schedule.rules.nests import (
    block_handle,
    block_of,
    block_under,
    do,
    draw,
    handle,
    loops_around,
    own_loop,
    roots,
    stands_alone,
)
from mslang.schedule.rules.rule import legal
from mslang.schedule.session import Session
from mslang.target.description import Target
from mslang.transform.outcome import BufferRef

if TYPE_CHECKING:
    from mslang.schedule.interpret import Interpreter

REGISTERS, VECTORS = "registers", "vectors"
"""The alternatives: tiles of one vector by one vector transposed in registers; vectors of results gathered."""
TILES = (1, 2, 4, 8)
"""The numbers of tiles in registers along each axis of a tile for a cache, or of vectors along a row of results."""
ROWS = (4, 8, 16, 32, 64)
"""The numbers of rows in a tile from which vectors are gathered."""


class Turned(msgspec.Struct, frozen=True):
    """What a stage transposes: results are adjacent along the axis `along`, elements of `operands` along `across`."""

    along: str
    across: str
    operands: tuple[str, ...]


class Transposition(msgspec.Struct, frozen=True):
    """Tiles stages whose results and operands are adjacent along different axes; see the module."""

    name: str = "transpose"

    def applies(self, it: Interpreter, block: Block) -> bool:
        """Whether the block transposes what it reads, alone in loops that no rule has changed."""
        return turned(it.session.program, block) is not None

    def alternatives(self, it: Interpreter, block: Block) -> tuple[str, ...]:
        """Those that are legal: `registers`, where there is an instruction for it; `vectors`."""
        found = turned(it.session.program, block)
        in_registers = found is not None and side(it.session.program, block, found, it.machine) is not None
        return legal(it, self, block, (*((REGISTERS,) if in_registers else ()), VECTORS))

    def apply(self, it: Interpreter, block: Block, alternative: str) -> None:
        """Tile the block; it samples the tile along both axes, at `transpose:BLOCK/AXIS`."""
        found = turned(it.session.program, block)
        assert found is not None
        steps = _in_registers if alternative == REGISTERS else _in_vectors
        steps(it.session, block, found, it.machine, f"{self.name}:{block.name}")


def turned(program: Program, block: Block) -> Turned | None:
    """What a stage transposes; None if it does not, or its loops are not its own."""
    if blocks_of(block.body) or intrin_of(block) is not None or len(block.writes) != 1:
        return None
    if any(a.kind != "spatial" for a in block.axes) or not stands_alone(program, block):
        return None
    loops = [own_loop(program, block, a.name, dynamic=True) for a in block.axes]
    if None in loops or any(s.kind != "serial" for s in loops_around(program, block)):
        return None
    (written,) = block.writes
    along = _adjacent(block, written)
    if along is None or any(r.buffer == written.buffer for r in block.reads):
        return None
    sides = {r.buffer: across for r in block.reads if (across := _adjacent(block, r)) and _scattered(program, r, along)}
    across = next((a for a in sides.values() if _scattered(program, written, a)), None)
    return None if across is None else Turned(along, across, tuple(b for b, a in sides.items() if a == across))


def _adjacent(block: Block, region: Region) -> str | None:
    """The axis along which adjacent elements are accessed."""
    return next((a.name for a in block.axes if a.extent != Const(1) and contiguous(region, a.name)), None)


def _scattered(program: Program, region: Region, axis: str) -> bool:
    """Whether neighbours along an axis are far apart in memory."""
    return mentions(region, axis) and step(program, region, axis) > SPARSE


def side(program: Program, block: Block, found: Turned, machine: Target) -> int | None:
    """The rows of the largest tile that an instruction transposes in vectors of a machine; None without one."""
    sizes = extents(block)
    most = min(machine.vector_lanes, sizes.get(found.along, 0), sizes.get(found.across, 0))
    return next((n for n in TRANSPOSED if n <= most and _in_type(program, found)), None)


def _in_type(program: Program, found: Turned) -> tuple[str, ...]:
    """The operands whose elements the instructions transpose."""
    return tuple(b for b in found.operands if all_buffers(program)[b].dtype == "f32")


def _in_vectors(session: Session, block: Block, found: Turned, machine: Target, prefix: str) -> None:
    """Gather vectors of results from a tile."""
    sizes = greatest(block)
    own = block_handle(session, block.name)
    lanes = min(lanes_of(session.program, block.writes[0].buffer, machine), sizes.get(found.along, FAR))
    rows = _drawn(session, ROWS, sizes.get(found.across, FAR), f"{prefix}/{found.across}")
    vectors = _drawn(session, TILES, -(-sizes.get(found.along, FAR) // lanes), f"{prefix}/{found.along}")
    sides = {session.axis(own, found.across): rows, session.axis(own, found.along): _times(vectors, lanes)}
    outer, tile = _tile(session, _nest(session, own), sides)
    do(session, "vectorize", tile[-1])
    run_in_parallel(session, outer)


def _in_registers(session: Session, block: Block, found: Turned, machine: Target, prefix: str) -> None:
    """Transpose tiles in registers, and compute on them there."""
    n = side(session.program, block, found, machine)
    assert n is not None
    own = block_handle(session, block.name)
    for axis in (found.along, found.across):
        _cut_off_tail(session, own, axis, n)
    copies = [_copies(session, block, found, buffer) for buffer in _in_type(session.program, found)]
    loops = _nest(session, own)
    sides = [session.axis(own, a) for a in (found.across, found.along)]
    outer, tile = _tile(session, loops, dict.fromkeys(sides, Const(n)))
    for turn, rows in copies:
        _turn(session, turn, found, n, outer[-1])
        if rows is not None:
            _read_rows(session, rows, found, outer[-1])
    do(session, "vectorize", tile[-1])
    do(session, "unroll", tile[0])
    # Split when the copies are in place: of whole tiles no part lies outside of what is copied.
    counts = {a: _drawn(session, TILES, extents(block)[a] // n, f"{prefix}/{a}") for a in (found.across, found.along)}
    tiles = [outer[loops.index(x)] for x in sides]
    outer, _ = _tile(session, outer, dict(zip(tiles, counts.values(), strict=True)))
    run_in_parallel(session, outer)


def _turn(session: Session, copy: Handle, found: Turned, n: int, place: Handle) -> None:
    """Copy a tile where it is used, by the instruction that transposes it."""
    do(session, "compute_at", copy, place)
    sides = [session.axis(copy, a) for a in (found.along, found.across)]
    do(session, "reorder", *sides)
    do(session, "tensorize", sides[0], f"std.cpu.transpose.transpose_{n}x{n}")


def _read_rows(session: Session, copy: Handle, found: Turned, place: Handle) -> None:
    """Copy the rows of a tile to registers, each a vector."""
    do(session, "compute_at", copy, place)
    rows, row = (session.axis(copy, a) for a in (found.along, found.across))
    do(session, "reorder", rows, row)
    do(session, "vectorize", row)
    do(session, "unroll", rows)


def _times(count: Expr, n: int) -> Expr:
    return Const(int(count.value) * n) if isinstance(count, Const) else Binary("*", count, Const(n))


def _tile(session: Session, loops: Sequence[Handle], sizes: Mapping[Handle, Expr]) -> tuple[list[Handle], list[Handle]]:
    """Split some of nested loops by sizes, and move the inner loops inside of all others, in the order of the sizes.

    Returns the loops outside of a tile, in order, and those in it.
    """
    parts = {x: do(session, "split", x, (None, n), names=[f"{x.name}{k}" for k in (0, 1)]) for x, n in sizes.items()}
    outer = [parts[x][0] if x in parts else x for x in loops]
    within = [made[1] for made in parts.values()]
    do(session, "reorder", *outer, *within)
    return outer, within


def _drawn(session: Session, values: Sequence[int], most: int, address: str) -> Expr:
    """One of the values up to a limit."""
    left = limited(values, most)
    if len(left) == 1:
        return Const(min(left[0], most))
    drawn = draw(session, "choose", left, address=address)
    assert isinstance(drawn, Expr)
    return drawn


def _copies(session: Session, block: Block, found: Turned, buffer: str) -> tuple[Handle, Handle | None]:
    """A transposed copy of an operand, of which only a tile is kept; and a copy of rows that it is made of, where the
    tile's dimensions are not adjacent: instructions read no such tiles."""
    read = next(r for r in block.reads if r.buffer == buffer)
    turn = _copy(session, block_handle(session, block.name), read, (found.across, found.along))
    if found.along in free_vars(read.ranges[-2].start):
        return turn, None
    return turn, _copy(session, turn, read, (found.along, found.across))


def _copy(session: Session, block: Handle, read: Region, sides: tuple[str, str]) -> Handle:
    """A copy of what a block reads of a buffer, with some axes last."""
    axes = [a.name for a in block_of(session, block).axes]
    used = {v for x in read.ranges for v in free_vars(x.start)}
    order = [*(a for a in axes if a in used and a not in sides), *sides]
    layout = IndexMap(tuple(axes), tuple(Var(a) for a in order))
    operand = session.handles.handle(BufferRef(read.buffer))
    return do(session, "reindex_cache_read", block, operand, "local", layout)[0]


def _cut_off_tail(session: Session, block: Handle, axis: str, n: int) -> None:
    """Give the iterations of an axis after the last whole tile loops of their own; the order of loops stays."""
    source = block_of(session, block)
    size = extents(source)[axis]
    if size % n == 0:
        return
    loop = session.axis(block, axis)
    place = _nest(session, block).index(loop)
    _move(session, block, loop, 0)
    whole, tail = do(session, "loop_partition", loop, (size // n * n, None), names=[f"{axis}_whole", f"{axis}_tail"])
    _move(session, block, whole, place)
    rest = next(r for r in roots(session.program) if handle(session, r.var) == tail)
    _move(session, block_handle(session, block_under(rest).name), tail, place)


def _nest(session: Session, block: Handle) -> list[Handle]:
    return [handle(session, s.var) for s in loops_around(session.program, block_of(session, block))]


def _move(session: Session, block: Handle, loop: Handle, place: int) -> None:
    """Move one of a block's loops to a place among them."""
    loops = _nest(session, block)
    wanted = [x for x in loops if x != loop]
    wanted.insert(place, loop)
    if wanted != loops:
        do(session, "reorder", *wanted)
