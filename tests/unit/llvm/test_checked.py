"""Builds that check every access: the first one out of bounds is an error with the index, the buffer and the axes."""

from __future__ import annotations

import numpy as np
import pytest

import mslang as ms
from mslang.diagnostics import Diagnostic, MsError
from mslang.ir.access_bounds import provably_inside

GATHER = """
program g[N = 64](idx: i32[N], t: f32[N], out y: f32[N]) {
    block b[i: N] { y[i] = t[idx[i] * 1000000] }
}
schedule lanes for g { b.i.vectorize() }
schedule threads for g { b.i.parallel() }
schedule tiles for g { let o, n = b.i.split([8, 8]) n.unroll() }
"""

CSR = """
program spmv[N = 16, NNZ = 64](ptr: i32[N + 1], col: i32[NNZ], val: f32[NNZ], x: f32[N], out y: f32[N]) {
    for i in N {
        block zero[ii: N = i] { y[ii] = 0.0 }
        for p in ptr[i]..ptr[i + 1] {
            block acc[ii: N = i | pp: NNZ = p] { init {} y[ii] += val[pp] * x[col[pp]] }
        }
    }
}
"""


def refused(kernel: object, *arrays: np.ndarray) -> Diagnostic:
    assert callable(kernel)
    with pytest.raises(MsError) as caught:
        kernel(*arrays)
    return caught.value.diagnostic


@pytest.mark.parametrize("schedule", [None, "lanes", "threads", "tiles"])
def test_a_gather_out_of_bounds_is_named(schedule: str | None):
    source = ms.parse(GATHER)
    program = source.program() if schedule is None else source.space(schedule).sample(0).program
    idx = np.zeros(64, np.int32)
    idx[13] = 5
    found = refused(ms.build(program, checked=True), idx, np.zeros(64, np.float32))
    assert found.code == "MS415"
    assert found.message == "t is accessed at 5000000 in dimension 0, which has 64 elements"
    assert [n.message for n in found.notes] == ["in block `b` at i = 13"]


def test_row_pointers_that_go_too_far_are_named_with_both_axes():
    kernel = ms.build(ms.parse_program(CSR), checked=True)
    pointers, val = np.arange(17, dtype=np.int32) * 5, np.ones(64, np.float32)
    found = refused(kernel, pointers, np.zeros(64, np.int32), val, np.ones(16, np.float32))
    assert found.message == "val is accessed at 64 in dimension 0, which has 64 elements"
    assert [n.message for n in found.notes] == ["in block `acc` at ii = 12, pp = 64"]
    good = np.arange(17, dtype=np.int32) * 4
    assert (kernel(good, np.zeros(64, np.int32), val, np.ones(16, np.float32)) == 4).all()


def test_buffers_of_a_checked_build_keep_their_shape_so_that_the_index_is_the_program_s():
    text = """
    program p(A: f32[8, 8], idx: i32[8], out C: f32[8, 8]) {
        alloc t: f32[8, 8]
        for i in 8 {
            block a[x: 8 = i, j: 8] { t[x, j] = A[x, j] }
            block b[x: 8 = i, j: 8] { C[x, j] = t[x, idx[j]] }
        }
    }
    """
    found = refused(
        ms.build(ms.parse_program(text), checked=True), np.zeros((8, 8), np.float32), np.full(8, 9, np.int32)
    )
    assert found.message == "t is accessed at 9 in dimension 1, which has 8 elements"


def test_buffers_of_a_checked_build_have_no_versions():
    text = """
    program p(far: i32[1], A: f32[64], out B: f32[64]) {
        alloc T: f32[64]
        for k in 8 @ serial("pipeline.stages" = 2) {
            for a in 8 { block s[x: 64 = k * 8 + a] { T[x] = A[x] } }
            for b in 8 { block t[y: 64 = k * 8 + b] { reads T[y], far[0]  B[y] = T[y + i64(far[0])] } }
        }
    }
    """
    found = refused(ms.build(ms.parse_program(text), checked=True), np.array([60], np.int32), np.ones(64, np.float32))
    assert found.message == "T is accessed at 64 in dimension 0, which has 64 elements"


@pytest.mark.parametrize(
    ("text", "inside"),
    [
        ("program p(A: f32[8], out C: f32[8]) { block b[i: 8] { C[i] = A[7 - i] } }", True),
        ("program p[N: dyn(1..9)](A: f32[N], out C: f32[N]) { block b[i: N] { C[i] = A[N - 1 - i] } }", True),
        ("program p(A: f32[8], inout C: f32[8]) { block b[i: 8] { where i < 7 C[i] = A[i + 1] } }", True),
        ("program p(A: f32[8], out C: f32[8]) { block b[i: 8] { C[i] = select(i > 0, A[i - 1], 0.0) } }", True),
        ("program p(A: f32[8], k: i32[8], out C: f32[8]) { block b[i: 8] { C[i] = A[k[i]] } }", False),
        ("program p(A: f32[8], k: i32[8], inout C: f32[8]) { block b[i: 8] { C[k[i]] = A[i] } }", False),
    ],
)
def test_what_is_provably_inside_needs_no_checked_run(text: str, inside: bool):
    assert provably_inside(ms.parse_program(text)) is inside


def test_a_built_program_that_is_provably_out_of_bounds_is_refused():
    text = """
    program p(A: f32[8], inout C: f32[8]) {
        for i in 0..8 {
            block b[x: 8 = i] { C[x] = A[x + 100000] }
        }
    }
    """
    with pytest.raises(MsError) as caught:
        ms.build(ms.parse_program(text))
    assert caught.value.diagnostic.code == "MS118"
    assert caught.value.diagnostic.why == "index 0 is 100000 at i = 0, of 8 elements"
