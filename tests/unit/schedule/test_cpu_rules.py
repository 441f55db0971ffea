"""The rules for CPUs one by one: what each does and leaves alone, and that all it does means the same."""

from __future__ import annotations

from itertools import islice
from pathlib import Path

import numpy as np
import pytest

from mslang.api.kernels import build
from mslang.diagnostics import MsError
from mslang.ir.find import blocks_of
from mslang.ir.intrin import intrin_of
from mslang.ir.program import For, Program
from mslang.ir.visit import walk
from mslang.schedule.replay import space_of_text
from mslang.schedule.rules.add_rfactor import AddRFactor
from mslang.schedule.rules.automatic import automatic_space
from mslang.schedule.rules.compute_location import RandomComputeLocation
from mslang.schedule.rules.cpu.register_tile import RegisterTiling
from mslang.schedule.rules.default_cpu import default_schedule
from mslang.schedule.rules.inline import AutoInline, InlineConstantScalars
from mslang.schedule.rules.multi_level import MultiLevelTiling
from mslang.schedule.rules.parallelize_vectorize_unroll import ParallelizeVectorizeUnroll
from mslang.schedule.rules.rule import Rule
from mslang.schedule.rules.sets import SETS
from mslang.schedule.sketch import Sketch
from mslang.schedule.space import Candidate, Space
from mslang.sema.modules import load
from mslang.sema.program import parse_program
from mslang.target.description import AVX512, GENERIC
from mslang.tune.equivalence import difference
from mslang.tune.reference import small_program
from mslang.tune.verification import tolerance

ROOT = Path(__file__).parents[3]


def sketches(program: Program, *rules: Rule) -> list[Sketch]:
    """The sketches of some rules, all legal, a candidate of each computing the same and replaying from its text."""
    space = automatic_space(program, GENERIC, rules)
    found = list(space.structures())
    assert all(isinstance(s, Sketch) for s in found)
    for k, s in enumerate(found):
        check(space, dict(s.structure), k)
    return [s for s in found if isinstance(s, Sketch)]


def check(space: Space, structure: dict[str, object], seed: int) -> None:
    c = space.attempt(seed, 0, structure)  # type: ignore[arg-type]
    assert isinstance(c, Candidate), c
    assert difference(space.program, c.program, tolerance(space.program), 1e-5, seed) is None
    assert space_of_text(c.trace.as_ms("again"), space.program).sample(0).program == c.program


def names(program: Program) -> list[str]:
    return [b.name for b in blocks_of(program.body)]


def kinds(program: Program) -> list[str]:
    return [s.kind for s in walk(program.body) if isinstance(s, For)]


# ------------------------------------------------------------------ inlining
def test_constant_scalars_go_into_their_readers() -> None:
    p = parse_program("""program p(A: f32[6], out B: f32[6]) {
        alloc c: f32[]
        alloc d: f32[2]
        block scalar { c[] = 2.0 }
        block row[i: 2] { d[i] = 3.0 }
        block b[i: 6] { B[i] = A[i] * c[] + d[i % 2] }
    }""")
    (s,) = sketches(p, InlineConstantScalars())
    assert names(s.program) == ["row", "b"]
    (s,) = sketches(p, AutoInline())
    assert names(s.program) == ["b"]


MIDDLE = """program p(A: f32[6, 6], X: f32[6], out S: f32[6], out B: f32[6, 6]) {{
    alloc t: f32[6, 6]
    block sum[i: 6 | j: 6] {{ S[i] += A[i, j] }}
    block m[i: 6, j: 6] {{ {attr} t[i, j] = {value} }}
    block b[i: 6, j: 6] {{ B[i, j] = {use} }}
}}"""


