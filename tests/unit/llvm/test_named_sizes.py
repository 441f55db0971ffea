"""Dynamic sizes that a call names: those that no array has as a dimension, and any other."""

from __future__ import annotations

import numpy as np
import pytest

import mslang as ms
from mslang.diagnostics import MsError

WINDOW = """program window[M: dyn(1..9)](A: f32[16], out C: f32[16]) {
    block b[i: 16 | k: M] { C[i] += A[min(i + k, 15)] }
}"""

ROWS = """program rows[M: dyn(1..9, multiple = 3)](A: f32[M, 4], out C: f32[M, 4]) {
    block b[i: M, j: 4] { C[i, j] = A[i, j] * 2.0 }
}"""


@pytest.mark.parametrize("back_end", ["llvm", "reference"])
def test_a_size_that_no_array_has_is_given_by_its_name(back_end: str):
    kernel = ms.build(ms.parse(WINDOW).program(), backend=back_end)
    a = np.arange(16, dtype=np.float32)
    for m in (1, 3, 9, np.int64(5)):
        wanted = sum(a[np.minimum(np.arange(16) + k, 15)] for k in range(m))
        assert (kernel(a, M=m) == wanted).all()
    bound = kernel.bind(a, M=2)
    bound.run()
    with pytest.raises(MsError, match=r"(?s)MS412.*M cannot be inferred.*by name: `M=…`"):
        kernel(a)


def test_a_named_size_agrees_with_the_arrays_and_its_range():
    kernel, a = ms.build(ms.parse(ROWS).program()), np.ones((6, 4), np.float32)
    assert (kernel(a, M=6) == 2.0).all() and (kernel(A=a, M=6) == 2.0).all()
    for given, message in (
        ({"M": 3}, "A has M = 6, the call says M = 3"),
        ({"M": 12}, "A has M = 6, the call says M = 12"),
        ({"M": 6.0}, "M = 6.0 is not a whole number"),
        ({"M": True}, "M = True is not a whole number"),
        ({"K": 6}, "rows has no parameter K"),
    ):
        with pytest.raises(MsError, match=message):
            kernel(a, **given)
    window = ms.build(ms.parse(WINDOW).program())
    with pytest.raises(MsError, match="M = 10 is outside of its range"):
        window(np.zeros(16, np.float32), M=10)


def test_a_kernel_of_buckets_takes_sizes_by_name(tmp_path):
    (applied,) = ms.apply(ms.parse(WINDOW), ["default"], database=tmp_path / "none.db")
    a = np.arange(16, dtype=np.float32)
    assert ms.build(applied)(a, M=1).tolist() == a.tolist()
    assert ms.build(applied)(a, M=1, threads=1).tolist() == a.tolist()


@pytest.mark.parametrize("name", ["mask", "l_vector", "M"])
def test_a_size_keeps_its_value_whatever_passes_call_their_own(name: str) -> None:
    """`let mask = …`, made for lanes that must not act, hid the size `mask`."""
    params = f"A: i32[{name}, 37], T: i32[37], inout B: i32[{name}, 37]"
    program = ms.parse_program(f"""program p[{name}: dyn(1..64)]({params}) {{
        for r in 0..{name} {{ for l in 0..37 @ vectorized {{
            block d[x: {name} = r, i: 37 = l] {{ if T[i] > 0 {{ B[x, i] = A[{name} - 1 - x, i] }} }}
        }} }}
    }}""")
    rng = np.random.default_rng(0)
    a, t = rng.integers(0, 99, (15, 37), np.int32), rng.integers(-2, 3, 37, np.int32)
    b = np.zeros((15, 37), np.int32)
    ms.build(program)(a, t, b)
    assert np.array_equal(b, np.where(t > 0, a[::-1], 0))
