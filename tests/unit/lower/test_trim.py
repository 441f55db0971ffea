"""Loops without the iterations that do nothing."""

from __future__ import annotations

import numpy as np
import pytest

import mslang as ms
from mslang.backend.reference.interpret import run
from mslang.ir.program import Program
from mslang.lower.trim import iterations, trimmed
from mslang.sema.program import parse_program

GEMM = """program gemm[M = 6, N = 7, K = 5](A: f32[M, K], B: f32[K, N], out C: f32[M, N]) {
    block mm[i: M, j: N | k: K] { C[i, j] += A[i, k] * B[k, j] }
}
schedule s for gemm {
    let i0, i1, i2 = mm.i.split([16, 8, 4])
    let j0, j1 = mm.j.split([32, 64])
    let k0, k1 = mm.k.split([128, 4])
    reorder(i0, j0, i1, k0, i2, j1, k1)
}"""


def same(p: Program, q: Program) -> bool:
    random = np.random.default_rng(0)
    arrays = {
        x.buffer.name: random.integers(-3, 4, tuple(int(n.value) for n in x.buffer.shape)).astype(np.float32)  # type: ignore[attr-defined]
        for x in p.params
        if x.direction == "in"
    }
    left, right = run(p, arrays), run(q, arrays)
    return all(np.array_equal(left[n], right[n]) for n in left)


def test_a_tiling_larger_than_its_dimensions_is_cut_to_them() -> None:
    m = ms.parse(GEMM)
    scheduled = m.space("s").sample(0).program
    assert iterations(scheduled) == 512 * 2048 * 512
    cut = trimmed(scheduled)
    assert iterations(cut) == 2 * 4 * 7 * 2 * 4
    assert same(m.program(), cut)


@pytest.mark.parametrize(
    ("body", "count"),
    [
        ("for i in 100 { block b[x: 100 = i] { where x < 7 B[x] = A[x] } }", 7),
        ("for i in 4..100 { block b[x: 100 = i] { where 2 * x + 1 < 20 B[x] = A[x] } }", 6),
        ("for i in 10, j in 10 { block b[x: 100 = i * 10 + j] { where i * 10 + j <= 25 B[x] = A[x] } }", 30),
        ("for i in 100 { block b[x: 100 = i] { where 50 < x B[x] = A[x] } }", 100),
        ("for i in 100 { block b[x: 100 = i] { where x < 7 B[x] = A[x] } block c[x: 100 = i] { C[x] = A[x] } }", 200),
        (
            "for i in 9 { block b[x: 9 = i] { where x < 4 B[x] = A[x] } block c[y: 9 = i] { where y < 5 C[y] = 1.0 } }",
            10,
        ),
        ("for i in 100 @ vectorized { block b[x: 100 = i] { where x < 7 B[x] = A[x] } }", 100),
        ("for i in 10, j in 10 { block b[x: 10 = i] { where A[x] < 3.0 and j < 1 B[x] = A[x] } }", 10),
    ],
)
def test_what_is_left(body: str, count: int) -> None:
    p = parse_program(f"program p(A: f32[100], inout B: f32[100], inout C: f32[100]) {{ {body} }}")
    cut = trimmed(p)
    assert iterations(cut) == count
    arrays = {n: np.arange(100, dtype=np.float32) for n in "ABC"}
    left, right = run(p, arrays, check=False), run(cut, arrays, check=False)
    assert all(np.array_equal(left[n], right[n]) for n in left)


def test_dynamic_loops_are_not_counted() -> None:
    p = parse_program("program p[N: dyn(1..9)](A: f32[N], out B: f32[N]) { block b[i: N] { B[i] = A[i] } }")
    assert iterations(p) is None and trimmed(p) == p
