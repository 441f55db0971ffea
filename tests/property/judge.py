"""What a pair of the campaign must satisfy: scheduled, a program means what it meant before, on every path."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any

import msgspec
import numpy as np

from mslang.backend.backend import Loaded
from mslang.backend.llvm.compile import compile
from mslang.backend.reference import interpret
from mslang.diagnostics import MsError
from mslang.ir.print import print_program
from mslang.ir.program import Program
from mslang.ir.verify import verify
from mslang.lower.passes import lower
from mslang.runtime.arrays import empty, poison, sparse_integers
from mslang.runtime.kernel import LoadedKernel, load
from mslang.runtime.linker import Linker
from mslang.schedule.distribution import Number, draw
from mslang.schedule.replay import replay, space_of_text
from mslang.schedule.schedule import Schedule
from mslang.schedule.trace import Trace
from mslang.sema.program import parse_program
from mslang.target.description import AVX2, Target
from mslang.target.detect import host
from tests.property.arrays import concrete_shape, difference, outputs_equal

Arrays = dict[str, np.ndarray]

FAULTS = (
    MsError,
    AssertionError,
    ArithmeticError,
    LookupError,
    TypeError,
    ValueError,
    AttributeError,
    RuntimeError,
    StopIteration,
)
"""What a fault of mslang may raise here; a refusal is a ScheduleError where a primitive is tried."""

TRACES_EVERY, CHECKED_EVERY, NARROW_EVERY, ANEW_EVERY = 10, 8, 4, 3


class Case(msgspec.Struct, frozen=True):
    """What a program is run on: arrays, and values of its dynamic sizes."""

    arrays: Arrays
    sizes: Mapping[str, int] = {}


class Judged(msgspec.Struct, frozen=True):
    """A program, cases that it is run on, and what it gives for each."""

    program: Program
    cases: Sequence[Case]
    wanted: Sequence[Arrays]


def judged(program: Program, cases: Sequence[Case], *, check: bool = False) -> Judged:
    """A program with the results that its schedules must give; `check` raises MsError where it has a fault itself."""
    return Judged(program, cases, [interpret.run(program, c.arrays, check=check, sizes=c.sizes) for c in cases])


def sparse_inputs(program: Program, seed: int) -> Arrays:
    """Mostly zeros, the rest small integers, for every `in` and `inout` parameter."""
    return {
        p.buffer.name: sparse_integers(concrete_shape(p.given.shape, {}), p.buffer.dtype, seed + k, density=0.5)
        for k, p in enumerate(program.params)
        if p.direction != "out"
    }


@lru_cache(maxsize=1)
def _linker() -> Linker:
    return Linker(workers=2)


def narrow_host() -> Target:
    """A target without masked vectors that this machine can run."""
    return Target("narrow", cpu=AVX2.cpu, features=AVX2.features, vector_bits=256) if host().has("avx2") else host()


def compiled(program: Program, arrays: Arrays, target: Target, checked: bool) -> Arrays:
    """What the compiled program gives; results and temporaries are poisoned before."""
    return called(_kernel(program, target, checked), program, Case(arrays))


def _kernel(program: Program, target: Target, checked: bool) -> LoadedKernel:
    made = compile(lower(program, target, checked=checked), target)
    return load(made.object, made.signature, _linker())


def called(kernel: Loaded, program: Program, case: Case) -> Arrays:
    """What a kernel of a program gives for a case, bf16 as numbers; results are poisoned before."""
    given: Arrays = {}
    for p in program.params:
        b = p.given
        strides = None if b.strides is None else concrete_shape(b.strides, case.sizes)
        array = empty(concrete_shape(b.shape, case.sizes), b.dtype, strides)
        if p.direction == "out":
            poison(array, b.dtype)
        elif b.dtype == "bf16" and case.arrays[b.name].dtype == np.float32:
            array[...] = case.arrays[b.name].view(np.uint32) >> 16
        else:
            array[...] = case.arrays[b.name]
        given[b.name] = array
    kernel.bind(**given).run()
    return {
        p.given.name: _as_numbers(given[p.given.name], p.given.dtype) for p in program.params if p.direction != "in"
    }


def _as_numbers(array: np.ndarray, dtype: str) -> np.ndarray:
    """NumPy has no bf16: its bits as the `f32` that they stand for."""
    return (array.astype(np.uint32) << 16).view(np.float32) if dtype == "bf16" else array


def check_meaning(before: Judged, after: Program, number: int, checks: Counter[str]) -> None:
    """Interpreted with all checks and compiled, `after` gives bit for bit what `before` gives."""
    for case, want in zip(before.cases, before.wanted, strict=True):
        got = interpret.run(after, case.arrays, sizes=case.sizes)
        assert outputs_equal(want, got), f"interpreted{_at(case)}: {difference(want, got)}"
    narrow, checked = number % NARROW_EVERY == 1, number % CHECKED_EVERY == 2
    kernel = _kernel(after, narrow_host() if narrow else host(), checked)
    for case, want in zip(before.cases, before.wanted, strict=True):
        got = called(kernel, after, case)
        how = f"(narrow={narrow}, checked={checked}{_at(case)})"
        assert outputs_equal(want, got), f"compiled {how}: {difference(want, got)}"
    checks.update({"compiled without masked vectors": narrow, "compiled with every access checked": checked})


def _at(case: Case) -> str:
    return "".join(f", {n} = {v}" for n, v in case.sizes.items())


def check_other_decisions(
    before: Judged, schedule: Schedule, number: int, checks: Counter[str], anew: Counter[str]
) -> None:
    """The same structure with decisions drawn anew gives what `before` gives, too."""
    sketch, rng = schedule.sketch, random.Random(number)
    samplers = {i.address: i.op for i in schedule.trace.instructions}
    for _ in range(4):
        values: dict[str, Number] = {}
        for decision in sketch.decisions:
            drawn = draw(decision.domain, rng, values)
            if drawn is None:
                break
            values[decision.address] = drawn
        else:
            other = {a for a, v in values.items() if v != schedule.session.draws.numbers[a]}
            if other and sketch.violation(values) is None:
                after = sketch.instantiate(values)
                assert not verify(after), (values, verify(after))
                check_meaning(before, after, number, checks)
                checks["decisions drawn anew"] += 1
                anew.update(samplers[a] for a in other)
                return


def check_traces(before: Program, schedule: Schedule) -> None:
    """The trace survives each printed form, and replays from each to the identical program."""
    trace, after = schedule.trace, schedule.program
    read = Trace.from_json(trace.as_json())
    assert read == trace, "the JSON form reads back as another trace"
    again = replay(before, read, strict=True)
    assert (again.program, again.sketch.program) == (after, schedule.parametric), "the JSON form replays differently"
    flat = space_of_text(trace.as_ms("again"), before).sample(0)
    assert flat.program == after, f"the flat form replays differently:\n{trace.as_ms('again')}"
    assert flat.trace.instructions == trace.instructions, "the flat form gives another trace"
    names: dict[str, Any] = {}
    exec(trace.as_python("again"), names)
    fresh = Schedule(before)
    names["again"](fresh)
    assert fresh.program == after, f"the Python form replays differently:\n{trace.as_python('again')}"
    assert fresh.trace.instructions == trace.instructions, "the Python form gives another trace"


def judge(before: Judged, schedule: Schedule, number: int, checks: Counter[str], anew: Counter[str]) -> None:
    """Every check of a pair.

    Raises: one of `FAULTS`, which says what is wrong.
    """
    after = schedule.program
    assert not verify(after), verify(after)
    check_meaning(before, after, number, checks)
    assert parse_program(print_program(after)) == after, "the printed program parses to another"
    if number % ANEW_EVERY == 2:
        check_other_decisions(before, schedule, number, checks, anew)
    if number % TRACES_EVERY == 0:
        check_traces(before.program, schedule)
        checks["traces in all forms"] += 1
