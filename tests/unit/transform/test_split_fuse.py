"""split, fuse, add_unit_loop: what they make, and what they refuse."""

from mslang.ir.build import ProgramBuilder, spatial
from mslang.ir.expr import Choice, Const, FreeTile, PerfectTile, Symbol, Var
from mslang.ir.program import For
from mslang.ir.visit import walk
from mslang.transform.outcome import Gone
from mslang.transform.primitives.annotate import annotate
from mslang.transform.primitives.loop_kinds import parallel
from mslang.transform.primitives.loops import add_unit_loop, fuse, split
from tests.unit.transform.programs import (
    block,
    chain,
    copy,
    loop,
    loops,
    matmul,
    outline,
    refused,
    renamed_loops,
    sizes,
    text,
)


def tile(domain, n):
    return [Symbol("t", domain, k) for k in range(n)]


# ------------------------------------------------------------------ split
def test_a_split_that_divides_needs_no_predicate():
    out = split(copy(96), loop("i"), sizes(None, 8))
    assert outline(out.program) == "i_0 in 0+12\n  i_1 in 0+8\n    b[x = (i_0 * 8) + i_1]"
    assert out.handles == (loop("i_0"), loop("i_1"))
    assert out.forward[loop("i")] == Gone("split", out.handles)


def test_a_split_that_does_not_divide_is_guarded():
    out = split(copy(100), loop("i"), sizes(None, 8))
    assert outline(out.program) == "i_0 in 0+13\n  i_1 in 0+8\n    b[x = (i_0 * 8) + i_1] where ((i_0 * 8) + i_1) < 100"


def test_all_factors_given_and_more_than_the_extent():
    out = split(copy(100), loop("i"), sizes(3, 5, 7))
    assert "where" in outline(out.program) and "< 100" in outline(out.program)


def test_the_hole_may_stand_anywhere():
    out = split(copy(96), loop("i"), sizes(4, None, 3))
    assert [text(s.extent) for s in walk(out.program.body) if isinstance(s, For)] == ["4", "8", "3"]


def test_one_hole_alone_makes_a_loop_of_the_same_extent():
    assert outline(split(copy(9), loop("i"), [None]).program) == "i_0 in 0+9\n  b[x = i_0]"


def test_unit_loops_stay_and_still_serve_their_axis():
    out = split(copy(16), loop("i"), sizes(16, 1))
    assert outline(out.program) == "i_0 in 0+16\n  i_1 in 0+1\n    b[x = i_0 + i_1]"


def test_a_perfect_tile_needs_no_predicate_whatever_its_values():
    out = split(copy(96), loop("i"), tile(PerfectTile(Const(96), 3), 3))
    assert "where" not in outline(out.program)
    assert "i_0 in 0+t[0]\n  i_1 in 0+t[1]\n    i_2 in 0+t[2]" in outline(out.program)


def test_a_free_tile_keeps_its_predicate():
    out = split(copy(96), loop("i"), tile(FreeTile(Const(96), 3), 3))
    assert "< 96" in outline(out.program)


def test_a_sampled_factor_keeps_the_predicate_even_if_all_choices_divide_but_one():
    width = Symbol("v", Choice((4, 8, 7)))
    assert "< 96" in outline(split(copy(96), loop("i"), sizes(None, width)).program)


def test_a_loop_of_a_dynamic_size():
    b = ProgramBuilder("dyn")
    n = b.dynamic("M", 1, 512, 8)
    a, c = b.input("A", (n,)), b.output("B", (n,))
    with b.block("b", spatial("x", n)) as (x,):
        c[x] = a[x]
    program = renamed_loops(b.finish(), {"x": "i"})
    exact, guarded = (outline(split(program, loop("i"), sizes(None, f)).program) for f in (8, 16))
    assert "where" not in exact
    assert "< M" in guarded


def test_a_loop_that_does_not_start_at_zero():
    b = ProgramBuilder("shifted")
    a, c = b.input("A", (20,)), b.inout("B", (20,))
    with b.loop("i", 10, start=5) as i, b.block("b", spatial("x", 20, i)) as (x,):
        c[x] = a[x]
    out = split(b.finish(), loop("i"), sizes(None, 4))
    assert outline(out.program).endswith("where ((i_0 * 4) + i_1) < 10")
    assert "5" in outline(out.program)


def test_every_block_below_is_guarded():
    b = ProgramBuilder("two")
    a, t, c = b.input("A", (10,)), b.alloc("T", (10,)), b.output("B", (10,))
    with b.loop("i", 10) as i:
        with b.block("p", spatial("x", 10, i)) as (x,):
            t[x] = a[x]
        with b.block("q", spatial("x", 10, i)) as (x,):
            c[x] = t[x]
    assert outline(split(b.finish(), loop("i"), sizes(None, 4)).program).count("< 10") == 2


def test_what_stands_in_no_block_gets_an_if():
    b = ProgramBuilder("bare")
    a, c = b.input("A", (10,)), b.output("B", (10,))
    with b.loop("i", 10) as i:
        c[i] = a[i]
    assert "if ((i_0 * 4) + i_1) < 10" in outline(split(b.finish(), loop("i"), sizes(None, 4)).program)


