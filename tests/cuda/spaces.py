"""Candidates of automatic spaces for GPUs: drawn as arrays, limited by the machine, made concrete."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

import numpy as np

from mslang.diagnostics import MsError
from mslang.ir.program import Program
from mslang.lower.gpu import lower
from mslang.lower.summary import limits, summarize
from mslang.lower.symbolic import lower_symbolic
from mslang.schedule.distribution import Values
from mslang.schedule.sketch import Sketch
from mslang.target.description import Target

DRAWS = 4096


def valid_rows(sketch: Sketch, target: Target, most: int, seed: int = 1) -> list[Values]:
    """Up to `most` decision vectors of a sketch that pass its constraints and the machine's limits, as arrays."""
    if not sketch.decisions:
        return [{}]
    many = sketch.batch()
    drawn = many.draw(DRAWS, seed)
    kept = many.valid(drawn)
    found = limits(summarize(lower_symbolic(sketch.program, target), target), target)
    for holds in many.evaluate([x.condition for x in found], drawn):
        kept &= np.asarray(holds, bool)
    return [drawn.row(int(k)) for k in np.flatnonzero(kept)[:most]]


def programs(sketches: Iterator[Sketch], target: Target, each: int) -> Iterator[Program]:
    """Programs of every sketch."""
    for sketch in sketches:
        for row in valid_rows(sketch, target, each):
            yield sketch.instantiate(row)


def lowered(sketch: Sketch, target: Target, each: int) -> Counter[str]:
    """How many candidates of a sketch a GPU can run, under the empty reason, and how many not, by the reason."""
    counts: Counter[str] = Counter()
    for row in valid_rows(sketch, target, each):
        try:
            lower(sketch.instantiate(row), target)
        except MsError as error:
            counts[error.diagnostic.message] += 1
        else:
            counts[""] += 1
    return counts
