"""The default schedule for CPUs copies an operand that many tiles share: such copies lie in order and are aligned."""

import pytest
from msgspec.structs import replace

from mslang.schedule.rules.default_cpu import default_schedule
from mslang.sema.program import parse_program
from mslang.target.description import AVX2
from mslang.tune.equivalence import difference

GEMM = """program gemm(A: f32[{m}, 12], B: f32[12, {n}], out C: f32[{m}, {n}]) {{
    block mm[i: {m}, j: {n} | k: 12] {{ C[i, j] += A[i, k] * B[k, j] }}
}}"""
TRANSPOSED = """program linear(A: f32[{m}, 16], B: f32[{n}, 16], out C: f32[{m}, {n}]) {{
    block mm[i: {m}, j: {n} | k: 16] {{ C[i, j] += A[i, k] * B[j, k] }}
}}"""
BATCHED = """program bmm(A: f32[{b}, 37, 9], B: f32[{b}, 9, 56], out C: f32[{b}, 37, 56]) {{
    block mm[b: {b}, i: 37, j: 56 | k: 9] {{ C[b, i, j] += A[b, i, k] * B[b, k, j] }}
}}"""
CONVOLUTION = """program conv(X: f32[{h}, 7, 3], F: f32[3, 3, 20], out Y: f32[{h}, 5, 20]) {{
    block conv[h: {h}, w: 5, co: 20 | s: 3, ci: 3] {{ Y[h, w, co] += X[h, w + s, ci] * F[s, ci, co] }}
}}"""

PANEL = "B_global.compute_at(j0)"
"""A part of the operand for each iteration over tiles of columns."""

WHOLE = "_global.transform_layout("
"""The operand in panels of one vector, in front of the product."""


@pytest.mark.parametrize(
    ("text", "copied"),
    [
        pytest.param(GEMM.format(m=48, n=400), PANEL, id="wide"),
        pytest.param(GEMM.format(m=48, n=37), WHOLE, id="narrow: a loop over its columns gives no core enough to do"),
        pytest.param(GEMM.format(m=8, n=400), None, id="few rows"),
        pytest.param(TRANSPOSED.format(m=48, n=400), WHOLE, id="transposed: a panel would be gathered"),
        pytest.param(TRANSPOSED.format(m=2, n=37), WHOLE, id="transposed, few rows: each of them would gather"),
        pytest.param(BATCHED.format(b=4), PANEL, id="batched: panels of a batch within it"),
        pytest.param(BATCHED.format(b=1), WHOLE, id="a batch of one"),
        pytest.param(CONVOLUTION.format(h=9), WHOLE, id="convolution: all images and rows share the filter"),
        pytest.param(CONVOLUTION.format(h=1), None, id="one row"),
    ],
)
def test_an_operand_that_many_tiles_share_is_copied(text: str, copied: str | None) -> None:
    program = parse_program(text)
    found = default_schedule(program, AVX2)
    made = found.trace.as_ms("s")
    assert [x for x in (PANEL, WHOLE) if x in made] == ([] if copied is None else [copied])
    assert copied is not None or "cache_read" not in made
    assert difference(program, found.program, 1e-4, 1e-4, 0) is None


@pytest.mark.parametrize("registers", [1, 2, 3])
def test_with_hardly_any_registers_a_tile_is_one_vector(registers: int) -> None:
    program = parse_program(GEMM.format(m=8, n=40))
    found = default_schedule(program, replace(AVX2, registers=registers))
    assert difference(program, found.program, 1e-4, 1e-4, 0) is None


def test_a_transposed_operand_is_turned_in_registers() -> None:
    program = parse_program(TRANSPOSED.format(m=48, n=400))
    assert "tensorize(std.cpu.transpose.transpose_8x8)" in default_schedule(program, AVX2).trace.as_ms("s")
