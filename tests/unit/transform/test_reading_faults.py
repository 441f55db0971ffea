"""Schedules that were accepted and changed the program, found by reading the code of primitives and of what they ask.

Each is now refused, or right.
"""

from __future__ import annotations

import numpy as np
import pytest

import mslang as ms
from mslang.backend.reference import interpret
from mslang.diagnostics import MsError
from mslang.ir.program import Program
from mslang.schedule.space import Candidate

ARRAYS = {
    "A1": np.arange(8, dtype=np.float32) - 3,
    "U": np.array([2**62, 2**62 + 5, -(2**62) - 1, 2**61, 2**63 - 1, -(2**63), 0, 3]),
}


def scheduled(text: str, steps: str) -> Program | str:
    """The scheduled program, or the code of the refusal."""
    found = ms.parse(f"{text}\nschedule s for p {{\n{steps}\n}}").space("s").attempt(0)
    if isinstance(found, Candidate):
        return found.program
    assert isinstance(found.error, MsError), found
    return found.error.diagnostic.code


def arrays(program: Program) -> dict[str, np.ndarray]:
    """Small numbers, the same in every run; indices in order, large numbers for `U`."""
    rng = np.random.default_rng(7)
    made: dict[str, np.ndarray] = {}
    for q in program.params:
        if q.direction == "out":
            continue
        shape = tuple(int(n.value) for n in q.buffer.shape)
        if q.buffer.name == "U":
            made["U"] = ARRAYS["U"]
        elif q.buffer.dtype == "i64":
            made[q.buffer.name] = np.arange(shape[0])
        else:
            made[q.buffer.name] = rng.integers(-3, 4, shape).astype(np.float32)
    return made


def judge(text: str, steps: str, wanted: str | None) -> None:
    """The steps are refused with a code, or (None) mean the same in the interpreter and compiled."""
    program, found = ms.parse(text).program("p"), scheduled(text, steps)
    if wanted is not None:
        assert found == wanted
        return
    assert isinstance(found, Program), found
    given = arrays(program)
    want = interpret.run(program, {n: a.copy() for n, a in given.items()})
    got = interpret.run(found, {n: a.copy() for n, a in given.items()})
    own = {n: a.copy() for n, a in given.items()}
    results = ms.build(found)(**own)
    names = [q.buffer.name for q in program.params if q.direction != "in"]
    compiled = dict(zip(names, results if isinstance(results, tuple) else (results,), strict=True))
    for name, array in want.items():
        assert np.array_equal(got[name], array), f"{name} in the interpreter"
        assert np.array_equal(compiled[name], array), f"{name} compiled"


UNDER_IF = """program p(A: f32[4, 16], C: f32[4], inout S: f32[4]) {
    for i in 0..4 { if C[i] > 0.0 { for k in 0..16 {
        block s[x: 4 = i | y: 16 = k] { init { S[x] = 0.0 } S[x] = S[x] + A[x, y] }
    } } }
}"""
UNDER_LET = """program p(A: f32[4, 16], I: i64[4], inout S: f32[4]) {
    for i in 0..4 { let v = I[i]
        for k in 0..16 {
            block s[x: 4 = i, w: 4 = v | y: 16 = k] { init { S[x] = 0.0 } S[x] = S[x] + A[w, y] }
        }
    }
}"""


@pytest.mark.parametrize(
    ("text", "loop", "wanted"), [(UNDER_IF, 0, "MS314"), (UNDER_LET, 0, "MS314"), (UNDER_IF, 1, None)]
)
def test_an_init_stays_under_what_stands_above_it(text: str, loop: int, wanted: str | None) -> None:
    judge(text, f"s.decompose_reduction(s.loops()[{loop}])", wanted)


@pytest.mark.parametrize("kind", ["opaque", "scan"])
@pytest.mark.parametrize(
    ("loops", "at", "wanted"),
    [
        ("i in 0..4, k in 0..8", 0, "MS378"),
        ("i in 0..4, k in 0..8", 1, None),
        ("k in 0..8, i in 0..4", 0, "MS378"),
        ("k in 0..8, i in 0..4", 1, "MS378"),
    ],
)
def test_an_init_that_runs_for_each_value_of_an_axis_is_not_lifted(
    kind: str, loops: str, at: int, wanted: str | None
) -> None:
    text = f"""program p(A: f32[4, 8], out S: f32[1]) {{
        for {loops} {{
            block s[x: 1 = 0, o: 4 @ {kind} = i | y: 8 = k] {{ init {{ S[x] = 0.0 }} S[x] = S[x] + A[o, y] }}
        }}
    }}"""
    judge(text, f"blockize(s.loops()[{at}])", wanted)


