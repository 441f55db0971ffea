"""Register tiles as numbers: rows and vectors of which the accumulators fit the registers."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product
from math import prod

from mslang.schedule.rules.cpu.contraction import limited

VECTORS = (1, 2, 3, 4)
"""The numbers of vectors along a register tile."""
TENS = 10
"""A register tile is drawn as one number, ten times its rows plus its vectors: 64 is 6 rows of 4 vectors."""

LEAST = 4
"""So many rows make a tile worth to be of equal ones."""
REST = 4
"""So much less likely is a tile for each product whose width it does not divide."""


def register_tiles(registers: int, rows: int, vectors: int, sharers: int = 0) -> tuple[int, ...]:
    """The tiles of which accumulators, one row of an operand and an element of the other fit the registers, as numbers
    (see `TENS`). With no register for the element LLVM keeps some accumulators on the stack.

    Args:
        registers: how many vectors the machine holds.
        rows: the extent of the rows.
        vectors: the extent of the other side, in vectors.
        sharers: how many adjacent rows read the same elements, if only some do: a tile's rows divide them.
    """
    fitting = (
        r * TENS + v
        for r in range(1, registers)
        for v in limited(VECTORS, vectors)
        if r <= rows and r * v + v < registers and sharers % r == 0
    )
    return tuple(fitting)


def whole_rows(registers: int, row: int, above: int, vectors: int, others: Sequence[int]) -> tuple[int, ...]:
    """The tiles of two or more whole rows of an image, as numbers, if they have more reuse than other tiles.

    Args:
        registers: how many vectors the machine holds.
        row: the extent of a row of the image.
        above: how many rows there are.
        vectors: the extent of the other side, in vectors.
        others: the tiles within a row.

    >>> whole_rows(32, 7, 7, 1, register_tiles(32, 7, 1))
    (141, 211, 281)
    >>> whole_rows(32, 7, 7, 4, register_tiles(32, 7, 4))
    ()
    """
    found = tuple(
        r * row * TENS + v
        for r in range(2, above + 1)
        for v in limited(VECTORS, vectors)
        if r * row * v + v < registers
    )
    return found if max(intensities(found), default=0.0) > max(intensities(others)) else ()


def intensities(codes: Sequence[int]) -> tuple[float, ...]:
    """Weights of register tiles: how many multiplications each makes of an element that it reads, squared."""
    return tuple(_intensity(c // TENS, c % TENS) for c in codes)


def _intensity(rows: int, vectors: int) -> float:
    return round((rows * vectors / (rows + vectors)) ** 2, 2)


def shared_tiles(registers: int, rows: int, widths: Sequence[int]) -> dict[int, float]:
    """Register tiles of several products with the same rows, as numbers, with weights.

    The last digits of such a number are the vectors of each product in order, what is before them the rows: 644 is a
    tile of 6 rows of 4 vectors for both of two products. The rows divide those that there are, if they can; vectors
    that do not divide are less likely, as their tail has less reuse.

    Args:
        registers: how many vectors the machine holds.
        rows: the extent of the rows.
        widths: the extent of the other side of each product, in vectors.

    >>> list(shared_tiles(8, 2, [2, 1]))
    [111, 121, 211, 221]
    """
    found: dict[int, float] = {}
    heights = range(1, min(rows, registers) + 1)
    equal = [r for r in heights if rows % r == 0]
    for r in equal if max(equal) >= LEAST else heights:
        for tile in product(*(limited(VECTORS, w) for w in widths)):
            if all(r * v + v < registers for v in tile):
                code = sum(v * TENS**k for k, v in enumerate(reversed(tile))) + r * TENS ** len(tile)
                tails = sum(w % v != 0 for v, w in zip(tile, widths, strict=True))
                found[code] = round(prod(_intensity(r, v) for v in tile) / REST**tails, 2)
    return found
