"""Random valid programs as a Hypothesis strategy, and what is needed to run them."""

from __future__ import annotations

from collections.abc import Sequence

from hypothesis import strategies as st

from mslang.ir.program import Program
from tests.property.arrays import NUMPY, concrete_shape, difference, outputs_equal, random_inputs
from tests.property.drawn_programs import DTYPES, drawn_program


def programs(max_blocks: int = 4, max_extent: int = 8, dtypes: Sequence[str] = DTYPES) -> st.SearchStrategy[Program]:
    """A random valid program of up to `max_blocks` blocks, without schedule: each block under its own loops."""
    return st.randoms(use_true_random=False).map(lambda rng: drawn_program(rng, max_blocks, max_extent, dtypes))


__all__ = ["DTYPES", "NUMPY", "concrete_shape", "difference", "outputs_equal", "programs", "random_inputs"]