@pytest.mark.parametrize(
    ("value", "use", "attr", "inlined"),
    [
        ("A[i, j] + X[j]", "t[i, j]", "", True),
        ("A[i, j] + 1.0", "t[i, j]", 'attr "inline_rule" = "disable"', False),
        ("select(i < 3, A[i, j], 0.0)", "t[i, j]", "", False),
        ("A[j, i]", "t[i, j]", "", False),
        ("A[i, i]", "t[i, j]", "", False),
        ("exp(A[i, j])", "t[i, j]", "", True),
        ("exp(A[i, j])", "t[i, 0]", "", False),
        ("A[i, j] * 2.0", "t[i, j] + t[i, 5 - j]", "", False),
        ("A[i, j]", "t[i, j] + t[i, 5 - j]", "", True),
    ],
)
def test_the_conditions_of_inlining(value: str, use: str, attr: str, inlined: bool) -> None:
    p = parse_program(MIDDLE.format(value=value, use=use, attr=attr))
    (s,) = sketches(p, AutoInline())
    assert ("m" not in names(s.program)) is inlined


def test_conditions_are_waived_where_nothing_is_reduced() -> None:
    p = parse_program("""program p(A: f32[6, 6], out B: f32[6, 6]) {
        alloc t: f32[6, 6]
        block m[i: 6, j: 6] { t[i, j] = select(i < 3, A[j, i], 0.0) }
        block b[i: 6, j: 6] { B[i, j] = t[i, j] }
    }""")
    (s,) = sketches(p, AutoInline())
    assert names(s.program) == ["b"]


def test_into_the_producer() -> None:
    p = parse_program("""program p(A: f32[6, 6], out B: f32[6, 6]) {
        alloc t: f32[6, 6]
        block m[i: 6, j: 6] { t[i, j] = A[i, j] + 1.0 }
        block b[i: 6, j: 6] { B[i, j] = t[i, j] * 2.0 }
    }""")
    (s,) = sketches(p, AutoInline(into_consumers=False, into_producer=True))
    assert names(s.program) == ["m"]


# ------------------------------------------------------------------ rfactor
ROWS = """program rows[M = {m}, N = 64](A: f32[M, N], out S: f32[M]) {{ block s[i: M | j: N] {{ S[i] += A[i, j] }} }}"""


def test_a_reduction_is_taken_apart_for_cores_or_for_lanes() -> None:
    found = sketches(parse_program(ROWS.format(m=4)), AddRFactor(), ParallelizeVectorizeUnroll())
    by = {dict(s.structure)["add_rfactor:s"]: s.program for s in found}
    assert list(by) == ["whole", "outer", "inner"]
    assert "s_rf_update" not in names(by["whole"]) and "s_rf_update" in names(by["outer"])
    assert "vectorized" in kinds(by["inner"])


@pytest.mark.parametrize(("first", "count"), [(8, 3), (4, 2)])
def test_reductions_over_several_loops_and_to_one_element(first: int, count: int) -> None:
    p = parse_program(f"""program all(A: f32[{first}, 6, 8], out S: f32[]) {{
        block s[|i: {first}, j: 6, k: 8] {{ S[] += A[i, j, k] }}
    }}""")
    assert len(sketches(p, AddRFactor(), ParallelizeVectorizeUnroll())) == count


def test_products_with_enough_to_do_are_left_whole() -> None:
    text = """program mm[M = {m}, K = {k}](A: f32[M, K], B: f32[K, 8], out C: f32[M, 8]) {{
        block c[i: M, j: 8 | k: K] {{ C[i, j] += A[i, k] * B[k, j] }}
    }}"""
    assert len(sketches(parse_program(text.format(m=8, k=8)), AddRFactor())) == 1
    assert len(sketches(parse_program(text.format(m=1, k=64)), AddRFactor())) == 3
    assert len(sketches(parse_program(text.format(m=1, k=64)), AddRFactor(max_jobs_per_core=4))) == 1


# ------------------------------------------------------------------ location
def test_every_legal_location_is_a_structure() -> None:
    p = parse_program("""program p(A: f32[8, 8], out B: f32[6, 8]) {
        alloc t: f32[8, 8]
        block m[i: 8, j: 8] { t[i, j] = A[i, j] * 2.0 }
        block b[i: 6, j: 8] { B[i, j] = t[i, j] + t[i + 2, j] }
    }""")
    found = sketches(p, RandomComputeLocation())
    assert [dict(s.structure)["compute_location:m/location"] for s in found] == ["inline", "root", "at(i_1)", "at(j_1)"]
    assert "~ compute_location(m)" in automatic_space(p, GENERIC, [RandomComputeLocation()]).sample(0).trace.as_ms()


