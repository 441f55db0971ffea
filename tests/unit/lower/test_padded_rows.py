"""Rows on the stack that are as long as vectors: what their tails need no mask for, and what does."""

from __future__ import annotations

import numpy as np
import pytest

import mslang as ms
from mslang.ir.dtype import size_of
from mslang.ir.expr import Const
from mslang.kernel.nodes import Allocate, Store
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


PRODUCT = """
program p(A: {dtype}[9, 11], B: {dtype}[11, {n}], out C: {dtype}[9, {n}]) {{
    block mm[i: 9, j: {n} | k: 11] {{ C[i, j] += A[i, k] * B[k, j] }}
}}
schedule s for p {{
    let i0, i1 = mm.i.split([_, 4])
    reorder(i0, mm.k, i1, mm.j)
    let tile = mm.cache_write(C, scope = local)
    tile.reverse_compute_at(i0)
    mm.j.vectorize()
    i1.unroll()
    mm.decompose_reduction(mm.k)
}}
"""


NUMPY = {"f32": np.float32, "f64": np.float64, "i32": np.int32, "i8": np.int8}


@pytest.mark.parametrize("dtype", NUMPY)
@pytest.mark.parametrize("n", [1, 2, 3, 5, 6, 7, 9, 13])
def test_rows_shorter_than_a_vector_are_padded(n: int, dtype: str) -> None:
    program = ms.parse(PRODUCT.format(n=n, dtype=dtype)).space("s").attempt(0).program
    rows = [s.buffer for s in walk(lower(program, AVX512).body) if isinstance(s, Allocate)]
    whole = 64 // size_of(dtype)
    room = min(x for x in (1, 2, 4, 8, 16, 32, 64) if x >= n) if n <= whole else -(-n // whole) * whole
    assert {b.shape[-1] for b in rows if b.scope == "local"} == {Const(room)}
    numbers = np.random.default_rng(n).integers(-3, 4, (9 + n, 11)).astype(NUMPY[dtype])
    a, b = numbers[:9], np.ascontiguousarray(numbers[9:].T)
    np.testing.assert_array_equal(ms.build(program)(a, b), a @ b)
