"""The families of primitives that the campaign draws from, joined."""

from __future__ import annotations

from tests.property import steps_blocks, steps_caching, steps_layout, steps_loops, steps_reductions
from tests.property.steps import Family

FAMILIES: tuple[Family, ...] = (
    steps_loops.FAMILY,
    steps_layout.FAMILY,
    steps_caching.FAMILY,
    steps_reductions.FAMILY,
    steps_blocks.FAMILY,
)

STEPS = {op: maker for family in FAMILIES for op, maker in family.steps.items()}
WEIGHTS = {op: weight for family in FAMILIES for op, weight in family.weights.items()}
PROGRAMS = tuple(draw for family in FAMILIES for draw in family.programs)
