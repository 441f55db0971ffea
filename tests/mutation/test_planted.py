"""Faults planted one at a time, in primitives, lowering and code generation, are caught: every third one; all with
`--campaign`."""

from __future__ import annotations

import subprocess
import sys
from collections import Counter

import pytest

from mslang.target.detect import host
from tests.mutation.in_instances import IN_INSTANCES
from tests.mutation.planted import Planted
from tests.mutation.search import CAUGHT, FAULTS, ROOT, first_wrong


def search(number: int) -> subprocess.CompletedProcess[str]:
    """The search for a fault in a process of its own; as many pairs as it takes."""
    command = [sys.executable, "-m", "tests.mutation.search", str(number)]
    return subprocess.run(command, cwd=ROOT, env={"PYTHONPATH": str(ROOT)}, capture_output=True, text=True, timeout=280)


@pytest.mark.parametrize(
    "fault",
    [pytest.param(f, id=f.name, marks=[pytest.mark.campaign] if k % 3 else []) for k, f in enumerate(FAULTS)],
)
def test_a_planted_fault_is_caught(fault: Planted):
    assert fault.right is not None, "the function to replace must be there"
    if fault.needs is not None and not host().has(fault.needs):
        pytest.skip(f"the code is reached on a processor with {fault.needs} only")
    done = search(FAULTS.index(fault))
    # A fault in compiled code may end the process.
    assert done.returncode < 0 or done.returncode == CAUGHT, done.stdout + done.stderr
    if fault.caught_by is None:
        pair = int(done.stdout.split()[-1])
        wrong = first_wrong(fault.only, (pair,), fault.generator)
        assert wrong is None, f"pair {pair} is wrong without the fault, too: {wrong}"


def test_faults_are_of_all_kinds():
    assert len(FAULTS) >= 45 and len({f.name for f in FAULTS}) == len(FAULTS)
    assert {f.module.split(".")[1] for f in FAULTS} == {"transform", "lower", "backend", "ir", "schedule"}
    others = [f for f in FAULTS if f not in IN_INSTANCES]
    assert sum(f.caught_by is not None for f in others) <= 8
    assert max(Counter(f.module for f in FAULTS).values()) <= 4
