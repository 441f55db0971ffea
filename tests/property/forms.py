"""The forms of a sketch: arrays of many candidates, single values, and lowering before or after numbers are put in."""

from __future__ import annotations

import re

import numpy as np

from mslang.ir.arith import evaluate
from mslang.lower.summary import numbers, summarize
from mslang.lower.symbolic import lower_symbolic
from mslang.schedule import distribution
from mslang.schedule.sketch import Sketch
from mslang.search.leaves import Leaf
from mslang.search.strategy import Rejections
from mslang.target.description import Target
from tests.property.test_batches import check

BOUNDED = re.compile(r"statements.*\.(elements|lines|bytes|reuse_bytes)\b")
"""Numbers that are upper bounds while decisions are open."""

LOWERED = 8
"""One of so many candidates is lowered as a concrete program; in campaigns each is."""


def agrees(sketch: Sketch, target: Target, draws: int, lowered: int = LOWERED) -> None:
    """Compare what arrays, single values and concrete lowering give for points that a search draws.

    Args:
        sketch: the sketch.
        target: the machine.
        draws: how many points; fewer where there are no more.
        lowered: one of so many is lowered as a concrete program, too.

    All numbers of a summary are the same before and after, but for footprints of digits `x // n`, `x % n` of fused
    loops (`docs/summary.md` says why): before, they may be larger, never smaller.
    """
    check(sketch, draws, draws)
    leaf = Leaf(0, sketch, target, 3, Rejections())
    batch = leaf.draw(draws)
    assert 0 < len(batch) <= draws
    assert leaf.constraints.valid(batch).all()
    before = list(numbers(summarize(lower_symbolic(sketch.program, target), target)))
    columns = sketch.batch().evaluate([e for _, e in before], batch)
    for k in range(len(batch)):
        values = batch.row(k)
        plain = distribution.plain(values)
        assert sketch.violation(values) is None
        single = [evaluate(e, {}, plain) for _, e in before]
        assert [np.broadcast_to(c, (len(batch),))[k] for c in columns] == single, plain
        if k % lowered:
            continue
        exact = list(numbers(summarize(lower_symbolic(sketch.instantiate(values), target), target)))
        assert [path for path, _ in before] == [path for path, _ in exact], plain
        for (path, _), ours, (_, known) in zip(before, single, exact, strict=True):
            least = evaluate(known, {})
            assert ours == least or (BOUNDED.match(path) and ours > least >= 0), (path, ours, least, plain)
