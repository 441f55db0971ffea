"""Conditions on the parts of a fused index: loops are cut as they are for the index of a loop."""

from __future__ import annotations

import random

import numpy as np
import pytest

import mslang as ms
from mslang.backend.reference import interpret
from mslang.ir.expr import Binary, Const, Expr, Var
from mslang.kernel.nodes import For, If
from mslang.kernel.visit import walk
from mslang.lower.fused_indices import part_bounds
from mslang.lower.passes import LOOPS, lower
from mslang.target.detect import host

TEXT = """
use std.cpu.{{host}}
program copy[M = {m}, N = {n}](A: f32[M, N], out B: f32[M, N]) {{
    block copy[i: M, j: N] {{ B[i, j] = A[i, j] * 2.0 }}
}}
schedule tiled for copy on host {{
    let i0, i1, i2 = copy.i.split([_, 3, 4])
    let j0, j1 = copy.j.split([_, 16])
    reorder(i0, j0, i1, i2, j1)
    let both = fuse(i0, j0)
    both.parallel()
    i2.unroll()
    j1.vectorize()
}}
"""


def tiled(m: int, n: int) -> ms.Program:
    found = ms.parse(TEXT.format(m=m, n=n)).space("tiled", target=host()).attempt(0, 0)
    return found.program


@pytest.mark.parametrize(("m", "n"), [(12, 16), (13, 16), (25, 50), (29, 5), (24, 33)])
def test_tails_of_fused_loops_are_cut(m: int, n: int) -> None:
    program = tiled(m, n)
    inner = [
        s for s in walk(lower(program, host(), passes=LOOPS).body) if isinstance(s, For) and s.kind == "vectorized"
    ]
    assert inner and not any(isinstance(x, If) for s in inner for x in walk(s.body))
    a = np.random.default_rng(0).uniform(-1, 1, (m, n)).astype("f4")
    b = np.zeros_like(a)
    ms.build(program)(a, b)
    np.testing.assert_array_equal(b, a * 2)


def test_parts_within_parts_are_cut_at() -> None:
    """`k0_i0_j0_fused // 2` is guarded, and so is `k0_i0_j0_fused // 2 % 1`, which the name of the first one hid."""
    program = ms.parse("""
program copy(A: f32[5, 26, 30], out B: f32[5, 26, 30]) {
    block copy[k: 5, i: 26, j: 30] { B[k, i, j] = A[k, i, j] * 2.0 }
}
schedule tiled for copy {
    let k0, k1 = copy.k.split([_, 2])
    let tiles ~ choose([5, 10])
    let i0, i1, i2 = copy.i.split([_, tiles, 3])
    let j0, j1 = copy.j.split([_, 16])
    reorder(k0, i0, j0, k1, i1, i2, j1)
    fuse(k0, i0, j0).parallel()
    i2.unroll()
    j1.vectorize()
}
""")
    scheduled = program.space("tiled").replay({"tiles": 10}).program
    found = [s for s in walk(lower(scheduled, host(), passes=LOOPS).body) if isinstance(s, For)]
    tiles = [s for s in found if s.kind == "unrolled"]
    assert tiles and not any(isinstance(x, If) for s in tiles for x in walk(s.body))
    a = np.random.default_rng(0).uniform(-1, 1, (5, 26, 30)).astype("f4")
    np.testing.assert_array_equal(ms.build(scheduled)(a), a * 2)


def test_bounds_of_a_part_are_those_of_its_values() -> None:
    rng = random.Random(0)
    for _ in range(500):
        first, extent = rng.randrange(20), rng.randint(1, 40)
        steps = [(rng.choice(["//", "%"]), rng.randint(1, 12)) for _ in range(rng.randrange(4))]
        part: Expr = Var("v")
        values = list(range(first, first + extent))
        for op, k in steps:
            part = Binary(op, part, Const(k))
            values = [x // k if op == "//" else x % k for x in values]
        bounds = part_bounds(part, {"v": (first, first + extent - 1)})
        assert bounds is not None
        assert bounds[0] <= min(values) and max(values) <= bounds[1]
        if all(op == "//" for op, _ in steps):
            assert bounds == (min(values), max(values))


@pytest.mark.parametrize(
    ("dtype", "constant"), [("bool", "true"), ("u8", "u8(3)"), ("i32", "i32(-7)"), ("u64", "u64(5)")]
)
def test_a_named_number_that_is_no_index_keeps_its_type(dtype: str, constant: str) -> None:
    """Its store took 8 bytes, whatever the type: what lay behind the element was overwritten."""
    text = f"program p(inout B: {dtype}[9]) {{ block b[i: 8] {{ let v = {constant}\n B[i] = v }} }}"
    program = ms.parse_program(text)
    given = np.ones(9, {"bool": np.bool_, "u8": np.uint8, "i32": np.int32, "u64": np.uint64}[dtype])
    (want,) = interpret.run(program, {"B": given}).values()
    ms.build(program)(given)
    assert np.array_equal(given, want) and given[8] == 1


def test_a_part_does_not_hide_a_loop_around_it() -> None:
    """A loop around was called as the part would be: `let f_part = f // 2` then stood for both."""
    text = """program p(A: f32[3, 8, 2], out B: f32[3, 8, 2]) {
        block c[x: 3, y: 8, z: 2] { B[x, y, z] = A[x, y, z] + 1.0 }
    }
    schedule s for p {
        let f_part, r = c.x.split([2, 2])
        let y, a = c.y.split([_, 3])
        c.z.reorder(a)
        let f = y.fuse(c.z)
        f.parallel()
    }"""
    a = np.random.default_rng(0).uniform(-1, 1, (3, 8, 2)).astype("f4")
    assert np.array_equal(ms.build(ms.parse(text).space("s").attempt(0).program)(a), a + 1)
