"""Vector loops over dimensions whose stride is known only at the call, or is data: gathers and scatters."""

from __future__ import annotations

import numpy as np
import pytest

import mslang as ms
from mslang.runtime.kernel import LoadedKernel

TEXT = """
program copy[N: dyn(1..40)](A: f32[8, N], out B: f32[8, N]) { block b[i: 8, j: N] { B[i, j] = A[i, j] * 2.0 } }
schedule down for copy { b.i.vectorize() }

program mirrored[N: dyn(1..40)](A: f32[8, N], idx: i32[8], out B: f32[8, N]) {
    block b[i: 8, j: N] { B[7 - i, j] = A[idx[i], N - 1 - j] }
}
schedule mirror for mirrored { b.i.vectorize() }

program guarded[N: dyn(1..40)](A: f32[11, N], mask: i32[11], out B: f32[11, N]) {
    block b[i: 11, j: N] { B[i, j] = select(mask[i] > 0, A[i, j], 0.0) }
}
schedule guard for guarded { b.i.vectorize() }

program counted(A: f32[8, 4], mask: i32[8], len: i32[1], out B: f32[8]) {
    block b[i: 8] {
        reads B[i], A[i, 0..4], mask[i], len[0]
        writes B[i]
        B[i] = 0.0
        if mask[i] > 0 { for k in 0..len[0] { B[i] += A[i, k] } }
    }
}
schedule count for counted { b.i.vectorize() }
"""


def kernel(schedule: str) -> LoadedKernel:
    return ms.build(ms.parse(TEXT).space(schedule).sample(0).program)


@pytest.mark.parametrize("n", [1, 5, 40])
def test_a_vector_down_a_column_of_dynamic_stride(n: int):
    a = np.random.default_rng(n).random((8, n), np.float32)
    assert (kernel("down")(a) == 2 * a).all()


@pytest.mark.parametrize("n", [1, 5, 40])
def test_reversed_and_gathered_rows_of_dynamic_stride(n: int):
    a, idx = np.random.default_rng(n).random((8, n), np.float32), np.array([3, 1, 0, 7, 6, 2, 2, 5], np.int32)
    assert (kernel("mirror")(a, idx) == a[idx][::-1, ::-1]).all()


@pytest.mark.parametrize("n", [1, 7])
def test_masked_lanes_of_dynamic_stride(n: int):
    a, mask = np.random.default_rng(n).random((11, n), np.float32), np.arange(11, dtype=np.int32) % 3
    assert (kernel("guard")(a, mask) == np.where(mask[:, None] > 0, a, 0)).all()


def test_a_loop_of_loaded_length_under_a_condition_is_run_lane_by_lane():
    a, mask = np.ones((8, 4), np.float32), np.arange(8, dtype=np.int32) % 2
    assert (kernel("count")(a, mask, np.array([3], np.int32)) == 3 * mask).all()


UNIFORM = """
program turned(X: i32[4], inout U: i32[7]) {
    for l in 7 { block m[i: 7 = 6 - l] { where X[min(i, 3)] <= 1 U[i] = 1 } }
}
schedule of_two for turned {
    let _, wide, pair = m.i.split([_, 9, 2])
    pair.vectorize()
    let copy = m.reindex_cache_write(U, local, fn (p) -> [p + 1])
    copy.annotate_buffer_access(m.writes()[0], read, fn (i) -> [i + 1 .. i + 2])
    reorder(pair, wide)
}
"""


def test_a_mask_that_is_the_same_in_all_lanes_of_a_scatter():
    x, u = np.array([1, 2, 0, 1], np.int32), np.arange(7, dtype=np.int32)
    wanted = np.where(x[np.minimum(np.arange(7), 3)] <= 1, 1, u)
    ms.build(ms.parse(UNIFORM).space("of_two").sample(0).program)(x, u)
    assert (u == wanted).all()


ONE_FLAG = """
program t(X: i16[8, 4], inout U: i16[8, 4], F: i32[2]) {
    for i in 8, j in 4, r in 8 {
        block b[i: 8 = i, j: 4 = j | r: 8 = r] {
            where X[7 - r, j] > 0 or X[i, j] > 1
            init { if F[1] > 0 { U[i, j] = 0 } }
            U[i, j] += 1
        }
    }
}

schedule lanes for t {
    b.reindex(F, access = read)
    b.i.vectorize()
}
"""


@pytest.mark.parametrize("flag", [0, 1])
def test_a_buffer_without_dimensions_is_read_whatever_the_mask(flag: int):
    rng = np.random.default_rng(0)
    x, f = rng.integers(-1, 3, (8, 4), np.int16), np.array([0, flag], np.int32)
    module = ms.parse(ONE_FLAG)
    plain, lanes = np.ones((8, 4), np.int16), np.ones((8, 4), np.int16)
    ms.build(module.program())(x, plain, f)
    ms.build(module.space("lanes"))(x, lanes, f)
    assert (plain == lanes).all() and (plain != 1).any()


SAME = """
program chosen(X: i32[4, 4], Y: i32[4, 4], out U: i32[6, 4]) {
    for l in 6, m in 4 { block a[x: 6 = l, y: 4 = m] {
        U[x, y] = select(y <= x, X[y, max(y - 1, 0)], Y[max(y - 1, 0), x // 2])
    } }
}
schedule by_two for chosen {
    let tiles, pair = a.y.split([2, 2])
    tiles.unroll()
    pair.vectorize()
}
"""


def test_an_index_that_is_the_same_in_all_lanes_of_a_masked_load() -> None:
    """Pair 39976 of `instances`, seed 33: the tile of `y` = 0 and 1 reads column 0 of `Y` alone."""
    rng = np.random.default_rng(0)
    x, y = (rng.integers(0, 99, (4, 4), dtype=np.int32) for _ in range(2))
    row, column = np.indices((6, 4))
    at = np.maximum(column - 1, 0)
    wanted = np.where(column <= row, x[column, at], y[at, row // 2])
    assert (ms.build(ms.parse(SAME).space("by_two").sample(0).program)(x, y) == wanted).all()
