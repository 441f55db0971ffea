"""A postprocessor: a limit on the memory of intermediate arrays."""

from math import prod

import msgspec

import mslang as ms
from mslang.ir.dtype import size_of
from mslang.schedule.interpret import Interpreter
from mslang.schedule.values import wrap


class LittleScratch(msgspec.Struct, frozen=True):
    """Rejects candidates whose intermediate arrays take more than `most_bytes` together."""

    most_bytes: int = 4096
    name: str = "little_scratch"

    def apply(self, it: Interpreter) -> None:
        """Require it of the sizes that the arrays have now, which may depend on decisions."""
        s = ms.Schedule.running(it.session, it.machine, prefix=f"{self.name}/")
        arrays = s.parametric.allocs
        taken = sum(size_of(a.dtype) * prod(wrap(n) for n in a.shape) for a in arrays)
        s.require(taken <= self.most_bytes, f"intermediate arrays take more than {self.most_bytes} bytes")


little_scratch = LittleScratch()
