"""Measuring jobs: plain bytes in, plain bytes out, so that any transport can carry them.

A worker process lowers and compiles one candidate (`build`), another loads the object, verifies its result and
times it (`measure`). Either may crash or hang without harm to the tuner. `prepare` computes, once for a program,
the inputs and the expected results that every candidate is compared with.
"""

from __future__ import annotations

import pickle
import time
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from mslang.backend.backend import BackEnd, Options
from mslang.backend.registry import plain_target, serving
from mslang.diagnostics import MsError
from mslang.ir.program import Program
from mslang.runtime.timing import Limits, Timing
from mslang.target.description import Target
from mslang.tune.expected import changed_input, private_copies, read_expected, write_expected
from mslang.tune.plain import checked_build, require_in_bounds
from mslang.tune.record import Outcome, Result, Verification
from mslang.tune.verification import DENSE, SPARSE, Difference, compare, make_arguments, make_inputs

if TYPE_CHECKING:
    from mslang.backend.backend import Bound, Loaded
    from mslang.target.yardstick import Yardstick
    from mslang.tune.verification import Arrays


class BuildJob(msgspec.Struct, frozen=True):
    """A candidate to compile."""

    program: Program
    target: Target
    allow_native: bool = False
    backend: BackEnd[Any] | None = None
    """What compiles it (default: what serves the target)."""


class Built(msgspec.Struct, frozen=True):
    """The result of compiling: an executable and the back end that loads it, or why there is none."""

    executable: object = None
    backend: BackEnd[Any] | None = None
    result: Result | None = None
    stages: dict[str, float] = msgspec.field(default_factory=dict)


class MeasureJob(msgspec.Struct, frozen=True):
    """A compiled candidate to verify and time. `reference` is the folder that `prepare` filled."""

    program: Program
    built: Built
    reference: str
    limits: Limits
    """How to time; `cutoff` is three times the best so far, at the nominal speed."""
    dense: bool = False
    """Whether to verify on dense inputs too (winners are)."""


class PrepareJob(msgspec.Struct, frozen=True):
    """A program whose inputs and expected results are to be put into `folder`.

    `small` is the program with small sizes, on which the compiler is compared with the interpreter first.
    """

    program: Program
    target: Target
    folder: str
    seed: int
    small: Program | None = None
    allow_native: bool = False


class Prepared(msgspec.Struct, frozen=True):
    """How long the unscheduled program took on inputs of all kinds, from making them to keeping the results."""

    seconds: float


def encode(job: BuildJob | MeasureJob | PrepareJob) -> bytes:
    """A job as bytes."""
    return pickle.dumps(job)


def prepare(job: bytes) -> bytes:
    """Compile the program plainly, run it on both kinds of inputs, keep inputs and results: a pickled `Prepared`.

    Raises:
        MsError: MS501, compiler and interpreter disagree on the small program; MS415, an access is out of bounds; or
            why a program cannot be compiled.
    """
    from mslang.tune.reference import check_plain_compiler

    task: PrepareJob = pickle.loads(job)
    target = plain_target(task.target)
    wrong = None if task.small is None else check_plain_compiler(task.small, target, task.allow_native)
    if wrong is not None:
        raise MsError(wrong)
    kernel = _load(_compile(task.program, target, task.allow_native))
    checking = checked_build(task.program, target)
    start = time.perf_counter()
    for kind in (SPARSE, DENSE):
        inputs = make_inputs(task.program, kind, task.seed)
        require_in_bounds(task.program, inputs, checking)
        arrays = make_arguments(task.program, private_copies(inputs))
        kernel.bind(**arrays).run()
        outputs = {p.buffer.name: arrays[p.buffer.name] for p in task.program.params if p.direction != "in"}
        write_expected(Path(task.folder), kind, inputs, outputs)
    return pickle.dumps(Prepared(time.perf_counter() - start))


def build(job: bytes) -> bytes:
    """Lower and compile a candidate: a pickled `Built`."""
    task: BuildJob = pickle.loads(job)
    try:
        return pickle.dumps(_compile(task.program, task.target, task.allow_native, task.backend))
    except MsError as error:
        d = error.diagnostic
        reason = f"{d.message} ({d.why})" if d.why else d.message
        return pickle.dumps(Built(result=Result(Outcome.COMPILE_ERROR, reason)))


