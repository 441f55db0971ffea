"""Sketches as text: a schedule whose space is that sketch again."""

from __future__ import annotations

from itertools import islice
from pathlib import Path

import pytest

from mslang.schedule.rules.automatic import automatic_space
from mslang.schedule.sketch import Sketch
from mslang.schedule.space import Space
from mslang.schedule.strategies import space_of
from mslang.sema.modules import load
from mslang.target.description import AVX512
from mslang.tune.reference import small_program

ROOT = Path(__file__).parents[3]
BRANCHES = """
program p[M = 16](A: f32[M], out B: f32[M]) { block b[i: M] { B[i] = A[i] } }
schedule s for p {
    let t ~ choose([1, 2, 4])
    let u ~ choose([1, 3]) = 3
    require t + u <= 6, "too many"
    if t > 1 { b.i.split([_, t]) } else { b.i.vectorize() }
}
"""


def again(text: str, sketch: Sketch, space: Space) -> Sketch:
    found = list(space_of(load("again.ms", f"{text}\n{sketch.as_ms('again')}"), "again", space.program).structures())
    legal = [s for s in found if isinstance(s, Sketch)]
    assert legal
    return next(s for s in legal if s.program == sketch.program)


@pytest.mark.parametrize("name", ["gemm", "softmax", "depthwise_nhwc", "row_sum", "transpose"])
def test_sketches_of_automatic_spaces_are_read_back(name: str) -> None:
    path = next(p for p in (ROOT / "stdlib" / "workloads").glob("*.ms") if name in load(str(p)).programs)
    program = small_program(load(str(path)), name, {})
    assert program is not None
    space = automatic_space(program, AVX512)
    for sketch in islice(space.sketches(), 0, 30, 6):
        read = again(path.read_text(), sketch, space)
        assert read.decisions == sketch.decisions and read.constraints == sketch.constraints


def test_what_is_pinned_stays_and_branches_become_requirements() -> None:
    space = space_of(load("branches.ms", BRANCHES), "s")
    sketches = list(space.sketches())
    assert len(sketches) == 2
    for sketch in sketches:
        text = sketch.as_ms()
        assert "choose([1, 3]) = 3" in text and '"too many"' in text and '"another sketch"' in text
        read = again(BRANCHES, sketch, space)
        assert sorted(map(repr, read.points())) == sorted(map(repr, sketch.points()))
