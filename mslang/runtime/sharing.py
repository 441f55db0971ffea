"""Whether the threads of a team have a core each at the moment.

The processors of a virtual machine are threads of its host, which at times runs two of them on one core. Neither the
load, nor the time that threads wait, nor the speed of one thread shows that, but a parallel loop takes up to twice as
long. A loop of known work on all threads shows it. It lasts for seconds while one thread works; where all of them
work, the host moves them apart, mostly after 1 to 3 ms, at times after 90 (measured under KVM on AMD EPYC).
"""

from __future__ import annotations

import ctypes
import time
from collections import deque
from collections.abc import Callable

from mslang.runtime.linker import process_linker
from mslang.runtime.pool import Pool
from mslang.target.limits import measured_limits
from mslang.target.yardstick import Yardstick

PARTS = 8
"""Iterations a thread: one that begins late leaves some of its own to the others."""

REMEMBERED = 1024
"""Answers that the usual share is computed of, about those for 60 candidates."""

USUAL = 0.9
"""The quantile of the shares that counts as the usual share: machines on which threads always share cores differ from
those on which they do at times."""

ENOUGH = 0.87
"""A thread with this part of its usual rate has a core."""

PATIENCE = 0.2
"""Seconds for which threads that share a core are kept busy at most before a sample, which moves them apart."""

WAITED = 0.1
"""The part of the time that goes into keeping threads busy at most: they may share a core for good."""

_AGAIN = 32
"""The usual share is computed after so many."""

_BUSY = 5
"""Runs of the yardstick on all threads before the share is asked again."""


class Sharing:
    """Compares a yardstick on all threads of a pool at once with one on a single thread.

    Args:
        yardstick: the work.
        pool: the threads.
        usual: the part of its rate on a single thread that a thread usually has while all work.
        waited: the part of the time that goes into keeping threads busy at most.
        clock: seconds.
    """

    def __init__(
        self,
        yardstick: Yardstick,
        pool: Pool,
        usual: float,
        waited: float = WAITED,
        clock: Callable[[], float] = time.perf_counter,
    ) -> None:
        self._clock, self._most = clock, waited
        self._yardstick, self._pool = yardstick, pool
        self._launch = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int64)(
            pool.launcher
        )
        self._rounds = ctypes.c_int64(max(yardstick.rounds // PARTS, 1))
        self._begun, self._waited = clock(), 0.0
        self._shares = deque([usual] * REMEMBERED, REMEMBERED)
        self._usual, self._asked = usual, 0

    def share(self, alone: float, patience: float = 0.0) -> float:
        """The part of its usual rate that a thread has while all of them work, at most 1.

        Args:
            alone: the rate of the yardstick on one thread right now, in operations a second.
            patience: seconds for which all threads are kept busy at most while they have less than `ENOUGH`, as long as
                not too much of the time has gone into that.
        """
        begun = self._clock()
        end = begun + min(patience, PATIENCE + self._most * (begun - self._begun) - self._waited)
        while (found := self._rate(alone)) < ENOUGH * self._usual and self._clock() < end:
            for _ in range(_BUSY):
                self._run()
        self._waited += self._clock() - begun if patience else 0.0
        self._shares.append(found)
        self._asked += 1
        if self._asked % _AGAIN == 0:
            self._usual = sorted(self._shares)[int(USUAL * REMEMBERED)]
        return min(found / self._usual, 1.0)

    def _rate(self, alone: float) -> float:
        """The rate of a thread while all of them work, as a part of that of one alone."""
        self._run()  # wakes the workers
        return self._yardstick.work / self._run() / alone

    def _run(self) -> float:
        """Seconds in which all threads together do the work of as many runs of the yardstick."""
        team, closure = self._pool.team(), ctypes.addressof(self._rounds)
        before = time.perf_counter_ns()
        self._launch(team, self._yardstick.task, closure, PARTS * self._pool.workers)
        return max(time.perf_counter_ns() - before, 1) * 1e-9


def process_sharing(yardstick: Yardstick, waited: float = WAITED) -> Sharing:
    """How the threads of the pool that kernels of this process share have cores; as usual counts what the machine's
    limits say."""
    pool = process_linker().pool
    return Sharing(yardstick, pool, measured_limits().scaling / pool.workers, waited)
