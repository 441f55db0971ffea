"""reverse_compute_at: what follows its producers, and what is refused."""

import pytest
from msgspec.structs import replace

from mslang.ir.build import ProgramBuilder, reduce, spatial
from mslang.ir.expr import Choice, Symbol
from mslang.ir.find import path_to_block
from mslang.ir.operators import select
from mslang.ir.program import For
from mslang.ir.verify import verify
from mslang.sema.program import parse_program
from mslang.transform.primitives.caching import cache_write
from mslang.transform.primitives.compute_at import compute_at, legal_loops, reverse_compute_at
from mslang.transform.primitives.decompose_reduction import decompose_reduction
from mslang.transform.primitives.loop_kinds import bind, parallel
from mslang.transform.primitives.loops import reorder, split
from tests.property.block_programs import same_meaning
from tests.unit.transform.moves import accepted, part
from tests.unit.transform.programs import block, buffer, chain, loop, loops, matmul, outline, refused, sizes
from tests.unit.transform.staged import program
from tests.unit.transform.workloads import blur, conv2d, diamond, softmax, two_sums


def accepted_close(before, outcome):
    import numpy as np

    from mslang.backend.reference.interpret import run
    from tests.property.strategies import random_inputs

    assert verify(outcome.program) == ()
    given = random_inputs(before, 0)
    want, got = run(before, given), run(outcome.program, given)
    for name, value in want.items():
        np.testing.assert_allclose(got[name], value, rtol=1e-5)
    return outcome.program


def test_a_consumer_follows_the_tile():
    p = split(chain(), loop("x"), sizes(None, 3)).program
    q = accepted(p, reverse_compute_at(p, block("second"), loop("x_0")))
    assert [line.strip() for line in part(q, "x_2")] == [
        "x_2 in 0+3",
        "y_2 in 0+16",
        "second[x = (x_0 * 3) + x_2, y = y_2] where x < 8",
    ]


def test_a_strided_window_follows_its_tile():
    b = ProgramBuilder("pool")
    a, t, o = b.input("A", (16,)), b.alloc("T", (16,)), b.output("B", (8,))
    with b.block("first", spatial("x", 16)) as (x,):
        t[x] = a[x] + 1.0
    with b.block("pool", spatial("i", 8), reduce("r", 2)) as (i, r):
        o[i] += t[i * 2 + r]
    p = split(b.finish(), loop("x"), sizes(None, 4)).program
    q = accepted(p, reverse_compute_at(p, block("pool"), loop("x_0")))
    assert [line.strip() for line in part(q, "i_1")] == [
        "i_1 in 0+2",
        "r_1 in 0+2",
        "pool[i = (x_0 * 2) + i_1, r = r_1]",
    ]


def test_a_reduction_follows_its_reduction_tile():
    p = softmax()
    q = split(p, loop("j"), sizes(None, 4)).program
    q = accepted_close(p, reverse_compute_at(q, block("total"), loop("j_0")))
    assert [line.strip() for line in part(q, "i_4")[:3]] == [
        "i_4 in 0+1",
        "k_2 in 0+4",
        "total[i = i_1 + i_4, k = (j_0 * 4) + k_2]",
    ]


def test_a_constant_index_is_no_tile():
    b = ProgramBuilder("first_row")
    a, t, o = b.input("A", (4, 6)), b.alloc("T", (4, 6)), b.output("B", (6,))
    with b.block("first", spatial("x", 4), spatial("y", 6)) as (x, y):
        t[x, y] = a[x, y]
    with b.block("second", spatial("y", 6)) as (y,):
        o[y] = t[0, y]
    p = b.finish()
    with refused("MS332", "elements of `T` that block `second` reads", "can be placed"):
        reverse_compute_at(p, block("second"), loop("x"))
    q = reorder(p, loops("y x")).program
    accepted(q, reverse_compute_at(q, block("second"), loop("y")))


