"""Worker jobs that misbehave: what a candidate does follows from its hash, so that a test can foretell its outcome."""

import ctypes
import os
import pickle
import signal
import time
from collections.abc import Callable
from pathlib import Path

from msgspec import Struct
from msgspec.structs import replace

from mslang.diagnostics import MsError, problem
from mslang.ir.equal import structural_hash
from mslang.ir.program import Program
from mslang.runtime.timing import Timing
from mslang.tune.comparison import Compared, Sample
from mslang.tune.job import Built
from mslang.tune.record import Outcome, Result, Verification
from mslang.tune.verification import DENSE, SPARSE

BUILD_FAULTS = ("build segfault", "build hang", "build refused", "build memory")
RUN_FAULTS = (
    "run segfault",
    "run abort",
    "run exit",
    "run hang",
    "run memory",
    "run wrong",
    "run raise",
    "run garbage",
)
MOODS = ("well", "well", *BUILD_FAULTS, "well", *RUN_FAULTS, "well")
"""In an order in which the first candidates of `test_search` have all of them."""

EXPECTED = {
    "well": (Outcome.MEASURED, ""),
    "build segfault": (Outcome.CRASH, "compiling: the process was ended by SIGSEGV"),
    "build hang": (Outcome.TIME_OUT, "compiling took more than"),
    "build refused": (Outcome.COMPILE_ERROR, "too odd"),
    "build memory": (Outcome.CRASH, "compiling: out of memory"),
    "run segfault": (Outcome.CRASH, "running: the process was ended by SIGSEGV"),
    "run abort": (Outcome.CRASH, "running: the process was ended by SIGABRT"),
    "run exit": (Outcome.CRASH, "running: the process ended with status 7"),
    "run hang": (Outcome.TIME_OUT, "running took more than"),
    "run memory": (Outcome.CRASH, "running: out of memory"),
    "run wrong": (Outcome.WRONG_RESULT, "C[0, 0]"),
    "run raise": (Outcome.CRASH, "running: ZeroDivisionError"),
    "run garbage": (Outcome.CRASH, "running: the answer is not a Result"),
}


def mood(program: Program) -> str:
    """What the candidate does."""
    return MOODS[int(structural_hash(program)[:8], 16) % len(MOODS)]


def seconds(program: Program) -> float:
    """How long it says that it takes."""
    return 1e-3 + int(structural_hash(program)[8:12], 16) * 1e-7


def prepare(job: bytes) -> bytes:
    """Nothing to prepare."""
    return b""


def refuse_one(job: bytes) -> bytes:
    """The program with 32 rows cannot be compiled, others can."""
    program = pickle.loads(job).program
    if program.params[0].buffer.shape[0].value == 32:
        raise MsError(problem("MS502", "the unscheduled program does not compile"))
    return b""


def prepare_too_much(job: bytes) -> bytes:
    """Ask for more memory than a worker may have."""
    return bytes(1 << 34)


def prepare_forever(job: bytes) -> bytes:
    """Hang."""
    time.sleep(600)
    return b""


def measure_forever(job: bytes) -> bytes:
    """Hang."""
    time.sleep(600)
    return b""


def prepare_and_die(job: bytes) -> bytes:
    """Crash."""
    os.abort()


def prepare_and_tell(job: bytes) -> bytes:
    """Leave the number of the process in its folder."""
    (Path(pickle.loads(job).folder) / f"{os.getpid()}.pid").touch()
    return b""


def build(job: bytes) -> bytes:
    """Compile nothing, or worse."""
    match mood(pickle.loads(job).program):
        case "build segfault":
            ctypes.string_at(0)
        case "build hang":
            time.sleep(600)
        case "build refused":
            error = MsError(problem("MS401", "too odd"))
            return pickle.dumps(Built(result=Result(Outcome.COMPILE_ERROR, error.diagnostic.message)))
        case "build memory":
            bytearray(1 << 34)
    return pickle.dumps(Built())


