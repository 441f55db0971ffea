"""Draw the pictures of the documentation from real runs.

python benchmarks/picture.py [tune|report …] [--trials N]

`tune` writes docs/tune.svg, what `mslang tune examples/gemm.ms` prints; `report` writes docs/report.png, the page of a
run in a space that consists of a template with a constraint and of the automatic one (it needs a Chromium).
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from browser import shoot
from common import ROOT
from rich.console import Console
from rich.text import Text

from mslang.target.limits import measured_limits

DENSE = """use std.cpu.{host, auto}

program dense[M = 512, N = 512, K = 512](A: f32[M, K], B: f32[K, N], bias: f32[N], out C: f32[M, N]) {
    alloc sum: f32[M, N]
    block mm[i: M, j: N | k: K] { sum[i, j] += A[i, k] * B[k, j] }
    block relu[i: M, j: N] { C[i, j] = max(sum[i, j] + bias[j], 0.0) }
}

schedule tile for dense on host {
    let rows ~ choose([1, 2, 4, 6, 8, 12, 16])
    let vectors ~ choose([1, 2, 3, 4])
    require rows * vectors + vectors + 1 <= machine.registers, "the accumulators do not fit the registers"
    let i0, i1 = relu.i.split([_, rows])
    let j0, j1 = relu.j.split([_, vectors * machine.vector_lanes])
    reorder(i0, j0, i1, j1)
    mm.compute_at(j0)
    reorder(mm.k, mm.i, mm.j)
    i0.parallel()
    let zero = mm.decompose_reduction(mm.k)
    zero.j.vectorize()
    mm.j.vectorize()
    mm.i.unroll()
    j1.vectorize()
}

schedule dense_best for dense on host = tile with { rows = 4, vectors = 1 }

space mixed for dense on host = tile | auto
"""
"""What the report is of; `dense_best` is the schedule that the run begins with."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("pictures", nargs="*", metavar="tune|report", help="what to draw (default: both)")
    parser.add_argument("--trials", type=int, help="candidates to try (default: 32 and 128)")
    args = parser.parse_args()
    drawn = {"tune": (_tune, 32), "report": (_report, 128)}
    for name in args.pictures or drawn:
        if name not in drawn:
            parser.error(f"there is no picture {name}")
        draw, trials = drawn[name]
        with tempfile.TemporaryDirectory() as folder:
            draw(Path(folder), args.trials or trials)


def _tune(folder: Path, trials: int) -> None:
    words = ["tune", "examples/gemm.ms", "--trials", str(trials), "--seed", "0", "--write"]
    (folder / "examples").mkdir()
    shutil.copy(ROOT / "examples" / "gemm.ms", folder / "examples" / "gemm.ms")
    printed = _mslang(folder, *words)
    written = (folder / "examples" / "gemm.ms").read_text()
    console = Console(record=True, width=118, file=open("/dev/null", "w"))  # noqa: SIM115
    console.print(Text(f"$ mslang {' '.join(words)}", style="bold"))
    for line in printed.splitlines():
        console.print(Text(line, style="green" if line.startswith("*") else ""))
    console.print(Text("$ tail -4 examples/gemm.ms", style="bold"))
    for line in written.splitlines()[-4:]:
        console.print(Text(line))
    console.save_svg(str(ROOT / "docs" / "tune.svg"), title="mslang")


def _report(folder: Path, trials: int) -> None:
    (folder / "dense.ms").write_text(DENSE)
    measured_limits(refresh=True)
    _mslang(folder, "tune", "dense.ms:mixed", "--trials", str(trials), "--seed", "0", "--write")
    _mslang(folder, "report", "--out", "report.html")
    found = shoot(folder / "report.html", ROOT / "docs" / "report.png", 1200)
    if found.faults:
        sys.exit("docs/report.png: " + "; ".join(found.faults))


def _mslang(folder: Path, *words: str) -> str:
    """What `mslang` prints in a folder."""
    command = [sys.executable, "-m", "mslang", *words]
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=True)
    return done.stderr + done.stdout


if __name__ == "__main__":
    main()
