"""A refusal explains itself: which condition failed, and the nearest legal thing."""

import ast
from pathlib import Path

import pytest

import mslang as ms
from mslang.diagnostics import MsError

GEMM = ms.parse_program("""program gemm(A: f32[64, 60], B: f32[60, 64], out C: f32[64, 64]) {
    alloc T: f32[64, 64]
    block mm[i: 64, j: 64 | k: 60] { T[i, j] += A[i, k] * B[k, j] }
    block relu[i: 64, j: 64] { C[i, j] = max(T[i, j], 0.0) }
}""")
ORDERED = ms.parse_program("""program p(A: f32[8, 4, 4], out B: f32[8]) {
    for i in 8, k in 4, l in 4 {
        block b[x: 8 = i | y: 4 = k, z: 4 = l] {
            init { B[x] = 0.0 }
            B[x] = B[x] * 0.5 + A[x, y, z]
        }
    }
}""")
STENCIL = ms.parse_program("""program p(A: f32[8, 8], inout B: f32[9, 9]) {
    for i in 8, j in 8 {
        block b[x: 8 = i, y: 8 = j] { B[x + 1, y] = B[x, y + 1] + A[x, y] }
    }
}""")


def refusal(act, program=GEMM):
    s = ms.Schedule(program)
    with pytest.raises(MsError) as refused:
        act(s)
    assert s.parametric is program or s.trace.instructions
    return refused.value.diagnostic


def loops(s, block):
    return s.loops(s.get(block))


@pytest.mark.parametrize(
    ("act", "code", "why", "help"),
    [
        (
            lambda s: s.parallel(loops(s, "mm")[2]),
            "MS309",
            "serves the reduce axis `k`",
            "loops of this nest that can run in parallel now: `i`, `j`",
        ),
        (
            lambda s: s.vectorize(loops(s, "mm")[2]),
            "MS309",
            "serves the reduce axis `k`",
            "loops of this nest that can be vectorized now: `i`, `j`",
        ),
        (
            lambda s: s.split(loops(s, "mm")[2], [4, 8]),
            "MS306",
            "below the extent 60",
            "`[8, 8]` covers it, with a guard",
        ),
        (lambda s: s.split(loops(s, "mm")[2], [4, 12]), "MS306", "below the extent 60", "`[5, 12]` covers it"),
        (
            lambda s: s.fuse(loops(s, "mm")[0], loops(s, "mm")[2]),
            "MS304",
            "loop `j` stands between them",
            "directly nested in each other are: `i`, `j`, `k`",
        ),
        (
            lambda s: s.fuse(loops(s, "mm")[0], loops(s, "relu")[0]),
            "MS304",
            "loop `i_1` is not inside loop `i`",
            "`i`, `j`, `k` | `i_1`, `j_1`",
        ),
        (
            lambda s: s.reorder(loops(s, "mm")[0], loops(s, "relu")[0]),
            "MS304",
            "neither is around the other",
            "`i`, `j`, `k` | `i_1`, `j_1`",
        ),
        (
            lambda s: s.decompose_reduction(s.get("mm"), s.split(loops(s, "mm")[2], [None, 8])[1]),
            "MS314",
            "run again in each of its iterations",
            "loops of block `mm` at which it can be decomposed now: `i`, `j`, `k_0`",
        ),
        (
            lambda s: s.compute_at(s.get("mm"), loops(s, "mm")[0]),
            "MS340",
            "under a loop of another block",
            "loops at which `mm` can be placed: `i_1` (`relu.i`), `j_1` (`relu.j`)",
        ),
        (
            lambda s: s.reverse_compute_at(s.get("relu"), loops(s, "mm")[2]),
            "MS3",
            "",
            "loops at which `relu` can be placed: `i`, `j`",
        ),
        (lambda s: s.cache_read(s.get("mm"), s.get("C")), "MS330", "", "it reads `A`, `B`"),
        (
            lambda s: s.rfactor(loops(s, "mm")[0]),
            "MS368",
            "only a loop that reduces",
            "loops of this nest that can be factored now: `k`",
        ),
    ],
)
def test_a_refusal_says_why_and_what_is_legal(act, code, why, help):
    found = refusal(act)
    assert found.code.startswith(code)
    assert why in (found.why or "")
    assert help in (found.help or "")


def test_what_is_advised_works():
    s = ms.Schedule(GEMM)
    s.parallel(loops(s, "mm")[0])
    s = ms.Schedule(GEMM)
    s.vectorize(loops(s, "relu")[1])
    s = ms.Schedule(GEMM)
    s.split(loops(s, "mm")[2], [5, 12])


def test_the_nearest_legal_order():
    found = refusal(lambda t: t.reorder(*(t.loops(t.get("b"))[n] for n in (0, 2, 1))), ORDERED)
    assert found.code == "MS308" and "must be kept" in (found.why or "")
    advice = "the nearest legal order is `reorder("
    assert advice in (found.help or "")
    order = found.help.partition("reorder(")[2].partition(")")[0].split(", ")
    s = ms.Schedule(ORDERED)
    handles = dict(zip(("i", "k", "l"), s.loops(s.get("b"))))
    s.reorder(*(handles[n] for n in order))


def test_what_a_block_hands_on_to_itself_keeps_its_order():
    found = refusal(lambda t: t.reorder(*reversed(t.loops(t.get("b")))), STENCIL)
    assert found.why == "block `b` may read elements of `B` that it writes in another iteration"
    assert found.help == "no near order is legal but the present one: `i`, `j`"


def test_every_refusal_says_why_or_what_to_do():
    lacking = []
    for path in sorted((Path(ms.__file__).parent / "transform").glob("*.py")):
        for node in ast.walk(ast.parse(path.read_text())):
            match node:
                case ast.Call(func=ast.Name(id="refuse"), keywords=keywords):
                    if not {"why", "help"} & {k.arg for k in keywords}:
                        lacking.append(f"{path.name}:{node.lineno}")
    assert lacking == []
