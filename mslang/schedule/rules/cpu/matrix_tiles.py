"""Products of bytes and of bf16 on matrix tiles (AMX): tile registers hold 16 rows of 64 bytes.

Some tiles of sums stay in registers over the whole reduction and are stored when they are complete. The right operand
is packed in groups along the reduction (`grouped.py`), the left one is read where it lies. Where a product's sizes do
not divide, operands are filled up with zeros.
"""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING

import msgspec

from mslang.diagnostics import MsError
from mslang.ir.expr import Binary, Const, Expr, Var
from mslang.ir.find import all_buffers
from mslang.ir.index_map import IndexMap
from mslang.ir.program import Block
from mslang.schedule.decisions import Drawing
from mslang.schedule.handles import Handle
from mslang.schedule.rules.cpu.contraction import extents, limited, mentions
from mslang.schedule.rules.cpu.grouped import (
    Grouping,
    Product,
    group_operand,
    order_copy,
    pack_panel,
    pad_to,
    product_of,
    require_product,
    types_of,
)
from mslang.schedule.rules.cpu.lanes import run_in_parallel, vectorize_along
from mslang.schedule.rules.cpu.packing import copy_operand, is_constant
from mslang.schedule.rules.cpu.register_tile import OUTER_TILES, epilogue
from mslang.schedule.rules.cpu.tiles import TENS, intensities
from mslang.schedule.rules.nests import block_handle, block_of, do, do_if_legal, draw
from mslang.schedule.session import Session
from mslang.target.description import Target
from mslang.transform.outcome import BufferRef

if TYPE_CHECKING:
    from mslang.schedule.interpret import Interpreter

ROWS = 16
"""The rows of a tile, and the sums in a row of it."""
SUMS = 4
"""The most tiles of sums at a time: of the 8 tile registers the others hold operands."""
WASTE = 4
"""Filling up may multiply the work by so much: dot products of vectors take at least that much longer."""
ORDERS = ("columns", "rows")
"""Orders of the loops over tiles: by columns of the result, with a panel of the right operand packed for each; or by
rows, with all of it packed once."""


class MatrixTile(msgspec.Struct, frozen=True):
    """An instruction: 16 × 16 sums, of type `sums`, of 16 × `group` products of operands of types `left` and `right`.

    `multiply`, `pack`, `zero` and `store` are intrinsics of the library.
    """

    left: str
    right: str
    sums: str
    needs: str
    multiply: str
    pack: str
    group: int

    @property
    def grouping(self) -> Grouping:
        """How the instruction reads its right operand."""
        return Grouping(self.pack, ROWS, self.group)

    @property
    def zero(self) -> str:
        """The intrinsic that sets a tile of sums to zero."""
        return f"std.cpu.amx.zero_tile_{self.sums}"

    @property
    def store(self) -> str:
        """The intrinsic that stores a tile of sums."""
        return f"std.cpu.amx.store_tile_{self.sums}"

    @property
    def depth(self) -> int:
        """How many products each sum adds up."""
        return ROWS * self.group


TILES = (
    MatrixTile("i8", "i8", "i32", "amx-int8", "std.cpu.amx.s8s8_amx", "std.cpu.pack.pack_16x4", 4),
    MatrixTile("u8", "i8", "i32", "amx-int8", "std.cpu.amx.u8s8_amx", "std.cpu.pack.pack_16x4", 4),
    MatrixTile("bf16", "bf16", "f32", "amx-bf16", "std.cpu.amx.bf16_amx", "std.cpu.gemm_bf16.pack_bf16", 2),
)


class MatrixTiles(msgspec.Struct, frozen=True):
    """Computes products of bytes or bf16 on matrix tiles, if the target has them; see the module."""

    name: str = "matrix_tiles"

    def applies(self, it: Interpreter, block: Block) -> bool:
        """Whether the block is a product that matrix tiles compute, and not much larger when it fills whole tiles."""
        return _tile(it.session, block, it.machine) is not None and bool(self.alternatives(it, block))

    def alternatives(self, it: Interpreter, block: Block) -> tuple[str, ...]:
        """The orders that are legal (see `ORDERS`), found by trying: none depends on the value of a decision."""
        return tuple(order for order in ORDERS if _possible(it, block, order))

    def apply(self, it: Interpreter, block: Block, alternative: str) -> None:
        """Pack the right operand, tile the product, and put the instructions in; samples the tiles of both levels."""
        tile = _tile(it.session, block, it.machine)
        assert tile is not None
        on_tiles(it.session, block.name, tile, it.machine, alternative, f"{self.name}:{block.name}")