def measure(job: bytes) -> bytes:
    """Time nothing, or worse."""
    task = pickle.loads(job)
    match mood(task.program):
        case "run segfault":
            ctypes.string_at(0)
        case "run abort":
            os.abort()
        case "run exit":
            os._exit(7)
        case "run hang":
            # Deaf to polite requests, too.
            signal.signal(signal.SIGTERM, signal.SIG_IGN)
            time.sleep(600)
        case "run memory":
            bytearray(1 << 34)
        case "run wrong":
            return pickle.dumps(Result(Outcome.WRONG_RESULT, "on sparse integers C[0, 0] is 1 instead of 2"))
        case "run raise":
            raise ZeroDivisionError
        case "run garbage":
            return pickle.dumps("garbage")
    return pickle.dumps(timed(seconds(task.program), task.dense))


def build_well(job: bytes) -> bytes:
    """Compile nothing."""
    return pickle.dumps(Built())


def measure_well(job: bytes) -> bytes:
    """Time nothing."""
    task = pickle.loads(job)
    return pickle.dumps(timed(seconds(task.program), task.dense))


def measure_alike(job: bytes) -> bytes:
    """Time nothing: all candidates take the same time."""
    return pickle.dumps(timed(2e-3, pickle.loads(job).dense))


def measure_as_a_gpu(job: bytes) -> bytes:
    """Time nothing, with cold caches unless they are to be warm."""
    task = pickle.loads(job)
    result = timed(seconds(task.program), task.dense)
    return pickle.dumps(replace(result, timing=replace(result.timing, cold=task.limits.cache != "warm")))


def compare_well(job: bytes) -> bytes:
    """Time nothing, in turn."""
    task = pickle.loads(job)
    costs = [seconds(program) for program, _ in task.candidates]
    return pickle.dumps(tuple(Compared(timed(cost, False), (Sample(cost),) * 5) for cost in costs))


class InSteps(Struct, frozen=True):
    """A job of the tuner during which the clock of the machine is set two hours on and back all the time."""

    job: Callable[[bytes], bytes]

    def __call__(self, job: bytes) -> bytes:
        """Do it."""
        real, steps = time.time, iter(range(1_000_000))
        time.time = lambda: real() + (7200.0 if next(steps) % 2 else -7200.0)
        try:
            return self.job(job)
        finally:
            time.time = real


def build_slowly(job: bytes) -> bytes:
    """Compile nothing, so slowly that it can be killed meanwhile."""
    time.sleep(0.03)
    return build_well(job)


def measure_slowly(job: bytes) -> bytes:
    """Time nothing, so slowly that it can be killed meanwhile."""
    time.sleep(0.03)
    return measure_well(job)


class Noted(Struct, frozen=True):
    """A job that takes a while, and notes in a file when it begins and when it ends."""

    file: str
    job: Callable[[bytes], bytes]

    def __call__(self, job: bytes) -> bytes:
        """Do it."""
        name = self.job.__name__
        self._note(f"+{name}")
        time.sleep(0.02)
        try:
            return self.job(job)
        finally:
            self._note(f"-{name}")

    def _note(self, line: str) -> None:
        # Lines of several processes are in the order in which they were written.
        with Path(self.file).open("a") as file:
            file.write(f"{line}\n")


def wrong_when_looked_at_closely(job: bytes) -> bytes:
    """Faster candidates are wrong on dense inputs: half of the range of times does not stand the second look."""
    task = pickle.loads(job)
    if task.dense and seconds(task.program) < 3.5e-3:
        return pickle.dumps(Result(Outcome.WRONG_RESULT, "on dense inputs C[0, 0] is 1 instead of 2"))
    return measure_well(job)


def measure_slower_when_looked_at_closely(job: bytes) -> bytes:
    """Time nothing; the second measurement takes a little longer than the first."""
    task = pickle.loads(job)
    return pickle.dumps(timed(seconds(task.program) * (1.01 if task.dense else 1.0), task.dense))


def too_fast(job: bytes) -> bytes:
    """One in three says that it takes no time at all."""
    task = pickle.loads(job)
    lies = int(structural_hash(task.program)[:8], 16) % 3 == 0
    return pickle.dumps(timed(1e-12 if lies else seconds(task.program), task.dense))


def timed(duration: float, dense: bool) -> Result:
    """A verified result of a steady candidate."""
    kinds = (SPARSE, DENSE) if dense else (SPARSE,)
    verified = tuple(Verification(k, 0.0) for k in kinds)
    return Result(Outcome.MEASURED, timing=Timing((duration,) * 3, 1), verified=verified)
