"""Comparing programs in a worker process, where compiled code may crash, hang or take all memory."""

from __future__ import annotations

from types import TracebackType

from mslang.diagnostics import MsError
from mslang.ir.program import Program
from mslang.tune.equivalence import difference
from mslang.workers.outcome import Done, Failed, explanation
from mslang.workers.pool import Pool, usual_memory

SECONDS = 600.0
"""Time limit of one comparison: far above what any takes that ends."""


class Isolated:
    """`difference` in a worker process, which is started for the first comparison.

    Use it as a context manager.

    Args:
        allow_native: whether implementations in LLVM text may do more than compute.
        seconds: the time limit of a comparison.
    """

    def __init__(self, allow_native: bool = False, seconds: float = SECONDS) -> None:
        self._allow_native, self._seconds = allow_native, seconds
        self._pool: Pool | None = None

    def __call__(self, program: Program, scheduled: Program, rtol: float, atol: float, seed: int) -> str | None:
        """What differs, or None.

        Raises:
            MsError: what `difference` raises; MS507 to MS509, compiled code crashes, hangs or takes all memory.
        """
        if self._pool is None:
            self._pool = Pool(1, memory=usual_memory())
        args = (program, scheduled, rtol, atol, seed, self._allow_native)
        outcome = self._pool.submit(difference, args, seconds=self._seconds).outcome()
        match outcome:
            case Done(value=found):
                return found
            case Failed(error=MsError() as error):
                raise error
        raise MsError(*explanation(outcome, f"running `{program.name}`"))

    def __enter__(self) -> Isolated:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._pool is not None:
            self._pool.stop()
