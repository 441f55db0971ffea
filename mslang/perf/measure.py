"""Timing the parts of a kernel: in a worker process, the instrumented kernel in turn with the plain one."""

from __future__ import annotations

import pickle
import time
from collections.abc import Sequence
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Any

import msgspec

from mslang.backend.backend import BackEnd, Clock, Options
from mslang.diagnostics import MsError, problem
from mslang.ir.program import Program
from mslang.perf.counters import counting
from mslang.perf.parts import COUNTERS, Part, calibration, loops_of, timed
from mslang.target.description import Target
from mslang.tune.expected import private_copies, read_expected
from mslang.tune.verification import DENSE, make_arguments

if TYPE_CHECKING:
    import numpy as np

    from mslang.backend.backend import Bound, Loaded

CALIBRATED = 1 << 13
"""Entries of empty parts by which the cost of the clock is found: under 1 ms, so that few tries are disturbed."""

TRIES = 40

BATCH = 0.02
"""Seconds of runs between two looks at the counters."""

LEAST_ROUNDS = 5

_TRUSTED = Options(allow_native=True)


class TimedJob(msgspec.Struct, frozen=True):
    """A scheduled program whose parts are to be timed, on the inputs in the folder `reference`, for some `seconds`."""

    program: Program
    target: Target
    backend: BackEnd[Any]
    reference: str
    names: tuple[str, ...] = ()
    seconds: float = 1.0
    allow_native: bool = False


class Overhead(msgspec.Struct, frozen=True):
    """Ticks that the clock costs: `inside`, counted by the part itself; `around`, by the parts around it in all."""

    inside: float
    around: float


class Measured(msgspec.Struct, frozen=True):
    """What a worker found. `ticks` and `entries` are a run's, by part, the whole kernel first, the clock's own cost
    not yet taken off; `plain` and `instrumented` are the seconds of a run without and with the clocks."""

    parts: tuple[Part, ...]
    ticks: tuple[float, ...]
    entries: tuple[int, ...]
    plain: float
    instrumented: float
    ticks_per_second: float
    alone: Overhead
    shared: Overhead
    threads: int
    events: dict[str, float]
    refused: str | None


def measure(job: bytes) -> bytes:
    """Time the parts of a pickled `TimedJob`: a pickled `Measured`.

    Raises:
        MsError: MS710, a name is none of a loop; MS711, the back end has no clock; or the program cannot be compiled.
    """
    return pickle.dumps(measured(pickle.loads(job)))


def measured(job: TimedJob) -> Measured:
    """Time the parts of a kernel in this process; raises as `measure` does."""
    import numpy as np

    clock = job.backend.clock
    if clock is None:
        raise no_clock(job.backend)
    options = Options(allow_native=job.allow_native)
    module = job.backend.lowered(job.program, job.target, options)
    assert not isinstance(module, Program)
    instrumented, parts = timed(module, loops_of(job.names, job.program, module), clock)
    # What the program's own instructions may do is checked as the plain kernel is compiled; the clock's read the clock.
    plain = job.backend.load(job.backend.compile(module, job.target, options))
    kernels = (plain, job.backend.load(job.backend.compile(instrumented, job.target, _TRUSTED)))
    inputs, _ = read_expected(Path(job.reference), DENSE)
    counters = np.zeros(2 * (1 + len(parts)), np.int64)
    extra: tuple[dict[str, np.ndarray], ...] = ({}, {COUNTERS: counters})
    runs = [_Run(job.program, k, inputs, e) for k, e in zip(kernels, extra, strict=True)]
    alone, rate = _overhead(job, clock, shared=False)
    shared, _ = _overhead(job, clock, shared=True) if any(p.shared for p in parts) else (alone, rate)
    rounds, seconds = _rounds(runs, counters, job.seconds)
    with counting() as counted:
        runs[0].seconds(runs[0].times)
    ticks, entries = (np.mean(np.array([r[k::2] for r in _calm(rounds)]), axis=0) for k in (0, 1))
    return Measured(
        parts,
        tuple(float(x) for x in ticks),
        tuple(round(float(x)) for x in entries),
        median(seconds[0]),
        median(seconds[1]),
        rate,
        alone,
        shared,
        _threads() if plain.signature.parallel else 1,
        {name: count / runs[0].times for name, count in counted.events.items()},
        counted.refused,
    )


class _Run:
    """A kernel on arrays of its own. One that works in place starts again each time, and so runs once."""

    def __init__(
        self, program: Program, kernel: Loaded, inputs: dict[str, np.ndarray], extra: dict[str, np.ndarray]
    ) -> None:
        self._restored = {p.buffer.name: inputs[p.buffer.name] for p in program.params if p.direction == "inout"}
        self._arrays = make_arguments(program, private_copies(inputs))
        self._bound: Bound = kernel.bind(**self._arrays, **extra)
        self.times = 1
        once = min(self.seconds(1) for _ in range(3))
        self.times = 1 if self._restored else max(1, round(BATCH / max(once, 1e-7)))

    def seconds(self, times: int) -> float:
        """Run; the seconds of all runs."""
        for name, array in self._restored.items():
            self._arrays[name][...] = array
        with self._bound.prepared() as (enter, _):
            before = time.perf_counter()
            enter(times)
            return time.perf_counter() - before


def _rounds(
    runs: Sequence[_Run], counters: np.ndarray, limit: float
) -> tuple[list[np.ndarray], tuple[list[float], list[float]]]:
    """The counters of each round, of one run; and the seconds of a run of each kernel, timed in turn."""
    end = time.monotonic() + limit
    found: list[np.ndarray] = []
    seconds: tuple[list[float], list[float]] = ([], [])
    times = min(run.times for run in runs)
    while len(found) < LEAST_ROUNDS or time.monotonic() < end:
        seconds[0].append(runs[0].seconds(times) / times)
        counters[:] = 0
        seconds[1].append(runs[1].seconds(times) / times)
        found.append(counters / times)
    return found, seconds


def _calm(rounds: list[np.ndarray]) -> list[np.ndarray]:
    """The fastest quarter of the rounds, whose parts add up: in the others, other programs took the processor."""
    return sorted(rounds, key=lambda counters: float(counters[0]))[: max(2, len(rounds) // 4)]


def _overhead(job: TimedJob, clock: Clock, *, shared: bool) -> tuple[Overhead, float]:
    """What the clock costs, and how often it ticks a second: from empty parts, the least of several tries."""
    import numpy as np

    module = calibration(clock, shared, CALIBRATED)
    kernel = job.backend.load(job.backend.compile(module, job.target, _TRUSTED))
    tries = []
    for _ in range(TRIES):
        counters = np.zeros(6, np.int64)
        bound = kernel.bind(**{COUNTERS: counters})
        with bound.prepared() as (enter, _pack):
            before = time.perf_counter()
            enter(1)
            passed = time.perf_counter() - before
        inside, around = counters[4] / CALIBRATED, (counters[2] - counters[4]) / CALIBRATED
        tries.append((float(around), float(inside), float(counters[0]) / passed))
    around, inside, _ = min(tries)
    return Overhead(inside, around), median(rate for _, _, rate in tries)


def _threads() -> int:
    from mslang.runtime.linker import process_linker

    return process_linker().workers


def no_clock(back_end: BackEnd[Any]) -> MsError:
    """MS711."""
    return MsError(
        problem(
            "MS711",
            f"the back end `{back_end.name}` cannot time parts of a kernel",
            why="it offers no clock that runs inside of its kernels",
            help="profile for a CPU, with the back end `llvm`",
        )
    )
