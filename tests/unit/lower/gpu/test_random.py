"""Random schedules for a GPU: what is lowered computes what the program does, in any order of threads, without races.

`python -m tests.unit.lower.gpu.test_random FIRST LAST [warp]` judges other seeds, and counts outcomes.
"""

from __future__ import annotations

import sys
from collections import Counter

import numpy as np
import pytest

from mslang.backend.reference import interpret
from mslang.diagnostics import TargetError
from tests.property.judge import sparse_inputs
from tests.unit.lower.gpu import simulator
from tests.unit.lower.gpu.drawn import Drawn
from tests.unit.lower.gpu.support import lowered

REFUSALS = frozenset({"MS431", "MS432", "MS433", "MS434", "MS435", "MS436", "MS437", "MS438"})

FOUND = (18, 49, 120, 264, 323)
"""Draws that were lowered wrongly once."""


def judged(seed: int, own: str = "local") -> str:
    """`right`, or the code of the refusal; raises where the module is wrong."""
    drawn = Drawn(seed, own)
    try:
        module = lowered(drawn.program())
    except TargetError as error:
        return error.diagnostics[0].code
    arrays = sparse_inputs(drawn.before, 1)
    want = interpret.run(drawn.before, arrays)
    for order in (0, 1):
        got = simulator.run(module, arrays, order)
        for name, array in want.items():
            np.testing.assert_allclose(got[name], array, rtol=1e-4, atol=1e-4, err_msg=f"seed {seed}")
    return "right"


@pytest.mark.parametrize("seed", [*FOUND, *range(400, 406)])
@pytest.mark.one_in(2)
def test_random_schedules_are_lowered_right_or_refused(seed: int):
    assert judged(seed) in {"right", *REFUSALS}


@pytest.mark.parametrize("seed", range(600, 603))
def test_so_they_are_where_lanes_of_a_warp_share_memory(seed: int):
    assert judged(seed, "warp") in {"right", *REFUSALS}


def test_most_are_not_refused():
    codes = Counter(code_of(seed) for seed in range(500, 520))
    assert codes["lowered"] >= 8, codes


def code_of(seed: int) -> str:
    """`lowered`, or the code of the refusal."""
    try:
        lowered(Drawn(seed).program())
    except TargetError as error:
        return error.diagnostics[0].code
    return "lowered"


if __name__ == "__main__":
    print(Counter(judged(seed, *sys.argv[3:]) for seed in range(int(sys.argv[1]), int(sys.argv[2]))))
