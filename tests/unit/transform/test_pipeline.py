"""pipeline: copies of later iterations run ahead; and what lowering makes of it."""

from itertools import product

import pytest

from mslang.ir import program as ir
from mslang.ir.program import Program
from mslang.ir.visit import walk
from mslang.kernel.nodes import Allocate, For
from mslang.kernel.visit import walk as walk_lowered
from mslang.lower.passes import LOOPS, lower
from mslang.sema.program import parse_program
from mslang.target.detect import host
from mslang.transform.primitives.annotate import unannotate
from mslang.transform.primitives.caching import cache_read
from mslang.transform.primitives.compute_at import compute_at
from mslang.transform.primitives.loop_kinds import parallel, unroll
from mslang.transform.primitives.loops import reorder, split
from mslang.transform.primitives.pipeline import pipeline
from tests.unit.transform.meaning import same
from tests.unit.transform.programs import block, buffer, copy, loop, loops, matmul, outline, refused, sizes


def staged(n: int, buffers: str = "AB", width: int = 4) -> Program:
    """A matmul over n that stages its operands in pieces of `width`."""
    p = split(matmul(3, 4, n), loop("k"), sizes(None, width)).program
    p = reorder(p, loops("k_0 i j k_1")).program
    for name in buffers:
        made = cache_read(p, block("mm"), buffer(name), "local")
        p = compute_at(made.program, made.handles[0], loop("k_0")).program
    return p


def versions(program: Program) -> dict[str, str]:
    kernel = lower(program, host(), passes=LOOPS)
    return {s.buffer.name: str(s.buffer.shape[0].value) for s in walk_lowered(kernel.body) if isinstance(s, Allocate)}


def test_the_loop_is_annotated():
    out = pipeline(staged(16), loop("k_0"), stages=3, copy="cp_async")
    assert "k_0 in 0+4 pipeline.stages=3 pipeline.copy=cp_async" in outline(out.program)
    assert out.handles == ()


@pytest.mark.parametrize(("n", "stages"), list(product([1, 4, 7, 8, 12, 33], [2, 3, 5])))
@pytest.mark.one_in(2)
def test_results_do_not_change(n, stages):
    same(staged(n), pipeline(staged(n), loop("k_0"), stages=stages).program)


def test_each_staged_buffer_has_a_version_a_stage():
    done = pipeline(staged(64), loop("k_0"), stages=3).program
    assert versions(done) == {"A_local_1": "3", "B_local_1": "3"}
    assert versions(staged(64)) == {"A_local_1": "3", "B_local_1": "4"}


def test_copies_run_ahead():
    kernel = lower(pipeline(staged(64, "A"), loop("k_0"), stages=2).program, host(), passes=LOOPS)
    around = next(s for s in kernel.body if isinstance(s, Allocate)).body
    # prologue: one copy; then copies and sums in turn; epilogue: one sum
    assert any(isinstance(s, For) and s.var == "k_0" for s in around)
    assert len([s for s in around if not (isinstance(s, For) and s.var == "k_0")]) >= 2


DYNAMIC = """program p[n: dyn(1..64)](A: f32[n, 4], out B: f32[n, 4]) {
    alloc T: f32[n, 4]
    for k in 0..n {
        for a in 0..4 { block fill[x: n = k, y: 4 = a] { T[x, y] = A[x, y] } }
        for b in 0..4 { block take[x: n = k, y: 4 = b] { B[x, y] = T[x, y] * 2.0 } }
    }
}"""


@pytest.mark.parametrize(("n", "stages"), list(product([1, 2, 3, 4, 9], [2, 4])))
def test_dynamic_extents(n, stages):
    before = parse_program(DYNAMIC)
    same(before, pipeline(before, loop("k"), stages=stages).program, n=n)


