"""Draw what `mslang tune examples/gemm.ms` prints: writes docs/tune.svg from a real run.

python benchmarks/picture.py [--trials 32]
"""

from __future__ import annotations

import argparse
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from common import ROOT
from rich.console import Console
from rich.text import Text


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--trials", type=int, default=32)
    args = parser.parse_args()
    words = ["tune", "examples/gemm.ms", "--trials", str(args.trials), "--seed", "0", "--write"]
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "examples").mkdir()
        shutil.copy(ROOT / "examples" / "gemm.ms", Path(folder) / "examples" / "gemm.ms")
        command = [sys.executable, "-m", "mslang", *words]
        done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=True)
        written = (Path(folder) / "examples" / "gemm.ms").read_text()
    console = Console(record=True, width=118, file=open("/dev/null", "w"))  # noqa: SIM115
    console.print(Text(f"$ mslang {' '.join(words)}", style="bold"))
    for line in (done.stderr + done.stdout).splitlines():
        console.print(Text(line, style="green" if line.startswith("*") else ""))
    console.print(Text("$ tail -4 examples/gemm.ms", style="bold"))
    for line in written.splitlines()[-4:]:
        console.print(Text(line))
    console.save_svg(str(ROOT / "docs" / "tune.svg"), title="mslang")


if __name__ == "__main__":
    main()
