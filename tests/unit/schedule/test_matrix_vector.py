"""A matrix times a vector on a CPU: rows are read once, along the reduction, so that vectors run along it."""

from __future__ import annotations

import numpy as np
import pytest

import mslang as ms
from mslang.ir.find import blocks_of
from mslang.ir.print import print_program
from mslang.schedule.rules.automatic import automatic_space
from mslang.schedule.rules.cpu.contraction import is_dot_of_rows
from mslang.sema.program import parse_program
from mslang.target.description import AVX2, AVX512, Target

PRODUCTS = {
    "row": ("A: f32[24, 100], x: f32[100], out y: f32[24]", "i: 24 | k: 100", "y[i] += A[i, k] * x[k]", True),
    "column": ("A: f32[100, 24], x: f32[100], out y: f32[24]", "i: 24 | k: 100", "y[i] += A[k, i] * x[k]", False),
    "batch": (
        "A: f32[3, 24, 100], x: f32[3, 100], out y: f32[3, 24]",
        "b: 3, i: 24 | k: 100",
        "y[b, i] += A[b, i, k] * x[b, k]",
        True,
    ),
    "matrix": (
        "A: f32[24, 64], B: f32[32, 64], out y: f32[24, 32]",
        "i: 24, j: 32 | k: 64",
        "y[i, j] += A[i, k] * B[j, k]",
        False,
    ),
    "window": ("A: f32[55], x: f32[32], out y: f32[24]", "i: 24 | k: 32", "y[i] += A[i + k] * x[k]", False),
    "short": ("A: f32[24, 8], x: f32[8], out y: f32[24]", "i: 24 | k: 8", "y[i] += A[i, k] * x[k]", False),
}
RELU = """program p(A: f32[24, 100], x: f32[100], bias: f32[24], out y: f32[24]) {
    alloc sums: f32[24]
    block mv[i: 24 | k: 100] { sums[i] += A[i, k] * x[k] }
    block relu[i: 24] { y[i] = max(sums[i] + bias[i], 0.0) }
}"""


def text_of(name: str) -> str:
    params, axes, statement, _ = PRODUCTS[name]
    return f"program p({params}) {{ block mv[{axes}] {{ {statement} }} }}"


@pytest.mark.parametrize("name", PRODUCTS)
def test_which_products_have_rows_that_are_read_once(name: str) -> None:
    program = parse_program(text_of(name))
    (block,) = blocks_of(program.body)
    assert is_dot_of_rows(program, block) == PRODUCTS[name][3]


@pytest.mark.parametrize("target", [AVX512, AVX2], ids=lambda t: t.name)
@pytest.mark.parametrize("text", [text_of("row"), text_of("batch"), RELU], ids=["row", "batch", "relu"])
def test_the_reduction_runs_along_vectors(text: str, target: Target) -> None:
    program = parse_program(text)
    sketches = list(automatic_space(program, target).sketches())
    assert sketches
    assert all(".k.vectorize(reduction = true)" in sketch.as_ms() for sketch in sketches)


@pytest.mark.parametrize("text", [text_of("row"), text_of("batch"), RELU], ids=["row", "batch", "relu"])
def test_it_computes_the_same(text: str) -> None:
    program = parse_program(text)
    random = np.random.default_rng(0)
    shapes = [tuple(int(n.value) for n in p.buffer.shape) for p in program.params if p.direction == "in"]  # type: ignore[attr-defined]
    arrays = [random.integers(-4, 5, shape).astype(np.float32) for shape in shapes]
    expected = ms.build(program, backend="reference")(*arrays)
    (served,) = ms.apply(program, ["default"])
    assert "in 100 @ vectorized" in print_program(served.program)
    for made in (served.program, *(automatic_space(program, ms.host()).sample(seed).program for seed in range(3))):
        assert (ms.build(made)(*arrays) == expected).all()
