"""Tiles of loops whose extents are known only at the call: any extent, at and below the tile, means the same."""

from __future__ import annotations

import pytest

from mslang.diagnostics import MsError
from mslang.ir import arith
from mslang.ir.expr import Binary, Const, DynamicRange, FreeTile, Symbol
from tests.choice import Chosen
from tests.unit.transform.meaning import same, scheduled

SUMS = """program sums[M: dyn(1..40), K: dyn(1..40)](A: f32[M, K], out O: f32[M]) {
    block s[i: M | k: K] { O[i] += A[i, k] }
}
"""

COPY = """program copy[M: dyn(1..40)](X: f32[M, 3], out Y: f32[M, 3]) {
    block b[i: M, j: 3] { Y[i, j] = X[i, j] }
}
"""

TRIANGLE = """program triangle[M: dyn(1..40)](X: f32[M, M], inout T: f32[M]) {
    for i in 0..M {
        for j in 0..min(i + 1, M) {
            block a[x: M = i, y: M @ reduce = j] {
                init {}
                T[x] = T[x] + X[x, y]
            }
        }
    }
}
"""


@pytest.mark.parametrize(
    "steps",
    [
        "let x, y = s.k.split(ti, tail = peel)",
        "let x, y = s.k.split(ti)",
        "let x, y = s.k.split(ti)  let r = y.rfactor()",
        "let x, y = s.k.split(ti)  let r = x.rfactor()",
        "let x, y = s.k.split(ti)  s.decompose_reduction(x)",
        "let x, y = s.k.split(ti)  reorder(y, x)",
        "let x, y = s.i.split(ti, tail = peel)",
        "let x, y = s.i.split(ti)  y.vectorize()",
        "let c = s.cache_write(O, scope = local)  let x, y = s.k.split(ti)  s.decompose_reduction(x)",
    ],
)
@pytest.mark.parametrize("size", [1, 4, 7])
@pytest.mark.one_in(2)
def test_any_extent_means_the_same(steps: str, size: int, chosen: Chosen) -> None:
    axis = "s.i" if "s.i.split" in steps else "s.k"
    head = f"let ti ~ tile({axis}, n = 2, max_inner = {size}) = [_, {size}]"
    before, after = scheduled(SUMS, f"{head} {steps}")
    for n, (m, k) in enumerate(((1, 1), (1, size), (3, max(1, size - 1)), (size + 1, 2 * size + 1))):
        if chosen(n, 2):
            same(before, after, M=m, K=k)


def test_a_last_tile_is_not_moved_before_the_start() -> None:
    with pytest.raises(MsError) as caught:
        scheduled(COPY, "let t ~ tile(b.i, n = 2, max_inner = 4)  let x, y = b.i.split(t, tail = shift)")
    assert caught.value.diagnostic.code == "MS354"
    assert caught.value.diagnostic.why == "one tile may be larger than the whole loop"


def test_nothing_relates_a_tile_and_an_extent_known_only_at_the_call() -> None:
    m = Symbol("M", DynamicRange(1, 40))
    inner = Symbol("t", FreeTile(m, 2, 4), 1)
    assert arith.decide(Binary("<=", inner, m)) is not arith.Verdict.PROVED
    assert arith.decide(Binary("<=", inner, Const(4))) is arith.Verdict.PROVED
    known = Symbol("t", FreeTile(Const(9), 2, 4), 1)
    assert arith.decide(Binary("<=", known, Const(9))) is arith.Verdict.PROVED


@pytest.mark.parametrize("sampler", ["tile", "perfect_tile"])
def test_a_loop_whose_extent_another_loop_decides_has_no_tile(sampler: str) -> None:
    with pytest.raises(MsError) as caught:
        scheduled(TRIANGLE, f"let t ~ {sampler}(a.y, n = 2)  let x, y = a.y.split(t)")
    assert caught.value.diagnostic.code == "MS203"
    assert caught.value.diagnostic.message == f"`{sampler}` of a loop whose extent depends on loop `i`"
    assert caught.value.diagnostic.help == "split by a size that does not depend on the extent: `split([_, 8])`"


@pytest.mark.parametrize("tail", ["guard", "peel"])
def test_such_a_loop_is_split_by_a_size(tail: str) -> None:
    before, after = scheduled(TRIANGLE, f"let x, y = a.y.split([_, 3], tail = {tail})")
    for m in (1, 2, 3, 8):
        same(before, after, M=m)
