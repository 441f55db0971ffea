"""Equivalence of a scheduled program and its program: compiled, and interpreted where that is fast."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING

from mslang.backend.backend import Options
from mslang.backend.registry import serving
from mslang.diagnostics import MsError, problem
from mslang.ir.program import For, Program
from mslang.ir.visit import walk
from mslang.ir.work import operations
from mslang.lower.trim import iterations, trimmed
from mslang.target.detect import host
from mslang.tune.plain import checked_build, require_in_bounds
from mslang.tune.verification import DENSE, SPARSE, Difference, compare, half_tolerance, make_arguments, make_inputs

if TYPE_CHECKING:
    from mslang.backend.backend import Loaded
    from mslang.tune.verification import Arrays

INTERPRETED = 300_000
"""Programs of up to this many operations are run by the interpreter, which also detects races, uninitialised reads
and accesses out of bounds."""


COMPILED = 2_000_000_000
"""Programs with more iterations are not run."""


class TooLong(MsError):
    """A scheduled program with too many iterations to run."""


class ProgramFault(MsError):
    """An error of the unscheduled program, independent of schedules."""


def difference(
    program: Program, scheduled: Program, rtol: float, atol: float, seed: int, allow_native: bool = False
) -> str | None:
    """The difference between a program and its scheduled form on sparse integers and on dense inputs, or None.

    Args:
        program: the unscheduled program, of constant sizes.
        scheduled: its scheduled form.
        rtol: tolerance on dense inputs, relative to the largest expected magnitude; for a program that rounds to a
            half type at least `tolerance`.
        atol: absolute tolerance added to it.
        seed: the seed of the inputs.

        allow_native: whether implementations in LLVM text may do more than compute.

    Raises:
        ProgramFault: the unscheduled program breaks a rule that the interpreter checks, or accesses memory out of
            bounds, or cannot be compiled.
        MsError: the same of the scheduled program.
    """
    work = operations(program)
    rtol = max(rtol, half_tolerance(program))
    scheduled = _affordable(scheduled)
    small = work is not None and max(work, iterations(scheduled) or 0) <= INTERPRETED
    reference, kernel = _Reference(program, allow_native), _Kernel(scheduled, allow_native)
    for kind in (SPARSE, DENSE):
        inputs = make_inputs(program, kind, seed)
        try:
            expected = _interpret(program, inputs) if small else reference.run(inputs)
        except MsError as error:
            raise ProgramFault(*error.diagnostics) from error
        if small:
            found = compare(program, expected, _interpret(scheduled, inputs), kind, rtol=rtol, atol=atol)
            if isinstance(found, Difference):
                return f"interpreted on {kind} inputs, {found.text}"
        if not _on_gpu(scheduled):
            found = compare(program, expected, kernel.run(inputs), kind, rtol=rtol, atol=atol)
            if isinstance(found, Difference):
                return f"compiled on {kind} inputs, {found.text}"
    return None


def _affordable(scheduled: Program) -> Program:
    """The program, without iterations that do nothing if they are many.

    Raises:
        MsError: MS130, it has too many iterations even then.
    """
    if (iterations(scheduled) or 0) <= INTERPRETED:
        return scheduled
    cut = trimmed(scheduled)
    count = iterations(cut) or 0
    if count > COMPILED:
        raise TooLong(
            problem(
                "MS130",
                f"`{scheduled.name}` is too large to be run for a test",
                why=f"its loops make {count:.3g} iterations",
                help="give smaller sizes",
            )
        )
    return cut


def _on_gpu(program: Program) -> bool:
    return any(isinstance(s, For) and "Idx" in s.kind for s in walk(program.body))


def _interpret(program: Program, inputs: Arrays) -> Arrays:
    from mslang.backend.reference.interpret import run

    return run(program, inputs, bits=True)


class _Kernel:
    """A program, compiled when it is first run."""

    def __init__(self, program: Program, allow_native: bool) -> None:
        self.program, self.allow_native = program, allow_native

    @cached_property
    def loaded(self) -> Loaded:
        return serving(host()).loaded(self.program, host(), Options(allow_native=self.allow_native))

    def run(self, inputs: Arrays) -> Arrays:
        arrays = make_arguments(self.program, inputs)
        self.loaded.bind(**arrays).run()
        return arrays


class _Reference:
    """The unscheduled program, compiled when it is first run; all of its accesses are checked before each run."""

    def __init__(self, program: Program, allow_native: bool) -> None:
        self.program, self.kernel = program, _Kernel(program, allow_native)

    @cached_property
    def checked(self) -> Loaded | None:
        return checked_build(self.program, host())

    def run(self, inputs: Arrays) -> Arrays:
        require_in_bounds(self.program, inputs, self.checked)
        return self.kernel.run(inputs)