def test_the_parallel_epilogue():
    p = parallel(matmul(8, 6, 4), loop("i")).program
    p = cache_write(p, block("mm"), buffer("C"), "local").program
    accepted(p, reverse_compute_at(p, block("C_local"), loop("i")))
    accepted(p, reverse_compute_at(p, block("C_local"), loop("j")))


def test_reverse_compute_at_refuses():
    p = blur()
    with refused("MS332", "`by` would read", "there is no loop"):
        reverse_compute_at(p, block("by"), loop("y"))
    with refused("MS341", "`right` comes after it"):
        reverse_compute_at(diamond(), block("join"), loop("x_1"))
    with refused("MS346", "loop `k` still reduces in block `top`", "`i`"):
        reverse_compute_at(softmax(), block("ex"), loop("k"))
    with refused("MS340", "above"):
        reverse_compute_at(chain(), block("second"), loop("x_1"))


def test_a_halo_across_another_loop_is_no_obstacle():
    p = reorder(blur(), loops("x y")).program
    accepted(p, reverse_compute_at(p, block("by"), loop("x")))


def test_reverse_compute_at_refuses_what_would_not_all_run():
    b = ProgramBuilder("rows")
    a, t, o = b.input("A", (8,)), b.alloc("T", (8,)), b.output("B", (8,))
    with b.block("first", spatial("x", 8)) as (x,):
        t[x] = a[x]
    with b.loop("i", 4) as i, b.block("even", spatial("x", 8, i * 2)) as (x,):
        o[x] = t[x]
    with refused("MS348", "`even` does not provably run for all values", "nor a known box of them"):
        reverse_compute_at(b.finish(), block("even"), loop("x"))
    b = ProgramBuilder("pad")
    a, t, o = b.input("A", (8,)), b.alloc("T", (8,)), b.output("B", (10,))
    with b.block("first", spatial("x", 8)) as (x,):
        t[x] = a[x]
    with b.block("pad", spatial("x", 10)) as (x,):
        o[x] = select((x >= 1) & (x < 9), t[x - 1], 0.0)
    with refused("MS348", "`pad` would not provably run for all values"):
        reverse_compute_at(b.finish(), block("pad"), loop("x"))


PART = """program p(A: f32[64], inout C: f32[64]) {{
    alloc T: f32[64]
    for i in 0..64 {{ block first[x: 64 = i] {{ T[x] = A[x] * 2.0 }} }}
    for i in {part} {{ block last[x: 64 = i] {{ {where} C[x] = T[x] + 1.0 }} }} }}"""


@pytest.mark.parametrize("tile", [8, 7])
@pytest.mark.parametrize(
    ("part", "where", "guards"),
    [
        ("0..24", "", ["x < 24"]),
        ("8..40", "", ["8 <= x", "x < 40"]),
        ("8..40", "where x != 11", ["8 <= x", "x < 40", "x != 11"]),
    ],
)
def test_of_a_part_of_the_axis_no_more_is_done(part, where, guards, tile):
    p = parse_program(PART.format(part=part, where=where))
    q = split(p, loop("i"), sizes(None, tile)).program
    moved = accepted(q, reverse_compute_at(q, block("last"), loop("i_0")))
    last = outline(moved).splitlines()[-1]
    assert all(f"({guard})" in last or last.endswith(f"where {guard}") for guard in guards)


def test_a_copy_of_what_is_written_follows_the_tile():
    p = parse_program("""program p(A: f32[16, 24], inout C: f32[64, 64]) {
        for i in 16, j in 24 { block b[x: 64 = i, y: 64 = j + 8] { C[x, y] = A[x, y - 8] } } }""")
    p = split(cache_write(p, block("b"), buffer("C"), "local").program, loop("i"), sizes(None, 4)).program
    q = accepted(p, reverse_compute_at(p, block("C_local"), loop("i_0")))
    assert [line.strip() for line in part(q, "ax0_1")] == [
        "ax0_1 in 0+4",
        "ax1_1 in 0+24",
        "C_local[ax0 = (i_0 * 4) + ax0_1, ax1 = ax1_1 + 8]",
    ]


