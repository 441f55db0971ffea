"""Rules for CPUs: every alternative is legal and means the same, sizes that do not divide included."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from msgspec.structs import replace

from mslang.ir.expr import Cast, Choice, Load
from mslang.ir.find import all_buffers, blocks_of
from mslang.ir.program import For, Program
from mslang.ir.visit import stmt_exprs, walk_expr
from mslang.schedule.rules.automatic import automatic_space
from mslang.schedule.rules.cpu.contraction import contraction
from mslang.schedule.rules.cpu.groups import group_of
from mslang.schedule.rules.cpu.tiles import TENS, intensities, register_tiles, whole_rows
from mslang.schedule.rules.nests import leaf_blocks, loops_around
from mslang.schedule.sketch import Sketch
from mslang.sema.modules import load
from mslang.sema.program import instantiate, parse_program
from mslang.target.description import AVX2, AVX512, GENERIC, Target
from mslang.tune.equivalence import difference
from tests.choice import Chosen
from tests.unit.equivalence import changed

LIBRARY = Path(__file__).parents[3] / "stdlib"
WORKLOADS = LIBRARY / "workloads"
BF16 = replace(AVX512, name="bf16", features=(*AVX512.features, "avx512bf16"))
VNNI = replace(AVX512, name="vnni", features=(*AVX512.features, "avx512vnni"))
AVXVNNI = replace(AVX2, name="avxvnni", features=(*AVX2.features, "avxvnni"))

SMALL = {
    "gemm.ms:gemm": {"M": 13, "N": 70, "K": 11},
    "dense.ms:dense_bias_relu": {"M": 7, "N": 37, "K": 9},
    "batch_gemm.ms:batch_gemm": {"BATCH": 3, "M": 5, "N": 19, "K": 9},
    "conv2d.ms:conv2d_nhwc": {"H": 5, "W": 7, "CI": 3, "CO": 17, "STRIDE": 2},
    "conv2d_nchw.ms:conv2d_nchw": {"CI": 3, "H": 5, "W": 9, "CO": 5},
    "conv2d_nchw.ms:conv2d_grouped": {"CI": 4, "H": 5, "W": 9, "CO": 6, "GROUPS": 2},
    "depthwise.ms:depthwise_nhwc": {"H": 5, "W": 7, "C": 9},
    "softmax.ms:softmax": {"M": 5, "N": 37},
    "layer_norm.ms:layer_norm": {"M": 5, "N": 37},
    "attention.ms:attention": {"B": 2, "L": 5, "T": 19, "D": 7},
    "norm.ms:matrix_norm": {"B": 3, "M": 5, "N": 19},
}


def small(name: str) -> Program:
    file, _, program = name.partition(":")
    return instantiate(load(WORKLOADS / file), program, SMALL[name])


def blocks(program: Program) -> list[str]:
    return [b.name for b in leaf_blocks(program)]


CASES = [
    *((n, t) for n in ("gemm.ms:gemm", "softmax.ms:softmax") for t in (GENERIC, AVX2, AVX512)),
    *((n, (AVX2, AVX512)[k % 2]) for k, n in enumerate(SMALL) if n not in ("gemm.ms:gemm", "softmax.ms:softmax")),
]


@pytest.mark.parametrize(("name", "target"), CASES, ids=lambda x: getattr(x, "name", x))
@pytest.mark.one_in(2)
def test_every_alternative_is_legal_and_means_the_same(name: str, target: Target, chosen: Chosen):
    made = automatic_space(small(name), target)
    for k, sketch in enumerate(made.structures()):
        assert isinstance(sketch, Sketch), sketch.diagnostic.message
        if not chosen(k, 2):
            continue
        batch = sketch.batch()
        drawn = batch.draw(40, seed=k)
        valid = np.flatnonzero(batch.valid(drawn))
        assert len(valid) >= 38
        program = sketch.instantiate(drawn.row(int(valid[0])))
        assert difference(made.program, program, 1e-4, 1e-4, k) is None


@pytest.mark.parametrize(
    ("name", "sketches", "points"), [("gemm.ms:gemm", 6, 5_798_520), ("conv2d.ms:conv2d_nhwc", 8, 21_855_960)]
)
def test_spaces_of_products_are_large_and_have_few_sketches(name: str, sketches: int, points: int):
    file, _, program = name.partition(":")
    made = automatic_space(instantiate(load(WORKLOADS / file), program), AVX512)
    found = list(made.sketches())
    assert [s.count(10**9) for s in found] == [points] * sketches


def test_a_sliding_window_computes_its_border_in_registers() -> None:
    made = automatic_space(small("depthwise.ms:depthwise_nhwc"), AVX512)
    (sketch,) = (s for s in made.sketches() if dict(s.structure)["tile:conv"] == "rows_direct_inside")
    drawn = sketch.batch().draw(20, seed=0)
    program = sketch.instantiate(drawn.row(int(np.flatnonzero(sketch.batch().valid(drawn))[0])))
    assert all_buffers(program)["padded"].scope == "local"
    around = [var for var, _ in nest(program, "pad")]
    assert "r" in around and "s" not in around
    assert difference(made.program, program, 1e-4, 1e-4, 0) is None


@pytest.mark.parametrize("name", ["conv2d.ms:conv2d_nhwc", "gemm.ms:gemm", "dense.ms:dense_bias_relu"])
def test_what_is_read_often_is_not_computed_again(name: str) -> None:
    assert not any("inside" in str(s.structure) for s in automatic_space(small(name), AVX512).sketches())


LONG = """program p[M = 2, N = 70, K = 2048](A: f32[M, K], {const}B: f32[K, N], b: f32[N], out C: f32[M, N]) {{
    alloc t: f32[M, N]
    block mm[i: M, j: N | k: K] {{ t[i, j] += A[i, k] * B[k, j] }}
    block relu[i: M, j: N] {{ C[i, j] = max(t[i, j] + b[j], 0.0) }}
}}"""


@pytest.mark.parametrize(("const", "label"), [("", "columns_panel_blocked"), ("const ", "columns_ahead_blocked")])
def test_long_reductions_may_be_done_in_blocks(const: str, label: str):
    made = automatic_space(parse_program(LONG.format(const=const)), AVX512)
    sketch = next(s for s in made.sketches() if dict(s.structure)["tile:mm"] == label)
    batch = sketch.batch()
    drawn = batch.draw(60, seed=0)
    valid = [drawn.row(int(k)) for k in np.flatnonzero(batch.valid(drawn))]
    assert len(valid) >= 57
    several = next(row for row in valid if min(row["tile:mm/k"]) > 1)
    program = sketch.instantiate(several)
    assert all_buffers(program)["t"].scope == "global"
    loops = [var for var, _ in nest(program, "mm_update")]
    assert loops[1] == "k0" and next(var for var, _ in nest(program, "relu")) == loops[0]
    assert difference(made.program, program, 1e-4, 1e-4, 0) is None


@pytest.mark.parametrize(("target", "long"), [(AVX512, 2048), (replace(AVX512, l2=2 << 20), 4096), (AVX2, 1024)])
def test_what_is_a_long_reduction_depends_on_the_caches(target: Target, long: int):
    """A panel of four vectors over all of it takes half of the L2 cache."""
    for size in (long, long - 16):
        made = automatic_space(parse_program(LONG.format(const="").replace("2048", str(size))), target)
        assert any("blocked" in str(s.structure) for s in made.sketches()) == (size == long)


def test_register_tiles_fit_the_registers_and_prefer_reuse():
    codes = register_tiles(16, rows=100, vectors=100)
    tiles = [(c // TENS, c % TENS) for c in codes]
    assert all(r * v + v + 1 <= 16 for r, v in tiles) and len(set(tiles)) == len(tiles)
    assert {(6, 2), (2, 4), (14, 1)} <= set(tiles)
    weights = dict(zip(codes, intensities(codes), strict=True))
    assert weights[62] > weights[141] > weights[11] > 0
    assert {(c // TENS, c % TENS) for c in register_tiles(32, rows=2, vectors=1)} == {(1, 1), (2, 1)}


def sketch_of(name: str, target: Target, **structure: str) -> Sketch:
    found = automatic_space(small(name), target).sketches()
    return next(s for s in found if dict(s.structure) | structure == dict(s.structure))


def nest(program: Program, block: str) -> list[tuple[str, str]]:
    loops = loops_around(program, next(b for b in blocks_of(program.body) if b.name == block))
    return [(s.var, s.kind) for s in loops]


def test_results_accumulate_in_registers_and_vectors_run_along_memory():
    sketch = sketch_of("gemm.ms:gemm", AVX512, **{"tile:mm": "rows_direct"})
    (update,) = (b for b in leaf_blocks(sketch.program) if b.name == "mm_update")
    assert all_buffers(sketch.program)[update.writes[0].buffer].scope == "local"
    loops = nest(sketch.program, "mm_update")
    assert loops[0][1] == "parallel"
    assert [k for _, k in loops[-2:]] == ["unrolled", "vectorized"]
    assert loops[-1][0].startswith("j") and loops[-2][0].startswith("i")


def test_a_packed_operand_has_panels_of_one_vector():
    sketch = sketch_of("gemm.ms:gemm", AVX512, **{"tile:mm": "columns_packed"})
    (panel,) = (b for n, b in all_buffers(sketch.program).items() if n.startswith("B_global"))
    assert [d.value for d in panel.shape] == [5, 11, 16]  # 70 columns are 5 vectors, the last one filled up
    kept = sketch_of("gemm.ms:gemm", AVX512, **{"tile:mm": "columns_panel"})
    (whole,) = (b for n, b in all_buffers(kept.program).items() if n.startswith("B_global"))
    assert [d.value for d in whole.shape] == [11, 70]


def test_an_epilogue_runs_on_the_tile_in_registers():
    sketch = sketch_of("dense.ms:dense_bias_relu", AVX512, **{"tile:mm": "rows_direct"})
    scopes = {n: b.scope for n, b in all_buffers(sketch.program).items()}
    assert scopes["product"] == "local"


@pytest.mark.parametrize("name", ["softmax.ms:softmax", "layer_norm.ms:layer_norm", "attention.ms:attention"])
def test_stages_along_rows_share_one_parallel_loop(name: str):
    program = sketch_of(name, AVX512).program
    roots = [s for s in program.body if isinstance(s, For)]
    assert [s.kind for s in roots][-1] == "parallel"
    inside = {b.name for b in blocks_of(roots[-1].body)}
    assert set(blocks(small(name))) <= inside | {f"{n.removesuffix('_update')}" for n in inside}


def group(name: str) -> tuple[tuple[str, ...], tuple[str, ...]] | None:
    program = small(name)
    found = group_of(program, leaf_blocks(program)[-1])
    return None if found is None else (found.stages, found.rows)


def test_groups_are_found_by_what_stages_read():
    assert group("softmax.ms:softmax") == (("row_max", "exponent", "row_sum"), ("i",))
    assert group("attention.ms:attention") == (("scores", "row_max", "weights", "row_sum", "mix"), ("b", "i"))
    assert group("norm.ms:matrix_norm") == (("sum",), ("b",))
    assert group("conv2d.ms:conv2d_nhwc") is None  # a product
    assert group("dense.ms:dense_bias_relu") is None  # what follows it element by element


def test_axes_of_a_convolution():
    program = small("conv2d.ms:conv2d_nhwc")
    found = contraction(program, leaf_blocks(program)[-1], AVX512)
    assert found is not None
    assert (found.vector, found.row, found.lanes) == ("co", "w", 16)
    assert found.streamed == ("f",) and not found.strided
    first = small("conv2d_nchw.ms:conv2d_nchw")
    turned = contraction(first, leaf_blocks(first)[-1], AVX2)
    assert turned is not None and (turned.vector, turned.row, turned.lanes) == ("w", "co", 8)


BYTES = """program p[M = 5, N = 19, K = 9](A: {left}[M, K], B: i8[K, N], out C: i32[M, N]) {{
    block mm[i: M, j: N | k: K] {{ C[i, j] += i32(A[i, k]) * i32(B[k, j]) }}
}}"""


@pytest.mark.parametrize(
    ("target", "left", "instruction"),
    [
        (VNNI, "u8", "u8s8_vnni"),
        (VNNI, "i8", "u8s8_vnni"),
        (AVX512, "i8", "s8s8_avx512bw"),
        (AVXVNNI, "u8", "u8s8_avxvnni"),
        (AVXVNNI, "i8", "u8s8_avxvnni"),
        (AVX2, "u8", "u8s8_avx2"),
    ],
    ids=lambda x: getattr(x, "name", x),
)
def test_products_of_bytes_run_on_dot_products(target: Target, left: str, instruction: str):
    made = automatic_space(parse_program(BYTES.format(left=left)), target)
    (sketch,) = made.sketches()
    assert instruction in {str(dict(b.annotations).get("intrin")) for b in blocks_of(sketch.program.body)}
    for seed in range(2):
        assert changed(made.program, made.sample(seed).program, 0.0, seed) is None


@pytest.mark.parametrize(("n", "k"), [(16, 8), (80, 12)])
def test_columns_are_added_up_where_they_are_packed(n: int, k: int):
    text = BYTES.format(left="i8").replace("N = 19, K = 9", f"N = {n}, K = {k}")
    made = automatic_space(parse_program(text), VNNI)
    (sketch,) = made.sketches()
    summed = next(b for b in blocks_of(sketch.program.body) if b.name.startswith("mm_sum") and b.annotations)
    assert dict(summed.annotations)["intrin"] == "sums_of_s8_vnni"
    assert [len(r.ranges) for r in summed.reads if r.buffer != summed.writes[0].buffer] == [4]
    assert changed(made.program, made.sample(1).program, 0.0, 1) is None


def test_a_requantised_product_is_taken_from_registers():
    sizes = {"M": 5, "N": 32, "K": 8}
    made = automatic_space(instantiate(load(WORKLOADS / "quantized_gemm.ms"), "quantized_gemm", sizes), VNNI)
    (sketch,) = made.sketches()
    assert all_buffers(sketch.program)["sums"].scope == "local"
    assert changed(made.program, made.sample(1).program, 0.0, 1) is None


PACKED = """program p[M = 5, K = 3](A: {left}[M, K * {g}], B: {right}[2, K, {n}, {g}], out C: {sums}[M, 2, {n}]) {{
    block mm[i: M, n: 2, j: {n} | k: K, q: {g}] {{
        C[i, n, j] += {sums}(A[i, k * {g} + q]) * {sums}(B[n, k, j, q])
    }}
}}"""


def packed(left: str = "u8", right: str = "i8", sums: str = "i32", n: int = 16, g: int = 4) -> Program:
    return parse_program(PACKED.format(left=left, right=right, sums=sums, n=n, g=g))


@pytest.mark.parametrize(
    ("program", "target", "instruction"),
    [
        (packed(), VNNI, "u8s8_vnni"),
        (packed(n=48), VNNI, "u8s8_vnni"),
        (packed("i8"), VNNI, "s8s8_vnni"),
        (packed(), AVX512, "u8s8_16x4_avx512bw"),
        (packed("i8", g=2), AVX512, "s8s8_avx512bw"),
        (packed(n=8), AVXVNNI, "u8s8_avxvnni"),
        (packed("i8", n=8), AVXVNNI, "s8s8_avxvnni"),
        (packed(n=8, g=2), AVX2, "u8s8_avx2"),
        (packed("bf16", "bf16", "f32", g=2), BF16, "bf16_dot"),
    ],
    ids=lambda x: getattr(x, "name", x),
)
@pytest.mark.one_in(2)
def test_operands_that_are_packed_already_are_read_where_they_lie(program: Program, target: Target, instruction: str):
    made = automatic_space(program, target)
    sketch = next(s for s in made.sketches() if dict(s.structure).get("dot:mm", instruction) == instruction)
    assert instruction in {str(dict(b.annotations).get("intrin")) for b in blocks_of(sketch.program.body)}
    assert set(blocks(sketch.program)) == {"mm_init", "C_local", "dot"}
    batch = sketch.batch()
    drawn = batch.draw(20, seed=0)
    valid = np.flatnonzero(batch.valid(drawn))
    assert len(valid) >= 19
    for k in range(2):
        row = drawn.row(int(valid[k]))
        assert sketch.violation(row) is None and changed(made.program, sketch.instantiate(row), 1e-5, k) is None


@pytest.mark.parametrize("program", [packed(g=2), packed(g=8), packed(n=8), packed(n=24)], ids=["2", "8", "n8", "n24"])
def test_other_groups_and_widths_have_no_dot_products(program: Program):
    made = automatic_space(program, replace(VNNI, features=("avx512f", "avx512vnni")))
    assert not any(d.startswith("dot:") for s in made.sketches() for d in s.addresses)


def test_the_convolution_of_bytes_runs_on_dot_products():
    sizes = {"CI": 16, "H": 4, "W": 5, "CO": 32}
    made = automatic_space(instantiate(load(WORKLOADS / "conv2d_nchwc_int8.ms"), "conv2d_nchwc_int8", sizes), VNNI)
    (sketch,) = made.sketches()
    assert "u8s8_vnni" in {str(dict(b.annotations).get("intrin")) for b in blocks_of(sketch.program.body)}
    assert all_buffers(sketch.program)["y_local_1"].scope == "local"
    assert changed(made.program, made.sample(1).program, 0.0, 1) is None


SHORT_ROWS = [
    ("conv2d.ms:conv2d_nhwc", {"H": 5, "W": 5, "CI": 3, "CO": 8}, AVX2, "tile", (101,)),
    ("conv2d.ms:conv2d_nhwc", {"H": 7, "W": 7, "CI": 3, "CO": 9}, AVX512, "tile", (141, 211, 281)),
    ("conv2d_nchwc_int8.ms:conv2d_nchwc_int8", {"CI": 16, "H": 9, "W": 9, "CO": 16}, VNNI, "dot", (141, 211, 281)),
]


@pytest.mark.parametrize(("name", "sizes", "target", "rule", "codes"), SHORT_ROWS)
def test_a_tile_has_several_rows_of_an_image_whose_rows_are_short(
    name: str, sizes: dict[str, int], target: Target, rule: str, codes: tuple[int, ...]
):
    file, _, program = name.partition(":")
    made = automatic_space(instantiate(load(WORKLOADS / file), program, sizes), target)
    for k, sketch in enumerate(list(made.sketches())[::5]):
        (registers,) = (d for d in sketch.decisions if d.address == f"{rule}:conv/registers")
        assert isinstance(registers.domain, Choice) and set(codes) <= set(registers.domain.values)
        drawn = sketch.batch().draw(60, seed=k)
        rows = [drawn.row(int(x)) for x in np.flatnonzero(sketch.batch().valid(drawn))]
        several = next(row for row in rows if row[registers.address] in codes)
        assert sketch.violation(several) is None
        assert changed(made.program, sketch.instantiate(several), 1e-4, k) is None


def test_rows_with_tiles_of_more_reuse_are_not_joined():
    assert whole_rows(32, row=7, above=7, vectors=4, others=register_tiles(32, 7, 4)) == ()
    assert whole_rows(32, row=16, above=7, vectors=1, others=register_tiles(32, 16, 1)) == ()
    assert whole_rows(32, row=10, above=7, vectors=1, others=register_tiles(32, 10, 1)) == (201, 301)
    batched = instantiate(load(WORKLOADS / "batch_gemm.ms"), "batch_gemm", {"BATCH": 3, "M": 5, "N": 16, "K": 4})
    for sketch in automatic_space(batched, AVX512).sketches():
        (registers,) = (d for d in sketch.decisions if d.address == "tile:mm/registers")
        assert isinstance(registers.domain, Choice) and max(registers.domain.values) == 51


HALVES = """program p[M = 5, N = 35, K = 9](A: {left}[M, K], B: {right}[K, N], out C: f32[M, N]) {{
    block mm[i: M, j: N | k: K] {{ C[i, j] += f32(A[i, k]) * f32(B[k, j]) }}
}}"""


@pytest.mark.parametrize(
    ("target", "left", "right", "rule"),
    [
        (BF16, "bf16", "bf16", "dot"),
        (AVX512, "bf16", "bf16", "tile"),
        (AVX2, "f16", "f16", "tile"),
        (AVX2, "f32", "i8", "tile"),
    ],
    ids=lambda x: getattr(x, "name", x),
)
def test_operands_of_narrow_types_are_converted_where_they_are_packed(target: Target, left: str, right: str, rule: str):
    text = HALVES.format(left=left, right=right).replace("f32(A", "(A" if left == "f32" else "f32(A")
    made = automatic_space(parse_program(text), target)
    found = [s for s in made.sketches() if dict(s.structure)[f"{rule}:mm"].endswith("_wide")]
    assert len(found) == 2
    for k, sketch in enumerate(found):
        inner = [b for b in blocks_of(sketch.program.body) if b.name.startswith("mm")]
        exprs = [x for b in inner for s in b.body for e in stmt_exprs(s) for x in walk_expr(e)]
        assert any(isinstance(x, Load) for x in exprs) and not any(isinstance(x, Cast) for x in exprs)
        batch = sketch.batch()
        drawn = batch.draw(8, seed=k)
        valid = np.flatnonzero(batch.valid(drawn))
        assert difference(made.program, sketch.instantiate(drawn.row(int(valid[0]))), 1e-6, 1e-6, k) is None


def test_what_is_not_always_converted_is_not_widened():
    text = HALVES.format(left="f16", right="f16")
    plain = automatic_space(parse_program(text.replace("f32(A[i, k]) * f32(B[k, j])", "f32(A[i, k] * B[k, j])")), AVX2)
    both = automatic_space(parse_program(text.replace("f32(B[k, j])", "f32(B[k, j]) * f32(B[k, j] + 1.0)")), AVX2)
    for made in (plain, both):
        assert not any("wide" in str(s.structure) for s in made.sketches())


def test_other_products_and_other_machines_have_no_dot_products():
    floats = sketch_of("gemm.ms:gemm", VNNI)
    assert "dot:mm/registers" not in floats.addresses
    plain = automatic_space(parse_program(BYTES.format(left="u8")), GENERIC)
    assert all("dot:mm/registers" not in s.addresses for s in plain.sketches())
