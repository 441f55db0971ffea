"""Products of bytes and of bf16 on dot-product instructions: VNNI, AVX512-BF16, or widening multiplications.

The operand read along vectors is packed so that its bytes lie as the instruction reads them, ahead of time if it is a
constant parameter, or it is read where it lies if the program has it packed so; sums stay in registers over the whole
reduction. Where a product's sizes do not divide, operands are filled up with zeros.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import msgspec

from mslang.diagnostics import MsError
from mslang.ir.expr import Expr
from mslang.ir.program import Block
from mslang.schedule.decisions import Drawing
from mslang.schedule.handles import Handle
from mslang.schedule.rules.cpu.contraction import Contraction, contraction, extents, greatest, limited
from mslang.schedule.rules.cpu.grouped import (
    Grouping,
    Product,
    group_operand,
    pad_to,
    product_of,
    require_product,
    types_of,
)
from mslang.schedule.rules.cpu.lanes import run_in_parallel, spread_copy, vectorize_along
from mslang.schedule.rules.cpu.register_tile import OUTER_TILES, Layout, epilogue, layouts, tile, write_back
from mslang.schedule.rules.cpu.tile_sizes import draw_register_tile
from mslang.schedule.rules.nests import block_handle, block_of, do, draw
from mslang.schedule.session import Session
from mslang.target.description import Target
from mslang.transform.outcome import BufferRef

if TYPE_CHECKING:
    from mslang.schedule.interpret import Interpreter


class Dot(msgspec.Struct, frozen=True):
    """An instruction: `lanes` sums, of type `sums`, of `group` products of operands of types `left` and `right`.

    `multiply` and `pack` are intrinsics of the library; a register tile leaves `spare` registers free for what they
    compute on the way.
    `sum_right`: where the instruction takes u8, so that a left operand of i8 is copied as u8 (`change_signedness`), the
    intrinsic that adds up the right operand's columns.
    """

    left: str
    needs: str
    multiply: str
    pack: str
    lanes: int
    group: int
    spare: int
    sum_right: str = ""
    right: str = "i8"
    sums: str = "i32"

    @property
    def grouping(self) -> Grouping:
        """How the instruction reads its right operand."""
        return Grouping(self.pack, self.lanes, self.group)


DOTS = (
    Dot("u8", "avx512vnni", "std.cpu.dot.u8s8_vnni", "std.cpu.pack.pack_16x4", 16, 4, 1),
    Dot("i8", "avx512vnni", "std.cpu.dot.u8s8_vnni", "std.cpu.pack.pack_16x4", 16, 4, 1, "std.cpu.dot.sums_of_s8_vnni"),
    Dot("u8", "avx512bw", "std.cpu.dot.u8s8_avx512bw", "std.cpu.pack.pack_16x2", 16, 2, 3),
    Dot("i8", "avx512bw", "std.cpu.dot.s8s8_avx512bw", "std.cpu.pack.pack_16x2", 16, 2, 3),
    Dot(
        "bf16",
        "avx512bf16",
        "std.cpu.gemm_bf16.bf16_dot",
        "std.cpu.gemm_bf16.pack_bf16",
        16,
        2,
        1,
        right="bf16",
        sums="f32",
    ),
    Dot("u8", "avxvnni", "std.cpu.dot.u8s8_avxvnni", "std.cpu.pack.pack_8x4", 8, 4, 1),
    Dot(
        "i8", "avxvnni", "std.cpu.dot.u8s8_avxvnni", "std.cpu.pack.pack_8x4", 8, 4, 1, "std.cpu.dot.sums_of_s8_avxvnni"
    ),
    Dot("u8", "avx2", "std.cpu.dot.u8s8_avx2", "std.cpu.pack.pack_8x2", 8, 2, 3),
    Dot("i8", "avx2", "std.cpu.dot.s8s8_avx2", "std.cpu.pack.pack_8x2", 8, 2, 3),
)
"""The instructions, the best for a type of operands first."""

PACKED = (
    Dot("i8", "avx512vnni", "std.cpu.dot.s8s8_vnni", "", 16, 4, 2),
    Dot("u8", "avx512bw", "std.cpu.dot.u8s8_16x4_avx512bw", "", 16, 4, 5),
    Dot("i8", "avxvnni", "std.cpu.dot.s8s8_avxvnni", "", 8, 4, 2),
)
"""Instructions for right operands that the program has packed, where `DOTS` have none: columns cannot be added up, or
groups regrouped, where nothing is packed."""


class DotProducts(msgspec.Struct, frozen=True):
    """Computes products of bytes or bf16 by the best dot-product instruction of the target; see the module."""

    name: str = "dot"

    def applies(self, it: Interpreter, block: Block) -> bool:
        """Whether the block is a product of bytes that an instruction of the target computes."""
        return self._possible(it, block)

    def alternatives(self, it: Interpreter, block: Block) -> tuple[str, ...]:
        """The one instruction, by its name; of floating types multiplications of operands that are converted once, too.

        Which is faster depends on the processor, and is left to the search.
        """
        found = _instruction(it.session, block, it.machine)
        if found is None:
            return ()
        return (found.multiply.rpartition(".")[2], *(x.label for x in _multiplied(it, block)))

    def apply(self, it: Interpreter, block: Block, alternative: str) -> None:
        """Pack the operand, tile the product, and put the instruction in; samples the register tile and outer tiles."""
        found = _instruction(it.session, block, it.machine)
        assert found is not None
        layout = next((x for x in _multiplied(it, block) if x.label == alternative), None)
        if layout is not None:
            tile(it.session, block.name, it.machine, layout, f"tile:{block.name}")
        else:
            tensorized(it.session, block.name, found, it.machine, f"{self.name}:{block.name}")

    def _possible(self, it: Interpreter, block: Block) -> bool:
        """Whether all steps are legal, found by trying: none depends on the value of a decision."""
        found = _instruction(it.session, block, it.machine)
        if found is None:
            return False
        trial = Session(it.session.program, Drawing(0), it.session.registry)
        try:
            tensorized(trial, block.name, found, it.machine, self.name)
        except MsError:
            return False
        return True


def _multiplied(it: Interpreter, block: Block) -> tuple[Layout, ...]:
    """The layouts of a register tile whose operands are converted where they are copied."""
    found = contraction(it.session.program, block, it.machine)
    return () if found is None else tuple(x for x in layouts(it.session.program, found, it.machine) if x.wide)


def _instruction(session: Session, block: Block, machine: Target) -> Dot | None:
    product = product_of(session, block, machine)
    if product is None:
        return None
    wanted = types_of(session, block, product)
    known = DOTS if not product.packed else tuple(d for d in (*DOTS, *PACKED) if _reads(d, block, product))
    return next((d for d in known if (d.left, d.right, d.sums) == wanted and machine.has(d.needs)), None)


def _reads(dot: Dot, block: Block, product: Product) -> bool:
    """Whether an instruction reads a right operand as the program has packed it."""
    sizes = extents(block)
    whole = sizes[product.along] == dot.group and sizes[product.found.vector] % dot.lanes == 0
    return whole and not dot.sum_right


def tensorized(session: Session, name: str, dot: Dot, machine: Target, prefix: str) -> None:
    """Schedule a product of bytes on an instruction.

    Args:
        session: the running schedule.
        name: the block's name.
        dot: the instruction.
        machine: what it runs on.
        prefix: of the addresses of decisions: `PREFIX/registers` and `PREFIX/AXIS`.

    Raises:
        ScheduleError: the block is not what the instruction computes.
    """
    product = require_product(session, name, machine)
    found, along = product.found, product.along
    if not product.packed and pad_to(session, name, {found.vector: dot.lanes, along: dot.group}, dot.lanes):
        product = require_product(session, name, machine)
    user = epilogue(session.program, name)
    sums = None
    if dot.sum_right:
        at = session.handles.handle(BufferRef(product.left.buffer))
        shifted, sums = do(session, "change_signedness", block_handle(session, name), at)
        spread_copy(session, shifted, machine.vector_bits // 8)
    block = block_of(session, block_handle(session, name))
    if not product.packed:
        group_operand(session, block, product.right.buffer, dot.grouping)
    if sums is not None:
        _summed(session, sums, found.vector, along, dot)
    place = _tiled(session, block, found, along, dot, machine, prefix)
    (tile,) = do(session, "blockize", place.lane)
    results = write_back(session, tile, user, place.inner)
    run_in_parallel(session, place.shared)
    for loop in place.unrolled:
        do(session, "unroll", loop)
    do(session, "decompose_reduction", tile, place.reduced)
    do(session, "tensorize", tile, dot.multiply)
    vectorize_along(session, results, dot.lanes)


def _summed(session: Session, sums: Handle, vector: str, along: str, dot: Dot) -> None:
    """Add up the columns of the right operand where it is packed."""
    axes = block_of(session, sums).axes
    rest = [session.axis(sums, a.name) for a in axes if a.name not in (vector, along)]
    outer, lane = do(session, "split", session.axis(sums, vector), (None, dot.lanes))
    k, byte = do(session, "split", session.axis(sums, along), (None, dot.group))
    do(session, "reorder", outer, *rest, k, lane, byte)
    do(session, "parallel", outer)
    do(session, "tensorize", lane, dot.sum_right)


class _Loops(msgspec.Struct, frozen=True):
    """The loops of a tiled product: those to run in parallel, the last before the reduction, the first of the
    reduction, those of the register tile, and the first of the instruction."""

    shared: tuple[Handle, ...]
    inner: Handle
    reduced: Handle
    unrolled: tuple[Handle, ...]
    lane: Handle


def _tiled(
    session: Session, block: Block, found: Contraction, along: str, dot: Dot, machine: Target, prefix: str
) -> _Loops:
    target = block_handle(session, block.name)
    sizes = greatest(block_of(session, target))
    drawn = draw_register_tile(
        session, block_of(session, target), found, machine.registers - dot.spare, dot.lanes, prefix
    )
    outer: list[Handle] = []
    inner: list[Handle] = []
    unrolled: list[Handle] = []
    lane = None
    for axis in (found.vector, *found.outer, *((found.row,) if found.row else ())):
        rest: tuple[Expr | int, ...] = (drawn[axis],) if axis in drawn else ()
        if axis == found.vector:
            rest = (drawn[axis], dot.lanes)
        tiles = limited(OUTER_TILES, -(-sizes[axis] // (dot.lanes if axis == found.vector else 1)))
        count = draw(session, "choose", tiles, address=f"{prefix}/{axis}") if len(tiles) > 1 else 1
        names = [f"{axis}{k}" for k in range(2 + len(rest))]
        parts = do(session, "split", session.axis(target, axis), (None, count, *rest), names=names)
        outer.append(parts[0])
        inner.append(parts[1])
        if axis == found.vector:
            lane = parts[3]
        unrolled += parts[2:3]
    assert lane is not None
    if _is_open(block, found, sizes):
        outer = [*outer[1:], outer[0]]
    k0, byte = do(session, "split", session.axis(target, along), (None, dot.group), names=[f"{along}0", f"{along}1"])
    reduced = [*(session.axis(target, a) for a in found.reduced if a != along), k0]
    unrolled = [*unrolled[1:], unrolled[0]]
    do(session, "reorder", *outer, *inner, *reduced, *unrolled, lane, byte)
    return _Loops(tuple(outer), inner[-1], reduced[0], tuple(unrolled), lane)


def _is_open(block: Block, found: Contraction, sizes: Mapping[str, int]) -> bool:
    """Whether rows of a dynamic number run in parallel rather than columns, as there may be more of them."""
    rows, exact = (*found.outer, found.row), extents(block)
    return any(a is not None and a not in exact and sizes[a] > sizes[found.vector] for a in rows)
