"""Tiles split again by sizes that need not divide: what their guards let the other primitives prove."""

from __future__ import annotations

import pytest

from mslang.diagnostics import ScheduleError
from mslang.ir.expr import Choice, Symbol
from mslang.ir.program import Program
from mslang.sema.program import parse_program
from mslang.transform.outcome import BlockRef, LoopRef
from mslang.transform.primitives.compute_at import reverse_compute_at
from mslang.transform.primitives.loop_kinds import parallel
from mslang.transform.primitives.loops import fuse, reorder, split

ROWS = Symbol("rows", Choice((2, 3, 4)))
TILE = Symbol("tile", Choice((1, 4, 8)))

TEXT = """program p(A: f32[{m}, {n}], out B: f32[{m}, {n}]) {{
    alloc T: f32[{m}, {n}]
    for i in {m}, j in {n} {{ block a[x: {m} = i, y: {n} = j] {{ T[x, y] = A[x, y] * 2.0 }} }}
    for i2 in {m}, j2 in {n} {{ block b[x: {m} = i2, y: {n} = j2] {{ B[x, y] = T[x, y] + 1.0 }} }}
}}"""


def tiled(m: int, n: int) -> tuple[Program, LoopRef, LoopRef, LoopRef]:
    """Both loops of `a` split by sampled sizes, then what is outside split again."""
    program = parse_program(TEXT.format(m=m, n=n))
    first = split(program, LoopRef("i"), [None, ROWS])
    i_outer, i_in = (LoopRef(h.name) for h in first.handles)
    second = split(first.program, LoopRef("j"), [None, ROWS])
    j_outer, j_in = (LoopRef(h.name) for h in second.handles)
    third = split(second.program, i_outer, [None, TILE])
    i0, i1 = (LoopRef(h.name) for h in third.handles)
    fourth = split(third.program, j_outer, [None, TILE])
    j0, j1 = (LoopRef(h.name) for h in fourth.handles)
    return reorder(fourth.program, [i0, j0, i1, j1, i_in, j_in]).program, i0, j0, j1


@pytest.mark.parametrize(("m", "n"), [(64, 48), (13, 70), (2, 2), (1, 5)])
def test_a_consumer_goes_into_a_tile_that_was_split_twice(m: int, n: int):
    program, _, _, j1 = tiled(m, n)
    moved = reverse_compute_at(program, BlockRef("b"), j1).program
    assert moved != program


@pytest.mark.parametrize(("m", "n"), [(64, 48), (13, 70)])
def test_fused_tiles_run_in_parallel(m: int, n: int):
    program, i0, j0, j1 = tiled(m, n)
    moved = reverse_compute_at(program, BlockRef("b"), j1).program
    fused = fuse(moved, [i0, j0])
    (loop,) = fused.handles
    assert isinstance(loop, LoopRef)
    done = parallel(fused.program, loop).program
    assert done != fused.program


def test_a_tile_that_overlaps_the_next_is_not_taken_for_apart():
    text = """program p(A: f32[20], out B: f32[20]) {
        for i0 in 3, i1 in 8 { block b[x: 20 = i0 * 7 + i1] { where i0 * 7 + i1 < 20  B[x] = A[x] } }
    }"""
    with pytest.raises(ScheduleError, match="cannot be concurrent"):
        parallel(parse_program(text), LoopRef("i0"))
