"""Products on tensor cores: warps multiply fragments, operands and results go through shared memory."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING, NamedTuple

import msgspec

from mslang.diagnostics import MsError
from mslang.ir import arith
from mslang.ir.expr import ONE, Binary, Const, Expr, Var
from mslang.ir.find import all_buffers, blocks_of, path_to_block
from mslang.ir.program import Block, Program
from mslang.ir.visit import free_vars
from mslang.schedule.decisions import Drawing
from mslang.schedule.handles import Handle
from mslang.schedule.rules.gpu.fetch import cooperative_fetch, require_shared_memory, staged_bytes
from mslang.schedule.rules.gpu.machine import CP_ASYNC, TENSOR_CORES, capability, most_threads, shared_memory, warp
from mslang.schedule.rules.gpu.steps import BYTES, fused, handle_of, unsuitable
from mslang.schedule.rules.gpu.tiling import ASYNC, operands
from mslang.schedule.rules.instruction import first_reduction
from mslang.schedule.rules.mapping import map_loops
from mslang.schedule.rules.multi_level import needs_tiling
from mslang.schedule.rules.nests import attempt, block_handle, block_of, do, draw, handle
from mslang.schedule.rules.rule import legal
from mslang.schedule.session import Session
from mslang.transform.analysis.axes import axis_loops
from mslang.transform.getters import consumers, producers
from mslang.transform.outcome import BlockRef

if TYPE_CHECKING:
    from mslang.schedule.interpret import Interpreter

SHARED = "shared.dyn"
UNITS = ("wmma", "mma")
MMA = 80
"""The compute capability from which on warps multiply by `mma.sync` what `ldmatrix` loads."""
FRAGMENTS = 16
"""The most accumulators of a warp: 8 registers of each thread hold one of 16 x 16 f32."""


class Family(msgspec.Struct, frozen=True):
    """Intrinsics of one type of fragments: names without the address of their module.

    `products` are for right operands `[k, j]` and `[j, k]`, with the loads of their right operands. Fragments of both
    operands and of sums are in memory of the scopes `a`, `b` and `acc` of `unit`. One load of a right operand serves
    `columns` products.
    """

    module: str
    read: str
    written: str
    products: tuple[tuple[str, str], ...]
    fill: str
    store: str
    unit: str = "wmma"
    needs: int = TENSOR_CORES
    columns: int = 1
    load_a: str = "load_a_dyn"

    @property
    def vector(self) -> int:
        """The elements in 16 bytes: loads of fragments take rows that begin at multiples of them.

        Rows an odd multiple of them apart lie in different banks.
        """
        return 16 // BYTES[self.read]

    def address(self, name: str) -> str:
        """The full name of an intrinsic."""
        return f"{self.module}.{name}"


def _wmma(module: str, read: str, written: str, product: str, suffix: str) -> Family:
    products = ((product, "load_b_dyn"), (f"{product}_trans", "load_b_trans_dyn"))
    return Family(f"std.cuda.{module}", read, written, products, f"fill_{suffix}", f"store_{suffix}_dyn")


def _mma(module: str, read: str, written: str, product: str, suffix: str, of: str = "") -> Family:
    """`ldmatrix` loads two fragments of a right operand, each of 8 columns."""
    return Family(
        f"std.cuda.{module}",
        read,
        written,
        ((product, f"load_b{of}_dyn"), (f"{product}_trans", f"load_b{of}_trans_dyn")),
        f"fill_{suffix}",
        f"store_{suffix}_dyn",
        "mma",
        MMA,
        2,
        f"load_a{of}_dyn",
    )


FAMILIES = (
    _wmma("wmma", "f16", "f32", "f16f16f32", "f32"),
    _wmma("wmma", "f16", "f16", "f16f16f16", "f16"),
    _wmma("wmma_s8", "i8", "i32", "s8s8s32", "s32"),
    _mma("mma", "f16", "f32", "f16f16f32", "f32"),
    _mma("mma", "f16", "f16", "f16f16f16", "f16"),
    _mma("mma", "bf16", "f32", "bf16bf16f32", "f32", "_bf16"),
    _mma("mma_s8", "i8", "i32", "s8s8s32", "s32"),
)


class Mapping(msgspec.Struct, frozen=True):
    """How the loops of a block are those of an instruction; `laid_out`: after its operands were copied (im2col)."""

    family: Family
    product: str
    load_b: str
    laid_out: bool


class TensorCores(msgspec.Struct, frozen=True):
    """Multi-level tiling of a product whose tiles are multiplied by tensor cores.

    The block's loops are mapped to those of an instruction: operands are laid out differently where several axes form
    one loop, and padded where the tile does not divide a size. There are alternatives for whole fragments (`wmma`) and,
    from compute capability 8.0 on, for `ldmatrix` and `mma.sync` (`mma`), each with plain copies and, where the target
    copies asynchronously, for each number of `stages`. Tiles are distributed over two dimensions of blocks and over
    warps; operands are staged in shared memory and loaded into fragments. Accumulators are stored by way of shared
    memory, a row of tiles of all warps at a time, where an elementwise consumer is inlined into the copy.

    Decisions: `multi_level_tiling_tensor_core:block/m`, `/n` and `/k` (tiles), `/buffer` (elements fetched at once).

    Source: MetaSchedule, `MultiLevelTilingTensorCore`.
    """

    name: str = "multi_level_tiling_tensor_core"
    families: tuple[Family, ...] = FAMILIES
    max_innermost: int = 4
    stages: tuple[int, ...] = (2, 3)

    def applies(self, it: Interpreter, block: Block) -> bool:
        """Whether the block is a product of types that tensor cores multiply."""
        return (
            capability(it.machine) >= TENSOR_CORES
            and needs_tiling(it.session.program, block)
            and bool(self._served(it.session.program, block))
        )

    def alternatives(self, it: Interpreter, block: Block) -> tuple[str, ...]:
        """Plain copies and asynchronous ones, for the instructions that the block's loops can be mapped to."""
        stages = self.stages if capability(it.machine) >= CP_ASYNC else ()
        copies = ("", *(f"{ASYNC}{n}" for n in stages))
        mapped = [u for u in UNITS if self._mapping(it, block, u) is not None]
        return legal(it, self, block, [f"{u}_{c}".rstrip("_") for u in mapped for c in copies])

    def _served(self, program: Program, block: Block) -> list[Family]:
        buffers = all_buffers(program)
        read = {buffers[x].dtype for x in operands(block)}
        written = buffers[block.writes[0].buffer].dtype
        return [f for f in self.families if read == {f.read} and written == f.written]

    def _mapping(self, it: Interpreter, block: Block, unit: str) -> Mapping | None:
        """The first product that the loops of a block can be mapped to, as the operands lie if possible."""
        families = [f for f in self._served(it.session.program, block) if f.unit == unit]
        for family in (f for f in families if f.needs <= capability(it.machine)):
            for laid_out in (False, True) if _plain(block) else (True,):
                for product, load_b in family.products:
                    trial = Session(it.session.program, Drawing(0), it.session.registry)
                    try:
                        map_loops(trial, block_handle(trial, block.name), family.address(product), laid_out=laid_out)
                    except MsError:
                        continue
                    return Mapping(family, product, load_b, laid_out)
        return None

    def apply(self, it: Interpreter, block: Block, alternative: str) -> None:
        """Map, tile, bind, stage and tensorize."""
        unit, _, copying = alternative.partition("_")
        found = self._mapping(it, block, unit)
        assert found is not None
        family, product, load_b = found.family, found.product, found.load_b
        session = it.session
        prefix = f"{self.name}:{block.name}"
        before = {b.name for b in blocks_of(session.program.body)}
        inner = map_loops(session, block_handle(session, block.name), family.address(product), laid_out=found.laid_out)
        _inline_users(session, BlockRef(block.name), before)
        (tile,) = do(session, "blockize", inner)
        outer = block_of(session, tile)
        (result,) = (r.buffer for r in outer.writes)
        (staged,) = do(session, "cache_write", tile, handle_of(session, result), SHARED)
        (sums,) = do(session, "cache_write", tile, handle_of(session, _written(session, tile)), f"{unit}.acc")
        copies: list[tuple[str, Handle, Handle, str]] = []
        for buffer, scope, load in zip(
            operands(outer), (f"{unit}.a", f"{unit}.b"), (family.load_a, load_b), strict=True
        ):
            (copy,) = do(session, "cache_read", tile, handle_of(session, buffer), SHARED, consumers=(tile,))
            _inline_copies(session, copy, before)
            into = handle_of(session, _written(session, copy))
            (fragment,) = do(session, "cache_read", tile, into, scope, consumers=(tile,))
            copies.append((buffer, copy, fragment, load))
        tiles = self._tiled(it, tile, prefix, family.columns)
        k0, k1 = tiles.sums
        row = _rows_of_tiles(session, sums, tiles)
        do(session, "reverse_compute_at", staged, row)
        do(session, "tensorize", sums, family.address(family.store))
        _use_results(session, staged)
        threads = (("threadIdx.y", arith.mul(*tiles.warps)), ("threadIdx.x", Const(warp(it.machine))))
        for _, copy, fragment, _ in copies:
            do(session, "compute_at", fragment, k1)
            do(session, "compute_at", copy, k0)
        stages = int(copying.removeprefix(ASYNC)) if copying else 1
        sizes = [Binary("*", staged_bytes(session, copy, k0, family.vector), Const(stages)) for _, copy, _, _ in copies]
        require_shared_memory(session, [staged_bytes(session, staged, row), *sizes], 1, shared_memory(it.machine))
        cooperative_fetch(session, staged, row, threads, f"{prefix}/{result}")
        for buffer, copy, fragment, load in copies:
            do(session, "tensorize", fragment, family.address(load))
            cooperative_fetch(session, copy, k0, threads, f"{prefix}/{buffer}")
            do(session, "storage_align", copy, axis=-2, factor=2 * family.vector, offset=family.vector)
        first = handle(session, first_reduction(session, block_of(session, tile)))
        (zero,) = do(session, "decompose_reduction", tile, first)
        do(session, "tensorize", zero, family.address(family.fill))
        do(session, "tensorize", tile, family.address(product))
        if stages > 1:
            do(session, "pipeline", k0, stages=stages, copy="cp_async")

    def _tiled(self, it: Interpreter, tile: Handle, prefix: str, columns: int) -> _Tiles:
        """Split, order and bind the loops of tiles by the structure `SSSRRSRS`.

        So many `columns` of tiles stay together, innermost. Warps take rows of tiles in turn, so that the rows that all
        of them store at a time are neighbours.
        """
        session = it.session
        outer = block_of(session, tile)
        m, n, k = _tile_axes(outer)
        path = path_to_block(session.program, outer.name) or ()
        loops = {a.name: session.axis(tile, a.name) for a in outer.axes if axis_loops(path, a.name)}
        levels: dict[str, list[list[Handle]]] = {}
        drawn: dict[str, Sequence[Expr]] = {}
        for name, axis, parts in (("m", m, 5), ("n", n, 5), ("k", k, 3)):
            levels[name] = [[] for _ in range(parts)]
            drawn[name] = [ONE] * parts
            if axis not in loops:  # One tile covers the axis.
                continue
            together: list[Handle] = []
            if name == "n" and columns > 1:
                loops[axis], *together = do(session, "split", loops[axis], (None, columns))
            sizes = draw(session, "perfect_tile", loops[axis], parts, self.max_innermost, address=f"{prefix}/{name}")
            assert isinstance(sizes, tuple)
            drawn[name] = sizes
            order = (0, 1, 3, 4, 2) if name == "m" else tuple(range(parts))
            made = do(
                session, "split", loops[axis], tuple(sizes[x] for x in order), names=[f"{name}{x}" for x in order]
            )
            levels[name] = [[loop] for _, loop in sorted(zip(order, made, strict=True), key=lambda x: x[0])]
            levels[name][-1] += together
        kinds = {a.name: a.kind for a in outer.axes}
        rest = {a: h for a, h in loops.items() if a not in (m, n, k)}
        batch = [h for a, h in rest.items() if kinds[a] == "spatial"]
        sums = [h for a, h in rest.items() if kinds[a] == "reduce"]
        spatial = [[*x, *y] for x, y in zip(levels["m"], levels["n"], strict=True)]
        first, second, third = levels["k"]
        nest = [spatial[0], spatial[1], spatial[2], sums, first, second, spatial[3], third, spatial[4]]
        do(session, "reorder", *batch, *(h for level in nest for h in level))
        if batch:
            do(session, "bind", fused(session, batch), "blockIdx.z")
        if not spatial[0] or not first:
            raise unsuitable("one tile covers the result or the sum")
        bound = [fused(session, x) for x in spatial[:3]]
        for loop, axis in zip(bound, ("blockIdx.y", "blockIdx.x", "threadIdx.y"), strict=True):
            do(session, "bind", loop, axis)
        warps = (drawn["m"][2], drawn["n"][2])
        most = most_threads(it.machine) // warp(it.machine)
        session.require(Binary("<=", arith.mul(*warps), Const(most)), "more threads than a block may have")
        rows, across = (arith.mul(drawn[x][3], drawn[x][4]) for x in ("m", "n"))
        session.require(
            Binary("<=", arith.mul(rows, across), Const(FRAGMENTS)), "the accumulators do not fit the registers"
        )
        return _Tiles(bound[1], (first[0], second[0]), warps, rows, _dimensions(outer, m, n))


