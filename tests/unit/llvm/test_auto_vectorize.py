"""Serial loops become lanes where a program allows LLVM to vectorize."""

from __future__ import annotations

import numpy as np
import pytest
from msgspec.structs import replace

from mslang.backend.llvm.compile import compile
from mslang.kernel.nodes import AUTO_VECTORIZE
from mslang.lower.passes import lower
from mslang.sema.program import parse_program
from mslang.target.description import Target
from tests.unit.llvm.support import executable, run


def test_llvm_vectorizes_only_on_request():
    p = parse_program("program p(A: f32[64], out B: f32[64]) { block b[i: 64] { B[i] = A[i] * 2.0 } }")
    free = replace(p, annotations=((AUTO_VECTORIZE, True),))
    assert executable(p).assembly != executable(free).assembly
    a = np.arange(64, dtype=np.float32)
    np.testing.assert_array_equal(run(free, a), a * 2)


@pytest.mark.parametrize(("cpu", "gathers"), [("skylake-avx512", True), ("znver4", False)])
def test_llvm_gathers_only_where_that_is_quick(cpu: str, gathers: bool) -> None:
    p = parse_program("program p(A: f32[64, 64], out B: f32[64]) { block b[i: 64] { B[i] = A[i, 3] * 2.0 } }")
    target = Target("other", "cpu", "x86_64-unknown-linux-gnu", cpu, vector_bits=512)
    free = lower(replace(p, annotations=((AUTO_VECTORIZE, True),)), target)
    assert ("vgather" in compile(free, target).assembly) is gathers


@pytest.mark.parametrize(("dtype", "fused"), [("f32", True), ("f64", True), ("f16", False), ("i32", False)])
def test_a_product_and_a_sum_are_one_operation_for_llvm_to_vectorize(dtype: str, fused: bool) -> None:
    p = parse_program(
        f"program p(A: {dtype}[64], B: {dtype}[64], inout C: {dtype}[64]) {{"
        " for i in 64 @ vectorized { block b[vi: 64 = i] { C[vi] = C[vi] + A[vi] * B[vi] } } }"
    )
    free = replace(p, annotations=((AUTO_VECTORIZE, True),))
    assert "@llvm.fmuladd" not in executable(p).llvm
    assert ("@llvm.fmuladd" in executable(free).llvm) is fused
    a, b, c = (np.arange(64).astype(d) % k for d, k in zip([_NUMPY[dtype]] * 3, (5, 7, 3), strict=True))
    expected = c + a * b
    np.testing.assert_array_equal(run(free, a, b, c), expected)


_NUMPY = {"f32": np.float32, "f64": np.float64, "f16": np.float16, "i32": np.int32}