def _possible(it: Interpreter, block: Block, order: str) -> bool:
    tile = _tile(it.session, block, it.machine)
    if tile is None:
        return False
    trial = Session(it.session.program, Drawing(0), it.session.registry)
    try:
        on_tiles(trial, block.name, tile, it.machine, order, "trial")
    except MsError:
        return False
    return True


def _tile(session: Session, block: Block, machine: Target) -> MatrixTile | None:
    product = product_of(session, block, machine)
    if product is None or product.found.row is None or product.packed or len(extents(block)) < len(block.axes):
        return None
    wanted = types_of(session, block, product)
    found = next((t for t in TILES if (t.left, t.right, t.sums) == wanted and machine.has(t.needs)), None)
    if found is None:
        return None
    sizes = extents(block)
    grown = prod(-(-sizes[a] // n) * n / sizes[a] for a, n in _multiples(product, found).items())
    return found if grown <= WASTE else None


def _multiples(product: Product, tile: MatrixTile) -> dict[str, int]:
    assert product.found.row is not None
    return {product.found.row: ROWS, product.found.vector: ROWS, product.along: tile.depth}


def on_tiles(session: Session, name: str, tile: MatrixTile, machine: Target, order: str, prefix: str) -> None:
    """Schedule a product on matrix tiles.

    Args:
        session: the running schedule.
        name: the block's name.
        tile: the instruction.
        machine: what it runs on.
        order: of the loops over tiles; see `ORDERS`.
        prefix: of the addresses of decisions: `PREFIX/registers` (ten times the rows plus the columns of tiles of sums
            at a time) and `PREFIX/AXIS`.

    Raises:
        ScheduleError: the block is not what the instruction computes.

    Source: Intel 64 and IA-32 Architectures Optimization Reference Manual, chapter 20 (AMX).
    """
    multiples = _multiples(require_product(session, name, machine), tile)
    pad_to(session, name, multiples, machine.vector_bits // 32)
    product = require_product(session, name, machine)
    user = epilogue(session.program, name)
    block, right = block_of(session, block_handle(session, name)), product.right.buffer
    panel = None
    if order == "rows" or is_constant(session.program, right):
        group_operand(session, block, right, tile.grouping)
    else:
        panel = copy_operand(session, block, right)
    loops = _split(session, name, product, tile, order, prefix)
    if panel is not None:
        do(session, "compute_at", panel, loops.shared[-1])
        order_copy(session, panel, tile.grouping)
        pack_panel(session, panel, tile.grouping)
    (product_tile,) = do(session, "blockize", loops.rows)
    _store(session, product_tile, tile, user, loops, machine)
    run_in_parallel(session, loops.shared)
    for loop in loops.unrolled:
        do(session, "unroll", loop)
    (zero,) = do(session, "decompose_reduction", product_tile, loops.reduced)
    do(session, "tensorize", zero, tile.zero)
    do(session, "tensorize", product_tile, tile.multiply)


class _Loops(msgspec.Struct, frozen=True):
    """The loops of a tiled product: those to run in parallel, the last before the reduction, the first of the
    reduction, those over tiles of sums in registers, and the first of the instruction."""

    shared: tuple[Handle, ...]
    inner: Handle
    reduced: Handle
    unrolled: tuple[Handle, ...]
    rows: Handle


def _split(session: Session, name: str, product: Product, tile: MatrixTile, order: str, prefix: str) -> _Loops:
    found, target = product.found, block_handle(session, name)
    assert found.row is not None
    sizes = extents(block_of(session, target))
    codes = _codes(sizes[found.row] // ROWS, sizes[found.vector] // ROWS)
    code = draw(session, "choose", codes, weights=intensities(codes), address=f"{prefix}/registers")
    assert isinstance(code, Expr)
    tiles = {found.row: Binary("//", code, Const(TENS)), found.vector: Binary("%", code, Const(TENS))}
    outer: dict[str, Handle] = {}
    inner: dict[str, Handle] = {}
    unrolled: list[Handle] = []
    whole: list[Handle] = []
    for axis in (*found.outer, found.row, found.vector):
        rest = (tiles[axis], ROWS) if axis in tiles else ()
        counts = limited(OUTER_TILES, -(-sizes[axis] // (ROWS if rest else 1)))
        count = draw(session, "choose", counts, address=f"{prefix}/{axis}") if len(counts) > 1 else 1
        names = [f"{axis}{k}" for k in range(2 + len(rest))]
        outer[axis], inner[axis], *parts = do(
            session, "split", session.axis(target, axis), (None, count, *rest), names=names
        )
        unrolled += parts[:1]
        whole += parts[1:]
    along = product.along
    k0, *within = do(
        session,
        "split",
        session.axis(target, along),
        (None, ROWS, tile.group),
        names=[f"{along}{k}" for k in range(3)],
    )
    reduced = [*(session.axis(target, a) for a in found.reduced if a != along), k0]
    by_rows = (*found.outer, found.row, found.vector)
    shared = by_rows if order == "rows" else (*_batches(product), found.vector)
    around = [outer[a] for a in shared] + [outer[a] for a in by_rows if a not in shared] + [inner[a] for a in by_rows]
    do(session, "reorder", *around, *reduced, *unrolled, *whole, *within)
    return _Loops(tuple(outer[a] for a in shared), around[-1], reduced[0], tuple(unrolled), whole[0])


def _batches(product: Product) -> tuple[str, ...]:
    """The axes of whose iterations each has a right operand of its own."""
    return tuple(a for a in product.found.outer if mentions(product.right, a))


def _codes(rows: int, columns: int) -> tuple[int, ...]:
    """How many tiles of sums are in registers at a time: rows and columns of them as one number (see `TENS`)."""
    return tuple(
        r * TENS + c for r in range(1, SUMS + 1) for c in range(1, SUMS // r + 1) if r <= rows and c <= columns
    )


def _store(
    session: Session, product: Handle, tile: MatrixTile, user: str | None, loops: _Loops, machine: Target
) -> None:
    """Keep tiles of sums in registers until they are complete; what uses them reads them where they are stored."""
    written = block_of(session, product).writes[0].buffer
    (results,) = do(session, "cache_write", product, session.handles.handle(BufferRef(written)), "local")
    sums = block_of(session, product).writes[0].buffer
    do(session, "transform_layout", product, session.handles.handle(BufferRef(sums)), _whole_tiles(session, sums))
    do(session, "reverse_compute_at", results, loops.inner)
    if user is not None:
        after = block_handle(session, user)
        if do_if_legal(session, "reverse_compute_at", after, loops.inner) is not None:
            do(session, "set_scope", results, session.handles.handle(BufferRef(written)), "local")
        vectorize_along(session, after, machine.vector_bits // 32)
    *_, row, column = (session.axis(results, a.name) for a in block_of(session, results).axes)
    rows, r = do(session, "split", row, (None, ROWS))
    columns, c = do(session, "split", column, (None, ROWS))
    do(session, "reorder", rows, columns, r, c)
    do(session, "tensorize", r, tile.store)
    for loop in (rows, columns):
        do(session, "unroll", loop)


def _whole_tiles(session: Session, buffer: str) -> IndexMap:
    """The map of sums to tiles that are each contiguous."""
    shape = all_buffers(session.program)[buffer].shape
    params = tuple(f"d{k}" for k in range(len(shape)))
    *rest, i, j = (Var(p) for p in params)
    n = Const(ROWS)
    return IndexMap(params, (*rest, Binary("//", i, n), Binary("//", j, n), Binary("%", i, n), Binary("%", j, n)))
