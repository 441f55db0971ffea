"""Vectorized reductions: lanes that each combine a part, and are joined."""

from __future__ import annotations

import numpy as np
import pytest

import mslang as ms
from mslang.backend.reference.interpret import run
from mslang.diagnostics import MsError
from mslang.ir.annotations import JOINED
from mslang.ir.equal import alpha_equal
from mslang.ir.expr import Shuffle
from mslang.ir.print import print_program
from mslang.ir.program import Program
from mslang.ir.visit import walk_expr
from mslang.kernel.nodes import For
from mslang.kernel.visit import expressions, walk
from mslang.lower.passes import lower
from mslang.sema.program import parse_program
from mslang.target.description import AVX2, AVX512, GENERIC
from mslang.target.detect import host
from mslang.transform.primitives.annotate import annotate, unannotate
from mslang.transform.primitives.blockize import blockize
from mslang.transform.primitives.compute_at import compute_at
from mslang.transform.primitives.decompose_reduction import decompose_reduction
from mslang.transform.primitives.loop_kinds import unroll, vectorize
from tests.unit.transform.programs import block, loop, refused

UPDATES = {
    "+": "Y[i] += X[i, j] * X[i, j]",
    "max": "Y[i] = max(Y[i], X[i, j])",
    "min": "Y[i] = min(X[i, j], Y[i])",
    "*": "Y[i] = Y[i] * X[i, j]",
}
STARTS = {"+": "0", "max": "-9", "min": "9", "*": "1"}


def rows(op: str = "+", n: int = 100, dtype: str = "f32") -> Program:
    return parse_program(f"""program rows(X: {dtype}[3, {n}], out Y: {dtype}[3]) {{
        for i_1 in 3, j_1 in {n} {{
            block reduce[i: 3 = i_1 | j: {n} = j_1] {{
                init {{ Y[i] = {dtype}({STARTS[op]}) }}
                {UPDATES[op]}
            }}
        }}
    }}""")


def in_lanes(p: Program) -> Program:
    return vectorize(p, loop("j_1"), reduction=True).program


@pytest.mark.parametrize("n", [1, 3, 17, 64, 100, 1000])
@pytest.mark.parametrize("op", UPDATES)
@pytest.mark.one_in(2)
def test_lanes_join_to_what_the_loop_gives(op: str, n: int) -> None:
    p = rows(op, n)
    x = np.random.default_rng(n).uniform(0.9, 1.1, (3, n)).astype("f4")
    wanted, found = np.zeros(3, "f4"), np.zeros(3, "f4")
    ms.build(p, host())(x, wanted)
    ms.build(in_lanes(p), host())(x, found)
    np.testing.assert_allclose(found, wanted, rtol=5e-5)


@pytest.mark.parametrize("dtype", ["i32", "f64", "u8"])
def test_lanes_join_in_every_type(dtype: str) -> None:
    p = rows("+", 75, dtype)
    x = np.random.default_rng(1).integers(0, 9, (3, 75)).astype({"i32": "i4", "f64": "f8", "u8": "u1"}[dtype])
    found = np.zeros(3, x.dtype)
    ms.build(in_lanes(p), host())(x, found)
    np.testing.assert_array_equal(found, (x * x).sum(1).astype(x.dtype))


@pytest.mark.parametrize("value", ["i64(j)", "i64(j) * 3 - i64(i)", "i64(j) - i64(j) + i64(i)"])
def test_lanes_join_numbers_of_iterations(value: str) -> None:
    """Indices in lanes have no register until something takes them as numbers (campaign, seed 16, pair 9080)."""
    p = parse_program(f"""program t(out Y: i64[4]) {{
        for i_1 in 4, j_1 in 8 {{ block r[i: 4 = i_1 | j: 8 = j_1] {{ init {{ Y[i] = 0 }} Y[i] += {value} }} }} }}""")
    apart = decompose_reduction(p, block("r"), loop("i_1")).program
    found = np.zeros(4, "i8")
    ms.build(in_lanes(apart), host())(found)
    assert found.tolist() == run(p, {"Y": np.zeros(4, "i8")})["Y"].tolist()


def test_the_interpreter_runs_the_parts_in_turn() -> None:
    p = rows("max", 9)
    x = np.random.default_rng(1).uniform(-1, 1, (3, 9)).astype("f4")
    np.testing.assert_array_equal(run(in_lanes(p), {"X": x})["Y"], x.max(1))


@pytest.mark.parametrize("target", [AVX512, AVX2, GENERIC])
def test_no_loop_of_single_elements_is_left(target: ms.Target) -> None:
    body = lower(in_lanes(rows(n=64)), target).body
    counted = [s for s in walk(body) if isinstance(s, For) and s.var != "i_1"]
    assert all(int(s.extent.value) * 4 <= 64 for s in counted)
    assert any(isinstance(x, Shuffle) for s in walk(body) for e in expressions(s) for x in walk_expr(e))


def test_a_reduction_needs_the_word() -> None:
    p = rows()
    with refused("MS309", "`vectorize(reduction = true)`"):
        vectorize(p, loop("j_1"))


def test_a_spatial_loop_may_have_it_too() -> None:
    p = rows()
    assert vectorize(p, loop("i_1"), reduction=True) == vectorize(p, loop("i_1"))


