"""`pragma_auto_unroll_max_step` and `pragma_unroll_explicit` unroll what they unroll in TVM."""

from __future__ import annotations

import numpy as np
import pytest

from mslang.ir.program import For, Program
from mslang.ir.visit import walk
from mslang.lower.auto_unroll import auto_unrolled
from mslang.schedule.replay import space_of_text
from mslang.sema.program import parse_program
from tests.unit.llvm.support import loaded


def unrolled(program: Program) -> list[str]:
    return [s.var for s in walk(auto_unrolled(program).body) if isinstance(s, For) and s.kind == "unrolled"]


def gemm(notes: str, kinds: str = "") -> Program:
    return parse_program(f"""program gemm(A: f32[8, 16], B: f32[16, 4], out C: f32[8, 4]) {{
        for i in 8 @ serial({notes}) {{
            for k in 16 {{
                for j in 4 {kinds} {{
                    block mm[vi: 8 = i, vj: 4 = j | vk: 16 = k] {{ C[vi, vj] += A[vi, vk] * B[vk, vj] }}
                }}
            }}
        }}
    }}""")


# A step is a store: the block has two, one of them the init's.
@pytest.mark.parametrize(
    "steps, expected",
    [(0, []), (7, []), (8, ["j"]), (127, ["j"]), (128, ["k", "j"]), (1023, ["k", "j"]), (1024, ["i", "k", "j"])],
)
def test_loops_are_unrolled_from_the_inside_while_their_steps_fit(steps, expected):
    assert unrolled(gemm(f'"pragma_auto_unroll_max_step" = {steps}')) == expected


def test_lanes_count_once():
    assert unrolled(gemm('"pragma_auto_unroll_max_step" = 32', "@ vectorized")) == ["k"]


def test_a_loop_around_one_that_stays_is_not_unrolled():
    assert unrolled(gemm('"pragma_auto_unroll_max_step" = 4096', "@ parallel")) == []


def test_what_is_not_explicit_is_left_to_the_code_generator():
    for explicit, expected in ((0, []), (1, ["k", "j"])):
        notes = f'"pragma_auto_unroll_max_step" = 128, "pragma_unroll_explicit" = {explicit}'
        assert unrolled(gemm(notes)) == expected


def test_an_annotation_inside_holds_inside_only():
    p = parse_program("""program two(A: f32[4, 4], out B: f32[4, 4], out C: f32[4, 4]) {
        for i in 4 {
            for j in 4 @ serial("pragma_auto_unroll_max_step" = 4) {
                block b[vi: 4 = i, vj: 4 = j] { B[vi, vj] = A[vi, vj] }
            }
            for k in 4 { block c[vi: 4 = i, vj: 4 = k] { C[vi, vj] = A[vi, vj] } }
        }
    }""")
    assert unrolled(p) == ["j"]


def test_loops_beside_each_other_count_together():
    text = """program two(A: f32[4, 4], out B: f32[4, 4], out C: f32[4, 4]) {
        for i in 4 @ serial("pragma_auto_unroll_max_step" = STEPS) {
            for j in 4 { block b[vi: 4 = i, vj: 4 = j] { B[vi, vj] = A[vi, vj] } }
            for k in 4 { block c[vi: 4 = i, vj: 4 = k] { C[vi, vj] = A[vi, vj] } }
        }
    }"""
    assert unrolled(parse_program(text.replace("STEPS", "31"))) == ["j", "k"]
    assert unrolled(parse_program(text.replace("STEPS", "32"))) == ["i", "j", "k"]


def test_a_decision_says_how_far_and_the_kernel_computes_the_same():
    program = gemm('"key" = 1')
    space = space_of_text(
        """schedule s for gemm {
            let u ~ choose([0, 8, 128, 1024])
            mm.vi.annotate("pragma_auto_unroll_max_step", u)
        }""",
        program,
    )
    a, b = (np.random.default_rng(0).standard_normal(s).astype(np.float32) for s in ((8, 16), (16, 4)))
    seen = set()
    for seed in range(8):
        found = space.sample(seed).program
        seen.add(len(unrolled(found)))
        np.testing.assert_allclose(loaded(found)(a, b), a @ b, rtol=1e-5, atol=1e-5)
    assert len(seen) > 1