def test_a_part_of_a_reduction_is_not_moved():
    p = parse_program("""program p(A: f32[8, 8], inout C: f32[8]) {
        alloc T: f32[8, 8]
        block first[x: 8, y: 8] { T[x, y] = A[x, y] }
        for i in 8, k in 0..4 { block last[x: 8 = i | r: 8 = k] { init { C[x] = 0.0 } C[x] += T[x, r] } } }""")
    with refused("MS348", "`last` does not provably run for all values"):
        reverse_compute_at(p, block("last"), loop("x"))


def test_reverse_compute_at_refuses_to_read_what_a_producer_may_leave_out():
    def twice(condition: str):
        return parse_program(f"""program p(A: f32[8], out B: f32[8]) {{
            alloc T: f32[8]
            for h in 8 {{ block first[x: 8 = h] {{ T[x] = A[x] }} }}
            for i in 8 {{ block second[x: 8 = i] {{ where {condition} T[x] = 2.0 }} }}
            for j in 8 {{ block last[x: 8 = j] {{ B[x] = T[x] }} }} }}""")

    with refused(
        "MS332",
        "`last` would read elements that are not provably written",
        "`second` does not provably write all",
        "`T`",
    ):
        reverse_compute_at(twice("A[x] > 0.0"), block("last"), loop("i"))
    accepted(twice("i < 8"), reverse_compute_at(twice("i < 8"), block("last"), loop("i")))


def test_reverse_compute_at_refuses_to_sum_a_halo_twice():
    b = ProgramBuilder("twice")
    a, t, u = b.input("A", (10,)), b.alloc("T", (10,)), b.output("U", (8,))
    s = b.output("S", (1,))
    with b.block("first", spatial("x", 10)) as (x,):
        t[x] = a[x]
    with b.block("pair", spatial("x", 8)) as (x,):
        u[x] = t[x] + t[x + 2]
    with b.block("sum", spatial("o", 1), reduce("k", 10)) as (o, k):
        s[o] += t[k]
    p = b.finish()
    with refused("MS341"):
        compute_at(p, block("first"), loop("x_1"))
    loop_at = path_to_block(p, "sum")
    assert isinstance(loop_at[0], For)
    assert legal_loops(p, block("sum"), "reverse_compute_at") == (loop("x"),)


def test_an_epilogue_follows_a_decomposed_reduction():
    p = decompose_reduction(conv2d(5, 5, 2, 2), block("conv"), loop("r")).program
    assert [x.name for x in legal_loops(p, block("add"), "reverse_compute_at")] == ["h_1", "w_1", "co"]
    q = accepted(p, reverse_compute_at(p, block("add"), loop("w_1")))
    assert [line.strip().split("[")[0] for line in outline(q).splitlines() if "[" in line] == [
        "pad",
        "conv_init",
        "conv_update",
        "add",
        "relu",
    ]
    with refused("MS346", "loop `r` still reduces in block `conv_update`"):
        reverse_compute_at(p, block("add"), loop("r"))


def test_a_tile_that_runs_over_may_be_split_again():
    rows, more = (Symbol(n, Choice((2, 3, 4))) for n in ("rows", "more"))
    p = matmul(14, 6, 4)
    q = split(p, loop("i"), [None, rows]).program
    q = split(q, loop("i_0"), [None, more]).program
    q = cache_write(q, block("mm"), buffer("C"), "local").program
    q = reverse_compute_at(q, block("C_local"), loop("i_0_1")).program
    assert verify(q) == ()
    for a in (2, 3, 4):
        for b in (2, 3, 4):
            same_meaning(p, q, {"rows": a, "more": b}, 0)


