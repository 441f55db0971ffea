"""Which warp a thread is in: hardware counts the threads of a block by `threadIdx.x` first, 32 to a warp."""

from __future__ import annotations

from typing import NamedTuple

from mslang.ir import arith
from mslang.ir.expr import ZERO, Binary, Const, Var
from mslang.ir.program import Range
from mslang.ir.visit import substitute
from mslang.kernel import Function
from mslang.lower.gpu.axes import THREAD_AXES, WARP, thread_extents
from mslang.lower.gpu.ownership import Place

NUMBER, LANE = "threadIdx.warp", "threadIdx.lane"
"""The number of a warp and that of a lane in it, where an axis holds both."""


class Warp(NamedTuple):
    """How a launch numbers its warps: by `axis // by` and the axes after it; the other axes are lanes."""

    axis: str
    by: int

    @property
    def axes(self) -> tuple[str, ...]:
        """What tells warps apart."""
        first = THREAD_AXES.index(self.axis)
        return (NUMBER if self.by > 1 else self.axis, *THREAD_AXES[first + 1 :])

    def place(self, p: Place) -> Place:
        """An access by the numbers of warps and lanes."""
        if self.by == 1 or self.axis not in p.ranges:
            return p
        ranges = dict(p.ranges)
        threads = ranges.pop(self.axis).extent
        warps = arith.simplify(arith.ceildiv(threads, Const(self.by)))
        ranges |= {NUMBER: Range(ZERO, warps), LANE: Range(ZERO, Const(self.by))}
        index = {self.axis: Binary("+", Binary("*", Var(NUMBER), Const(self.by)), Var(LANE))}
        indices = tuple(arith.simplify(substitute(i, index), ranges) for i in p.indices)
        facts = tuple((substitute(e, index), substitute(v, index)) for e, v in p.facts)
        return p._replace(indices=indices, ranges=ranges, facts=facts)


def warp_of(f: Function) -> Warp | None:
    """The warps of a launch; None where rows of threads lie across them. Threads count by `threadIdx.x` first."""
    sizes = thread_extents(f)
    across, rows = sizes.get("threadIdx.x", 1), sizes.get("threadIdx.y", 1)
    if across % WARP == 0 and across > WARP:
        return Warp("threadIdx.x", WARP)
    if WARP % across:
        return None
    together = WARP // across
    return Warp("threadIdx.y", together if rows % together == 0 else 1)
