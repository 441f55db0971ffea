"""Serial loops become lanes where a program allows LLVM to vectorize."""

from __future__ import annotations

import numpy as np
from msgspec.structs import replace

from mslang.kernel.nodes import AUTO_VECTORIZE
from mslang.sema.program import parse_program
from tests.unit.llvm.support import executable, run


def test_llvm_vectorizes_only_on_request():
    p = parse_program("program p(A: f32[64], out B: f32[64]) { block b[i: 64] { B[i] = A[i] * 2.0 } }")
    free = replace(p, annotations=((AUTO_VECTORIZE, True),))
    assert executable(p).assembly != executable(free).assembly
    a = np.arange(64, dtype=np.float32)
    np.testing.assert_array_equal(run(free, a), a * 2)
