"""The register tile of a contraction: drawn as one number (`tiles.TENS`), used as sizes by axis.

Its rows are adjacent values of one axis: pixels of an image row. Where that axis is too short for a tile with much
reuse, as in the last layers of a network, a tile may have several whole rows of the image.
"""

from __future__ import annotations

from collections.abc import Mapping

from mslang.ir.expr import Binary, Const, Expr
from mslang.ir.program import Block
from mslang.schedule.rules.cpu.contraction import Contraction, extents, greatest, sharers, steady
from mslang.schedule.rules.cpu.tiles import TENS, intensities, register_tiles, whole_rows
from mslang.schedule.rules.nests import draw
from mslang.schedule.session import Session


def draw_register_tile(
    session: Session, block: Block, found: Contraction, registers: int, lanes: int, prefix: str
) -> Mapping[str, Expr]:
    """Draw a register tile, at `PREFIX/registers`.

    Args:
        session: the running schedule.
        block: the contraction.
        found: its axes.
        registers: how many vectors there are for accumulators and operands.
        lanes: how many results a vector holds.
        prefix: of the address.

    Returns the sizes: the number of vectors along the vector axis, the rows along the others that the tile has.
    """
    sizes = greatest(block)
    rows = 1 if found.row is None else sizes[found.row]
    shared = 0 if found.row is None else sharers(block, found.row)
    vectors = -(-sizes[found.vector] // lanes)
    codes = register_tiles(registers, rows, vectors, shared)
    above = _row_above(block, found)
    several = () if above is None else whole_rows(registers, rows, sizes[above], vectors, codes)
    codes = (*codes, *several)
    code = draw(session, "choose", codes, weights=intensities(codes), address=f"{prefix}/registers")
    assert isinstance(code, Expr)
    tile: dict[str, Expr] = {found.vector: Binary("%", code, Const(TENS))}
    if found.row is not None:
        tile[found.row] = Binary("//", code, Const(TENS))
    if several and above is not None and found.row is not None:
        tile[above] = Binary("max", Const(1), Binary("//", code, Const(TENS * rows)))
        tile[found.row] = Binary("min", tile[found.row], Const(rows))
    return tile


def _row_above(block: Block, found: Contraction) -> str | None:
    """The axis over rows of an image: outside of the axis along one, and sharing what is read along vectors, too."""
    exact = extents(block)
    if not found.outer or found.row not in exact or sharers(block, found.row):
        return None
    axis = found.outer[-1]
    streamed = (r for r in block.reads if r.buffer in found.streamed)
    return axis if exact.get(axis, 1) > 1 and any(steady(r, axis) for r in streamed) else None
