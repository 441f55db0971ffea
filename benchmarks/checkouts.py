"""The times that a benchmark prints in two checkouts, run in turn: those of another commit and of this one.

    git worktree add --detach FOLDER COMMIT
    python benchmarks/checkouts.py FOLDER [--scripts "gemm.py --threads 1" …] [--rounds 3] [--sums "lower + compile" …]

Each checkout runs its own copy of the script with its own package. Every time and every rate in the tables that both
print is a row: the best over the rounds, since what else a machine does only adds to a time, and the other checkout's
time divided by this one's (above 1: this one is faster). Rows of other libraries show by how much the machine alone
moves the figures. `--sums` adds rows for columns whose times belong together: what one commit does in `lower`, another
may do in `compile`.
"""

from __future__ import annotations

import argparse
import os
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from common import ROOT, conditions, show, table

SCRIPTS = ("replay.py", "gemm.py --threads 1", "rows.py --threads 1")
UNITS = {"s": 1.0, "ms": 1e-3, "µs": 1e-6, "ns": 1e-9}
TIME = re.compile(r"([\d.e+]+) (s|ms|µs|ns)")
RATE = re.compile(r"(\d+)/s")
WORD = re.compile(r"[^\W\d]")
Times = Mapping[str, float]


def main() -> int:
    """Run the scripts in turn and print one table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("other", type=Path, help="the other checkout")
    parser.add_argument("--scripts", nargs="+", default=SCRIPTS)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--sums", nargs="+", default=[], metavar='"COLUMN + COLUMN"', help="columns to add up")
    options = parser.parse_args()
    if options.rounds < 1:
        parser.error("--rounds: at least 1")
    checkouts = (options.other.resolve(), ROOT)
    for script in options.scripts:
        name, *_ = shlex.split(script) or [""]
        for checkout in checkouts:
            if not (checkout / "benchmarks" / name).is_file():
                parser.error(f"{checkout} has no benchmarks/{name}")
    rows = []
    for script in options.scripts:
        found: dict[Path, list[Times]] = {c: [] for c in checkouts}
        for _ in range(options.rounds):
            for checkout in checkouts:
                found[checkout].append(times(output(checkout, script)))
        before, now = (with_sums(best(found[c]), options.sums) for c in checkouts)
        rows += [
            (shlex.split(script)[0], what, show(before[what]), show(t), f"{before[what] / t:.2f}")
            for what, t in now.items()
            if what in before
        ]
    names = [revision(c) for c in checkouts]
    print(table(("script", "what", *names, "ratio"), rows))
    print(f"\n{conditions('numpy', 'torch', 'llvmlite')}")
    return 0


def output(checkout: Path, script: str) -> str:
    """What a checkout's script prints."""
    name, *arguments = shlex.split(script)
    done = subprocess.run(
        (sys.executable, str(checkout / "benchmarks" / name), *arguments),
        cwd=checkout,
        env=os.environ | {"PYTHONPATH": f"{checkout}{os.pathsep}{checkout / 'lsp'}"},
        capture_output=True,
        text=True,
    )
    if done.returncode:
        sys.exit(f"{checkout}: benchmarks/{script} failed:\n{done.stderr[-2000:]}")
    return done.stdout


def times(text: str) -> Times:
    """The times in Markdown tables, rates as their inverse, by the names in their row and column."""
    return dict(_times(text))


def _times(text: str) -> Iterator[tuple[str, float]]:
    head: list[str] = []
    for line in text.splitlines():
        cells = [c.strip() for c in line.strip().strip("|").split(" | ")] if line.startswith("|") else []
        if not cells or line.startswith("|---"):
            head = head if cells else []
            continue
        if not head:
            head = cells
            continue
        found = {c: t for c, x in zip(head, cells, strict=True) if (t := seconds_of(x)) is not None}
        row = [x for k, x in enumerate(cells) if not k or (WORD.search(x) and seconds_of(x) is None)]
        for column, t in found.items():
            yield ", ".join((*row, column)), t


def seconds_of(cell: str) -> float | None:
    """A time, or the time of one if it is a rate."""
    if m := TIME.fullmatch(cell):
        return float(m[1]) * UNITS[m[2]]
    return 1 / float(m[1]) if (m := RATE.fullmatch(cell)) and float(m[1]) else None


def best(runs: Sequence[Times]) -> Times:
    """The shortest over runs of what all of them printed."""
    return {k: min(r[k] for r in runs) for k in runs[0] if all(k in r for r in runs)}


def with_sums(found: Times, sums: Sequence[str]) -> Times:
    """The times, and for each row that has all columns of a sum their sum."""
    rows = dict.fromkeys(what.rpartition(", ")[0] for what in found)
    made = dict(found)
    for columns in sums:
        for row in rows:
            parts = [found.get(f"{row}, {c.strip()}") for c in columns.split("+")]
            if (known := [t for t in parts if t is not None]) == parts:
                made[f"{row}, {columns}"] = sum(known)
    return made


def revision(checkout: Path) -> str:
    """The commit of a checkout, or its folder's name outside of git."""
    found = subprocess.run(
        ("git", "describe", "--always", "--dirty", "--exclude=*"), cwd=checkout, capture_output=True, text=True
    )
    return found.stdout.strip() or checkout.name


if __name__ == "__main__":
    sys.exit(main())
