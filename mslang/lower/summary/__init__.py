"""The nest summary: what a lowered kernel does, in numbers that are expressions over its decisions.

It is computed once for a parametric program. Features, limits of GPUs and code generation read it; putting numbers in
gives the numbers of the concrete program.
"""

from mslang.lower.summary.summarize import summarize
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
    "Loop",
    "Nest",
    "Statement",
    "Summary",
    "mapped",
    "numbers",
    "summarize",
]
