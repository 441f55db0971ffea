"""The campaign catches faults planted one at a time in primitives, lowering and code generation."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from mslang.target.detect import host
from tests.mutation.planted import FAULTS, Planted
from tests.property.test_campaign import SHORT, SHORT_SEED

ROOT = Path(__file__).parents[2]
NEEDED = ("mslang", "grammar", "stdlib", "tests/__init__.py", "tests/property")
PAIRS = 600
"""So many pairs are tried until the fault shows; mostly a few are enough."""


def planted_copy(folder: Path, fault: Planted | None) -> Path:
    """A copy of what the campaign needs, with the fault in it."""
    for name in NEEDED:
        source = ROOT / name
        (folder / name).parent.mkdir(exist_ok=True)
        if source.is_dir():
            shutil.copytree(source, folder / name)
        else:
            shutil.copy2(source, folder / name)
    if fault is not None:
        path = folder / fault.path
        path.write_text(path.read_text().replace(fault.right, fault.wrong))
    return folder


def run_campaign(folder: Path, first: int, count: int) -> subprocess.CompletedProcess[str]:
    """Part of the campaign that the suite runs, on a copy, until the first fault."""
    command = [
        sys.executable,
        "-m",
        "tests.property.campaign",
        "--seed",
        str(SHORT_SEED),
        "--first",
        str(first),
        "--count",
        str(count),
    ]
    return subprocess.run(
        command, cwd=folder, env={"PYTHONPATH": str(folder)}, capture_output=True, text=True, timeout=240
    )


@pytest.mark.parametrize("fault", FAULTS, ids=lambda f: f.name)
def test_a_planted_fault_is_caught(fault: Planted, tmp_path: Path):
    assert (ROOT / fault.path).read_text().count(fault.right) == 1, "the text to replace must be there once"
    if fault.needs is not None and not host().has(fault.needs):
        pytest.skip(f"the code is reached on a processor with {fault.needs} only")
    # The suite runs these pairs without a fault, too: `test_campaign.py`.
    assert fault.pair + PAIRS <= SHORT
    done = run_campaign(planted_copy(tmp_path, fault), fault.pair, PAIRS)
    # A fault in compiled code may end the process.
    assert done.returncode < 0 or (done.returncode == 1 and done.stdout.endswith("1 faults\n")), done.stderr


def test_a_copy_without_a_fault_passes(tmp_path: Path):
    done = run_campaign(planted_copy(tmp_path, None), 0, 20)
    assert (done.returncode, done.stderr) == (0, "") and "20 pairs" in done.stdout, done.stdout


def test_there_are_enough_of_all_kinds():
    assert len(FAULTS) >= 10 and len({f.name for f in FAULTS}) == len(FAULTS)
    assert {f.path.split("/")[1] for f in FAULTS} == {"transform", "lower", "backend"}