def test_tiled_blocks_and_outputs_stay() -> None:
    p = parse_program("""program p(A: f32[8, 8], B: f32[8, 8], out C: f32[8, 8]) {
        alloc t: f32[8, 8]
        block mm[i: 8, j: 8 | k: 8] { t[i, j] += A[i, k] * B[k, j] }
        block c[i: 8, j: 8] { C[i, j] = max(t[i, j], 0.0) }
    }""")
    (s,) = sketches(p, MultiLevelTiling("SRS"), RandomComputeLocation())[:1]
    assert all(not a.startswith("compute_location") for a, _ in s.structure)


PACKED = """program p(X: u8[4, {k}], W: i8[2, {f}, {lanes}, 4], out Y: i32[4, 2, {lanes}]) {{
    block mm[i: 4, o: 2, b: {lanes} | f: {f}, q: 4] {{ Y[i, o, b] += i32(X[i, f * 4 + q]) * i32(W[o, f, b, q]) }}
}}"""


def test_an_intrinsic_computes_the_innermost_tiles() -> None:
    rule = MultiLevelTiling("SSRSRS", "std.cpu.dot.u8s8_vnni")
    found = sketches(parse_program(PACKED.format(k=8, f=2, lanes=16)), rule)
    assert [dict(s.structure)["multi_level:mm"] for s in found] == ["apart", "level_1", "level_2"]
    for s in found:
        assert [intrin_of(b) for b in blocks_of(s.program.body) if intrin_of(b) is not None] == ["u8s8_vnni"]


def test_blocks_of_which_an_intrinsic_computes_no_whole_tiles_stay() -> None:
    rule = MultiLevelTiling("SSRSRS", "std.cpu.dot.u8s8_vnni")
    whole = "program p(X: u8[4], W: i8[16, 4], out Y: i32[16]) {"
    for text in (
        PACKED.format(k=8, f=2, lanes=24),
        PACKED.format(k=8, f=2, lanes=16).replace("u8", "i32"),
        whole + "block mm[b: 16 | q: 4] { Y[b] += i32(X[q]) * i32(W[b, q]) } }",
    ):
        (s,) = sketches(parse_program(text), rule)
        assert not s.trace.instructions
    unknown = MultiLevelTiling("SSRSRS", "std.cpu.dot.u8s8")
    with pytest.raises(MsError, match="there is no intrinsic"):
        automatic_space(parse_program(PACKED.format(k=8, f=2, lanes=16)), GENERIC, (unknown,)).sample(0)


# ------------------------------------------------------------------ parallel, vectors, unrolling
def test_loops_are_fused_until_there_are_jobs_enough() -> None:
    p = parse_program(
        "program p(A: f32[4, 8, 6, 8], out B: f32[4, 8, 6, 8]) { block b[h: 4, i: 8, j: 6, k: 8] "
        "{ B[h, i, j, k] = A[h, i, j, k] + 1.0 } }"
    )
    (s,) = sketches(p, ParallelizeVectorizeUnroll())
    assert kinds(s.program) == ["parallel", "serial", "vectorized"]
    (s,) = sketches(p, ParallelizeVectorizeUnroll(max_jobs_per_core=4))
    assert kinds(s.program) == ["parallel", "serial", "serial", "vectorized"]


def test_a_single_loop_is_shared_out_in_vectors() -> None:
    p = parse_program("program p(A: f32[1000], out B: f32[1000]) { block b[i: 1000] { B[i] = A[i] + 1.0 } }")
    (s,) = sketches(p, ParallelizeVectorizeUnroll())
    assert kinds(s.program) == ["parallel", "vectorized"]
    assert s.addresses == ("parallelize_vectorize_unroll:b/share",)


