"""split: the ways to run a remainder besides a guard."""

import pytest

from mslang.ir.build import ProgramBuilder, reduce, spatial
from mslang.ir.expr import Choice, Const, Symbol
from mslang.ir.find import all_buffers, blocks_of
from mslang.ir.operators import maximum
from mslang.ir.program import Block
from mslang.sema.program import parse_program
from mslang.transform.outcome import Gone
from mslang.transform.primitives.caching import cache_read, cache_write
from mslang.transform.primitives.compute_at import compute_at
from mslang.transform.primitives.decompose_reduction import decompose_reduction
from mslang.transform.primitives.loop_kinds import parallel
from mslang.transform.primitives.loops import reorder, split
from tests.unit.transform.meaning import same
from tests.unit.transform.programs import block, buffer, chain, copy, loop, loops, matmul, outline, refused, sizes, text

DYNAMIC = "program p[n: dyn(1..4096)](A: f32[n], out B: f32[n]) { for i in 0..n { block b[x: n = i] { B[x] = A[x] } } }"


def found(program, name) -> Block:
    return next(b for b in blocks_of(program.body) if b.name == name)


# ------------------------------------------------------------------ peel
def test_peel_makes_full_tiles_and_a_loop_over_the_rest():
    out = split(copy(100), loop("i"), sizes(None, 8), tail="peel")
    assert outline(out.program) == (
        "i_0 in 0+12\n  i_1 in 0+8\n    b[x = (i_0 * 8) + i_1]\ni_tail in 0+4\n  b_tail[x = i_tail + 96]"
    )
    assert out.handles == (loop("i_0"), loop("i_1"))
    assert out.forward[loop("i")] == Gone("split", out.handles)
    same(copy(100), out.program)


def test_peel_where_it_divides_is_a_plain_split():
    before = copy(96)
    assert split(before, loop("i"), sizes(None, 8), tail="peel") == split(before, loop("i"), sizes(None, 8))


def test_peel_makes_the_hole_smaller_wherever_it_is():
    out = split(copy(100), loop("i"), sizes(4, None, 3), tail="peel")
    assert outline(out.program).startswith("i_0 in 0+4\n  i_1 in 0+8\n    i_2 in 0+3")
    same(copy(100), out.program)


def test_peel_with_all_factors_given_makes_the_outermost_smaller():
    out = split(copy(100), loop("i"), sizes(3, 5, 7), tail="peel")
    assert outline(out.program).startswith("i_0 in 0+2\n  i_1 in 0+5\n    i_2 in 0+7")
    assert "i_tail in 0+30" in outline(out.program)
    same(copy(100), out.program)


def test_peel_of_a_tile_larger_than_the_loop_leaves_all_to_the_rest():
    out = split(copy(5), loop("i"), sizes(None, 8), tail="peel")
    assert outline(out.program).startswith("i_0 in 0+0")
    same(copy(5), out.program)


def test_the_rest_of_a_reduction_reads_what_it_updates_and_has_no_init():
    before = matmul(6, 5, 11)
    out = split(before, loop("k"), sizes(None, 4), tail="peel")
    tail = found(out.program, "mm_tail")
    assert tail.init is None and "C" in {r.buffer for r in tail.reads}
    assert found(out.program, "mm").init is not None
    same(before, out.program)


def test_the_rest_keeps_its_init_where_it_may_be_the_first():
    size = Symbol("f", Choice((2, 4, 16)))
    out = split(matmul(6, 5, 11), loop("k"), [None, size], tail="peel")
    assert found(out.program, "mm_tail").init is not None
    assert "C" in {r.buffer for r in found(out.program, "mm_tail").reads}


def test_the_rest_of_a_reduction_inside_a_block_keeps_its_init():
    before = parse_program(
        """program p(A: f32[4, 9], out C: f32[4]) {
            for i in 0..4 {
                block outer[x: 4 = i] {
                    for k in 0..9 {
                        block s[y: 4 = x | z: 9 = k] {
                            init { C[y] = 0.0 }
                            C[y] = C[y] + A[y, z]
                        }
                    }
                }
            }
        }"""
    )
    same(before, split(before, loop("k"), sizes(None, 4), tail="peel").program)


@pytest.mark.parametrize("n", [1, 3, 4, 7, 8, 9])
def test_peel_of_a_dynamic_extent(n):
    before = parse_program(DYNAMIC)
    out = split(before, loop("i"), sizes(None, 4), tail="peel")
    assert "i_tail" in outline(out.program)
    same(before, out.program, n=n)


def test_each_part_gets_a_buffer_that_an_iteration_has_to_itself():
    before = chain()
    moved = compute_at(before, block("first"), loop("x_1")).program
    out = split(moved, loop("x_1"), sizes(None, 3), tail="peel")
    assert {"T", "T_tail"} <= all_buffers(out.program).keys()
    same(before, out.program)


def test_a_split_after_peeling_leaves_the_rest_alone():
    before = matmul(9, 5, 4)
    out = split(before, loop("i"), sizes(None, 4), tail="peel")
    out = split(out.program, out.handles[0], sizes(None, 2), tail="peel")
    same(before, out.program)
    assert "mm_tail" in outline(out.program)


