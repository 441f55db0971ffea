"""Repeatability of a pinned result: the same program and speed in new processes.

    python benchmarks/repeatability.py [examples/gemm.ms] [--trials 32] [--processes 5]

Tunes a copy of the file, then runs `mslang run` on the schedule written back in so many new processes. Good is: one
program hash, the one on record, and every time within max(5 %, 3 × MAD) of the median, MAD being the spread that the
run itself saw. A loaded machine cannot reach this.
"""

from __future__ import annotations

import argparse
import json
import shutil
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

from common import ROOT, conditions, table

from mslang.tune.database import Database


def mslang(*words: str, folder: Path) -> str:
    """What the command prints; its own errors stay visible."""
    return subprocess.run(
        [sys.executable, "-m", "mslang.cli.main", *words], cwd=folder, check=True, text=True, stdout=subprocess.PIPE
    ).stdout


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("file", type=Path, nargs="?", default=ROOT / "examples" / "gemm.ms")
    parser.add_argument("--trials", type=int, default=32)
    parser.add_argument("--processes", type=int, default=5)
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        file = Path(shutil.copy(args.file, folder))
        mslang("tune", file.name, "--trials", str(args.trials), "--write", folder=folder)
        with Database(folder / ".mslang" / "records.db", read_only=True) as database:
            best = database.top(n=1)[0]
        item = f"{file.name}:{best.program}_best"
        runs = [json.loads(mslang("run", item, "--json", folder=folder)) for _ in range(args.processes)]
    times = [r["seconds"] for r in runs]
    middle = statistics.median(times)
    allowed = [max(0.05 * middle, 3 * r["mad"]) for r in runs]
    rows = [
        (r["program"][:12], f"{t * 1e6:.2f} µs", f"{100 * (t / middle - 1):+.1f} %", f"± {100 * a / middle:.1f} %")
        for r, t, a in zip(runs, times, allowed, strict=True)
    ]
    print(table(("program", "time", "of the median", "allowed"), rows))
    same = {r["program"] for r in runs} == {best.candidate}
    near = all(abs(t - middle) <= a for t, a in zip(times, allowed, strict=True))
    print(f"\nprogram: {'identical, the one on record' if same else 'DIFFERENT'}")
    print(
        f"time: median {middle * 1e6:.2f} µs, {'all within' if near else 'NOT all within'} what is allowed; "
        f"when tuned {(best.seconds or 0.0) * 1e6:.2f} µs"
    )
    print(f"\n{conditions('numpy', 'llvmlite', 'xgboost')}")


if __name__ == "__main__":
    main()
