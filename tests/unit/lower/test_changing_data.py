"""Guards, bounds and inits that load what their loops change: nothing is proved of it, or asked for early."""

from __future__ import annotations

import numpy as np
import pytest

import mslang as ms
from mslang.backend.reference import interpret

GUARD = """program p[M: dyn(1..64)](A: i32[M, 8], inout n: i64[1], inout B: i32[M, 8]) {
    for i in 0..M, j in 0..8 {
        block d[x: M @ opaque = i, y: 8 @ opaque = j] {
            reads A[x, y], n[0]
            writes B[x, y], n[0]
            if x < n[0] {
                B[x, y] = A[x, y]
                n[0] = 3
            }
        }
    }
}"""
GUARDED = """program p[M: dyn(1..64)](A: i32[M, 8], n: i64[8], inout B: i32[M, 8]) {
    for i in 0..M, j in 0..8 {
        block d[x: M = i, y: 8 = j] { if y < 8 - 1 { if x < n[y + 1] { B[x, y] = A[x, y] } } }
    }
}"""
BOUNDS = """program p(A: i32[8, 8], inout n: i64[1], inout B: i32[8, 8]) {
    for k in 0..n[0] {
        block c[] { n[0] = 0 }
        for j in n[0]..8 {
            block d[x: 8 @ opaque = k, y: 8 @ opaque = j] {
                where k < j
                B[x, y] = A[x, y]
            }
        }
    }
}"""
INIT = """program p(A: i32[8], inout S: i32[1], inout n: i64[1]) {
    for k in 0..max(n[0], 1) {
        block c[| r: 8 = k] {
            reads A[r]
            writes S[0], n[0]
            init {
                S[0] = 0
                n[0] = 2
            }
            S[0] += A[r]
        }
    }
}"""


@pytest.mark.parametrize(
    ("text", "sizes", "n"),
    [(GUARD, {"M": 15}, [9]), (GUARDED, {"M": 15}, [0, 3, 20, 1, 15, 9, 2, 4]), (BOUNDS, {}, [5]), (INIT, {}, [5])],
    ids=["guard", "guard under a guard", "bounds", "init"],
)
def test_what_the_loop_changes_is_asked_for_when_it_counts(text: str, sizes: dict[str, int], n: list[int]) -> None:
    program = ms.parse_program(text)
    rng = np.random.default_rng(0)
    rows = sizes.get("M", 8)
    given = {
        "A": rng.integers(1, 99, (rows, 8), np.int32),
        "B": np.zeros((rows, 8), np.int32),
        "S": np.zeros(1, np.int32),
        "n": np.array(n),
    }
    if text is INIT:
        given["A"] = given["A"][0]
    arrays = {q.buffer.name: given[q.buffer.name] for q in program.params}
    wanted = interpret.run(program, {name: a.copy() for name, a in arrays.items()}, sizes=sizes)
    ms.build(program)(**arrays)
    for name, array in wanted.items():
        assert np.array_equal(arrays[name], array), name