def test_the_loop_of_contiguous_elements_is_vectorized_wherever_it_is() -> None:
    p = parse_program(
        "program p(A: f32[4, 9, 8], out B: f32[4, 8]) { block b[i: 4, c: 8 | r: 9] { B[i, c] += A[i, r, c] } }"
    )
    (s,) = sketches(p, ParallelizeVectorizeUnroll())
    assert kinds(s.program) == ["parallel", "vectorized", "unrolled"]


def test_what_runs_in_order_stays_in_order() -> None:
    p = parse_program(
        "program p(inout A: f32[64]) { for i in 0..63 { block b[x: 63 @ scan = i] { A[x + 1] = A[x] + A[x + 1] } } }"
    )
    (s,) = sketches(p, ParallelizeVectorizeUnroll())
    assert kinds(s.program) == ["serial"]


# ------------------------------------------------------------------ the whole set, on the library
WORKLOADS = [
    pytest.param(str(path), name, id=name)
    for path in sorted((ROOT / "stdlib" / "workloads").glob("*.ms"))
    for name in load(str(path)).programs
]
QUICK = {"gemm", "dense_bias_relu", "softmax", "layer_norm", "depthwise_nhwc", "row_sum", "blur", "max_pool", "argmax"}


def check_library(path: str, name: str, every: int, most: int) -> None:
    program = small_program(load(path), name, {})
    assert program is not None
    space = automatic_space(program, AVX512)
    for k, s in enumerate(islice(space.structures(), 0, most, every)):
        assert isinstance(s, Sketch)
        check(space, dict(s.structure), k)


@pytest.mark.parametrize(("path", "name"), [p for p in WORKLOADS if p.id in QUICK])
def test_sketches_of_the_library_compute_the_same(path: str, name: str) -> None:
    check_library(path, name, every=23, most=24)


@pytest.mark.campaign
@pytest.mark.timeout(1800)
@pytest.mark.parametrize(("path", "name"), WORKLOADS)
def test_all_sketches_of_the_library_compute_the_same(path: str, name: str) -> None:
    check_library(path, name, every=1, most=2000)


# ------------------------------------------------------------------ dynamic sizes
def test_a_product_of_dynamic_size_has_the_sketches_of_a_static_one() -> None:
    text = """program p[M{size}](A: f32[M, 96], B: f32[96, 80], out C: f32[M, 80]) {{
        block mm[i: M, j: 80 | k: 96] {{ C[i, j] += A[i, k] * B[k, j] }}
    }}"""
    static, dynamic = (
        automatic_space(parse_program(text.format(size=size)), AVX512, rules=(RegisterTiling(),))
        for size in (" = 100", ": dyn(1..100)")
    )
    found = [s for s in dynamic.structures() if isinstance(s, Sketch)]
    assert [s.structure for s in found] == [s.structure for s in static.sketches()]
    assert len(found) == 6
    a, b = (np.random.default_rng(1).random(n, np.float32) for n in ((100, 96), (96, 80)))
    for k, sketch in enumerate(found):
        candidate = dynamic.attempt(k, 0, dict(sketch.structure))
        assert isinstance(candidate, Candidate)
        kernel = build(candidate)
        for m in (1, 17, 100):
            np.testing.assert_allclose(kernel(a[:m], b), a[:m] @ b, rtol=1e-4)


def test_a_block_around_others_ends_no_group_of_rows() -> None:
    p = parse_program("""program nest(A: f32[8], out C: f32[8]) {
        for i in 8 { block o[p: 8 = i] { for j in 1 { block n[a: 8 = p] { C[a] = A[a] } } } }
    }""")
    assert [s.structure for s in automatic_space(p, AVX512).sketches()]


