"""loop_partition: consecutive parts of a loop."""

import pytest

from mslang.ir.expr import Choice, Symbol, Var
from mslang.ir.find import blocks_of
from mslang.sema.program import parse_program
from mslang.transform.outcome import Gone
from mslang.transform.primitives.loop_kinds import parallel
from mslang.transform.primitives.loop_partition import loop_partition
from mslang.transform.primitives.loops import reorder
from tests.unit.transform.meaning import same
from tests.unit.transform.programs import copy, loop, loops, matmul, outline, refused, sizes


def test_parts_of_given_sizes_and_the_rest():
    out = loop_partition(copy(100), loop("i"), sizes(64, None))
    assert outline(out.program) == "i_0 in 0+64\n  b[x = i_0]\ni_1 in 0+36\n  b_1[x = i_1 + 64]"
    assert out.handles == (loop("i_0"), loop("i_1"))
    assert out.forward[loop("i")] == Gone("loop_partition", out.handles)
    same(copy(100), out.program)


def test_the_hole_may_stand_anywhere():
    out = loop_partition(copy(100), loop("i"), sizes(None, 10, 20))
    assert [line for line in outline(out.program).splitlines() if " in " in line] == [
        "i_0 in 0+70",
        "i_1 in 0+10",
        "i_2 in 0+20",
    ]
    same(copy(100), out.program)


def test_without_a_hole_what_is_left_is_a_part_of_its_own():
    out = loop_partition(copy(100), loop("i"), sizes(10, 20))
    assert len(out.handles) == 3
    same(copy(100), out.program)


def test_the_inner_loops_of_each_part_have_names_of_their_own():
    before = matmul(7, 3, 4)
    out = loop_partition(before, loop("i"), sizes(3, None))
    assert "j in" in outline(out.program) and "j_1 in" in outline(out.program)
    same(before, out.program)


def test_a_reduction_that_is_cut_is_begun_once():
    before = matmul(3, 4, 9)
    out = loop_partition(before, loop("k"), sizes(4, None, 2))
    assert [b.init is None for b in blocks_of(out.program.body)] == [False, True, True]
    same(before, out.program)
    turned = reorder(before, loops("k i j")).program
    same(before, loop_partition(turned, loop("k"), sizes(4, None)).program)


def test_sampled_sizes():
    size = Symbol("f", Choice((2, 30)))
    out = loop_partition(copy(100), loop("i"), [size, None, size])
    assert len(out.handles) == 3
    with refused("MS306", "do not provably leave"):
        loop_partition(copy(30), loop("i"), [size, None])


@pytest.mark.parametrize("n", [9, 10, 31])
def test_the_rest_of_a_dynamic_extent(n):
    before = parse_program(
        "program p[n: dyn(9..64)](A: f32[n], out B: f32[n]) { for i in 0..n { block b[x: n = i] { B[x] = A[x] } } }"
    )
    same(before, loop_partition(before, loop("i"), sizes(8, None)).program, n=n)


def test_sizes_that_leave_nothing():
    with refused("MS306", "their sum, 100, must be below the extent, 100"):
        loop_partition(copy(100), loop("i"), sizes(60, 40))
    with refused("MS306", "must be below the extent"):
        loop_partition(copy(100), loop("i"), sizes(60, None, 40))


def test_sizes_that_are_none():
    with refused("MS303", "no sizes"):
        loop_partition(copy(100), loop("i"), [])
    with refused("MS303", "only one size"):
        loop_partition(copy(100), loop("i"), [None, None])
    with refused("MS306", "the size `0` is not provably positive"):
        loop_partition(copy(100), loop("i"), sizes(0, None))
    with refused("MS306", "depends on `j`"):
        loop_partition(copy(100), loop("i"), [Var("j"), None])


def test_a_loop_that_is_marked_already():
    with refused("MS305", "parallel"):
        loop_partition(parallel(copy(100), loop("i")).program, loop("i"), sizes(64, None))


PRIVATE = """program p(A: f32[4, 8], out O: f32[4, 8]) {{
    alloc T: f32[8]
    for i in 4 {{
        for j in {} {{ block make[y: 8 = j] {{ T[y] = A[0, y] * 2.0 }} }}
        for k in 8 {{ block take[x: 4 = i, y: 8 = k] {{ O[x, y] = T[y] + 1.0 }} }} }} }}"""


def test_what_the_parts_write_is_private_together():
    p = parse_program(PRIVATE.format(8))
    parts = loop_partition(p, loop("j"), sizes(5, None)).program
    same(p, parallel(parts, loop("i")).program)
    before = parallel(p, loop("i")).program
    same(before, loop_partition(before, loop("j"), sizes(2, 3, None)).program)


def test_what_the_parts_do_not_write_is_not_private():
    p = loop_partition(parse_program(PRIVATE.format(7)), loop("j"), sizes(5, None)).program
    with refused("MS310", "reads elements of `T` that block `make` does not provably write"):
        parallel(p, loop("i"))