class _Tiles(NamedTuple):
    """A tiled product: the loop of its blocks of threads, the outer two loops of the sum, how many warps work on the
    rows and on the columns of a block, how many rows of tiles each has, and for both the dimension of the result with
    the length of a tile."""

    blocks: Handle
    sums: tuple[Handle, Handle]
    warps: tuple[Expr, Expr]
    rows: Expr
    dimensions: tuple[tuple[int, Expr], tuple[int, Expr]]


def _dimensions(outer: Block, m: str, n: str) -> tuple[tuple[int, Expr], tuple[int, Expr]]:
    ranges = outer.writes[0].ranges
    first, second = (next(k for k, r in enumerate(ranges) if axis in free_vars(r.start)) for axis in (m, n))
    return (first, ranges[first].extent), (second, ranges[second].extent)


def _rows_of_tiles(session: Session, sums: Handle, tiles: _Tiles) -> Handle:
    """Let warps store their accumulators a row of tiles at a time; returns the loop over rows."""
    do(session, "reverse_compute_at", sums, tiles.blocks)
    (first, height), (second, width) = tiles.dimensions
    axes = [a.name for a in block_of(session, sums).axes]
    down, across = session.axis(sums, axes[first]), session.axis(sums, axes[second])
    row, rows_warp, inside = do(session, "split", down, (tiles.rows, tiles.warps[0], height))
    columns_warp, column, inside_column = do(session, "split", across, (tiles.warps[1], None, width))
    do(session, "reorder", row, rows_warp, columns_warp, column, inside, inside_column)
    do(session, "bind", fused(session, [rows_warp, columns_warp]), "threadIdx.y")
    return row


