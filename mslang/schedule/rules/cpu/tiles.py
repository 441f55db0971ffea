"""Register tiles as numbers: rows and vectors of which the accumulators fit the registers."""

from __future__ import annotations

from collections.abc import Sequence

from mslang.schedule.rules.cpu.contraction import limited

VECTORS = (1, 2, 3, 4)
"""The numbers of vectors along a register tile."""
TENS = 10
"""A register tile is drawn as one number, ten times its rows plus its vectors: 64 is 6 rows of 4 vectors."""


def register_tiles(registers: int, rows: int, vectors: int) -> tuple[int, ...]:
    """The tiles of which accumulators and one row of an operand fit the registers, as numbers (see `TENS`).

    Args:
        registers: how many vectors the machine holds.
        rows: the extent of the rows.
        vectors: the extent of the other side, in vectors.
    """
    fitting = (
        r * TENS + v
        for r in range(1, registers)
        for v in limited(VECTORS, vectors)
        if r <= rows and r * v + v <= registers
    )
    return tuple(fitting)


def intensities(codes: Sequence[int]) -> tuple[float, ...]:
    """Weights of register tiles: how many multiplications each makes of an element that it reads, squared."""
    tiles = ((c // TENS, c % TENS) for c in codes)
    return tuple(round((r * v / (r + v)) ** 2, 2) for r, v in tiles)
