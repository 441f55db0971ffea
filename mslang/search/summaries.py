"""The nest summary of a sketch: features, estimates and limits of machines read one."""

from __future__ import annotations

from functools import lru_cache

from mslang.ir.program import Program
from mslang.lower.summary import Summary, summarize
from mslang.lower.symbolic import lower_symbolic
from mslang.target.description import Target


@lru_cache(maxsize=512)
def summary_of(program: Program, target: Target) -> Summary:
    """What a parametric program (`Sketch.program`), or a concrete one, does on a machine.

    Raises:
        MsError, TargetError: as `lower_symbolic`.
    """
    return summarize(lower_symbolic(program, target), target)
