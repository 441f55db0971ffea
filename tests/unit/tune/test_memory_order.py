"""The order in which the unscheduled program runs for the expected results: along rows, and the same bit for bit."""

import pickle
from pathlib import Path

import numpy as np
import pytest

from mslang.backend.registry import serving
from mslang.ir.program import Program
from mslang.schedule.rules.nests import leaf_blocks, loops_around
from mslang.sema.program import parse_program
from mslang.target.detect import host
from mslang.tune import job as job_module
from mslang.tune.job import Built, PrepareJob, encode, prepare
from mslang.tune.memory_order import in_memory_order
from mslang.tune.verification import DENSE, SPARSE, make_arguments, make_inputs

PRODUCT = """
program p[M = 24, N = 40, K = 56](A: f32[M, K], B: f32[K, N], out C: f32[M, N]) {
    block mm[i: M, j: N | k: K] { C[i, j] += A[i, k] * B[k, j] }
}
"""
CONVOLUTION = """
program conv(X: f32[2, 5, 12, 14], W: f32[6, 5, 3, 3], out Y: f32[2, 6, 10, 12]) {
    block c[n: 2, o: 6, h: 10, w: 12 | i: 5, r: 3, s: 3] {
        Y[n, o, h, w] += X[n, i, h + r, w + s] * W[o, i, r, s]
    }
}
"""
TWO = """
program two(A: f32[16, 24], B: f32[24, 32], out D: f32[32, 16]) {
    alloc C: f32[16, 32]
    block mm[i: 16, j: 32 | k: 24] { C[i, j] += A[i, k] * B[k, j] }
    block turn[j: 32, i: 16] { D[j, i] = C[i, j] + 1.0 }
}
"""
ROWS = """
program rows(A: f32[16, 24], B: f32[32, 24], out C: f32[16, 32]) {
    block mm[i: 16, j: 32 | k: 24] { C[i, j] += A[i, k] * B[j, k] }
}
"""
COLUMNS = "program columns(A: f32[24, 32], out y: f32[32]) { block s[j: 32 | k: 24] { y[j] += A[k, j] } }"
ROW_SUM = "program row_sum(A: f32[32, 24], out y: f32[32]) { block s[i: 32 | k: 24] { y[i] += A[i, k] } }"
RUNNING = """
program running(inout A: f32[16, 24]) {
    for i in 1..16 { for j in 0..23 { block s[x: 16 = i, y: 24 = j] { A[x, y] = A[x - 1, y + 1] * 0.5 } } }
}
"""
SUM_OVER_ROWS = """
program over_rows(A: f32[24, 32], out y: f32[1]) { block s[z: 1 | j: 32, k: 24] { y[z] += A[k, j] } }
"""
SHARED = """
program shared(A: f32[16, 24], B: f32[24, 16], out C: f32[16, 24], out D: f32[16, 24]) {
    for i in 16 {
        for j in 24 {
            block one[x: 16 = i, y: 24 = j] { C[x, y] = A[x, y] }
            block two[x: 16 = i, y: 24 = j] { D[x, y] = B[y, x] }
        }
    }
}
"""


def loops(program: Program) -> list[list[str]]:
    return [[s.var for s in loops_around(program, b)] for b in leaf_blocks(program)]


def run(program: Program, kind: str) -> dict[str, np.ndarray]:
    arrays = make_arguments(program, make_inputs(program, kind, seed=5))
    serving(host()).loaded(program, host()).bind(**arrays).run()
    return arrays


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        (PRODUCT, [["i", "k", "j"]]),
        (CONVOLUTION, [["n", "o", "h", "i", "r", "s", "w"]]),
        (TWO, [["i", "k", "j"], ["j_1", "i_1"]]),
        (ROWS, [["i", "j", "k"]]),
        (COLUMNS, [["k", "j"]]),
        (ROW_SUM, [["i", "k"]]),
        # The order in which a sum is taken stays, and so does what one iteration hands to the next.
        (SUM_OVER_ROWS, [["z", "j", "k"]]),
        (RUNNING, [["i", "j"]]),
        (SHARED, [["i", "j"], ["i", "j"]]),
    ],
)
@pytest.mark.one_in(2)
def test_rows_are_innermost_and_results_are_the_same_bit_for_bit(text: str, wanted: list[list[str]]) -> None:
    program = parse_program(text)
    ordered = in_memory_order(program)
    assert loops(ordered) == wanted
    for kind in (SPARSE, DENSE):
        before, after = run(program, kind), run(ordered, kind)
        assert {k: v.tobytes() for k, v in before.items()} == {k: v.tobytes() for k, v in after.items()}


def test_expected_results_are_computed_row_by_row(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[Program] = []
    compile = job_module._compile

    def noted(program: Program, *rest: object) -> Built:
        seen.append(program)
        return compile(program, *rest)  # type: ignore[arg-type]

    monkeypatch.setattr(job_module, "_compile", noted)
    pickle.loads(prepare(encode(PrepareJob(parse_program(PRODUCT), host(), str(tmp_path), 0))))
    assert [loops(p) for p in seen] == [[["i", "k", "j"]]]
