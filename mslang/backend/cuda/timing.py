"""Timing on a GPU: events around single runs, each with a cold L2 cache unless it is to be warm."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from statistics import median
from typing import NamedTuple

from mslang.backend.cuda.device import Device
from mslang.runtime.timing import Limits, Timing, deviation

_BATCH = 10
"""Runs that are started before the first of them is waited for, so that the GPU never waits for Python."""

_LEAST_FLUSH = 32 << 20
"""Bytes that are overwritten at least, where the driver does not report the size of the cache."""


class Run(NamedTuple):
    """A kernel that is timed.

    `start` starts it. `restore` starts copies on the device that give it its inputs back, before each run and in no
    sample (None: runs do not change them). Its time counts `calls` times.
    """

    start: Callable[[], None]
    restore: Callable[[], None] | None = None
    calls: int = 1


def measured(device: Device, runs: Sequence[Run], limits: Limits) -> Timing:
    """Seconds of single runs by the GPU's own clock; a sample is the sum of a run of each kernel.

    Args:
        device: the GPU.
        runs: the kernels.
        limits: when to stop; `min_repeat` does not apply, as each run is a sample.

    Raises:
        MsError: MS447, a kernel failed.
    """
    size = max(2 * device.l2, _LEAST_FLUSH)
    scratch = device.allocate(size)
    try:
        return _measured(device, runs, limits, scratch, size)
    finally:
        device.free(scratch)


def _measured(device: Device, runs: Sequence[Run], limits: Limits, scratch: int, size: int) -> Timing:
    cold = limits.cache != "warm"
    spent = 0.0

    def batch(count: int) -> list[float]:
        nonlocal spent
        events = []
        for _ in range(count):
            for run in runs:
                if run.restore is not None:
                    run.restore()
                # The copies pass through the L2 cache: it is emptied after them.
                if cold:
                    device.fill(scratch, size)
                before = device.mark()
                run.start()
                events.append((before, device.mark(), run.calls))
        seconds = [(device.seconds(before, after), calls) for before, after, calls in events]
        spent += sum(s for s, _ in seconds)
        each = [s * calls for s, calls in seconds]
        return [sum(each[i : i + len(runs)]) for i in range(0, len(each), len(runs))]

    (first,) = batch(1)
    one = spent
    if limits.cutoff is not None and first > limits.cutoff:
        # The first run loads the kernel's code: it counts only if the second one is as slow.
        first = min(first, *batch(1))
        if first > limits.cutoff:
            return Timing((first,), 1, censored=True, cold=cold)
    samples: list[float] = []
    # Never fewer than a run at a time, never more than the time that is left allows.
    while len(samples) < limits.max_repeats and (spent <= limits.max_total or len(samples) < 1):
        left = max(int((limits.max_total - spent) / max(one, 1e-9)), 1)
        samples += batch(min(_BATCH, limits.max_repeats - len(samples), left))
        if len(samples) >= limits.repeats and deviation(samples) <= limits.spread * median(samples):
            break
    return Timing(tuple(samples), 1, cold=cold)
