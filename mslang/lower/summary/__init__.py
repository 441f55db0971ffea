"""The nest summary: what a lowered kernel does, in numbers that are expressions over its decisions.

It is computed once for a parametric program. Features, the draft, limits of machines and profiles read it; code
generation, for which all numbers are known, reads the kernel itself. Putting numbers in
gives the numbers of the concrete program, or upper bounds of its footprints where open sizes take fused loops apart
(`footprint.py`).
"""

from mslang.lower.summary.limits import Limit, exceeded, limits, require_within_limits
from mslang.lower.summary.summarize import summarize
from mslang.lower.summary.table import print_summary
from mslang.lower.summary.values import (
    Access,
    Allocated,
    Arithmetic,
    Loop,
    Nest,
    Statement,
    Summary,
    mapped,
    numbers,
)

__all__ = [
    "Access",
    "Allocated",
    "Arithmetic",
    "Limit",
    "Loop",
    "Nest",
    "Statement",
    "Summary",
    "exceeded",
    "limits",
    "mapped",
    "numbers",
    "print_summary",
    "require_within_limits",
    "summarize",
]