# ------------------------------------------------------------------ what rules refuse
PRODUCT = "C[i, j] = C[i, j] + A[i, k] * B[k, j]"
ODD = {
    "the results of a product are returned, and used": """program p(A: f32[20, 12], B: f32[12, 36], out C: f32[20, 36],
        out D: f32[20, 36]) {
            block mm[i: 20, j: 36 | k: 12] { C[i, j] += A[i, k] * B[k, j] }
            block relu[i: 20, j: 36] { D[i, j] = max(C[i, j], 0.0) }
        }""",
    "an operand that is wider than the result": """program p(A: f32[64, 8], B: f32[8, 70], out C: f32[64, 64]) {
            block mm[i: 64, j: 64 | k: 8] { C[i, j] += A[i, k] * B[k, j] }
        }""",
    "another block writes the results, too": f"""program p(A: f32[16, 8], B: f32[8, 24], inout C: f32[16, 24]) {{
            block z[i: 16, j: 24] {{ C[i, j] = 1.0 }}
            block mm[i: 16, j: 24 | k: 8] {{ init {{ C[i, j] = 0.0 }} {PRODUCT} }}
        }}""",
    "the sum of a row reads what is overwritten": """program p(
        inout X: f32[16, 24], Z: f32[16, 24], out Y: f32[16, 24]) {
            alloc t: f32[16]
            block sum[i: 16 | j: 24] { t[i] += X[i, j] }
            block wipe[i: 16, j: 24] { X[i, j] = 0.0 }
            block div[i: 16, j: 24] { Y[i, j] = Z[i, j] / (t[i] + 100.0) }
        }""",
    "the order of the loops matters": """program p(A: f32[16, 8], inout C: f32[16, 24]) {
            block b[i: 16, j: 24 | k: 8] { init { C[i, j] = 0.0 } C[i, j] = C[i, j] + A[i, k] * C[k, j] }
        }""",
    "the order of the reduction matters": """program p(A: f32[8, 32, 3], B: f32[32, 3, 24], out C: f32[8, 24]) {
            block b[i: 8, j: 24 | k: 32, r: 3] { init { C[i, j] = 0.0 }
                C[i, j] = C[i, j] * 0.5 + A[i, k, r] * B[k, r, j]
            }
        }""",
    "reductions of all axes": """program p(A: f32[9, 7], out S: f32[]) {
            block s[| i: 9, j: 7] { S[] += A[i, j] }
        }""",
    "a loop of nothing": "program p(A: f32[16], out B: f32[16]) { for i in 4 { } block b[i: 16] { B[i] = A[i] } }",
}


@pytest.mark.parametrize("name", ODD)
def test_what_a_rule_cannot_do_is_left_to_the_rules_that_follow(name: str) -> None:
    program = parse_program(ODD[name])
    space = automatic_space(program, AVX512)
    found = list(space.structures())
    assert found
    assert all(isinstance(s, Sketch) for s in found)
    check(space, dict(found[-1].structure), 0)


@pytest.mark.parametrize("name", ODD)
def test_the_default_leaves_out_what_is_refused(name: str) -> None:
    program = parse_program(ODD[name])
    made = default_schedule(program, AVX512)
    assert difference(program, made.program, 1e-4, 1e-4, 0) is None
    assert made.trace.instructions or name == "the order of the loops matters"


def test_the_quick_rules_tile_what_follows_apart_where_it_must_wait() -> None:
    program = parse_program("""program p(A: f32[8, 6], B: f32[6, 8], X: f32[8, 8], out C: f32[8, 8]) {
        alloc t: f32[8, 8]
        alloc s: f32[8]
        block mm[i: 8, j: 8 | k: 6] { t[i, j] += A[i, k] * B[k, j] }
        block other[i: 8 | j: 8] { s[i] += X[i, j] }
        block c[i: 8, j: 8] { C[i, j] = t[i, j] + s[j] }
    }""")
    assert all(isinstance(s, Sketch) for s in automatic_space(program, GENERIC, SETS["quick"].rules).structures())


def test_axes_of_an_open_size_under_a_loop_of_known_length() -> None:
    program = parse_program("""program p[M: dyn(64..128)](A: f32[M, 4], B: f32[4, 8], inout C: f32[M, 8]) {
        for i0 in 64, j0 in 8, k0 in 4 {
            block mm[i: M = i0, j: 8 = j0 | k: 4 = k0] {
                init { C[i, j] = 0.0 }
                C[i, j] = C[i, j] + A[i, k] * B[k, j]
            }
        }
    }""")
    assert "parallel" in default_schedule(program, AVX512).trace.as_ms("s")
