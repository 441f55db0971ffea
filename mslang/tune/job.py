"""Measuring jobs: plain bytes in, plain bytes out, so that any transport can carry them.

A worker process lowers and compiles one candidate (`build`), another loads the object, verifies its result and
times it (`measure`). Either may crash or hang without harm to the tuner. `prepare` computes, once for a program,
the inputs and the expected results that every candidate is held against.
"""

from __future__ import annotations

import pickle
import time
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from mslang.diagnostics import MsError
from mslang.ir.program import Program
from mslang.runtime.signature import Signature
from mslang.runtime.timing import Limits
from mslang.target.description import Target
from mslang.tune.record import Outcome, Result, Verification
from mslang.tune.verification import DENSE, SPARSE, Difference, compare, make_arguments, make_inputs

if TYPE_CHECKING:
    import numpy as np

    from mslang.runtime.kernel import LoadedKernel
    from mslang.tune.verification import Arrays


class BuildJob(msgspec.Struct, frozen=True):
    """A candidate to compile."""

    program: Program
    target: Target


class Built(msgspec.Struct, frozen=True):
    """What compiling gave: an object file and how to call it, or why there is none."""

    object: bytes = b""
    signature: Signature | None = None
    result: Result | None = None
    stages: dict[str, float] = msgspec.field(default_factory=dict)


class MeasureJob(msgspec.Struct, frozen=True):
    """A compiled candidate to verify and time. `reference` is the folder that `prepare` filled."""

    program: Program
    built: Built
    reference: str
    limits: Limits
    """How to time; `cutoff` is three times the best so far."""
    dense: bool = False
    """Whether to verify on dense inputs too (winners are)."""


class PrepareJob(msgspec.Struct, frozen=True):
    """A program whose inputs and expected results are to be put into `folder`."""

    program: Program
    target: Target
    folder: str
    seed: int


def encode(job: BuildJob | MeasureJob | PrepareJob) -> bytes:
    """A job as bytes."""
    return pickle.dumps(job)


def prepare(job: bytes) -> bytes:
    """Compile the program plainly, run it on both kinds of inputs, and keep inputs and results as files."""
    import numpy as np

    task: PrepareJob = pickle.loads(job)
    kernel = _load(_compile(task.program, task.target))
    for kind in (SPARSE, DENSE):
        inputs = make_inputs(task.program, kind, task.seed)
        arrays = make_arguments(task.program, inputs)
        kernel.bind(**arrays).run()
        for name, array in inputs.items():
            np.save(Path(task.folder) / f"{kind} in {name}.npy", array)
        for param in task.program.params:
            if param.direction != "in":
                np.save(Path(task.folder) / f"{kind} out {param.buffer.name}.npy", arrays[param.buffer.name])
    return b""


def build(job: bytes) -> bytes:
    """Lower and compile a candidate: a pickled `Built`."""
    task: BuildJob = pickle.loads(job)
    try:
        return pickle.dumps(_compile(task.program, task.target))
    except MsError as error:
        d = error.diagnostic
        reason = f"{d.message} ({d.why})" if d.why else d.message
        return pickle.dumps(Built(result=Result(Outcome.COMPILE_ERROR, reason)))


def measure(job: bytes) -> bytes:
    """Verify a compiled candidate, then time it: a pickled `Result`."""
    return pickle.dumps(_measure(pickle.loads(job)))


def _compile(program: Program, target: Target) -> Built:
    from mslang.backend.llvm.compile import compile
    from mslang.lower.lower import lower

    start = time.perf_counter()
    kernel = lower(program, target)
    lowered = time.perf_counter()
    executable = compile(kernel, target)
    stages = {"lower": lowered - start, "compile": time.perf_counter() - lowered}
    return Built(executable.object, executable.signature, stages=stages)


def _load(built: Built) -> LoadedKernel:
    from mslang.runtime.kernel import load

    assert built.signature is not None
    return load(built.object, built.signature)


def _measure(job: MeasureJob) -> Result:
    start = time.perf_counter()
    kernel = _load(job.built)
    verified: list[Verification] = []
    for kind in (SPARSE, DENSE) if job.dense else (SPARSE,):
        inputs, expected = _reference(job.reference, kind)
        arrays = make_arguments(job.program, inputs)
        bound = kernel.bind(**arrays)
        bound.run()
        found = compare(job.program, expected, arrays, kind)
        if isinstance(found, Difference):
            return Result(Outcome.WRONG_RESULT, f"on {kind} inputs {found.text}", stages=job.built.stages)
        verified.append(found)
    checked = time.perf_counter()
    timing = bound.time(job.limits)
    stages = {**job.built.stages, "verify": checked - start, "time": time.perf_counter() - checked}
    outcome = Outcome.CUT_OFF if timing.censored else Outcome.MEASURED
    return Result(outcome, timing=timing, verified=tuple(verified), stages=stages)


@lru_cache(maxsize=4)
def _reference(folder: str, kind: str) -> tuple[Arrays, Arrays]:
    import numpy as np

    inputs: Arrays = {}
    outputs: Arrays = {}
    for file in sorted(Path(folder).glob(f"{kind} *.npy")):
        way, name = file.stem.removeprefix(f"{kind} ").split(" ", 1)
        (inputs if way == "in" else outputs)[name] = _aligned(np.load(file))
    return inputs, outputs


def _aligned(array: np.ndarray) -> np.ndarray:
    """A copy whose data begins at a multiple of 64 bytes, as the arrays of a careful caller do."""
    import numpy as np

    raw = np.empty(array.nbytes + 64, np.uint8)
    start = -raw.ctypes.data % 64
    copy = raw[start : start + array.nbytes].view(array.dtype).reshape(array.shape)
    copy[...] = array
    return copy