# ------------------------------------------------------------------ shift
def test_shift_moves_the_last_tile_inwards():
    out = split(copy(100), loop("i"), sizes(None, 8), tail="shift")
    assert "where" not in outline(out.program)
    assert "min" in text(found(out.program, "b").axes[0].binding)
    same(copy(100), out.program)


def test_shift_repeats_whole_reductions():
    before = matmul(10, 9, 4)
    out = split(before, loop("j"), sizes(None, 2, 3), tail="shift")
    same(before, out.program)


def test_what_was_shifted_is_not_decomposed_around_the_tiles():
    out = split(matmul(10, 9, 4), loop("j"), sizes(None, 4), tail="shift")
    with refused("MS313", "affine"):
        decompose_reduction(out.program, block("mm"), loop("i"))


def test_what_was_shifted_does_not_run_at_once():
    out = split(copy(100), loop("i"), sizes(None, 8), tail="shift")
    with refused("MS310", "may access the same elements of `B`"):
        parallel(out.program, loop("i_0"))


def test_shift_needs_a_loop_no_shorter_than_a_tile():
    with refused("MS354", "one tile may be larger", "guard"):
        split(copy(5), loop("i"), sizes(None, 8), tail="shift")
    with refused("MS354", "one tile may be larger"):
        split(parse_program(DYNAMIC), loop("i"), sizes(None, 8), tail="shift")


def test_shift_does_not_repeat_an_accumulation():
    with refused("MS355", "accumulates along the loop"):
        split(matmul(4, 4, 10), loop("k"), sizes(None, 4), tail="shift")
    turned = reorder(matmul(4, 10, 4), loops("k j")).program
    with refused("MS355", "accumulates along a loop around it"):
        split(turned, loop("j"), sizes(None, 4), tail="shift")
    update = decompose_reduction(turned, block("mm"), loop("i")).program
    with refused("MS355", "reads `C` before the same iteration writes it"):
        split(update, loop("j"), sizes(None, 4), tail="shift")


def test_shift_does_not_repeat_what_overwrites_its_input():
    b = ProgramBuilder("p")
    a, c = b.inout("A", (10,)), b.output("B", (10,))
    with b.block("r", spatial("x", 10)) as (x,):
        c[x] = a[x]
    with b.block("w", spatial("x", 10)) as (x,):
        a[x] = 0.0
    from mslang.transform.primitives.fission import merge

    merged = merge(b.finish(), loops("x x_1")).program
    with refused("MS355", "reads `A` before"):
        split(merged, loop("x_m"), sizes(None, 4), tail="shift")


# ------------------------------------------------------------------ pad
def staged(n: int = 10):
    out = cache_write(matmul(n, 9, 5), block("mm"), buffer("C"), "local")
    return cache_read(out.program, block("mm"), buffer("A"), "local").program


def test_pad_rounds_up_and_the_buffers_grow():
    before = staged()
    out = split(before, loop("i"), sizes(None, 4), tail="pad")
    assert "where" not in outline(out.program)
    shapes = {n: tuple(map(text, b.shape)) for n, b in all_buffers(out.program).items()}
    assert shapes["C_local_1"] == ("12", "9") and shapes["A_local_1"] == ("12", "5")
    assert shapes["A"] == ("10", "5") and shapes["C"] == ("10", "9")
    assert text(found(out.program, "mm").axes[0].extent) == "12"
    assert found(out.program, "A_local_1_fill").writes[0].buffer == "A_local_1"
    same(before, out.program)


def test_pad_by_a_sampled_factor():
    size = Symbol("f", Choice((2, 4)))
    out = split(staged(), loop("i"), [None, size], tail="pad")
    assert "f" in text(all_buffers(out.program)["C_local_1"].shape[0])


def test_pad_of_what_is_made_under_the_loop_needs_no_fill():
    b = ProgramBuilder("p")
    w, t, c = b.input("W", (4,)), b.alloc("T", (10, 4)), b.output("B", (4,))
    with b.block("make", spatial("x", 10), spatial("y", 4)) as (x, y):
        t[x, y] = w[y] * 2.0
    with b.block("use", spatial("y", 4), reduce("x", 10)) as (y, x):
        c[y] += t[x, y]
    before = b.finish()
    out = split(before, loop("x"), sizes(None, 4), tail="pad")
    assert [s.name for s in blocks_of(out.program.body)] == ["make", "use"]
    same(before, out.program)


def test_pad_refuses_what_cannot_grow():
    with refused("MS356", "`B`, which the scope does not allocate", "cache_write", "pad_einsum"):
        split(copy(100), loop("i"), sizes(None, 8), tail="pad")
    out = cache_write(matmul(10, 9, 5), block("mm"), buffer("C"), "local").program
    with refused("MS356", "`A`, which the scope does not allocate"):
        split(out, loop("i"), sizes(None, 4), tail="pad")


def test_pad_refuses_a_reduction_over_more():
    with refused("MS356", "reduce axis `z`"):
        split(staged(), loop("k"), sizes(None, 4), tail="pad")


