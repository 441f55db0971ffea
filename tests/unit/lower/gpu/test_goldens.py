"""Lowered modules as text: goldens in `tests/expect/gpu`.

`python -m tests.unit.lower.gpu.test_goldens` writes them again.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from mslang.kernel.print import print_module
from tests.unit.lower.gpu.kernels import kept
from tests.unit.lower.gpu.support import barriers, close, lowered

EXPECT = Path(__file__).parents[3] / "expect" / "gpu"

PROGRAMS = kept()

BARRIERS = {
    "elementwise": 0,
    "transpose": 1,
    "vthreads": 2,
    "softmax": 4,
    "rows": 0,
    "conv": 2,
    "pipelined": 2,
    "async_copies": 1,
    "batched": 0,
    "two_kernels": 0,
    "unbound": 0,
    "host_loop": 0,
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_module_is_as_expected(name: str):
    module = lowered(PROGRAMS[name])
    assert print_module(module) == (EXPECT / f"{name}.txt").read_text()
    assert barriers(module) == BARRIERS[name]


@pytest.mark.parametrize("name", ["elementwise", "transpose", "softmax", "rows", "batched", "unbound", "host_loop"])
def test_and_does_what_the_program_does(name: str):
    close(PROGRAMS[name], lowered(PROGRAMS[name]))


def test_every_golden_has_its_program():
    assert {p.stem for p in EXPECT.glob("*.txt")} == set(PROGRAMS) == set(BARRIERS)


if __name__ == "__main__":
    EXPECT.mkdir(exist_ok=True)
    for name, program in PROGRAMS.items():
        (EXPECT / f"{name}.txt").write_text(print_module(lowered(program)))