def _inline_users(session: Session, block: BlockRef, kept: Collection[str]) -> None:
    """Inline what uses the result into what the mapping put after the block, while its indices are still simple."""
    for copy in consumers(session.program, block):
        users = consumers(session.program, copy) if copy.name not in kept else ()
        if len(users) == 1 and attempt(session.program, "reverse_compute_inline", users[0]) is not None:
            do(session, "reverse_compute_inline", session.handles.handle(users[0]))


def _use_results(session: Session, block: Handle) -> None:
    """Inline what uses the results into the block that stores them, as far as that is legal: what lays them out as they
    were, what cuts padding off, and elementwise blocks."""
    while True:
        users = consumers(session.program, BlockRef(session.handles.resolve(block).name))
        if len(users) != 1 or attempt(session.program, "reverse_compute_inline", users[0]) is None:
            return
        do(session, "reverse_compute_inline", session.handles.handle(users[0]))


def _plain(block: Block) -> bool:
    """Whether every index of a block is one axis: tiles of its operands begin at multiples of the tile."""
    return all(isinstance(x.start, Var) for r in (*block.reads, *block.writes) for x in r.ranges)


def _inline_copies(session: Session, block: Handle, kept: Collection[str]) -> None:
    """Inline what the mapping put before a copy: blocks that give an operand another layout, or pad it."""
    while True:
        found = producers(session.program, BlockRef(session.handles.resolve(block).name))
        made = [x for x in found if x.name not in kept]
        if not made:
            return
        do(session, "compute_inline", session.handles.handle(made[0]))


def _written(session: Session, block: Handle) -> str:
    return block_of(session, block).writes[0].buffer


def _tile_axes(outer: Block) -> tuple[str, str, str]:
    """The axes that count tiles: of rows, of columns, and of the sum."""
    (inner,) = (b for b in blocks_of(outer.body) if not blocks_of(b.body))
    own = {a.name for a in outer.axes}
    tiled = [free_vars(a.binding) for a in inner.axes]
    counted = [next(iter(names & own)) for names in tiled if names & own and names - own]
    kinds = {a.name: a.kind for a in outer.axes}
    spatial = [a for a in counted if kinds[a] == "spatial"]
    left = {v for r in outer.reads if r.buffer == operands(outer)[0] for x in r.ranges for v in free_vars(x.start)}
    m = next(a for a in spatial if a in left)
    n = next(a for a in spatial if a != m)
    return m, n, next(a for a in counted if kinds[a] == "reduce")
