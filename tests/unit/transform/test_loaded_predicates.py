"""Predicates that load: conditions that a primitive adds stand in front of the load, so that it stays in bounds."""

from __future__ import annotations

import numpy as np
import pytest

import mslang as ms
from mslang.ir.expr import Binary, Const, Expr, Load, Var
from mslang.ir.print import print_program
from mslang.ir.text import print_expr
from mslang.ir.visit import guarded
from mslang.sema.program import parse_program
from tests.unit.transform.meaning import same, scheduled

FLAGS = """program flags(X: f32[8], inout T: f32[8]) {
    block b[i: 8] {
        where X[i] > 0.0
        T[i] = X[i]
    }
}
"""

GATHERED = """program gathered[M: dyn(1..9000)](index: i64[M], W: f32[64], inout T: f32[M]) {
    block b[i: M] {
        where W[index[i]] > 0.0
        T[i] = 1.0
    }
}
"""

STAGED = """program staged(F: f32[10], A: f32[10], out B: f32[10]) {
    alloc S: f32[10]
    block zero[i: 10] { S[i] = 1.0 }
    block fill[i: 10] {
        where F[i] > 0.0
        S[i] = A[i]
    }
    block last[i: 10] { B[i] = S[i] }
}
"""


@pytest.mark.parametrize(
    "steps",
    [
        "let a, c = b.i.split([_, 3])",
        "let a, c = b.i.split([_, 16])",
        "let a, c = b.i.split([_, 3])  let d, e = c.split([_, 2])",
        "let a, c = b.i.split([_, 3])  c.vectorize()",
        "let a, c = b.i.split([_, 16])  c.vectorize()",
        "let a, c = b.i.split([_, 3])  a.parallel()  c.unroll()",
        "let n ~ choose([3, 5]) = 5  let a, c = b.i.split([_, n])",
    ],
)
def test_a_guard_stands_in_front_of_a_load(steps: str) -> None:
    same(*scheduled(FLAGS, steps))


def test_the_guard_is_printed_first() -> None:
    _, found = scheduled(FLAGS, "let a, c = b.i.split([_, 3])")
    assert "where a * 3 + c < 8 and X[i] > 0.0" in print_program(found)


@pytest.mark.parametrize(
    "steps",
    ["let a, c = b.i.split([_, 4096])", "let a, c = b.i.split([_, 4096])  let d, e = c.split([_, 8])  e.vectorize()"],
)
@pytest.mark.parametrize("checked", [True, False])
def test_an_index_behind_the_end_is_not_loaded(steps: str, checked: bool) -> None:
    _, found = scheduled(GATHERED, steps)
    kernel = ms.build(found, checked=checked)
    rng = np.random.default_rng(0)
    w = rng.normal(size=64).astype(np.float32)
    for m in (1, 4096, 4097, 5000):
        # An index behind the end would be far out of bounds.
        backing = np.full(m + 5000, 1 << 40, np.int64)
        index = backing[:m]
        index[:] = rng.integers(0, 64, m)
        out = np.zeros(m, np.float32)
        kernel(index, w, out)
        assert np.array_equal(out != 0, w[index] > 0)


def test_a_block_between_others_keeps_its_guards_first() -> None:
    same(
        *scheduled(
            STAGED,
            "let a, c = fill.i.split([_, 4])  let d, e = last.i.split([_, 3])  c.vectorize()",
        )
    )


def test_a_condition_that_loads_joins_a_guard_behind_it() -> None:
    before, after = scheduled(
        FLAGS,
        "let a, c = b.i.split([_, 3])"
        "  let copy = b.reindex_cache_write(T, local, fn (i) -> [i])"
        "  copy.reverse_compute_inline()",
    )
    assert "where a * 3 + c < 8 and X[i] > 0.0" in print_program(after)
    same(before, after)


def test_conditions_join_a_predicate() -> None:
    i, n = Var("i"), Const(8)
    below: Expr = Binary("<", i, n)
    loads: Expr = Binary(">", Load("X", (i,), "f32"), Const(0.0, "f32"))
    odd: Expr = Binary("==", i, Const(1))
    assert print_expr(guarded(loads, (below,))) == "i < 8 and X[i] > 0.0"
    assert print_expr(guarded(odd, (below,))) == "i == 1 and i < 8"
    assert print_expr(guarded(Binary("and", odd, loads), (below,))) == "i == 1 and i < 8 and X[i] > 0.0"
    assert print_expr(guarded(Binary("and", odd, below), (loads,))) == "i == 1 and i < 8 and X[i] > 0.0"
    assert print_expr(guarded(odd, (loads, below))) == "i == 1 and i < 8 and X[i] > 0.0"


def test_and_and_or_stop_at_what_decides_them() -> None:
    program = parse_program("""program p(X: f32[8], out Y: f32[10]) {
        block b[i: 10] {
            Y[i] = select(1 <= i and i < 9 and X[i - 1] > 0.0, 1.0, select(i >= 8 or X[i] > 0.0, 2.0, 3.0))
        }
    }""")
    same(program, program)
    _, done = scheduled(print_program(program), "b.i.vectorize()")
    same(program, done)
