"""Measuring jobs: plain bytes in, plain bytes out, so that any transport can carry them.

A worker process lowers and compiles one candidate (`build`), another loads the object, verifies its result and
times it (`measure`). Either may crash or hang without harm to the tuner. `prepare` computes, once for a program,
the inputs and the expected results that every candidate is compared with.
"""

from __future__ import annotations

import pickle
import time
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from mslang.backend.backend import BackEnd, Options
from mslang.backend.registry import plain_target, serving
from mslang.diagnostics import MsError
from mslang.ir.buckets import at_sizes, stated_sizes
from mslang.ir.program import Program
from mslang.runtime.arguments import NO_SIZES
from mslang.runtime.timing import Limits
from mslang.target.description import Target
from mslang.tune.call import Call, Calls, Rounds, Timer, bind, in_turns, time_call
from mslang.tune.comparison import Compared
from mslang.tune.expected import private_copies, write_expected
from mslang.tune.instances import Instance, write_instances
from mslang.tune.memory_order import in_memory_order
from mslang.tune.plain import checked_build, require_in_bounds
from mslang.tune.record import Outcome, Result, Verification
from mslang.tune.verification import DENSE, SPARSE, make_arguments, make_inputs

if TYPE_CHECKING:
    from mslang.backend.backend import Loaded


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


class CompareJob(msgspec.Struct, frozen=True):
    """Compiled candidates to be timed in one process, in interleaved rounds; each was verified on its own before.

    `seconds` is how long that may take at most.
    """

    candidates: tuple[tuple[Program, Built], ...]
    reference: str
    limits: Limits
    seconds: float = 2.0


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
    instances: tuple[Instance, ...] = ()
    """The sizes to measure at, of a program with dynamic sizes."""


class Prepared(msgspec.Struct, frozen=True):
    """How long the unscheduled program took on inputs of all kinds, from making them to keeping the results."""

    seconds: float


def encode(job: BuildJob | MeasureJob | CompareJob | PrepareJob) -> bytes:
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
    ordered = in_memory_order(task.program)
    kernel = _load(_compile(ordered, target, task.allow_native))
    checking = checked_build(ordered, target)
    folder, start = Path(task.folder), time.perf_counter()
    if not task.instances:
        _expect(task.program, kernel, checking, task.seed, folder)
    for number, each in enumerate(task.instances):
        own = folder / str(number)
        own.mkdir(exist_ok=True)
        stated = stated_sizes(task.program, each.sizes)
        _expect(at_sizes(task.program, each.sizes), kernel, checking, task.seed, own, stated)
    if task.instances:
        write_instances(folder, task.instances)
    return pickle.dumps(Prepared(time.perf_counter() - start))


def _expect(
    program: Program,
    kernel: Loaded,
    checking: Loaded | None,
    seed: int,
    folder: Path,
    sizes: Mapping[str, int] = NO_SIZES,
) -> None:
    """Keep inputs of each kind and what a program computes from them."""
    for kind in (SPARSE, DENSE):
        inputs = make_inputs(program, kind, seed)
        require_in_bounds(program, inputs, checking, sizes)
        arrays = make_arguments(program, private_copies(inputs))
        kernel.bind(**arrays, **sizes).run()
        outputs = {p.buffer.name: arrays[p.buffer.name] for p in program.params if p.direction != "in"}
        write_expected(folder, kind, inputs, outputs)


def build(job: bytes) -> bytes:
    """Lower and compile a candidate: a pickled `Built`."""
    return pickle.dumps(compiled(pickle.loads(job)))


def measure(job: bytes) -> bytes:
    """Verify a compiled candidate, then time it: a pickled `Result`."""
    return pickle.dumps(measured(pickle.loads(job)))


def compare(job: bytes) -> bytes:
    """Time several verified candidates in turn: a pickled tuple of `Compared`, in their order."""
    return pickle.dumps(compared(pickle.loads(job)))


def compiled(job: BuildJob) -> Built:
    """The machine code of a candidate, or why there is none."""
    try:
        return _compile(job.program, job.target, job.allow_native, job.backend)
    except MsError as error:
        d = error.diagnostic
        reason = f"{d.message} ({d.why})" if d.why else d.message
        return Built(result=Result(Outcome.COMPILE_ERROR, reason))


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


def measured(job: MeasureJob, timer: Timer = time_call) -> Result:
    """Verify a compiled candidate, and time it by `timer`, which must leave outputs that are those of one run."""
    start = time.perf_counter()
    kernel = _load(job.built)
    verified: list[Verification] = []
    for kind in (DENSE, SPARSE) if job.dense else (SPARSE,):
        call = bind(job.program, kernel, job.reference, kind)
        call.run_once()
        found = call.check()
        if isinstance(found, Result):
            return msgspec.structs.replace(found, stages=job.built.stages)
        verified.insert(0, found)
    checked = time.perf_counter()
    timing = timer(call, job.limits.for_calls(call.calls), job.built.backend).of_one(call.calls)
    timed = time.perf_counter()
    after = call.check()
    stages = {**job.built.stages, "time": timed - checked, "verify": checked - start + time.perf_counter() - timed}
    if isinstance(after, Result):
        return msgspec.structs.replace(after, reason=f"after more runs, {after.reason}", stages=stages)
    outcome = Outcome.CUT_OFF if timing.censored else Outcome.MEASURED
    return Result(outcome, timing=timing, verified=tuple(verified), stages=stages)


def compared(job: CompareJob) -> tuple[Compared, ...]:
    """Time verified candidates in turn, and verify them once more."""
    kernels = [(_load(built), built.backend) for _, built in job.candidates]
    calls = [
        (bind(program, kernel, job.reference, SPARSE), backend)
        for (program, _), (kernel, backend) in zip(job.candidates, kernels, strict=True)
    ]
    found = in_turns(calls, job.limits, job.seconds)
    return tuple(_checked(call, c) for (call, _), c in zip(calls, found, strict=True))


def _checked(call: Call | Calls, rounds: Rounds) -> Compared:
    wrong = call.check()
    if isinstance(wrong, Result):
        return Compared(msgspec.structs.replace(wrong, reason=f"among others, {wrong.reason}"))
    return Compared(Result(Outcome.MEASURED, timing=rounds.timing, verified=(wrong,)), rounds.samples)