TWO = """program two(X: f32[8], out Y: f32[1], out Z: f32[1]) {
    for j_1 in 8 {
        block sum[i: 1 = 0 | j: 8 = j_1] { Y[i] += X[j] }
        block top[i: 1 = 0 | j: 8 = j_1] { Z[i] = max(Z[i], X[j]) }
    }
}"""
ORDERED = """program ordered(X: f32[8], out Y: f32[1]) {
    for j_1 in 8 {
        block last[i: 1 = 0 | j: 8 = j_1] { init { Y[i] = 0.0 } Y[i] = Y[i] * 0.5 + X[j] }
    }
}"""


@pytest.mark.parametrize(
    ("text", "why"),
    [
        (TWO, "2 blocks are under loop `j_1`, not one reduction"),
        (ORDERED, "the order in which block `last` combines values must be kept"),
    ],
)
def test_lanes_do_not_join_what_is_no_single_reduction_in_any_order(text: str, why: str) -> None:
    p = parse_program(text)
    with refused("MS309", why):
        vectorize(p, loop("j_1"), reduction=True)


# ------------------------------------------------------------------ the permission in the program
MARK = '@ vectorized("vectorize.reduction" = true)'


def test_the_permission_stands_in_the_program() -> None:
    p = in_lanes(rows(n=9))
    assert f"for i_1 in 3, j_1 in 9 {MARK} {{" in print_program(p)
    assert alpha_equal(parse_program(print_program(p)), p)
    assert JOINED not in print_program(unroll(p, loop("j_1")).program)
    assert JOINED not in print_program(vectorize(rows(), loop("i_1"), reduction=True).program)


def test_vectorized_without_it_a_reduction_races() -> None:
    text = print_program(in_lanes(rows(n=9)))
    with pytest.raises(MsError) as caught:
        run(parse_program(text.replace(MARK, "@ vectorized")), {"X": np.ones((3, 9), "f4")})
    assert caught.value.diagnostic.code == "MS483" and "loop `j_1`" in caught.value.diagnostic.message


def test_it_is_not_taken_away_or_given_by_annotations() -> None:
    with refused("MS310", "may access the same elements of `Y`"):
        unannotate(in_lanes(rows()), loop("j_1"), JOINED)
    plain = vectorize(rows(), loop("i_1")).program
    with refused("MS310", "would not be parts of one reduction"):
        annotate(plain, loop("i_1"), JOINED, True)


PREDICATED = """program t(inout U0: i32[1]) {
    for l0 in 3, l1 in 2 {
        block r0[| k: 4 = l0 + 1, r: 4 = l1 * 2] {
            where r != 1
            init { U0[0] = 0 }
            U0[0] *= 1
        }
    }
}"""


def test_an_init_lifted_out_of_lanes_leaves_them_joined() -> None:
    p = parse_program(PREDICATED)
    given = {"U0": np.array([5], "i4")}
    after = blockize(vectorize(p, loop("l1"), reduction=True).program, loop("l1")).program
    assert MARK in print_program(after)
    compiled = given["U0"].copy()
    ms.build(after, host())(compiled)
    assert run(after, given)["U0"] == run(p, given)["U0"] == compiled


def test_a_decomposed_reduction_may_be_in_lanes() -> None:
    p = decompose_reduction(rows("max", 9), block("reduce"), loop("j_1")).program
    x = np.random.default_rng(2).uniform(-1, 1, (3, 9)).astype("f4")
    np.testing.assert_array_equal(run(in_lanes(p), {"X": x})["Y"], x.max(1))


def test_lanes_do_not_join_what_a_block_around_hides() -> None:
    hidden = blockize(parse_program(PREDICATED), loop("l1")).program
    with refused("MS309", "block `r0_o` holds blocks"):
        vectorize(hidden, loop("l0"), reduction=True)
    joined = vectorize(parse_program(PREDICATED), loop("l0"), reduction=True)
    with refused("MS310", "block `r0_o` holds blocks"):
        blockize(joined.program, loop("l1"))


REPEATED = """program repeated(A: f32[4, 4], out C: f32[4]) {
    alloc T: f32[4]
    alloc U: f32[4]
    for a0 in 4 {
        for i_1 in 4, k_1 in 4 {
            block sum[i: 4 = i_1 | k: 4 = k_1] { init { T[i] = 0.0 } T[i] += A[i, k] }
        }
        block copy[i: 4 = a0] { U[i] = T[i] }
    }
    for b0 in 4 { block last[i: 4 = b0] { C[i] = U[i] } }
}"""


def test_a_reduction_that_lanes_repeat_is_none_that_they_share() -> None:
    p = vectorize(parse_program(REPEATED), loop("a0"), reduction=True).program
    assert JOINED not in print_program(p)
    with refused("MS310", "no longer be independent"):
        compute_at(p, block("copy"), loop("b0"))


@pytest.mark.parametrize(
    ("body", "why"),
    [
        ("block b[| k: 8 = 0] { init { Y[0] = 0.0 } Y[0] += X[0] }", "does not reduce over loop `j_1`"),
        ("block b[i: 4 = j_1 // 2 | k: 2 = j_1 % 2] { Y[i] += X[i * 2 + k] }", "serves the spatial axis `i`"),
    ],
)
def test_lanes_share_a_reduction_over_their_loop_only(body: str, why: str) -> None:
    p = parse_program(f"program one(X: f32[8], inout Y: f32[8]) {{ for j_1 in 8 {{ {body} }} }}")
    with refused("MS309", why):
        vectorize(p, loop("j_1"), reduction=True)
