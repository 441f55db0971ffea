"""How much moves into a cache: cache lines, from the footprints of loops."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from mslang.lower.summary import Statement
from mslang.search.formulas import Formula, Formulas


class Traffic(NamedTuple):
    """What a statement moves into a cache: `lines` in all, and how many iterations run on what the cache holds."""

    lines: Formula
    iterations: Formula


def traffic(f: Formulas, s: Statement, capacity: float) -> Traffic:
    """The cache lines that a statement moves into a cache of `capacity` bytes.

    The outermost loops whose footprint fits load it once a run; what does not fit is loaded again in each iteration.

    Source: the model of Ansor's and Halide's (Adams et al., SIGGRAPH 2019) features: footprints by loop level.
    """
    lines = f.expr(s.lines[-1])
    iterations = f.number(1.0)
    for k in reversed(range(len(s.loops))):
        extent = f.expr(s.loops[k].extent)
        fits = f.expr(s.bytes[k]).at_most(capacity)
        lines = fits.choose(f.expr(s.lines[k]), lines * extent)
        iterations = fits.choose(f.expr(s.iterations[k]), iterations)
    return Traffic(lines, iterations)


def moved(f: Formulas, statements: Sequence[Statement], capacity: float) -> Formula:
    """The cache lines that several statements move into a cache."""
    return f.total([traffic(f, s, capacity).lines for s in statements])