GROWING = """program p(A: f32[16], inout I: i64[8], inout B: f32[4, 16]) {
    for i in 0..4 {
        for j in 0..min(max(I[0], 0), 16) { block b[x: 4 = i, y: 16 = j] { B[x, y] = A[y] * 2.0 } }
        block w[u: 4 @ opaque = i] { I[0] = I[0] + 1 }
    }
}"""
MOVING = """program p(A: f32[16], inout I: i64[8], inout B: f32[4, 16]) {
    for i in 0..4 {
        for j in 0..16 {
            block b[x: 4 = i, y: 16 = j, q: 16 @ opaque = min(max(I[0], 0), 15)] {
                B[x, y] = A[(q * 3) % 16] * 2.0
            }
        }
        block w[u: 4 @ opaque = i] { I[0] = I[0] + 1 }
    }
}"""
MOVED_BEFORE = """program p(A: f32[16], inout I: i64[8], inout B: f32[4, 16]) {
    for u in 0..8 { block w[u: 8 = u] { I[u] = I[u] + 1 } }
    for i in 0..4, j in 0..16 {
        block b[x: 4 = i, y: 16 = j, q: 16 @ opaque = min(max(I[0], 0), 15)] { B[x, y] = A[q] * 2.0 }
    }
}"""


@pytest.mark.parametrize(
    ("text", "steps"),
    [
        (GROWING, "b.reindex(A)"),
        (GROWING, "b.reindex_cache_read(A, global, fn (x, y) -> [y])"),
        (MOVING, "b.reindex(A)"),
        (MOVING, "b.cache_index()"),
        (MOVED_BEFORE, "b.reindex_cache_read(A, global, fn (x, y, q) -> [q])"),
    ],
)
def test_a_copy_holds_what_will_be_read_however_bounds_change(text: str, steps: str) -> None:
    judge(text, steps, None)


INNER_LET = """program p(A: f32[4, 8], out S: f32[4, 8]) {
    for i in 0..4 { let v = i * 2
        for k in 0..8 { block s[x: 4 = v // 2, y: 8 = k] { S[x, y] = A[x, y] } }
    }
}"""
LOADED_LET = """program p(I: i64[8] in 0..16, A: f32[16], inout B: f32[8]) { let v = I[2]
    for i in 0..8 { block s[x: 8 = i, q: 16 @ opaque = v] { B[x] = A[(q * 3) % 16] * 2.0 } }
}"""


@pytest.mark.parametrize(
    ("text", "steps"),
    [(INNER_LET, "s.cache_read(A)"), (LOADED_LET, "s.cache_read(A)"), (LOADED_LET, "s.cache_index()")],
)
def test_a_copy_outside_of_a_let_does_not_name_what_it_tells(text: str, steps: str) -> None:
    judge(text, steps, None)


LARGE = """program p(U: i64[8], A: f32[8], out B: f32[8]) { for i in 0..8 { block b[x: 8 = i] {
    let v = U[x]
    B[x] = A[min(max((v * 4) // 4, 0), 7)]
} } }"""
LARGE_CONDITION = """program p(U: i64[8], A: f32[8], out B: f32[8]) { for i in 0..8 { block b[x: 8 = i] {
    let v = U[x]
    B[x] = A[select(v < v + 1, x, 0)]
} } }"""
LARGE_AROUND = """program p(U: i64[8], A: f32[8, 8], out B: f32[8, 8]) {
    for i in 0..8 { let v = U[i]
        for j in 0..8 {
            block b[x: 8 = i, y: 8 = j, z: 8 @ opaque = min(max((v * 4) // 4 + j, 0), 7)] { B[x, y] = A[x, z] }
        }
    }
}"""