def test_inside_a_parallel_loop():
    before = staged(16)
    tiled = reorder(matmul(3, 4, 16), loops("i k j")).program
    tiled = split(tiled, loop("k"), sizes(None, 4)).program
    tiled = reorder(tiled, loops("k_0 j k_1")).program
    made = cache_read(tiled, block("mm"), buffer("B"), "local")
    tiled = compute_at(made.program, made.handles[0], loop("k_0")).program
    tiled = parallel(tiled, loop("i")).program
    same(before, pipeline(tiled, loop("k_0"), stages=2).program)


def test_a_loop_that_was_changed_since_runs_as_it_stands():
    done = pipeline(staged(16, "A"), loop("k_0"), stages=2).program
    outer = next(s for s in walk(done.body) if isinstance(s, ir.For) and s.var == "k_0")
    assert dict(outer.annotations)["pipeline.stages"] == 2
    # in place of the copy, something that goes on from what the last iteration left
    from msgspec.structs import replace

    broken = parse_program(
        """program p(A: f32[8], inout T: f32[9], out B: f32[8]) {
            for k in 0..8 @ serial("pipeline.stages" = 2) {
                block fill[x: 8 = k] { T[x + 1] = T[x] + A[x] }
                block take[x: 8 = k] { B[x] = T[x + 1] }
            }
        }"""
    )
    plain = replace(broken, body=tuple(replace(s, annotations=()) for s in broken.body if isinstance(s, ir.For)))
    same(plain, broken)


def test_stages_and_ways_that_there_are_not():
    with refused("MS303", "too few"):
        pipeline(staged(16), loop("k_0"), stages=1)
    with refused("MS303", "`tma`", "cp_async"):
        pipeline(staged(16), loop("k_0"), stages=2, copy="tma")


def test_a_loop_that_is_marked_already():
    with refused("MS305", "unrolled"):
        pipeline(unroll(staged(16), loop("k_0")).program, loop("k_0"), stages=2)
    done = pipeline(staged(16), loop("k_0"), stages=2).program
    with refused("MS305", "pipelined already"):
        pipeline(done, loop("k_0"), stages=2)
    again = unannotate(done, loop("k_0"), "pipeline.stages").program
    assert "pipeline.stages=3" in outline(pipeline(again, loop("k_0"), stages=3).program)
    with refused("MS305", "carries the annotation"):
        split(done, loop("k_0"), sizes(None, 2))


def test_nothing_to_copy_ahead():
    with refused("MS359", "nothing under loop `i` can be copied ahead", "writes `B`", "cache_read"):
        pipeline(copy(16), loop("i"), stages=2)
    with refused("MS359", "can be copied ahead"):
        pipeline(matmul(4, 4, 4), loop("k"), stages=2)


def test_what_goes_from_one_iteration_to_the_next_is_no_copy():
    program = parse_program(
        """program p(A: f32[8], out B: f32[8]) {
            alloc T: f32[9]
            block first[] { T[0] = 0.0 }
            for k in 0..8 {
                block fill[x: 8 = k] { T[x + 1] = A[x] }
                block take[x: 8 = k] { B[x] = T[x] }
            }
        }"""
    )
    with refused("MS359", "writes `T`, not a buffer that each iteration fills for itself"):
        pipeline(program, loop("k"), stages=2)


def test_nothing_but_copies():
    program = parse_program(
        """program p(A: f32[8], out B: f32[8]) {
            alloc T: f32[8]
            for k in 0..8 { block fill[x: 8 = k] { T[x] = A[x] } }
            for j in 0..8 { block copy[x: 8 = j] { B[x] = A[x] } }
        }"""
    )
    with refused("MS359", "nothing but copies"):
        pipeline(program, loop("k"), stages=2)


def test_statements_that_no_block_holds():
    program = parse_program(
        """program p(A: f32[8], out B: f32[8]) {
            for k in 0..8 { if k < 3 { block b[x: 8 = k] { B[x] = A[x] } } }
        }"""
    )
    with refused("MS359", "stands in no block"):
        pipeline(program, loop("k"), stages=2)
