"""The rule for matrix tiles (AMX): products of bytes and of bf16, in both orders, with what follows them."""

from __future__ import annotations

import numpy as np
import pytest
from msgspec.structs import replace

from mslang.api.kernels import build
from mslang.ir.find import all_buffers, blocks_of
from mslang.ir.program import Program
from mslang.resources import stdlib_folder
from mslang.schedule.rules.automatic import automatic_space
from mslang.schedule.rules.cpu.matrix_tiles import ORDERS
from mslang.schedule.sketch import Sketch
from mslang.sema.modules import load
from mslang.sema.program import instantiate, parse_program
from mslang.target.description import AVX512, Target
from mslang.target.detect import host
from tests.property.test_batches import check, check_summary
from tests.unit.equivalence import changed

AMX = replace(
    AVX512,
    name="amx",
    cpu="sapphirerapids",
    features=(*AVX512.features, "amx-tile", "amx-int8", "amx-bf16", "avx512vnni", "avx512bf16"),
)
PRODUCT = """program p[M = 32, N = 32, K = 128](A: {left}[M, K], {const} B: {right}[K, N], out C: {sums}[M, N]) {{
    block mm[i: M, j: N | k: K] {{ C[i, j] += {sums}(A[i, k]) * {sums}(B[k, j]) }}
}}"""
BATCHED = """program p[B = 2, M = 20, N = 40, K = 100](X: i8[B, M, K], Y: i8[B, K, N], out C: i32[B, M, N]) {
    block mm[b: B, i: M, j: N | k: K] { C[b, i, j] += i32(X[b, i, k]) * i32(Y[b, k, j]) }
}"""
CONVOLUTION = """program p(X: u8[4, 18, 64], F: i8[3, 3, 64, 32], out Y: i32[2, 16, 32]) {
    block conv[h: 2, w: 16, co: 32 | r: 3, s: 3, ci: 64] {
        Y[h, w, co] += i32(X[h + r, w + s, ci]) * i32(F[r, s, ci, co])
    }
}"""
BIASED = """program p[M = 40, N = 48, K = 64](A: bf16[M, K], B: bf16[K, N], bias: f32[N], out C: f32[M, N]) {
    alloc T: f32[M, N]
    block mm[i: M, j: N | k: K] { T[i, j] += f32(A[i, k]) * f32(B[k, j]) }
    block add[i: M, j: N] { C[i, j] = max(T[i, j] + bias[j], 0.0) }
}"""


def product(left: str, right: str, sums: str, sizes: str = "M = 32, N = 32, K = 128", const: str = "") -> Program:
    text = PRODUCT.format(left=left, right=right, sums=sums, const=const)
    return parse_program(text.replace("M = 32, N = 32, K = 128", sizes))


def sketches(program: Program, target: Target = AMX) -> list[Sketch]:
    return list(automatic_space(program, target).sketches())


def instructions(sketch: Sketch) -> set[str]:
    return {str(dict(b.annotations).get("intrin")) for b in blocks_of(sketch.program.body)}


def means_the_same(program: Program, sketch: Sketch, count: int = 2 if host().has("amx-int8") else 1) -> None:
    tolerance = 0.0 if program.params[0].buffer.dtype != "bf16" else 1e-4
    batch = sketch.batch()
    drawn = batch.draw(8, seed=1)
    for row in np.flatnonzero(batch.valid(drawn))[:count]:
        assert changed(program, sketch.instantiate(drawn.row(int(row))), tolerance, 1) is None


@pytest.mark.parametrize(
    ("left", "right", "sums", "instruction"),
    [("i8", "i8", "i32", "s8s8_amx"), ("u8", "i8", "i32", "u8s8_amx"), ("bf16", "bf16", "f32", "bf16_amx")],
)
def test_products_run_on_matrix_tiles_in_both_orders(left: str, right: str, sums: str, instruction: str):
    program = product(left, right, sums)
    found = sketches(program)
    assert [dict(s.structure)["matrix_tiles:mm"] for s in found] == list(ORDERS)
    for sketch in found:
        assert {instruction, f"zero_tile_{sums}", f"store_tile_{sums}"} < instructions(sketch)
        means_the_same(program, sketch)


@pytest.mark.one_in(2)
@pytest.mark.parametrize(
    "program",
    [
        product("i8", "i8", "i32", "M = 20, N = 40, K = 100"),
        product("u8", "i8", "i32", "M = 16, N = 48, K = 64"),
        product("i8", "i8", "i32", "M = 40, N = 16, K = 64"),
        parse_program(BATCHED),
        parse_program(CONVOLUTION),
    ],
    ids=["odd", "one row of tiles", "one column of tiles", "batched", "convolution"],
)
def test_other_products_mean_the_same(program: Program):
    found = sketches(program)
    assert len(found) == len(ORDERS)
    for sketch in found:
        assert any(name.endswith("_amx") for name in instructions(sketch))
        means_the_same(program, sketch)


def test_decisions_as_arrays_and_lowered_are_the_single_values():
    for sketch in sketches(product("i8", "i8", "i32", "M = 200, N = 180, K = 128")):
        valid, invalid = check(sketch, draws=200, sizes=50)
        assert valid == 200 and not invalid
        check_summary(sketch, 20, AMX)


def test_what_follows_reads_the_sums_where_they_are_stored():
    quantized = instantiate(load(stdlib_folder() / "workloads" / "quantized_gemm.ms"), "quantized_gemm", {"M": 32})
    for program in (parse_program(BIASED), parse_program(BIASED.replace("M = 40", "M = 48")), quantized):
        for sketch in sketches(program):
            sums = [b for n, b in all_buffers(sketch.program).items() if n.startswith(("T", "sums"))]
            assert {b.scope for b in sums} == {"local"}
            assert any(name.endswith("_amx") for name in instructions(sketch))
    for sketch in sketches(parse_program(BIASED)):
        means_the_same(parse_program(BIASED), sketch)


def test_a_constant_operand_is_packed_ahead_of_time():
    program = product("i8", "i8", "i32", const="const")
    for sketch in sketches(program):
        assert [q.buffer.name for q in sketch.program.params if q.packing is not None] == ["B"]
        assert "pack_16x4" not in instructions(sketch)
        means_the_same(program, sketch, 1)


def test_a_product_that_would_grow_much_runs_on_dot_products():
    for sketch in sketches(product("i8", "i8", "i32", "M = 2, N = 64, K = 128")):
        assert "u8s8_vnni" in instructions(sketch)
    without = replace(AMX, features=tuple(f for f in AMX.features if not f.startswith("amx")))
    for sketch in sketches(product("i8", "i8", "i32"), without):
        assert "matrix_tiles:mm" not in dict(sketch.structure)


@pytest.mark.skipif(not host().has("amx-int8"), reason="this processor has no matrix tiles (AMX)")
@pytest.mark.parametrize("order", ORDERS)
def test_kernels_compute_the_product(order: str):
    program = product("i8", "i8", "i32", "M = 100, N = 90, K = 200")
    rng = np.random.default_rng(0)
    a, b = rng.integers(-128, 128, (100, 200)).astype(np.int8), rng.integers(-128, 128, (200, 90)).astype(np.int8)
    space = automatic_space(program, host())
    for seed in range(3):
        kernel = build(space.sample(seed, pins={"matrix_tiles:mm": order}).program)
        assert (kernel(a, b) == a.astype(np.int32) @ b.astype(np.int32)).all()