@pytest.mark.parametrize(
    ("text", "steps"),
    [
        (LARGE, "b.transform_block_layout(fn (x) -> [x // 4, x % 4])"),
        (LARGE, "b.transform_layout(A, fn (i) -> [i // 4, i % 4])"),
        (LARGE_AROUND, "let a, c = b.loops()[1].split([_, 2])"),
        (LARGE, "let c = b.cache_read(A) c.compute_inline()"),  # pair 47644 of `instances`, seed 33
        (LARGE_CONDITION, "let c = b.cache_read(A) c.compute_inline()"),
    ],
)
def test_data_that_a_let_holds_wrap_round(text: str, steps: str) -> None:
    judge(text, steps, None)


TILE = """intrin scaled(src: f32[4], out dst: f32[4]) {{
    desc {{ block c[x: 4] {{ let t = x + 1
        dst[x] = src[x] * f32(x) }} }}
    impl {{ block c[x: 4] {{ dst[x] = src[x] * f32(x) }} }}
}}
program p(A: f32[4, 8, 4], out B: f32[4, 8, 4]) {{ for i in 0..4, j in 0..8, k in 0..4 {{
    block b[x: 4 = i, y: 8 = j, z: 4 = k] {{ let k = z + 1
        B[x, y, z] = A[x, y, z] * f32({read}) }}
}} }}"""


@pytest.mark.parametrize(("read", "wanted"), [("k", "MS380"), ("z", None)])
def test_a_let_in_a_tile_may_be_called_like_its_loop(read: str, wanted: str | None) -> None:
    judge(TILE.format(read=read), "tensorize(b.loops()[2], scaled)", wanted)


@pytest.mark.parametrize(
    ("scale", "wanted"),
    [("1e-52", "MS367"), ("f32(f16(0.00000001))", "MS367"), ("(1e-30 * 1e-30)", "MS367"), ("0.5", None)],
)
def test_a_factor_that_rounds_to_0_is_not_positive(scale: str, wanted: str | None) -> None:
    text = f"""program p(A: f32[4, 8], out M: f32[4], out S: f32[4]) {{
        for i in 0..4, k in 0..8 {{
            block m[x: 4 = i | y: 8 = k] {{ init {{ M[x] = -inf }} M[x] = max(M[x], A[x, y]) }}
        }}
        for i in 0..4, k in 0..8 {{
            block s[x: 4 = i | y: 8 = k] {{ init {{ S[x] = 0.0 }} S[x] = S[x] + exp({scale} * (A[x, y] - M[x])) }}
        }}
    }}"""
    found = scheduled(text, "let a, b = m.loops()[1].split([_, 4])\nm.rolling_update(a, [s])")
    assert found == wanted if wanted is not None else isinstance(found, Program)


@pytest.mark.parametrize(
    ("start", "better", "wanted"),
    [
        ("-3.4028234663852886e38", ">=", "MS370"),
        ("-3.4028234663852886e38", ">", None),
        ("-inf", ">=", None),
    ],
)
def test_of_equals_the_last_is_not_one_that_was_never_there(start: str, better: str, wanted: str | None) -> None:
    text = f"""program p(A: f32[2, 6], out at: i32[2], out val: f32[2]) {{
        for i in 0..2, k in 0..6 {{ block best[x: 2 = i | y: 6 = k] {{
            init {{
                at[x] = i32(-1)
                val[x] = {start}
            }}
            let q = select(A[x, y] {better} val[x], i32(y), at[x])
            let v = select(A[x, y] {better} val[x], A[x, y], val[x])
            at[x] = q
            val[x] = v
        }} }}
    }}"""
    judge(text, "let a, b = best.loops()[1].split([3, 2])\na.rfactor()", wanted)


@pytest.mark.parametrize(("condition", "wanted"), [("16 % (M - 5) == 0", "MS358"), ("16 % M == 0", None)])
def test_a_condition_of_specialize_divides_by_no_0(condition: str, wanted: str | None) -> None:
    text = """program p[M: dyn(1..64)](A: f32[M], out B: f32[M]) {
        for j in 0..M { block t[x: M = j] { B[x] = A[x] + 1.0 } }
    }"""
    found = scheduled(text, f"t.loops()[0].specialize({condition})")
    assert found == wanted if wanted is not None else isinstance(found, Program)