def measure(job: bytes) -> bytes:
    """Verify a compiled candidate, then time it: a pickled `Result`."""
    return pickle.dumps(_measure(pickle.loads(job)))


def _compile(program: Program, target: Target, allow_native: bool, named: BackEnd[Any] | None = None) -> Built:
    backend, options = named or serving(target), Options(allow_native=allow_native)
    start = time.perf_counter()
    kernel = backend.lowered(program, target, options)
    lowered = time.perf_counter()
    executable = backend.compile(kernel, target, options)
    stages = {"lower": lowered - start, "compile": time.perf_counter() - lowered}
    return Built(executable, backend, stages=stages)


def _load(built: Built) -> Loaded:
    assert built.backend is not None
    return built.backend.load(built.executable)


class _Call(msgspec.Struct, frozen=True):
    """A kernel bound to private copies of the inputs of a kind, and what it should compute from them."""

    program: Program
    kind: str
    inputs: Arrays
    expected: Arrays
    arrays: Arrays
    bound: Bound

    def check(self) -> Verification | Result:
        """Compare the outputs with the expected ones, and the inputs with what they were."""
        found = compare(self.program, self.expected, self.arrays, self.kind)
        if isinstance(found, Difference):
            return Result(Outcome.WRONG_RESULT, f"on {self.kind} inputs {found.text}")
        changed = changed_input(self.program, self.inputs, self.arrays)
        if changed is not None:
            return Result(Outcome.WRONG_RESULT, f"it writes to its input {changed}")
        return found

    @property
    def in_place(self) -> bool:
        """Whether a run works on the result of the run before."""
        return any(p.direction == "inout" for p in self.program.params)

    def restore(self) -> None:
        """Give parameters that are read and written their first contents back."""
        for p in self.program.params:
            if p.direction == "inout":
                self.arrays[p.buffer.name][...] = self.inputs[p.buffer.name]


def _bind(job: MeasureJob, kernel: Loaded, kind: str) -> _Call:
    inputs, expected = read_expected(Path(job.reference), kind)
    arrays = make_arguments(job.program, private_copies(inputs))
    return _Call(job.program, kind, inputs, expected, arrays, kernel.bind(**arrays))


def _measure(job: MeasureJob) -> Result:
    start = time.perf_counter()
    kernel = _load(job.built)
    verified: list[Verification] = []
    for kind in (DENSE, SPARSE) if job.dense else (SPARSE,):
        call = _bind(job, kernel, kind)
        call.bound.run()
        found = call.check()
        if isinstance(found, Result):
            return msgspec.structs.replace(found, stages=job.built.stages)
        verified.insert(0, found)
    checked = time.perf_counter()
    timing = _time(call, job.limits, job.built.backend)
    stages = {**job.built.stages, "verify": checked - start, "time": time.perf_counter() - checked}
    after = call.check()
    if isinstance(after, Result):
        return msgspec.structs.replace(after, reason=f"after more runs, {after.reason}", stages=stages)
    outcome = Outcome.CUT_OFF if timing.censored else Outcome.MEASURED
    return Result(outcome, timing=timing, verified=tuple(verified), stages=stages)


def _time(call: _Call, limits: Limits, backend: BackEnd[Any] | None) -> Timing:
    """Time a kernel; afterwards its outputs are those of one run on the inputs."""
    from mslang.target.yardstick import NOMINAL_RATE
    from mslang.tune.sampling import Sampler

    if backend is not None and backend.time is not None:
        timing = backend.time(call.bound, limits, call.restore if call.in_place else None)
        if call.in_place:
            call.restore()
            call.bound.run()
        return timing
    with call.bound.prepared() as (enter, pack):

        def restore() -> None:
            call.restore()
            pack()

        timing = Sampler(
            enter,
            limits,
            yardstick=_yardstick().rate,
            nominal=NOMINAL_RATE,
            restore=restore if call.in_place else None,
        ).take()
        if call.in_place:
            restore()
            enter(1)
    return timing


@lru_cache(maxsize=1)
def _yardstick() -> Yardstick:
    from mslang.target.yardstick import Yardstick

    return Yardstick()