def test_pad_refuses_to_write_what_is_used():
    b = ProgramBuilder("p")
    a, t, c = b.input("A", (12,)), b.alloc("T", (12,)), b.output("B", (12,))
    with b.block("whole", spatial("x", 12)) as (x,):
        t[x] = a[x]
    with b.block("part", spatial("x", 10)) as (x,):
        t[x] = 1.0
    with b.block("use", spatial("x", 12)) as (x,):
        c[x] = t[x]
    with refused("MS356", "elements of `T` that are used"):
        split(b.finish(), loop("x_1"), sizes(None, 4), tail="pad")


@pytest.mark.parametrize(
    ("first", "start", "words"),
    [
        ("1..8", "T[i] = 0", "does not provably begin at 0"),
        ("8", "if i > 1 { T[i] = 0 }", "nothing has set the new elements"),
    ],
)
def test_pad_refuses_to_go_on_from_new_elements_that_nobody_has_set(first: str, start: str, words: str):
    p = parse_program(f"""program p(A: i32[5], out B: i32[5]) {{
        alloc T: i32[5]
        for x in 5 {{ block a[i: 5 = x] {{ T[i] = A[i] }} }}
        for l in 5, r in {first} {{ block s[i: 5 = l | k: 8 = r] {{ init {{ {start} }} T[i] += 1 }} }}
        for y in 5 {{ block b[i: 5 = y] {{ B[i] = T[i] }} }}
    }}""")
    with refused("MS356", words):
        split(p, loop("l"), sizes(None, 4), tail="pad")


def test_pad_looks_at_each_access_not_at_the_box_around_them():
    b = ProgramBuilder("p")
    a, c = b.input("A", (2, 6)), b.output("C", (2, 2))
    with b.block("s", spatial("i", 2), spatial("j", 2), reduce("k", 6)) as (i, j, k):
        c[i, j] += a[i, k] * a[j, k]
    out = cache_write(b.finish(), block("s"), buffer("C"), "local").program
    with refused("MS356", "`A`, which the scope does not allocate"):
        split(out, loop("i"), sizes(None, 3), tail="pad")


def test_pad_refuses_an_index_that_does_not_grow_evenly():
    b = ProgramBuilder("p")
    w, t, c = b.input("W", (4,)), b.alloc("T", (10,)), b.output("B", (10,))
    with b.block("make", spatial("x", 10)) as (x,):
        t[x] = w[maximum(x - 6, 0)]
    with b.block("use", spatial("x", 10)) as (x,):
        c[x] = t[x]
    with refused("MS356", "does not grow with it"):
        split(b.finish(), loop("x"), sizes(None, 4), tail="pad")


# ------------------------------------------------------------------ disable_predication
def test_without_predication_what_divides_is_accepted():
    out = split(copy(96), loop("i"), sizes(None, 8), disable_predication=True)
    assert "where" not in outline(out.program)


def test_without_predication_what_may_run_over_is_refused():
    with refused("MS306", "without a predicate", "may run over its extent"):
        split(copy(100), loop("i"), sizes(None, 8), disable_predication=True)
    with refused("MS306", "without a predicate"):
        split(copy(100), loop("i"), [None, Symbol("f", Choice((3, 7)))], disable_predication=True)


def test_a_tail_that_needs_no_predicate_is_accepted_without():
    out = split(copy(100), loop("i"), sizes(None, 8), tail="peel", disable_predication=True)
    same(copy(100), out.program)


def test_a_tail_that_there_is_not():
    with refused("MS303", "`wrap` is no way", "guard, pad, peel, shift"):
        split(copy(100), loop("i"), sizes(None, 8), tail="wrap")


def test_a_concurrent_loop_below_keeps_what_it_has_to_itself():
    moved = compute_at(chain(), block("first"), loop("x_1")).program
    inner = parallel(moved, loop("y_1"))
    out = split(inner.program, loop("x_1"), sizes(None, 3), tail="peel")
    same(chain(), out.program)


def test_a_factor_must_be_positive_whatever_the_tail():
    with refused("MS306", "positive"):
        split(copy(10), loop("i"), [None, Const(0)], tail="peel")


@pytest.mark.parametrize("condition", ["F[x] < 1.0", "F[10 - x] < 1.0"])
def test_pad_refuses_a_predicate_that_would_load_out_of_bounds(condition: str):
    program = """program p(A: f32[10], F: f32[11], out B: f32[10]) {
        alloc T: f32[10]
        for z in 0..10 { block zero[x: 10 = z] { T[x] = 1.0 } }
        for i in 0..10 { block a[x: 10 = i] { where CONDITION T[x] = A[0] } }
        for j in 0..10 { block b[x: 10 = j] { B[x] = T[x] } }
    }"""
    with refused("MS356", "the predicate or a binding of block `a` loads what may be out of bounds"):
        split(parse_program(program.replace("CONDITION", condition)), loop("i"), sizes(None, 4), tail="pad")
    steady = parse_program(program.replace("CONDITION", "F[0] < 1.0"))
    same(steady, split(steady, loop("i"), sizes(None, 4), tail="pad").program)
