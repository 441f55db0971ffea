"""The kernels that the emulation runs, compiled and run on the GPU of this machine: are the verdicts the same?

What asks is given the GPU as a function, so that it runs without one, too.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from types import TracebackType
from typing import NamedTuple

from msgspec.structs import replace

from mslang.backend.backend import Options
from mslang.backend.cuda import device
from mslang.backend.cuda.backend import CUDA
from mslang.backend.cuda.compilers import compiler
from mslang.backend.registry import unavailable_here
from mslang.diagnostics import MsError, TargetError
from mslang.target.description import CUDA as TARGET
from mslang.workers.outcome import Done, explanation
from mslang.workers.pool import Pool
from tests.cuda.modules import Made
from tests.property.judge import Arrays, Case, called

OnCases = Callable[[Made, Sequence[Case]], Sequence[Arrays]]
"""Runs the kernels of a program on each case: its results, bf16 as the `f32` that its bits stand for.

Raises MsError, which says why there are none.
"""

Differs = Callable[[Arrays, Arrays], str]
"""Where results differ from those that are wanted; "" if nowhere."""

SECONDS = 300.0
"""Time limit of one program: far above what any takes whose threads all come to their end."""


def why_not() -> str | None:
    """Why no kernel can be run on a GPU here; None where it can.

    A worker process looks: the driver could not be used by processes that fork after this one had started it.
    """
    with Pool(1) as pool:
        outcome = pool.submit(reason_here, seconds=SECONDS).outcome()
    return outcome.value if isinstance(outcome, Done) else explanation(outcome, "looking for a GPU")[0].message


def reason_here() -> str | None:
    """Why this process cannot run a kernel on a GPU: there is none, or no compiler of CUDA C."""
    if reason := unavailable_here("cuda"):
        return reason
    try:
        compiler()
    except TargetError as error:
        return error.diagnostic.message
    return None


def results(made: Made, cases: Sequence[Case]) -> list[Arrays]:
    """The results on the GPU of this machine, through the CUDA back end, in this process.

    Raises:
        MsError: there is no GPU or no compiler, the compiler refuses the source, or a kernel fails.
        AssertionError: the back end prints other source than the emulation was given.
    """
    here = replace(TARGET, extra=(("arch", f"sm_{device.device().sm}"),))
    executable = CUDA.compile(made.module, here, Options())
    assert executable.source == made.source, "the back end prints other source"
    kernel = CUDA.load(executable)
    return [called(kernel, made.program, case) for case in cases]


class OnGpu:
    """`results` in a worker process, which is replaced after a kernel that fails, hangs or ends it.

    Use it as a context manager.

    Args:
        function: what runs there instead.
        seconds: the time limit of a program.
    """

    def __init__(self, function: OnCases = results, seconds: float = SECONDS) -> None:
        self._function, self._seconds = function, seconds
        self._pool: Pool | None = None

    def __call__(self, made: Made, cases: Sequence[Case]) -> Sequence[Arrays]:
        """The results of each case.

        Raises:
            MsError: what `results` raises; MS507 to MS510, the process crashes, hangs, or raises something else.
        """
        if self._pool is None:
            self._pool = Pool(1)
        outcome = self._pool.submit(self._function, (made, cases), seconds=self._seconds).outcome()
        if isinstance(outcome, Done):
            return outcome.value
        # After an error of the driver no other kernel runs in its process.
        self.stop()
        raise MsError(*explanation(outcome, f"running `{made.program.name}` on the GPU"))

    def stop(self) -> None:
        """End the process."""
        if self._pool is not None:
            self._pool.stop()
            self._pool = None

    def __enter__(self) -> OnGpu:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()


class Emulation(NamedTuple):
    """What the emulation gave: the results of the cases that it ran, and what is wrong ("": nothing)."""

    results: Sequence[Arrays]
    wrong: str


def verdict(
    made: Made,
    cases: Sequence[Case],
    wanted: Sequence[Arrays],
    emulation: Emulation,
    on_gpu: OnCases,
    differs: Differs,
    checks: Counter[str],
) -> str:
    """What is wrong with a program by the emulation, and then by a GPU; "" if nothing.

    Args:
        made: the program with its kernels.
        cases: what it is run on.
        wanted: the interpreter's results for each case.
        emulation: what the emulation found.
        on_gpu: the GPU.
        differs: compares results.
        checks: counts the programs that were run on the GPU, and those of which both verdicts are the same.
    """
    try:
        found = on_gpu(made, cases)
    except MsError as error:
        wrong = f"on the GPU: {error}"
    else:
        checks["run on the GPU"] += 1
        against = (("on the GPU", wanted), ("on the GPU, expected by the emulation", emulation.results))
        said = [
            f"{where}: {what} {dict(case.sizes)}"
            for where, expected in against
            for case, one, other in zip(cases, expected, found)
            if (what := differs(one, other))
        ]
        wrong = "; ".join(said)
    same = bool(wrong) == bool(emulation.wrong)
    checks["with the same verdict on the GPU"] += same
    if same:
        return "; ".join(filter(None, (emulation.wrong, wrong)))
    return f"{emulation.wrong or 'no fault in the emulation'}; {wrong or 'no fault on the GPU'}"