def test_beyond_an_axis_may_be_the_next_row():
    b = ProgramBuilder("rows")
    a, t, o = b.input("A", (4, 6)), b.alloc("T", (24,)), b.output("B", (24,))
    with b.block("first", spatial("i", 4), spatial("j", 6)) as (i, j):
        t[i * 6 + j] = a[i, j]
    with b.block("second", spatial("x", 24)) as (x,):
        o[x] = t[x]
    p = b.finish()
    for name, where in (("i", "i_0"), ("j", "j_0")):
        q = split(p, loop(name), sizes(None, 4)).program
        if name == "i":
            accepted(p, reverse_compute_at(q, block("second"), loop(where)))
        else:
            with refused("MS332"):
                reverse_compute_at(q, block("second"), loop(where))


# ------------------------------------------------------------------ without producers at the loop
def test_what_reads_only_inputs_is_done_again_in_each_iteration():
    p = two_sums()
    q = accepted(p, reverse_compute_at(p, block("second"), loop("i")))
    assert outline(q).splitlines()[:6] == [
        "i in 0+6",
        "  k in 0+3",
        "    first[i = i, k = k]",
        "  i_3 in 0+6",
        "    k_2 in 0+3",
        "      second[i = i_3, k = k_2]",
    ]
    with refused("MS308", "the order of loops", "block `second` would repeat steps of its reduction in loop `i_3`"):
        only = reverse_compute_at(q, block("first"), loop("k_2"), index=-2).program
        reorder(only, loops("k_2 i_3 i"))


def test_what_reads_only_what_was_written_before_the_loop():
    p = diamond()
    q = accepted(p, reverse_compute_at(p, block("right"), loop("x_1")))
    assert [line.strip() for line in part(q, "x_1")][:4] == [
        "x_1 in 0+8",
        "left[x = x_1]",
        "x_4 in 0+8",
        "right[x = x_4]",
    ]
    accepted(p, reverse_compute_at(p, block("left"), loop("x_2")))


def test_not_past_what_reads_it_or_before_what_it_reads():
    p = two_sums()
    with refused("MS344", "block `last` reads what block `first` would write after it"):
        b = ProgramBuilder("past")
        a, t, u, o = b.input("A", (6,)), b.alloc("T", (6,)), b.output("U", (6,)), b.output("B", (6,))
        with b.block("first", spatial("i", 6)) as (i,):
            t[i] = a[i]
        with b.block("last", spatial("i", 6)) as (i,):
            o[i] = t[i]
        with b.block("other", spatial("i", 6)) as (i,):
            u[i] = a[i]
        reverse_compute_at(b.finish(), block("first"), loop("i_2"))
    with refused("MS341", "`first` comes after it"):
        moved = replace(p, body=(p.body[1], p.body[0], p.body[2]))
        reverse_compute_at(moved, block("last"), loop("i_1"))


def test_not_again_in_iterations_that_run_at_once():
    for p in (parallel(two_sums(), loop("i")).program, bind(two_sums(), loop("i"), "blockIdx.x").program):
        with refused("MS310", "different iterations of loop `i` may access the same elements of `U`"):
            reverse_compute_at(p, block("second"), loop("i"))


def test_not_for_all_in_iterations_that_run_at_once():
    # What block `c` writes is shared by the iterations of `p` before, and each would write all of it after.
    p = program(
        "A: f32[8], out B: f32[8], out C: f32[8]",
        """
        for p in 0..2 @ parallel {
            for i in 0..4 { block a[x: 8 = p * 4 + i] { B[x] = A[x] } }
            for j in 0..4 { block c[x: 8 = p * 4 + j] { C[x] = A[x] } }
        }
        """,
    )
    with refused("MS310", "the parallel loop `p` would no longer be independent", "access the same elements of `C`"):
        reverse_compute_at(p, block("c"), loop("i"))


