"""A loop ends where nothing runs beyond an edge: the last tile is no copy of the body."""

from __future__ import annotations

import random

import numpy as np
import pytest

import mslang as ms
from mslang.kernel.nodes import For, If, Store
from mslang.kernel.print import print_module
from mslang.kernel.visit import walk
from mslang.lower.passes import LOOPS, lower
from mslang.target.detect import host

TEXT = """
program blur[H = {h}, W = {w}](X: f32[H + 2, W], out Y: f32[H, W]) {{
    block sum[y: H, x: W] {{ Y[y, x] = X[y, x] + X[y + 1, x] + X[y + 2, x] }}
}}
schedule tiled for blur {{
    let y0, y1 = sum.y.split([_, 5])
    let x0, x1 = sum.x.split([_, 12])
    reorder(y0, x0, y1, x1)
    {rest}
}}
"""


def _lowered(rest: str, h: int = 22, w: int = 24) -> tuple[str, int]:
    """The loops of a schedule as text, and how many stores they have."""
    program = ms.parse(TEXT.format(h=h, w=w, rest=rest)).space("tiled").sample(0).program
    module = lower(program, host(), passes=LOOPS)
    assert not any(isinstance(s, If) and not s.otherwise for s in walk(module.body)), "a guard is left"
    return print_module(module), sum(isinstance(s, Store) for s in walk(module.body))


@pytest.mark.parametrize("rest", ["", "y0.parallel()", "fuse(y0, x0).parallel()", "x1.vectorize()"])
def test_the_last_tile_is_no_copy(rest: str) -> None:
    text, stores = _lowered(rest if rest != "x1.vectorize()" else "let a, b = x1.split([_, 4])\n b.vectorize()")
    assert stores == 1 and "in 0..min(5, " in text


@pytest.mark.parametrize(
    "rest",
    [
        "y1.unroll()",  # the whole tile is written out, and so is the last
        "x1.vectorize()",  # y1 is the innermost loop
        "x1.unroll()",
        "y1.vectorize()",
        'y1.annotate("note", 1)',
    ],
)
def test_loops_whose_length_matters_are_cut(rest: str) -> None:
    text, stores = _lowered(rest)
    assert stores == 2 and "min(" not in text


def test_loops_over_registers_are_cut() -> None:
    """Each index of a buffer in registers is a number, so the loops over it are written out."""
    text, stores = _lowered('let t = sum.cache_write(Y, "local")\n t.reverse_compute_at(x0)')
    assert stores == 4 and "min(" not in text


def test_a_loop_around_those_over_registers_is_cut() -> None:
    """What is left is an innermost loop: the sum of a tile in registers."""
    program = (
        ms.parse("""
program gemm[K = 22](A: f32[8, K], B: f32[K, 8], out C: f32[8, 8]) {
    block mm[i: 8, j: 8 | k: K] { C[i, j] += A[i, k] * B[k, j] }
}
schedule tiled for gemm {
    let t = mm.cache_write(C, "local")
    let k0, k1 = mm.k.split([_, 5])
    reorder(k0, k1, mm.i, mm.j)
}
""")
        .space("tiled")
        .sample(0)
        .program
    )
    text = print_module(lower(program, host(), passes=LOOPS))
    assert "k0 in 1..4" in text and "min(" not in text


def test_a_tile_may_be_empty() -> None:
    """Beyond the edge of a partial tile there is nothing: the loop runs less than no iteration, which is none."""
    rest = "let a, b = y0.split([_, 3])\n reorder(a, b, x0)\n a.parallel()"
    text, _ = _lowered(rest, h=17)
    assert "min(5, " in text
    _runs_right(rest, 17, 24)


@pytest.mark.parametrize("seed", range(12))
def test_results(seed: int) -> None:
    rng = random.Random(seed)
    rests = ("", "y0.parallel()", "fuse(y0, x0).parallel()", "reorder(y1, y0)", "y1.unroll()", "x1.vectorize()")
    _runs_right(rng.choice(rests), rng.randint(1, 40), rng.randint(1, 40))


def _runs_right(rest: str, h: int, w: int) -> None:
    x = np.random.default_rng(h * w).integers(-9, 9, (h + 2, w)).astype("f4")
    kernel = ms.build(ms.parse(TEXT.format(h=h, w=w, rest=rest)).space("tiled"))
    np.testing.assert_array_equal(kernel(x), x[:-2] + x[1:-1] + x[2:])


def test_a_statement_without_the_guard_keeps_the_loop() -> None:
    program = ms.parse(
        """program two[N = 22](A: f32[N, 8], out B: f32[N, 8], out C: f32[25, 8]) {
            for t in 0..5 { for y in 0..5 { for x in 0..8 {
                block b[i: 25 = t * 5 + y, j: 8 = x] {
                    where i < 22
                    B[i, j] = A[i, j] }
                block c[i: 25 = t * 5 + y, j: 8 = x] { C[i, j] = 1.0 }
            } } }
        }"""
    ).program("two")
    module = lower(program, host(), passes=LOOPS)
    loops = [s for s in walk(module.body) if isinstance(s, For) and s.var == "y"]
    assert len(loops) == 3 and "min(" not in print_module(module)
    b, c = ms.build(program)(np.ones((22, 8), "f4"))
    assert (b == 1).all() and (c == 1).all()
