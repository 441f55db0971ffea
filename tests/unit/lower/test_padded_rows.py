"""Rows on the stack that are as long as vectors: what their tails need no mask for, and what does."""

from __future__ import annotations

import numpy as np
import pytest

import mslang as ms
from mslang.kernel.nodes import Store
from mslang.kernel.visit import walk
from mslang.lower.passes import lower
from mslang.target.description import AVX512

TEXT = """
program p(A: f32[13], out B: f32[13, 13]) {{
    alloc t: f32[13, 13]
    block z[i: 13, j: 13] {{ t[i, j] = 0.0 }}
    block d[i: 13] {{ t[{at}] = A[i] }}
    block c[i: 13, j: 13] {{ B[i, j] = t[i, j] + t[{read}] }}
}}
schedule s for p {{ z.j.unroll()
    c.j.{how}()
    d.i.vectorize()
    d.set_scope(t, local) }}
"""


@pytest.mark.parametrize(("at", "masked"), [("3, i", False), ("i, i", True), ("12 - i, i", True)])
def test_lanes_on_a_diagonal_keep_their_masks(at: str, masked: bool) -> None:
    """The lanes behind the 13th would be in the padding of rows that the buffer does not have."""
    program = ms.parse(TEXT.format(at=at, read=at, how="unroll")).space("s").attempt(0).program
    stores = [s for s in walk(lower(program, AVX512).body) if isinstance(s, Store) and s.buffer == "t"]
    vectors = [s for s in stores if "ramp" in repr(s.indices).lower()]
    assert vectors and any(s.mask is not None for s in vectors) is masked
    a = np.arange(1, 14, dtype=np.float32)
    t = np.zeros((13, 13), np.float32)
    i = np.arange(13)
    first = {"3": np.full(13, 3), "i": i, "12 - i": 12 - i}[at.partition(",")[0]]
    t[first, i] = a
    assert np.array_equal(ms.build(program)(a), t + t[first, i][:, None])


def test_loads_on_a_diagonal_keep_their_masks() -> None:
    text = TEXT.format(at="i, i", read="j, j", how="vectorize")
    program = ms.parse(text).space("s").attempt(0).program
    a = np.arange(1, 14, dtype=np.float32)
    assert np.array_equal(ms.build(program)(a), np.diag(a) + a[None, :])
