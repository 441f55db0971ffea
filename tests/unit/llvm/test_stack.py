"""Buffers on the stack: however often a loop's body is written out, they take little of it."""

import re

import numpy as np

import mslang as ms
from mslang.backend.llvm.compile import compile
from mslang.lower.passes import lower
from mslang.lower.registers import STACK_BYTES
from mslang.sema.program import parse_program
from mslang.target.description import AVX512

ROWS = parse_program("""program p(A: f32[40, 4000], out B: f32[40]) {
    alloc t: f32[40, 4000] @ local
    alloc sums: f32[40] @ local
    for k in 0..40 {
        for e in 0..4000 { block f[x: 40 = k, y: 4000 = e] { t[x, y] = A[x, y] * 2.0 } }
        for e in 0..4000 { block s[x: 40 = k | y: 4000 = e] { sums[x] += t[x, y] } }
    }
    for k in 0..40 { block c[x: 40 = k] { B[x] = sums[x] } }
}""")
"""The loop over rows is written out, since `sums` is in registers; each copy has a row of `t`."""


def test_copies_of_a_body_share_what_is_no_register() -> None:
    made = compile(lower(ROWS, AVX512), AVX512)
    arrays = [int(m[1]) for m in re.finditer(r"alloca \[(\d+) x float\]", made.llvm)]
    assert arrays.count(4000) == 1
    assert 4 * sum(arrays) <= STACK_BYTES
    a = np.random.default_rng(0).random((40, 4000), np.float32)
    assert np.allclose(ms.build(ROWS)(a), 2 * a.sum(axis=1), rtol=1e-4)
