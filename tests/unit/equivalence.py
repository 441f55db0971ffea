"""What a schedule computes, on every processor that tests run on."""

from __future__ import annotations

from mslang.backend.reference.interpret import run
from mslang.diagnostics import TargetError
from mslang.ir.program import Program
from mslang.tune.equivalence import difference
from mslang.tune.verification import DENSE, Difference, compare, make_inputs


def changed(program: Program, scheduled: Program, tolerance: float, seed: int) -> str | None:
    """The difference that a schedule makes, or None; interpreted where the processor lacks its instructions."""
    try:
        return difference(program, scheduled, tolerance, tolerance, seed)
    except TargetError:
        inputs = make_inputs(program, DENSE, seed)
        expected, actual = (run(p, inputs, bits=True) for p in (program, scheduled))
        found = compare(program, expected, actual, DENSE, rtol=tolerance, atol=tolerance)
        return found.text if isinstance(found, Difference) else None
