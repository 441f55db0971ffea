"""Timing on a GPU: events around single runs, each with a cold L2 cache unless it is to be warm."""

from __future__ import annotations

from collections.abc import Callable
from statistics import median

from mslang.backend.cuda.device import Device
from mslang.runtime.timing import Limits, Timing, deviation

_BATCH = 10
"""Runs that are started before the first of them is waited for, so that the GPU never waits for Python."""

_LEAST_FLUSH = 32 << 20
"""Bytes that are overwritten at least, where the driver does not report the size of the cache."""


def measured(
    device: Device, start: Callable[[], None], limits: Limits, restore: Callable[[], None] | None = None
) -> Timing:
    """Seconds of single runs by the GPU's own clock.

    Args:
        device: the GPU.
        start: starts a run.
        limits: when to stop; `min_repeat` does not apply, as each run is a sample.
        restore: starts copies on the device that give a run its inputs back, before each one and in no sample (None:
            runs do not change them).

    Raises:
        MsError: MS447, a kernel failed.
    """
    size = max(2 * device.l2, _LEAST_FLUSH)
    scratch = device.allocate(size)
    try:
        return _measured(device, start, limits, restore, scratch, size)
    finally:
        device.free(scratch)


def _measured(
    device: Device,
    start: Callable[[], None],
    limits: Limits,
    restore: Callable[[], None] | None,
    scratch: int,
    size: int,
) -> Timing:
    cold = limits.cache != "warm"

    def batch(runs: int) -> list[float]:
        events = []
        for _ in range(runs):
            if restore is not None:
                restore()
            # The copies pass through the L2 cache: it is emptied after them.
            if cold:
                device.fill(scratch, size)
            before = device.mark()
            start()
            events.append((before, device.mark()))
        return [device.seconds(before, after) for before, after in events]

    (first,) = batch(1)
    if limits.cutoff is not None and first > limits.cutoff:
        # The first run loads the kernel's code: it counts only if the second one is as slow.
        first = min(first, *batch(1))
        if first > limits.cutoff:
            return Timing((first,), 1, censored=True, cold=cold)
    samples: list[float] = []
    total = first
    # Never fewer than a run at a time, never more than the time that is left allows.
    while len(samples) < limits.max_repeats and (total <= limits.max_total or len(samples) < 1):
        left = max(int((limits.max_total - total) / max(first, 1e-9)), 1)
        taken = batch(min(_BATCH, limits.max_repeats - len(samples), left))
        samples += taken
        total += sum(taken)
        if len(samples) >= limits.repeats and deviation(samples) <= limits.spread * median(samples):
            break
    return Timing(tuple(samples), 1, cold=cold)