AGAIN = """
    for p in 0..2, i in 0..4, u in 0..3 { block a[x: 8 = p * 4 + i] { T[x] = A[x] } }
    for j in 0..8 { block c[x: 8 = j] { C[x] = T[x] + 1.0 } }
"""


@pytest.mark.parametrize("mark", [parallel, lambda p, i: bind(p, i, "threadIdx.x")])
@pytest.mark.parametrize("at", ["p", "i", "u"])
def test_again_in_each_iteration_of_those_that_run_at_once(mark, at):
    # Loop `u` does it three times, each parallel iteration for elements of its own.
    p = program("A: f32[8], out C: f32[8], out T: f32[8]", AGAIN)
    moved = accepted(p, mark(accepted(p, reverse_compute_at(p, block("c"), loop(at))), loop("i")))
    assert moved == reverse_compute_at(mark(p, loop("i")).program, block("c"), loop(at)).program


def test_the_same_elements_in_several_iterations_that_run_at_once():
    # A halo: neighbours write the same value to the same element, which is a race.
    p = program(
        "A: f32[6], out T: f32[6], out C: f32[6]",
        """
        for i in 0..4, k in 0..3 { block a[x: 6 = i + k] { T[x] = A[x] } }
        for j in 0..6 { block c[x: 6 = j] { C[x] = T[x] } }
        """,
    )
    moved = accepted(p, reverse_compute_at(p, block("c"), loop("i")))
    with refused("MS310", "different iterations of loop `i` may access the same elements"):
        parallel(moved, loop("i"))


def test_not_past_what_reads_what_it_overwrites():
    p = program(
        "A: f32[8], inout C: f32[8], out B: f32[8]",
        """
        alloc T: f32[8]
        for h in 0..8 { block r[x: 8 = h] { B[x] = C[x] } }
        for i in 0..8 { block a[x: 8 = i] { T[x] = A[x] } }
        for j in 0..8 { block c[x: 8 = j] { C[x] = T[x] } }
        """,
    )
    with refused("MS344", "block `r` reads `C` before block `c` writes it", "what is still to be read"):
        reverse_compute_at(p, block("c"), loop("i"))


def test_each_parallel_iteration_may_do_it_for_itself():
    b = ProgramBuilder("own")
    a, t, o = b.input("A", (6,)), b.alloc("T", (6,)), b.output("B", (6,))
    with b.block("first", spatial("i", 6)) as (i,):
        t[i] = a[i]
    with b.block("last", spatial("i", 6)) as (i,):
        o[i] = t[i]
    p = parallel(b.finish(), loop("i_1")).program
    accepted(p, reverse_compute_at(p, block("first"), loop("i_1")))


