"""The default schedule for CPUs of products of dynamic sizes: a tile in registers, right for every size."""

from __future__ import annotations

import numpy as np
import pytest
from msgspec.structs import replace

import mslang as ms
from mslang.backend.llvm.compile import compile
from mslang.backend.reference import interpret
from mslang.ir.buckets import at_sizes
from mslang.lower.passes import lower
from mslang.schedule.rules.default_cpu import default_schedule
from mslang.sema.program import parse_program
from mslang.target.description import AVX2, AVX512, Target
from mslang.target.detect import host
from mslang.tune.verification import make_inputs
from tests.unit.llvm.test_inner_loops import VECTOR_PRODUCT, inner_loops

PRODUCT = """program p[{sizes}](A: {a}[M, K], B: {b}[{right}], out C: {c}[M, N]) {{
    block mm[i: M, j: N | k: K] {{ C[i, j] += {c}(A[i, k]) * {c}(B[{at}]) }}
}}"""
BATCHED = """program p[M: dyn(1..40)](A: f32[M, 9, 12], B: f32[M, 12, 200], out C: f32[M, 9, 200]) {
    block mm[b: M, i: 9, j: 200 | k: 12] { C[b, i, j] += A[b, i, k] * B[b, k, j] }
}"""
RELU = """program p[M: dyn(1..40)](A: f32[M, 12], B: f32[12, 200], out C: f32[M, 200]) {
    alloc T: f32[M, 200]
    block mm[i: M, j: 200 | k: 12] { T[i, j] += A[i, k] * B[k, j] }
    block relu[i: M, j: 200] { C[i, j] = max(T[i, j], 0.0) }
}"""
CONVOLUTION = """program p[M: dyn(1..9)](X: f32[M, 12, 8], F: f32[3, 8, 40], out Y: f32[M, 10, 40]) {
    block conv[n: M, w: 10, co: 40 | s: 3, ci: 8] { Y[n, w, co] += X[n, w + s, ci] * F[s, ci, co] }
}"""


def product(sizes: str, *, transposed: bool = False, dtypes: tuple[str, str, str] = ("f32", "f32", "f32")) -> str:
    a, b, c = dtypes
    right, at = ("N, K", "j, k") if transposed else ("K, N", "k, j")
    return PRODUCT.format(sizes=sizes, a=a, b=b, c=c, right=right, at=at)


ROWS = "M: dyn(1..40), N = 200, K = 12"
SHAPES: dict[str, tuple[str, list[dict[str, int]]]] = {
    "rows": (product(ROWS), [{"M": m} for m in (1, 5, 6, 7, 13, 40)]),
    "rows without a greatest": (product("M: dyn, N = 200, K = 12"), [{"M": m} for m in (1, 13, 100)]),
    "few columns": (product("M: dyn(1..40), N = 20, K = 12"), [{"M": m} for m in (1, 9, 40)]),
    "transposed": (product("M: dyn(1..40), N = 48, K = 32", transposed=True), [{"M": m} for m in (1, 9, 40)]),
    "columns": (product("M = 19, N: dyn(1..300), K = 12"), [{"N": n} for n in (1, 15, 16, 64, 65, 300)]),
    "reduction": (product("M = 19, N = 80, K: dyn(1..40)"), [{"K": k} for k in (1, 7, 40)]),
    "all": (
        product("M: dyn(1..40), N: dyn(1..300), K: dyn(1..40)"),
        [{"M": 1, "N": 1, "K": 1}, {"M": 13, "N": 77, "K": 5}, {"M": 40, "N": 300, "K": 40}],
    ),
    "bytes": (product(ROWS, dtypes=("u8", "i8", "i32")), [{"M": m} for m in (1, 13)]),
    "batch": (BATCHED, [{"M": m} for m in (1, 13)]),
    "with what follows": (RELU, [{"M": m} for m in (1, 13, 40)]),
    "convolution": (CONVOLUTION, [{"M": m} for m in (1, 9)]),
}


@pytest.mark.one_in(2)
@pytest.mark.parametrize("cores", [1, 32])
@pytest.mark.parametrize("name", SHAPES)
def test_a_tile_in_registers_is_right_for_every_size(name: str, cores: int) -> None:
    text, calls = SHAPES[name]
    program = parse_program(text)
    found = default_schedule(program, replace(host(), cores=cores))
    steps = found.trace.as_ms("s")
    assert "local)" in steps and ".unroll()" in steps and ".vectorize()" in steps and ".parallel()" in steps
    kernel = ms.build(found)
    for at in calls:
        exact = at_sizes(program, at)
        arrays = make_inputs(exact, "dense", 0)
        (expected,) = interpret.run(exact, arrays).values()
        np.testing.assert_allclose(kernel(**arrays), expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(("target", "rows", "vectors"), [(AVX512, 6, 4), (AVX2, 4, 3)], ids=["avx512", "avx2"])
@pytest.mark.parametrize("parallel", ["columns", "rows"])
def test_tiles_and_their_remainders_have_no_branch(target: Target, rows: int, vectors: int, parallel: str) -> None:
    """As many nests as a tile has rows, also one for a single row, each with a loop of products alone."""
    n = 16 * 24 * (8 if parallel == "columns" else 1)
    program = parse_program(product(f"M: dyn(1..4096), N = {n}, K = 512"))
    found = default_schedule(program, replace(target, cores=2 if parallel == "columns" else 32)).program
    loops = inner_loops(compile(lower(found, target), target).assembly)
    counts = set()
    for body in loops:
        products = sum(bool(VECTOR_PRODUCT.match(i)) for i in body)
        if products:
            counts.add(products)
            assert not [i for i in body if i.startswith("j")][1:], "no branch"
            assert not [i for i in body if "{%k" in i], "no mask"
            assert not [i for i in body if "(%rsp" in i], "no access to the stack"
    # LLVM unrolls short loops once more, or the schedule does.
    assert any(counts == {k * r * vectors for r in range(1, rows + 1)} for k in (1, 2, 4)), counts


@pytest.mark.parametrize(
    ("sizes", "cores", "parallel"),
    [
        ("M: dyn(1..4096), N = 1024, K = 512", 2, "j0"),
        ("M: dyn(1..4096), N = 64, K = 512", 2, "i0"),
        ("M: dyn(1..8), N = 256, K = 512", 64, "j0"),
        ("M: dyn(1..4096), N = 256, K = 512", 64, "i0"),
        ("M = 4096, N: dyn(1..1024), K = 512", 2, "j0"),
    ],
)
def test_the_loop_with_work_for_all_cores_is_parallel(sizes: str, cores: int, parallel: str) -> None:
    """An axis of dynamic extent may have one iteration; one of few others has never more."""
    found = default_schedule(parse_program(product(sizes)), replace(AVX512, cores=cores))
    assert f"    {parallel}.parallel()" in found.trace.as_ms("s")
