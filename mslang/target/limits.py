"""The most that this machine can do, measured: the scale that results are compared with.

The figures are kept in a file of the user's cache folder, by processor, number of cores, element type and register
width. They are running maxima with a date: a core's speed changes from second to second, and what one moment gave is
raised by any later one and forgotten after a week.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import MappingProxyType

import msgspec
from msgspec.structs import replace

from mslang.target.core_loops import CoreLoops
from mslang.target.description import MIB, Target
from mslang.target.detect import host
from mslang.target.yardstick import Yardstick

LIFETIME = timedelta(days=7)
"""After so long the figures are measured again."""

DOTS: Mapping[str, tuple[tuple[str, float], ...]] = MappingProxyType(
    {
        "i8": (("amx-int8", 32.0), ("avx512vnni", 4.0), ("avxvnni", 4.0), ("", 2.0)),
        "bf16": (("amx-bf16", 16.0), ("avx512bf16", 2.0), ("", 1.0)),
        "f16": (("avx512fp16", 2.0), ("", 1.0)),
    }
)
"""Operations a second of an element type's products as a multiple of f32's, by the first feature that there is.

A matrix tile takes 16 cycles for 16 × 16 × 64 bytes, where vectors of AVX-512 make 32 multiply-adds of f32 a cycle.
Without dot products of bytes, `vpmaddwd` multiplies pairs of 16 bits.
"""

_COPIED = 64 * MIB
_ROUNDS = 30
_CYCLES = 100
"""Runs of the yardstick beside a count of cycles: where another program has a part of the core, most are slow."""

_COPYING = 0.2
"""Seconds of copies: of five alone, all were slow once, by a factor of eight."""

_LONG = 20
"""Runs of the yardstick that cores are measured side by side by: 2 ms, as threads do not begin at the same moment."""


class MachineLimits(msgspec.Struct, frozen=True):
    """Operations a second of one core and of all, bytes a second (read and written) of a copy in memory.

    `operations` are those of the yardstick in a cycle of one core. `measured` is the date and time (UTC, ISO 8601) of
    the oldest of the figures.
    """

    peak_core: float
    peak: float
    bandwidth: float
    measured: str = ""
    operations: float = 0.0

    @property
    def scaling(self) -> float:
        """How many times faster all cores are than one."""
        return self.peak / self.peak_core


def measured_limits(
    target: Target | None = None,
    dtype: str = "f32",
    *,
    refresh: bool = False,
    folder: Path | None = None,
) -> MachineLimits:
    """The limits of this machine with the instructions of `target` (default: all that it has).

    Args:
        target: whose vector width and number of cores bound what is measured.
        dtype: the element type: `"f32"` or `"f64"`, or one of `DOTS`, whose peak follows from that of f32.
        refresh: measure again; the larger of the old and new figures count.
        folder: where the file is kept (default: `mslang` in the user's cache folder).
    """
    if dtype in DOTS:
        own = target or host()
        times = next(factor for feature, factor in DOTS[dtype] if not feature or own.has(feature))
        of_f32 = measured_limits(target, refresh=refresh, folder=folder)
        return replace(of_f32, peak_core=times * of_f32.peak_core, peak=times * of_f32.peak)
    bits, cores, key = _key(target, dtype)
    path = _file(folder)
    known = _recent(_read(path).get(key))
    if known is not None and not refresh:
        return known
    found = _larger(_measure(dtype, bits, cores), known)
    _write(path, _read(path) | {key: found})
    return found


def known_core_rate(*, folder: Path | None = None) -> float:
    """The best rate known of the yardstick on one core of this machine; 0 if it was not measured yet."""
    known = _recent(_read(_file(folder)).get(_key(None, "f32")[2]))
    return 0.0 if known is None else known.peak_core


def raise_peak(rate: float, target: Target | None = None, dtype: str = "f32", *, folder: Path | None = None) -> None:
    """Note the rate of a yardstick that ran on one core: the peak of a core is the largest seen.

    A rate that is not above what is known changes nothing.
    """
    _, cores, key = _key(target, dtype)
    path = _file(folder)
    known = _read(path).get(key)
    if known is None or rate <= known.peak_core:
        return
    peak = min(known.scaling, cores) * rate
    _write(path, _read(path) | {key: replace(known, peak_core=rate, peak=peak)})


def _key(target: Target | None, dtype: str) -> tuple[int, int, str]:
    own = host()
    bits, cores = min((target or own).vector_bits, own.vector_bits), own.cores
    return bits, cores, f"{own.cpu} {cores} {dtype} {bits}"


def _file(folder: Path | None) -> Path:
    return (folder or Path.home() / ".cache" / "mslang") / "limits.json"


def _recent(limits: MachineLimits | None) -> MachineLimits | None:
    """The limits if they can be true and are not too old."""
    if limits is None or not 0 < limits.peak_core <= limits.peak < float("inf") or not limits.operations > 0:
        return None
    try:
        age = datetime.now(UTC) - datetime.fromisoformat(limits.measured)
    except (ValueError, TypeError):
        return None
    return limits if timedelta() <= age <= LIFETIME else None


def _larger(new: MachineLimits, old: MachineLimits | None) -> MachineLimits:
    if old is None:
        return new
    core, scaling = max(new.peak_core, old.peak_core), max(new.scaling, old.scaling)
    bandwidth, operations = max(new.bandwidth, old.bandwidth), max(new.operations, old.operations)
    return MachineLimits(core, scaling * core, bandwidth, old.measured, operations)


def _read(path: Path) -> dict[str, MachineLimits]:
    try:
        return msgspec.json.decode(path.read_bytes(), type=dict[str, MachineLimits])
    except (OSError, msgspec.DecodeError):
        return {}


def _write(path: Path, limits: dict[str, MachineLimits]) -> None:
    # Without a place to keep them the figures are measured each time.
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        partial = path.with_suffix(f".{threading.get_ident()}.new")
        partial.write_bytes(msgspec.json.encode(limits))
        partial.replace(path)
    except OSError:
        return


def _measure(dtype: str, bits: int, cores: int) -> MachineLimits:
    yardstick = Yardstick(dtype, bits)
    one = max(yardstick.rate() for _ in range(_ROUNDS))
    seconds = min(_side_by_side(lambda: yardstick.run(_LONG), cores) for _ in range(_ROUNDS))
    peak = min(max(one, cores * _LONG * yardstick.work / seconds), cores * one)
    now = datetime.now(UTC).isoformat(timespec="seconds")
    return MachineLimits(one, peak, _copy_rate(), now, _operations(yardstick))


def _operations(yardstick: Yardstick) -> float:
    """Operations of a yardstick in a cycle: the most of both within so short a time that the speed hardly changes."""
    loops = CoreLoops()
    both = [(loops.pace().cycles, yardstick.rate()) for _ in range(_CYCLES)]
    return max(rate for _, rate in both) / max(cycles for cycles, _ in both)


def _side_by_side(work: Callable[[], object], cores: int) -> float:
    """Seconds from when the first of all cores begins the work until the last one has done it."""
    ready = threading.Barrier(cores)
    spans: list[tuple[float, float]] = []

    def part() -> None:
        ready.wait()
        begun = time.perf_counter()
        work()
        spans.append((begun, time.perf_counter()))

    threads = [threading.Thread(target=part) for _ in range(cores)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    return max(end for _, end in spans) - min(begin for begin, _ in spans)


def _copy_rate() -> float:
    import numpy as np

    source = np.ones(_COPIED, np.uint8)
    target = np.zeros(_COPIED, np.uint8)

    def seconds() -> float:
        before = time.perf_counter()
        np.copyto(target, source)
        return time.perf_counter() - before

    end = time.perf_counter() + _COPYING
    best = min(seconds() for _ in range(5))
    while time.perf_counter() < end:
        best = min(best, seconds())
    return 2.0 * _COPIED / max(best, 1e-9)
