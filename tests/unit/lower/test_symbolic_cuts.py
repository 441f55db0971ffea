"""A loop over a dynamic size is cut where its guards begin to matter: the main part has none; every size is right."""

from __future__ import annotations

import numpy as np
import pytest

import mslang as ms
from mslang.kernel.print import print_module
from mslang.lower.passes import LOOPS, stages
from mslang.target.description import GENERIC

TEXT = """program rows[M: dyn(1..40)](A: f32[M, 8], out C: f32[M, 8]) {
    block c[i: M, j: 8] { C[i, j] = A[i, j] + 1.0 }
}
schedule tiled for rows {
    let i0, i1 = c.i.split([_, 6])
    KIND
    c.j.vectorize()
}
"""


@pytest.mark.parametrize("kind", ["", "i0.parallel()", "i1.unroll()", "reorder(i1, i0)"])
def test_every_size_is_right(kind: str):
    kernel = ms.build(ms.parse(TEXT.replace("KIND", kind)).space("tiled"))
    for m in range(1, 41):
        a = np.arange(m * 8, dtype=np.float32).reshape(m, 8)
        assert (kernel(a) == a + 1).all()


@pytest.mark.parametrize(("kind", "guards"), [("", 1), ("i0.parallel()", 2)])
def test_the_main_part_has_no_guard(kind: str, guards: int):
    program = ms.parse(TEXT.replace("KIND", kind)).space("tiled").sample(0).program
    text = next(print_module(m) for name, m in stages(program, GENERIC, LOOPS) if name == "predicates")
    before, _, _ = text.partition("if i0 * 6 + i1 < M")
    # The whole tiles come first; a parallel loop stays one, with a branch between them and the last.
    assert text.count("if ") == guards and before.count("C[") == 1
