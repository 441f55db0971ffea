"""Random valid programs, drawn from a `random.Random`.

All data are small integers, in floating types too, and every program keeps its values small enough for
`f32` to hold them exactly; so a reordering of any reduction gives the same bits.
"""

from __future__ import annotations

import random
from collections.abc import Sequence

from mslang.ir.build import ProgramBuilder, Tensor
from mslang.ir.program import Program
from tests.property.arrays import INPUT_BOUND
from tests.property.drawn_blocks import KINDS, Maker, elementwise, padding, transpose

EXTENTS = (1, 2, 3, 4, 5, 6, 7, 8, 12, 16)
DTYPES = ("f32", "f32", "f32", "f64", "i32", "i8", "u8", "i64")


def drawn_program(
    rng: random.Random,
    max_blocks: int = 4,
    max_extent: int = 8,
    dtypes: Sequence[str] = DTYPES,
) -> Program:
    """A random valid program of up to `max_blocks` blocks, without schedule: each block under its own loops."""
    m = Maker(rng, rng.choice(dtypes), [n for n in EXTENTS if n <= max_extent])
    for name in ("x", "y")[: rng.randint(1, 2)]:
        m.buffer(name, [rng.choice(m.extents) for _ in range(rng.randint(1, 3))], INPUT_BOUND, is_input=True)
    inputs = len(m.known)
    for number in range(rng.choice([n for n in range(1, max_blocks + 1) for _ in range(n)])):
        name = f"v{number}"
        if not rng.choice(KINDS)(m, name) and not elementwise(m, name):
            transpose(m, name)
    if len(m.known) == inputs:
        padding(m, "v")
    b = ProgramBuilder("drawn")
    tensors: list[Tensor] = []
    for k in m.known:
        declare = b.input if k.is_input else b.alloc if k.read else b.output
        tensors.append(declare(k.name, k.shape, m.dtype))
    for step in m.steps:
        step(b, tensors)
    return b.finish()
