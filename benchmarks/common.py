"""Shared parts of the benchmarks: medians of repeated runs, interleaved comparisons, tables, measuring conditions."""

from __future__ import annotations

import math
import os
import platform
import re
import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from textwrap import fill
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import numpy as np

    from mslang.diagnostics import MsError
    from mslang.target.yardstick import Yardstick

ROOT = Path(__file__).resolve().parents[1]
WORKLOADS = ROOT / "stdlib" / "workloads"
WIDTH = 120
"""Of a line of the documentation."""

REST = 400
"""How often 5 ms are waited for other threads to sleep; those of OpenBLAS do after some 0.1 s."""


def seconds(run: Callable[[], object], repeats: int = 15, least: float = 0.0) -> list[float]:
    """Times of `repeats` runs in seconds per call; each run makes as many calls as fill `least` seconds."""
    calls = 1
    if least:
        start = time.perf_counter()
        run()
        calls = max(1, round(least / max(time.perf_counter() - start, 1e-9)))
    found = []
    for _ in range(repeats):
        start = time.perf_counter()
        for _ in range(calls):
            run()
        found.append((time.perf_counter() - start) / calls)
    return found


def interleaved(
    runs: Mapping[str, Callable[[], object]],
    rounds: int = 31,
    least: float = 0.004,
    before: Callable[[], None] = lambda: None,
) -> dict[str, list[float]]:
    """Times of several functions in turn, A B C A B C …, so that drift of the machine affects all equally.

    `before` is done before each sample.
    """
    found: dict[str, list[float]] = {name: [] for name in runs}
    for run in runs.values():
        run()
    for _ in range(rounds):
        for name, run in runs.items():
            before()
            found[name] += seconds(run, 1, least)
    return found


def aligned(values: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """A copy that begins at a multiple of 64 bytes, as tensors of torch and TVM do, and what a kernel makes.

    NumPy's arrays begin at a multiple of 16. There each vector of AVX-512 is in two cache lines, which doubled the time
    of a layer norm on an Intel processor.
    """
    from mslang.runtime.arrays import empty

    copy = empty((values.nbytes,), "u8").view(values.dtype).reshape(values.shape)
    copy[...] = values
    return copy


def at_rest() -> None:
    """Wait until no thread of the process runs but this one, which sleeps.

    Raises:
        SystemExit: some run on, as OpenMP's do under OMP_WAIT_POLICY=active.
    """
    for _ in range(REST):
        before = time.process_time()
        time.sleep(0.005)
        if time.process_time() - before < 0.001:
            return
    raise SystemExit("threads of a library never sleep: unset OMP_WAIT_POLICY, GOMP_SPINCOUNT and KMP_BLOCKTIME")


def spread_out(yardstick: Yardstick) -> Callable[[], None]:
    """What keeps all threads busy until each has a core, for a while at most."""
    from mslang.runtime.sharing import PATIENCE, process_sharing

    sharing = process_sharing(yardstick, waited=1.0)

    def spread() -> None:
        sharing.share(yardstick.rate(), PATIENCE)

    return spread


def undisturbed(runs: Mapping[str, Callable[[], object]], rounds: int, least: float = 0.01) -> dict[str, list[float]]:
    """Times of several functions in turn, each sample when no thread of the process runs and each thread has a core."""
    from mslang.target.yardstick import Yardstick

    spread = spread_out(Yardstick())

    def before() -> None:
        at_rest()
        spread()

    return interleaved(runs, rounds, least, before)


def let_tvm_use_all_cores() -> None:
    """Give TVM as many threads as ours have, also in programs started from here.

    By itself it takes half of x86's processors, on a machine of two a single one. Call it before TVM runs anything.
    """
    from mslang.target.detect import host

    os.environ["TVM_NUM_THREADS"] = str(host().cores)


def ratio(a: Sequence[float], b: Sequence[float]) -> tuple[float, float, float]:
    """How many times faster `a` is than `b`: the median of the ratios round by round, and their quartiles."""
    ratios = [y / x for x, y in zip(a, b, strict=True)]
    low, middle, high = statistics.quantiles(ratios, n=4)
    return middle, low, high


def interval(ratios: Sequence[float]) -> tuple[float, float]:
    """The 95 % interval of the median: that of the order statistics (binomial, normal approximation)."""
    ordered = sorted(ratios)
    reach = math.ceil(0.98 * math.sqrt(len(ordered)))
    centre = (len(ordered) - 1) / 2
    low, high = max(0, math.floor(centre - reach)), min(len(ordered) - 1, math.ceil(centre + reach))
    return ordered[low], ordered[high]


def percentile(times: Sequence[float], p: float) -> float:
    """The p-th percentile."""
    ordered = sorted(times)
    return ordered[min(len(ordered) - 1, round(p / 100 * (len(ordered) - 1)))]


def table(head: Sequence[str], rows: Sequence[Sequence[object]]) -> str:
    """A Markdown table."""
    lines = ["| " + " | ".join(head) + " |", "|" + "---|" * len(head)]
    return "\n".join(lines + ["| " + " | ".join(map(str, row)) + " |" for row in rows])


def show(value: float) -> str:
    """A time as readable text."""
    for unit, scale in (("s", 1.0), ("ms", 1e-3), ("µs", 1e-6)):
        if value >= scale:
            return f"{value / scale:.3g} {unit}"
    return f"{value * 1e9:.3g} ns"


def said(error: MsError) -> str:
    """What a diagnostic says, in one line."""
    found = error.diagnostic
    return f"{found.code} {found.message} ({found.why})"


def class_of(why: str) -> str:
    """A message without names and numbers."""
    return re.sub(r"\d+", "N", re.sub(r"`[^`]*`", "`_`", why))[:110]


def conditions(*packages: str) -> str:
    """The conditions of a measurement: the machine, its load, and the versions of the software, as lines of a page."""
    from mslang import __version__
    from mslang.target.detect import host

    cores = f"{len(os.sched_getaffinity(0))} of {os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}"
    found = [f"Python {platform.python_version()}", f"mslang {__version__}"]
    for package in packages:
        try:
            found.append(f"{package} {version(package)}")
        except PackageNotFoundError:
            continue
    return fill(f"Machine: {_processor()} ({host().cpu}), {cores}. Versions: {', '.join(found)}.", WIDTH)


def _processor() -> str:
    described = Path("/proc/cpuinfo").read_text().splitlines()
    return next((x.partition(":")[2].strip() for x in described if x.startswith("model name")), platform.machine())
