"""What a time is worth, for people."""

from __future__ import annotations

import msgspec

from mslang.backend.registry import serving
from mslang.ir.program import Program
from mslang.ir.work import operations
from mslang.runtime.timing import Timing
from mslang.target.description import Target
from mslang.target.limits import measured_limits
from mslang.tune.roofline import rated_dtype


class Scale(msgspec.Struct, frozen=True):
    """What a time is worth.

    `operations` is the program's number of operations, `peak` the most of them that this machine does a second (None:
    the program is not rated), `core` the rate of the yardstick on one core at that speed, `dtype` the type of the peak,
    `basis` where the peak comes from.
    """

    operations: int | None
    peak: float | None
    core: float | None = None
    dtype: str = "f32"
    basis: str = "the most seen on this machine"

    def rate(self, timing: Timing) -> str:
        """`137 GFLOP/s, 91 % of peak`: of the peak at the speed that the core had during the samples."""
        if not self.operations:
            return ""
        rate = self.operations / timing.median
        share = self.share(timing)
        return f"{rate / 1e9:.4g} GFLOP/s" + ("" if share is None else f", {100 * share:.0f} % of peak")

    def share(self, timing: Timing) -> float | None:
        """The part of the peak that was reached, at most 1; None where the program is not rated."""
        if not self.operations or not self.peak:
            return None
        return min(self.operations / timing.median / (self.peak * self.speed(timing)), 1.0)

    def speed(self, timing: Timing) -> float:
        """How fast the core was during the samples, as a part of the fastest known; 1 where that is not known."""
        if not self.core or not timing.yardstick:
            return 1.0
        return min(timing.yardstick / self.core, 1.0)


def scale_of(program: Program, target: Target) -> Scale:
    """The scale of a program on this machine. What is not floating point is not rated: its operations are not counted
    against a peak of another type."""
    dtype = rated_dtype(program)
    back_end = serving(target)
    # A back end that times by itself does not compare its samples with the yardstick of the processor.
    core = measured_limits().peak_core if back_end.time is None else None
    if dtype is None or back_end.peak is None:
        return Scale(operations(program), None, core)
    return Scale(operations(program), back_end.peak(target, dtype, False), core, dtype, back_end.peak_basis)