def test_split_refuses():
    p = copy(100)
    with refused("MS301", "no loop `nope`", "i"):
        split(p, loop("nope"), sizes(None, 8))
    with refused("MS303", "no factors"):
        split(p, loop("i"), [])
    with refused("MS303", "only one factor may be `_`"):
        split(p, loop("i"), [None, None])
    with refused("MS306", "is not provably positive"):
        split(p, loop("i"), sizes(None, 0))
    with refused("MS306", "not provably positive"):
        split(p, loop("i"), sizes(None, Symbol("v", Choice((0, 4)))))
    with refused("MS306", "do not cover", "is below the extent 100"):
        split(p, loop("i"), sizes(3, 8))
    with refused("MS306", "do not cover", "may be below"):
        split(p, loop("i"), sizes(10, Symbol("v", Choice((8, 16)))))
    with refused("MS303", "no way to run a remainder"):
        split(p, loop("i"), sizes(None, 8), tail="wrap")
    with refused("MS305", "is parallel"):
        split(parallel(p, loop("i")).program, loop("i"), sizes(None, 8))
    with refused("MS305", "'note'"):
        split(annotate(p, loop("i"), "note", 1).program, loop("i"), sizes(None, 8))


def test_split_refuses_a_factor_that_changes_with_a_loop():
    with refused("MS306", "a factor depends on `i`", "one number in all iterations"):
        split(matmul(8, 8, 8), loop("j"), [None, Var("i")])


def test_any_tail_is_fine_where_nothing_remains():
    assert "where" not in outline(split(copy(96), loop("i"), sizes(None, 8), tail="peel").program)


# ------------------------------------------------------------------ fuse
def test_fuse_keeps_the_order_of_iterations():
    out = fuse(matmul(), loops("i j"))
    assert outline(out.program) == (
        "i_j_fused in 0+3072\n  k in 0+32\n    mm[x = i_j_fused // 48, y = i_j_fused % 48, z = k]"
    )
    assert out.forward[loop("j")] == Gone("fuse", (loop("i_j_fused"),))


def test_fuse_three():
    out = fuse(matmul(4, 3, 2), loops("i j k"))
    assert outline(out.program) == (
        "i_j_k_fused in 0+24\n  mm[x = i_j_k_fused // 6, y = (i_j_k_fused // 2) % 3, z = i_j_k_fused % 2]"
    )


def test_fuse_undoes_split():
    p = split(copy(96), loop("i"), tile(PerfectTile(Const(96), 2), 2)).program
    assert outline(fuse(p, loops("i_0 i_1")).program) == "i_0_i_1_fused in 0+96\n  b[x = i_0_i_1_fused]"


def test_fuse_one_loop_changes_nothing():
    p = matmul()
    out = fuse(p, loops("i"))
    assert out.program is p and out.handles == (loop("i"),)


def test_fuse_refuses():
    p = matmul()
    with refused("MS303", "no loops"):
        fuse(p, [])
    with refused("MS303", "named twice"):
        fuse(p, loops("i i"))
    with refused("MS304", "outermost first", "fuse(i, j)"):
        fuse(p, loops("j i"))
    with refused("MS304", "loop `j` stands between them"):
        fuse(p, loops("i k"))
    with refused("MS305", "is parallel"):
        fuse(parallel(p, loop("i")).program, loops("i j"))
    with refused("MS304"):
        fuse(chain(), loops("x x_1"))


def test_fuse_refuses_what_is_not_alone():
    b = ProgramBuilder("two")
    a, t, c = b.input("A", (10, 4)), b.alloc("T", (10,)), b.output("B", (10, 4))
    with b.loop("i", 10) as i:
        with b.block("p", spatial("x", 10, i)) as (x,):
            t[x] = a[x, 0]
        with b.loop("j", 4) as j, b.block("q", spatial("x", 10, i), spatial("y", 4, j)) as (x, y):
            c[x, y] = t[x]
    with refused("MS304", "block `p` stands next to it"):
        fuse(b.finish(), loops("i j"))


def test_fuse_refuses_a_triangle():
    b = ProgramBuilder("triangle")
    a, c = b.input("A", (8, 8)), b.inout("B", (8, 8))
    with b.loop("i", 8) as i, b.loop("j", i + 1) as j:
        with b.block("b", spatial("x", 8, i), spatial("y", 8, j)) as (x, y):
            c[x, y] = a[x, y]
    with refused("MS307", "depend on loop `i`"):
        fuse(b.finish(), loops("i j"))


# ------------------------------------------------------------------ add_unit_loop
def test_add_unit_loop_above_a_loop_and_above_a_block():
    out = add_unit_loop(copy(4), loop("i"))
    assert outline(out.program) == "u in 0+1\n  i in 0+4\n    b[x = i]"
    again = add_unit_loop(out.program, block("b"))
    assert again.handles == (loop("u_1"),)
    assert outline(again.program) == "u in 0+1\n  i in 0+4\n    u_1 in 0+1\n      b[x = i]"


def test_add_unit_loop_refuses_nothing_that_exists():
    with refused("MS301", "no block `nope`"):
        add_unit_loop(copy(), block("nope"))


def test_an_axis_of_one_element_keeps_its_loops():
    p = split(copy(1), loop("i"), tile(PerfectTile(Const(1), 2), 2)).program
    assert "i_0" in outline(p).split("b[")[1] and "i_1" in outline(p).split("b[")[1]