VIEWED = """program p(A: f32[8, 8], inout T: f32[9], inout B: f32[8]) {
    block o[z: 1] {
        reads T[0..9], A[0..8, 0..8], B[0..8]
        writes T[0..9], B[0..8]
        view V: f32[9] = T[0..9]
        %s
    }
}"""
WRITER = "block a[x: 8 = i] { T[x] = A[x, 0] }"
GUARDED = "where V[x + 1] > 0.0\nB[x] = A[x, 0]"
SUM = "for i in 0..8, k in 0..8 { block s[x: 8 = i | y: 8 = k] { %s init { T[x] = 0.0 } T[x] = T[x] + A[x, y] * %s } }"
BOTH = f"for i in 0..8 {{ {WRITER} block b[x: 8 = i] {{ {GUARDED} }} }}"
APART = f"for i in 0..8 {{ {WRITER} }} for i2 in 0..8 {{ block b[x: 8 = i2] {{ {GUARDED} }} }}"
BOUND = f"""for i in 0..8 {{ {WRITER}
    for j in 0..i64(min(max(V[i + 1], 0.0), 1.0)) {{ block b[x: 8 = i] {{ B[x] = A[x, 0] }} }} }}"""
ADDED = "for k in 0..8 { block s[x: 1 = 0 | y: 8 = k] { %s init {} T[8] = T[8] + A[x, y] * %s } }"


@pytest.mark.parametrize(
    ("body", "steps", "wanted"),
    [
        (BOTH, "b.loops()[0].fission(a)", "MS352"),
        (BOUND, "b.loops()[0].fission(a)", "MS352"),
        (APART, "merge(a.loops()[0], b.loops()[0])", "MS352"),
        (SUM % ("", "V[(y + 1) % 8]"), "s.decompose_reduction(s.loops()[0])", "MS313"),
        (SUM % ("", "V[(y + 1) % 8]"), "s.loops()[1].rfactor(0)", "MS313"),
        (SUM % ("", "V[(y + 1) % 8]"), "blockize(s.loops()[0])", "MS378"),
        (SUM % ("where V[(k + 1) % 8] > 0.0\n", "2.0"), "s.loops()[1].vectorize(reduction = true)", "MS309"),
        (ADDED % ("where V[8] < 3.0\n", "2.0"), "s.atomic()", "MS322"),
        (ADDED % ("", "V[8]"), "s.atomic()", "MS322"),
        (SUM % ("", "2.0"), "s.decompose_reduction(s.loops()[0])", None),
    ],
)
def test_a_view_of_a_block_around_is_the_memory_that_it_looks_at(body: str, steps: str, wanted: str | None) -> None:
    judge(VIEWED % body, steps, wanted)


CROSSED = """program p(inout C: f32[8, 4]) {
    for i in 8, j in 4 { block b[j: 8 = i, i: 4 = j] {
        where i < 2
        C[j, i] = C[j, i] + 1.0 } } }"""
TRIANGLE = """program p(inout C: f32[8, 8]) {
    for i in 8, j in i + 1 { block b[j: 8 = i, i: 8 = j] { C[j, i] = C[j, i] + 1.0 } } }"""
SHIFTED = """program p(inout C: f32[8, 8]) {
    for i in 8, j in i .. 8 { block b[i: 8 = j, x: 8 = i] {
        where j < 7
        C[x, i] = C[x, i] + 1.0 } } }"""


@pytest.mark.parametrize(
    ("text", "steps"),
    [
        (CROSSED.replace("C[j, i] + 1.0", "1.0"), "let a, c = b.loops()[0].split([_, 8])\nlet z = b.cache_write(C)"),
        (CROSSED, "let a, c = b.loops()[1].split([_, 3])"),
        (TRIANGLE, "let a, c = b.loops()[1].split([_, 2])"),
        (TRIANGLE, "let a, c = b.loops()[1].split([_, 3])\na.unroll()"),
        (SHIFTED, "let a, c = b.loops()[1].split([_, 3])"),
        (SHIFTED, "let a = b.loops()[1].add_unit_loop()"),
    ],
)
def test_what_is_said_of_a_loop_is_not_taken_for_the_axis_of_its_name(text: str, steps: str) -> None:
    judge(text, steps, None)
