"""Group 3 of a store's features: arithmetic intensity, sampled along the loops, 10 values."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise

from mslang.lower.summary import Statement
from mslang.search.formulas import Formula, Formulas

SAMPLES = 10


def intensity_features(f: Formulas, s: Statement) -> Iterator[tuple[str, Formula]]:
    """Operations for each byte that is accessed, as a curve over the operations that the inner loops perform.

    Point `k` of the curve is `log2(operations of the loops from k on / bytes of their footprint)`; between points it is
    linear in the logarithm of the operations. It is sampled at tenths of the logarithm of all operations. A statement
    without arithmetic has zeros.

    Source: Ansor, OSDI 2020, appendix B
    """
    found = _curve(f, s) if s.arithmetic.total else [f.number(0.0)] * SAMPLES
    yield from ((f"intensity{k}", x) for k, x in enumerate(found))


def _curve(f: Formulas, s: Statement) -> list[Formula]:
    levels = list(reversed(range(len(s.loops) + 1)))
    work = [(f.expr(s.iterations[k]) * float(s.arithmetic.total)).log2() for k in levels]
    height = [w - f.expr(s.bytes[k]).most(1.0).log2() for k, w in zip(levels, work, strict=True)]
    slopes = [(b - a) / (y - x).most(1e-3) for (a, b), (x, y) in zip(pairwise(height), pairwise(work), strict=True)]
    # Each segment adds its slope times the part of it that lies below the sample.
    start = height[0] - f.total([slope * x for slope, x in zip(slopes, work[:-1], strict=True)])
    out = []
    for i in range(1, SAMPLES):
        at = work[-1] * (i / SAMPLES)
        inside = [at.most(x).least(y) for x, y in pairwise(work)]
        out.append(start + f.total([slope * x for slope, x in zip(slopes, inside, strict=True)]))
    return [*out, height[-1]]
