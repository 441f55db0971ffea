"""Whether a scheduled program computes what the program does: compiled, and interpreted where that is quick."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mslang.ir.program import For, Program
from mslang.ir.visit import walk
from mslang.ir.work import operations
from mslang.tune.verification import DENSE, SPARSE, Difference, compare, half_tolerance, make_arguments, make_inputs

if TYPE_CHECKING:
    from mslang.tune.verification import Arrays

INTERPRETED = 300_000
"""Programs of up to so many operations are run by the interpreter, which also finds races, reads of what was never
written, and accesses out of bounds."""


def difference(
    program: Program, scheduled: Program, rtol: float, atol: float, seed: int, allow_native: bool = False
) -> str | None:
    """What differs between a program and its scheduled form on sparse integers and on dense inputs, or None.

    Args:
        program: the unscheduled program, of constant sizes.
        scheduled: what a schedule made of it.
        rtol: relative tolerance on dense inputs, of the largest expected magnitude; of a program that rounds to a half
            type at least what `tolerance` allows.
        atol: absolute tolerance added to it.
        seed: of the inputs.

    Raises:
        MsError: the scheduled program breaks a rule that the interpreter checks, or cannot be compiled.
    """
    work = operations(program)
    rtol = max(rtol, half_tolerance(program))
    small = work is not None and work <= INTERPRETED
    for kind in (SPARSE, DENSE):
        inputs = make_inputs(program, kind, seed)
        expected = _interpret(program, inputs) if small else _compiled(program, inputs)
        for run, applies in ((_interpret, small), (_compiled, not _on_gpu(scheduled))):
            if not applies:
                continue
            found = compare(program, expected, run(scheduled, inputs), kind, rtol=rtol, atol=atol)
            if isinstance(found, Difference):
                how = "interpreted" if run is _interpret else "compiled"
                return f"{how} on {kind} inputs, {found.text}"
    return None


def _on_gpu(program: Program) -> bool:
    return any(isinstance(s, For) and "Idx" in s.kind for s in walk(program.body))


def _interpret(program: Program, inputs: Arrays) -> Arrays:
    from mslang.backend.reference.interpret import run

    return run(program, inputs, bits=True)


def _compiled(program: Program, inputs: Arrays) -> Arrays:
    from mslang.backend.llvm.compile import compile
    from mslang.lower.lower import lower
    from mslang.runtime.kernel import load
    from mslang.target.detect import host

    executable = compile(lower(program, host()), host())
    arrays = make_arguments(program, inputs)
    load(executable.object, executable.signature).bind(**arrays).run()
    return arrays
