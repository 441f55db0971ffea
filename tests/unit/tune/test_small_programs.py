"""The sizes on which programs are verified."""

from __future__ import annotations

import pytest

from mslang.backend.reference.interpret import run
from mslang.diagnostics import MsError
from mslang.sema.modules import load
from mslang.sema.program import instantiate
from mslang.tune.equivalence import TooLong, difference
from mslang.tune.generated import generated_tests
from mslang.tune.reference import small_program
from mslang.tune.verification import DENSE, SPARSE, make_inputs

HISTOGRAM = """program histogram[N = 4096, B = 256](x: u8[N], out h: i32[B]) {{
    block clear[b: B] {{ h[b] = 0 }}
    block count[n: N @ opaque] {{ h[{index}] = h[{index}] + 1 }}
}}
schedule s for histogram {{ clear.b.vectorize() }}
"""


def shapes(text: str, name: str) -> dict[str, tuple[int, ...]]:
    small = small_program(load("main.ms", text), name, {})
    assert small is not None
    return {p.buffer.name: tuple(n.value for n in p.buffer.shape) for p in small.params}  # type: ignore[attr-defined]


def test_values_that_index_stay_within_the_cut_size() -> None:
    text = HISTOGRAM.format(index="i32(x[n])")
    assert shapes(text, "histogram") == {"x": (6,), "h": (6,)}
    small = small_program(load("main.ms", text), "histogram", {})
    assert small is not None
    for kind in (SPARSE, DENSE):
        run(small, make_inputs(small, kind, 3))


def test_a_size_that_computed_values_index_is_not_cut() -> None:
    text = HISTOGRAM.format(index="i32(x[n]) // 2 + 3")
    assert shapes(text, "histogram") == {"x": (6,), "h": (256,)}
    (result,) = generated_tests(load("main.ms", text), 1)
    assert result.passed


def test_consts_are_cut_too_and_what_cannot_be_stays() -> None:
    text = """const SIDE = 4096
program p[N = SIDE, M = 64](A: f32[N, M], out B: f32[N, 2 * (M - 50)]) { block b[i: N, j: 28] { B[i, j] = A[i, j] } }
"""
    assert shapes(text, "p")["A"] == (6, 64)


LONG = """program matmul[M = 8192, N = 8192, K = 2048](A: f32[M, K], B: f32[K, N], out C: f32[M, N]) {
    block mm[i: M, j: N | k: K] { C[i, j] += A[i, k] * B[k, j] }
}
schedule manual for matmul {
    let i_0, i_1, i_2, i_3 = mm.i.split([16, 8, 8, 8])
    let j_0, j_1, j_2, j_3 = mm.j.split([16, 8, 8, 8])
    let k_0, k_1 = mm.k.split([256, 8])
    reorder(i_0, j_0, i_1, j_1, k_0, i_2, j_2, k_1, i_3, j_3)
}
"""


def test_factors_written_for_real_sizes_are_run_on_small_ones() -> None:
    (result,) = generated_tests(load("main.ms", LONG), 1)
    assert result.passed and result.checks == 1


def test_what_is_too_long_says_so() -> None:
    text = """program scale[N = 4096](A: f32[N], out B: f32[N]) { block b[i: N] { B[i] = A[i] * 2.0 } }
program many(A: f32[1], out B: f32[1]) {
    for i in 1000000, j in 1000000 { block b[x: 1 @ opaque = 0] { where i + j >= 0 B[x] = A[x] } }
}"""
    module = load("main.ms", text)
    program = instantiate(module, "many", {})
    with pytest.raises(TooLong) as error:
        difference(program, program, 1e-4, 1e-5, 0)
    assert isinstance(error.value, MsError) and error.value.diagnostic.code == "MS130"


@pytest.mark.parametrize("value", ["A[i, j] + 1.0", "A[j, i]"])
def test_sizes_that_are_numbers_cannot_be_cut_and_large_ones_are_not_interpreted(value: str) -> None:
    text = "program p(A: f32[N, N], out B: f32[N, N]) { block b[i: N, j: N] { B[i, j] = VALUE } }".replace(
        "VALUE", value
    )
    assert shapes(text.replace("N", "64"), "p") == {"A": (64, 64), "B": (64, 64)}
    assert small_program(load("main.ms", text.replace("N", "2048")), "p", {}) is None
