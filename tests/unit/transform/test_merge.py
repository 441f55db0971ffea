"""merge: several nests as one."""

import pytest

from mslang.ir.build import ProgramBuilder, reduce, spatial
from mslang.ir.program import Program
from mslang.sema.program import parse_program
from mslang.transform.primitives.fission import merge
from mslang.transform.primitives.kinds import parallel
from mslang.transform.primitives.partition import loop_partition
from tests.unit.transform.meaning import same
from tests.unit.transform.programs import chain, loop, loops, outline, refused, sizes


def window(first: int, second: int, at: int) -> Program:
    """T = A + 1 over `first` elements; B = T further by `at` over `second`."""
    b = ProgramBuilder("window")
    a, t, c = b.input("A", (first,)), b.alloc("T", (first,)), b.output("B", (second,))
    with b.block("make", spatial("i", first)) as (i,):
        t[i] = a[i] + 1.0
    with b.block("use", spatial("j", second)) as (j,):
        c[j] = t[j + at]
    return b.finish()


def test_two_nests_become_one():
    out = merge(chain(), loops("x x_1"))
    assert outline(out.program) == (
        "x_m in 0+8\n  y in 0+16\n    first[x = x_m, y = y]\n  y_1 in 0+16\n    second[x = x_m, y = y_1]"
    )
    assert out.handles == (loop("x_m"),)
    same(chain(), out.program)


def test_the_loops_around_are_joined_too():
    out = merge(chain(), loops("y y_1"))
    assert outline(out.program) == (
        "x_m in 0+8\n  y_m in 0+16\n    first[x = x_m, y = y_m]\n    second[x = x_m, y = y_m]"
    )
    assert out.forward[loop("x")] == loop("x_m") and out.forward[loop("x_1")] == loop("x_m")
    same(chain(), out.program)


def test_the_order_of_the_arguments_does_not_matter():
    assert merge(chain(), loops("x_1 x")).program == merge(chain(), loops("x x_1")).program


def test_three_nests():
    b = ProgramBuilder("three")
    a = b.input("A", (8,))
    last = a
    for k in range(3):
        out = b.alloc(f"T{k}", (8,)) if k < 2 else b.output("B", (8,))
        with b.block(f"b{k}", spatial("i", 8)) as (i,):
            out[i] = last[i] * 2.0
        last = out
    before = b.finish()
    done = merge(before, loops("i i_1 i_2"))
    assert outline(done.program).count(" in ") == 1
    same(before, done.program)


def test_what_lies_behind_may_be_read():
    before = loop_partition(window(8, 7, 0), loop("i"), sizes(7, None)).program
    with refused("MS357", "stands between"):
        merge(before, loops("i_0 j"))
    padded = window(8, 8, 0)
    same(padded, merge(padded, loops("i j")).program)


def test_what_comes_later_may_not_be_read():
    b = ProgramBuilder("ahead")
    a, t, c = b.input("A", (8,)), b.alloc("T", (9,)), b.output("B", (8,))
    with b.block("make", spatial("i", 8)) as (i,):
        t[i + 1] = a[i]
    with b.block("first", spatial("z", 1)) as (z,):
        t[z] = 0.0
    with b.block("use", spatial("j", 8)) as (j,):
        c[j] = t[j]
    before = b.finish()
    with refused("MS357", "stands between"):
        merge(before, loops("i j"))
    c2 = ProgramBuilder("ahead")
    a, t, c = c2.inout("A", (9,)), c2.output("T", (8,)), c2.output("B", (8,))
    with c2.block("make", spatial("i", 8)) as (i,):
        a[i] = 1.0
    with c2.block("use", spatial("j", 8)) as (j,):
        c[j] = a[j + 1]
    with c2.block("other", spatial("k", 8)) as (k,):
        t[k] = 0.0
    with refused("MS357", "block `use` may touch elements of `A`", "`make`", "later iteration"):
        merge(c2.finish(), loops("i j"))
    ahead = merge(c2.finish(), loops("j k"))
    same(c2.finish(), ahead.program)


def test_a_nest_may_pass_what_has_nothing_to_do_with_it():
    b = ProgramBuilder("beside")
    a, t, c, d = b.input("A", (8,)), b.alloc("T", (8,)), b.output("B", (8,)), b.output("D", (8,))
    with b.block("make", spatial("i", 8)) as (i,):
        t[i] = a[i]
    with b.block("beside", spatial("k", 8)) as (k,):
        d[k] = a[k] + 1.0
    with b.block("use", spatial("j", 8)) as (j,):
        c[j] = t[j]
    before = b.finish()
    out = merge(before, loops("i j"))
    assert outline(out.program).splitlines()[0] == "i_m in 0+8"
    same(before, out.program)


def test_a_reduction_is_not_read_before_it_is_complete():
    b = ProgramBuilder("sum")
    a, s, c = b.input("A", (8, 8)), b.alloc("S", ()), b.output("B", (8,))
    with b.block("sum", reduce("k", 8)) as (k,):
        s[()] += a[k, 0]
    with b.block("use", spatial("j", 8)) as (j,):
        c[j] = s[()]
    with refused("MS357", "`S`"):
        merge(b.finish(), loops("k j"))


def test_a_value_that_outlives_its_iteration_is_kept():
    b = ProgramBuilder("behind")
    a, t, c = b.input("A", (8,)), b.alloc("T", (9,)), b.output("B", (8,))
    with b.block("zero", spatial("z", 1)) as (z,):
        t[z] = 5.0
    with b.block("make", spatial("i", 8)) as (i,):
        t[i + 1] = a[i]
    with b.block("use", spatial("j", 8)) as (j,):
        c[j] = t[j] + t[j + 1]
    before = b.finish()
    same(before, merge(before, loops("i j")).program)


def test_ranges_must_be_equal():
    with refused("MS304", "do not surely run over the same range", "loop_partition"):
        merge(window(8, 7, 0), loops("i j"))


@pytest.mark.parametrize("n", [1, 5])
def test_equal_dynamic_ranges(n):
    before = parse_program(
        "program p[n: dyn(1..64)](A: f32[n], out B: f32[n]) { alloc T: f32[n]\n"
        "for i in 0..n { block a[x: n = i] { T[x] = A[x] } }\nfor j in 0..n { block b[x: n = j] { B[x] = T[x] } } }"
    )
    same(before, merge(before, loops("i j")).program, n=n)


def test_places_that_do_not_fit():
    with refused("MS303", "fewer than two"):
        merge(chain(), loops("x"))
    with refused("MS303", "named twice"):
        merge(chain(), loops("x x"))
    with refused("MS304", "around another"):
        merge(chain(), loops("x y"))
    with refused("MS304", "not equally deep"):
        merge(chain(), loops("x y_1"))


def test_what_stands_beside_an_inner_loop():
    once = merge(chain(), loops("x x_1")).program
    both = merge(once, loops("y y_1"))
    assert outline(both.program).count(" in ") == 2
    same(chain(), both.program)


def test_a_loop_that_is_marked_already():
    with refused("MS305", "parallel"):
        merge(parallel(chain(), loop("x")).program, loops("x x_1"))