# ------------------------------------------------------------------ indices that are divided, or go down
def test_through_a_layout():
    b = ProgramBuilder("layout")
    a, t, o = b.input("A", (3, 5, 16)), b.alloc("T", (3, 5, 16)), b.output("B", (6, 5, 8))
    with b.block("first", spatial("c", 3), spatial("h", 5), spatial("v", 16)) as (c, h, v):
        t[c, h, v] = a[c, h, v] + 1.0
    with b.block("turn", spatial("c", 6), spatial("h", 5), spatial("v", 8)) as (c, h, v):
        o[c, h, v] = t[(c * 8 + v) // 16, h, (c * 8 + v) % 16]
    p = b.finish()
    q = accepted(p, reverse_compute_at(p, block("turn"), loop("c")))
    assert [line.strip() for line in part(q, "c_2")] == [
        "c_2 in 0+2",
        "h_2 in 0+5",
        "v_2 in 0+8",
        "turn[c = (c * 2) + c_2, h = h_2, v = v_2]",
    ]


def test_element_by_element_through_a_reshape():
    b = ProgramBuilder("reshape")
    a, t, o = b.input("A", (6,)), b.alloc("T", (3, 2)), b.output("B", (6,))
    with b.block("first", spatial("i", 3), spatial("j", 2)) as (i, j):
        t[i, j] = a[i * 2 + j] + 1.0
    with b.block("second", spatial("x", 6)) as (x,):
        o[x] = t[x // 2, x % 2]
    p = b.finish()
    q = accepted(p, reverse_compute_at(p, block("second"), loop("j")))
    assert [line.strip() for line in part(q, "x_1")] == ["x_1 in 0+1", "second[x = ((i * 2) + j) + x_1]"]


def test_an_index_that_goes_down():
    b = ProgramBuilder("down")
    a, t, o = b.input("A", (8,)), b.alloc("T", (8,)), b.output("B", (8,))
    with b.block("first", spatial("i", 8)) as (i,):
        t[i] = a[i] + 1.0
    with b.block("second", spatial("i", 8)) as (i,):
        o[i] = t[7 - i]
    p = split(b.finish(), loop("i"), sizes(None, 2)).program
    q = accepted(p, reverse_compute_at(p, block("second"), loop("i_0")))
    assert [line.strip() for line in part(q, "i_2")] == ["i_2 in 0+2", "second[i = (i_2 - (i_0 * 2)) + 6]"]


# ------------------------------------------------------------------ reductions keep their order
def summed(index, update):
    return parse_program(f"""program p(A: f32[8], out B: f32[1]) {{
        alloc T: f32[8]
        for i in 8 {{ block first[x: 8 = {index}] {{ T[x] = A[x] + 1.0 }} }}
        for j in 8 {{
            block sum[u: 1 = 0 | k: 8 = j] {{
                init {{ B[u] = 0.0 }}
                B[u] = {update} + T[k]
            }}
        }}
    }}""")


def test_a_reduction_begins_with_its_init():
    p = summed("7 - i", "B[u]")
    with refused("MS308", "`sum` would reduce in another order", "axis `k` of block `sum` does not provably begin"):
        reverse_compute_at(p, block("sum"), loop("i"))


def test_what_has_an_order_keeps_it():
    p = summed("i", "B[u] * 2.0")
    accepted(p, reverse_compute_at(p, block("sum"), loop("i")))
    p = split(summed("i", "B[u] * 2.0"), loop("i"), sizes(None, 4)).program
    p = reorder(p, loops("i_1 i_0")).program
    with refused("MS308", "must be kept"):
        reverse_compute_at(p, block("sum"), loop("i_0"))


def test_a_reduction_over_loops_around_both():
    b = ProgramBuilder("around")
    a, t, o = b.input("A", (4, 6)), b.alloc("T", (4, 6)), b.output("B", (4,))
    with b.loop("i", 4) as i, b.loop("k", 6) as k:
        with b.loop("u", 1) as u, b.block("first", spatial("x", 4, i + u), spatial("y", 6, k)) as (x, y):
            t[x, y] = a[x, y] + 1.0
        with b.block("sum", spatial("x", 4, i), reduce("y", 6, k)) as (x, y):
            o[x] += t[x, y]
    p = b.finish()
    q = accepted(p, reverse_compute_at(p, block("sum"), loop("u")))
    assert [line.strip() for line in part(q, "x_1")] == [
        "x_1 in 0+1",
        "y_1 in 0+1",
        "sum[x = (i + u) + x_1, y = k + y_1]",
    ]


SUM = """
    alloc T: f32[8]
    for i in 0..8{kind}, u in 0..2 {{ block a[x: 8 = i] {{ T[x] = A[x] }} }}
    for j in 0..8 {{ block s[z: 1 = 0 | x: 8 = j] {{ S[z] += T[x] }} }}
"""


def test_not_in_iterations_that_run_at_once_or_twice():
    p = program("A: f32[8], out S: f32[1]", SUM.format(kind=""))
    with refused("MS349", "block `s` would run some instances of its reduction twice", "can be placed: `i`"):
        reverse_compute_at(p, block("s"), loop("u"))
    accepted(p, reverse_compute_at(p, block("s"), loop("i")))
    p = program("A: f32[8], out S: f32[1]", SUM.format(kind=" @ parallel"))
    with refused("MS346", "block `s` would reduce over the parallel loop `i`", "update the same elements"):
        reverse_compute_at(p, block("s"), loop("i"))


def test_not_over_iterations_that_run_at_once_of_what_nobody_reads():
    # Each iteration has `S` to itself then, and would go on from what it never began.
    p = program(
        "A: f32[8], out T: f32[8]",
        """
        alloc S: f32[1]
        for i in 0..8 @ parallel { block a[x: 8 = i] { T[x] = A[x] } }
        for j in 0..8 { block s[z: 1 = 0 | x: 8 = j] { S[z] += T[x] } }
        """,
    )
    with refused("MS346", "block `s` would reduce over the parallel loop `i`"):
        reverse_compute_at(p, block("s"), loop("i"))


def test_loops_that_run_once_reduce_nothing():
    b = ProgramBuilder("once")
    a, t, o = b.input("A", (1, 5)), b.alloc("T", (5,)), b.output("B", (5,))
    with b.block("sum", reduce("r", 1), spatial("x", 5)) as (r, x):
        t[x] += a[r, x]
    with b.block("last", spatial("x", 5)) as (x,):
        o[x] = t[x]
    p = b.finish()
    accepted(p, reverse_compute_at(p, block("last"), loop("r")))


def test_a_block_keeps_to_its_part():
    b = ProgramBuilder("parts")
    a, o = b.input("A", (4,)), b.output("B", (4,))
    with b.block("part", spatial("p", 4)) as (p,):
        t = b.alloc("T", (4,))
        with b.loop("i", 4) as i, b.block("first", spatial("x", 4, i)) as (x,):
            t[x] = a[x]
        with b.block("last", spatial("x", 4, p)) as (x,):
            o[x] = t[x]
    with refused("MS348", "`last` would run for more values of `x` than are its own"):
        reverse_compute_at(b.finish(), block("last"), loop("i"))


@pytest.mark.parametrize("direction", ["inout", "alloc"])
def test_a_read_before_the_write_is_not_moved_behind_it(direction: str):
    """In the iteration of the last row, the row before still holds what was there first; moved, it would be read after
    it is written."""
    given, own = ("inout T: f32[8, 8], ", "") if direction == "inout" else ("", "alloc T: f32[8, 8]\n")
    first = "" if given else "for i in 8, j in 8 { block zero[x: 8 = i, y: 8 = j] { T[x, y] = 0.0 } }\n"
    p = parse_program(f"""program t({given}A: f32[8, 8], out B: f32[8, 2]) {{ {own}{first}
        for l in 8 {{
            for m in 8 {{ block w[x: 8 = 7 - l, y: 8 = m] {{ T[x, y] = A[x, y] }} }}
            for n in 2 {{ block r[x: 8 = 7 - l, y: 2 = n] {{ B[x, y] = T[7 - y, x] }} }}
        }}
    }}""")
    with refused("MS320", "`T`"):
        reverse_compute_at(p, block("r"), loop("m"))


def test_blocks_of_a_launch_do_not_nest_by_a_move():
    p = parse_program("""program t(A: f32[4, 8], out B: f32[4, 8]) {
        alloc T: f32[4, 8]
        for i in 4 {
            block outer[x: 4 = i] {
                reads A[x, 0..8]
                writes T[x, 0..8]
                for j in 8 @ blockIdx.x { block inner[y: 4 = x, z: 8 = j] { T[y, z] = A[y, z] } }
            }
        }
        for k in 4 @ blockIdx.x { for l in 8 { block user[x: 4 = k, y: 8 = l] { B[x, y] = T[x, y] } } }
    }""")
    with refused("MS311", "is around the blockIdx.x loop `j`"):
        compute_at(p, block("outer"), loop("k"))
