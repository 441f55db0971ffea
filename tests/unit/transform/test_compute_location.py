"""compute_at and reverse_compute_at: what is computed where, and what is refused."""

import pytest
from msgspec.structs import replace

from mslang.ir.build import ProgramBuilder, reduce, spatial
from mslang.ir.expr import Binary, Choice, Const, DynamicRange, FreeTile, PerfectTile, Symbol, Var
from mslang.ir.operators import Value, select
from mslang.ir.program import Block, For
from mslang.ir.verify import verify
from mslang.ir.visit import path_to_block, path_to_loop, walk
from mslang.sema.program import parse_program
from mslang.transform.analysis.position import block_at
from mslang.transform.outcome import Gone
from mslang.transform.primitives.caching import cache_read, cache_write
from mslang.transform.primitives.compute_location import compute_at, legal_loops, reverse_compute_at
from mslang.transform.primitives.kinds import bind, parallel, vectorize
from mslang.transform.primitives.loops import fuse, reorder, split
from mslang.transform.primitives.reduction import decompose_reduction
from mslang.transform.rewriting.rewrite import put
from tests.property.block_programs import same_meaning
from tests.unit.transform.programs import block, buffer, chain, loop, loops, matmul, outline, refused, sizes
from tests.unit.transform.staged import program
from tests.unit.transform.workloads import blur, conv2d, diamond, softmax


def accepted(before, outcome, **symbols):
    """The program of an outcome, which is well formed and means the same."""
    assert verify(outcome.program) == ()
    same_meaning(before, outcome.program, symbols, 1)
    return outcome.program


def part(program, name):
    """The lines of an outline from the first with a name on."""
    lines = outline(program).splitlines()
    return lines[next(k for k, line in enumerate(lines) if line.strip().startswith(name)) :]


# ------------------------------------------------------------------ compute_at
def test_a_halo_is_computed_again():
    p = blur()
    made = compute_at(p, block("bx"), loop("y_1"))
    q = accepted(p, made)
    assert outline(q) == "\n".join(
        (
            "y_1 in 0+8",
            "  y_2 in 0+3",
            "    x_2 in 0+6",
            "      bx[y = y_1 + y_2, x = x_2]",
            "  x_1 in 0+6",
            "    by[y = y_1, x = x_1]",
        )
    )
    assert made.forward == {
        loop("y"): Gone("compute_at", (loop("y_2"), loop("x_2"))),
        loop("x"): Gone("compute_at", (loop("y_2"), loop("x_2"))),
    }


def test_loops_around_both_stay():
    p = compute_at(blur(), block("bx"), loop("y_1")).program
    q = accepted(p, compute_at(p, block("bx"), loop("x_1")))
    assert outline(q).splitlines()[:4] == ["y_1 in 0+8", "  x_1 in 0+6", "    y_3 in 0+3", "      x_3 in 0+1"]


def test_a_tail_gives_a_guard_and_a_shorter_loop():
    p = split(blur(), loop("y_1"), sizes(None, 9)).program
    q = accepted(p, compute_at(p, block("bx"), loop("y_1_0")))
    assert [line.strip() for line in outline(q).splitlines()[1:4]] == [
        "y_1 in 0+10",
        "x_2 in 0+6",
        "bx[y = y_1, x = x_2]",
    ]
    p = split(blur(), loop("y_1"), sizes(None, 5)).program
    q = accepted(p, compute_at(p, block("bx"), loop("y_1_0")))
    assert [line.strip() for line in outline(q).splitlines()[1:4]] == [
        "y_1 in 0+7",
        "x_2 in 0+6",
        "bx[y = (y_1_0 * 5) + y_1, x = x_2] where y < 10",
    ]


def test_a_strided_consumer():
    p = conv2d(8, 8, 2, 2, stride=2)
    q = accepted(p, compute_at(p, block("pad"), loop("h_1")))
    assert [line.strip() for line in part(q, "h_4")[:4]] == [
        "h_4 in 0+3",
        "w_4 in 0+9",
        "c_1 in 0+2",
        "pad[h = (h_1 * 2) + h_4, w = w_4, c = c_1]",
    ]


@pytest.mark.parametrize("where", ["h_1", "w_1", "co", "r", "s", "ci"])
@pytest.mark.parametrize("stride", [1, 2])
def test_padding_can_be_computed_at_each_loop_of_a_convolution(where, stride):
    p = conv2d(5, 5, 2, 2, stride)
    accepted(p, compute_at(p, block("pad"), loop(where)))


def test_reductions_are_recreated_entirely():
    p = softmax()
    for name, where in (("total", "i_3"), ("ex", "i_3"), ("top", "i_3")):
        made = compute_at(p, block(name), loop(where))
        assert verify(made.program) == ()
        p = made.program
    assert outline(p) == "\n".join(
        (
            "i_3 in 0+6",
            "  i_1 in 0+1",
            "    k_1 in 0+8",
            "      top[i = i_1 + i_3, k = k_1]",
            "  i_2 in 0+1",
            "    j_2 in 0+8",
            "      ex[i = i_2 + i_3, j = j_2]",
            "  i_4 in 0+1",
            "    k_2 in 0+8",
            "      total[i = i_3 + i_4, k = k_2]",
            "  j_1 in 0+8",
            "    norm[i = i_3, j = j_1]",
        )
    )


def test_several_consumers_under_one_loop():
    p = diamond()
    for name in ("right", "left", "first"):
        p = accepted(diamond(), compute_at(p, block(name), loop("x_3")))
    assert [line.strip() for line in outline(p).splitlines() if "[" in line] == [
        "first[x = x_1 + x_3]",
        "right[x = x_3 + x_4]",
        "left[x = x_2 + x_3]",
        "join[x = x_3]",
    ]


def test_index_chooses_the_position():
    p = compute_at(diamond(), block("right"), loop("x_3")).program
    orders = {}
    for index in (-1, -2, 0, 1):
        q = accepted(p, compute_at(p, block("left"), loop("x_3"), index=index))
        orders[index] = [s.name for s in walk(q.body) if isinstance(s, Block)][1:]
    assert orders[-1] == orders[1] == ["right", "left", "join"]
    assert orders[-2] == orders[0] == ["left", "right", "join"]
    with refused("MS342", "position 2 of loop `x_3`", "legal positions: 0 to 1"):
        compute_at(p, block("left"), loop("x_3"), index=2)


def test_a_predicate_on_axes_moves_with_the_block():
    b = ProgramBuilder("odd")
    a, t, o = b.input("A", (8,)), b.alloc("T", (8,)), b.output("B", (8,))
    with b.block("first", spatial("x", 8), where=Value(Binary("<", Const(0), Var("x")))) as (x,):
        t[x] = a[x - 1]
    with b.block("second", spatial("x", 8)) as (x,):
        o[x] = select(x > 0, t[x], 0.0)
    p = b.finish()
    with refused("MS332", "`T`"):
        compute_at(p, block("first"), loop("x_1"))


def test_symbolic_tiles_fused_and_split_again():
    p = matmul(8, 6, 4)
    t, u = (tuple(Symbol(n, PerfectTile(Const(e), 2), k) for k in range(2)) for n, e in (("t", 8), ("u", 6)))
    q = split(p, loop("i"), t).program
    q = split(q, loop("j"), u).program
    q = reorder(q, loops("i_0 j_0 i_1 j_1")).program
    q = fuse(q, loops("i_0 j_0")).program
    q = cache_write(q, block("mm"), buffer("C"), "local").program
    q = reverse_compute_at(q, block("C_local"), loop("i_0_j_0_fused")).program
    q = cache_read(q, block("mm"), buffer("A")).program
    q = compute_at(q, block("A_global"), loop("k")).program
    assert verify(q) == ()
    for tile in ([8, 1], [1, 8], [2, 4]):
        for other in ([6, 1], [1, 6], [3, 2]):
            same_meaning(p, q, {"t": tile, "u": other}, 2)
    assert "where" not in outline(q)


def test_structure_is_the_same_for_all_tiles():
    p = blur()
    t = Symbol("t", FreeTile(Const(8), 2), 1)
    q = split(p, loop("y_1"), [None, t]).program
    q = compute_at(q, block("bx"), loop("y_1_0")).program
    assert outline(q).splitlines()[1].strip() == "y_1 in 0+t[1] + 2"
    assert "bx[y = (y_1_0 * t[1]) + y_1, x = x_2] where y < 10" in outline(q)
    for n in range(1, 9):
        same_meaning(p, q, {"t": [-(-8 // n), n]}, 3)


def test_dynamic_sizes():
    b = ProgramBuilder("dynamic")
    m = b.dynamic("M", 1, 40)
    a, t, o = b.input("A", (m,)), b.alloc("T", (m,)), b.output("B", (m,))
    with b.block("first", spatial("x", m)) as (x,):
        t[x] = a[x] + 1.0
    with b.block("second", spatial("x", m)) as (x,):
        o[x] = t[x] * 2.0
    p = b.finish()
    assert isinstance(p.dynamic[0].domain, DynamicRange)
    q = split(p, loop("x_1"), sizes(None, 8)).program
    q = compute_at(q, block("first"), loop("x_1_0")).program
    assert verify(q) == ()
    assert "where x < M" in outline(q)


def test_threads_share_what_they_need_together():
    p = cache_read(chain(), block("second"), buffer("T"), "shared").program
    path = path_to_loop(p, "y_1")
    q = put(p, path, replace(path[-1], kind="threadIdx.x"))
    q = compute_at(q, block("T_shared"), loop("y_1")).program
    assert any(line.strip() == "ax1_1 in 0+16" for line in outline(q).splitlines())


def test_compute_at_refuses():
    p = blur()
    with refused("MS340", "loop `y` is above block `bx` already", "`y_1` (`by.y`), `x_1` (`by.x`)"):
        compute_at(p, block("bx"), loop("y"))
    with refused("MS343", "`by` is an output block", "`B`"):
        compute_at(p, block("by"), loop("y"))
    with refused("MS341", "not all consumers of block `first`", "`left` is not"):
        compute_at(diamond(), block("first"), loop("x_2"))
    with refused("MS301", "no loop `none`"):
        compute_at(p, block("bx"), loop("none"))
    wide = vectorize(p, loop("x_1")).program
    with refused("MS346", "loop `x_1` is vectorized", "can be placed: `y_1` (`by.y`)"):
        compute_at(wide, block("bx"), loop("x_1"))
    apart = decompose_reduction(softmax(), block("top"), loop("k")).program
    with refused("MS345", "`top_update`", "axis `k` is reduce"):
        compute_at(apart, block("top_update"), loop("i_1"))


def test_compute_at_refuses_what_does_not_all_run_in_a_block():
    def rows(n: int):
        return parse_program(f"""program p(A: f32[8, 8], out B: f32[8, 8]) {{
            for h in 8 {{
                block row[z: 8 = h] {{
                    alloc T: f32[8]
                    for i in {n} {{ block first[w: 8 = z, x: 8 = i] {{ T[x] = A[w, x] }} }}
                    for j in {n} {{ block last[w: 8 = z, x: 8 = j] {{ B[w, x] = T[x] }} }} }} }} }}""")

    with refused("MS348", "`first` does not surely run for all values of its axes", "more than the block around it"):
        compute_at(rows(4), block("first"), loop("j"))
    accepted(rows(8), compute_at(rows(8), block("first"), loop("j")))


def test_compute_at_refuses_another_scope():
    b = ProgramBuilder("nested")
    a, t, o = b.input("A", (4, 6)), b.alloc("T", (4, 6)), b.output("B", (4, 6))
    with b.block("make", spatial("y", 4), spatial("k", 6)) as (y, k):
        t[y, k] = a[y, k]
    with b.block("row", spatial("r", 4)) as (r,), b.block("inner", spatial("y", 4, r), spatial("q", 6)) as (y, q):
        o[y, q] = t[y, q] * 2.0
    p = b.finish()
    with refused("MS340", "different scopes", "can be placed: `r`"):
        compute_at(p, block("make"), loop("q"))
    accepted(p, compute_at(p, block("make"), loop("r")))


def test_a_block_moves_inside_a_nested_scope():
    b = ProgramBuilder("nested")
    a, o = b.input("A", (4, 6)), b.output("B", (4, 6))
    with b.block("row", spatial("r", 4)) as (r,):
        t = b.alloc("T", (6,))
        with b.loop("m", 6) as m, b.block("make", spatial("y", 4, r), spatial("k", 6, m)) as (y, k):
            t[k] = a[y, k] + 1.0
        with b.loop("u", 6) as u, b.block("use", spatial("y", 4, r), spatial("k", 6, u)) as (y, k):
            o[y, k] = t[k] * 2.0
    p = b.finish()
    for q in (
        accepted(p, compute_at(p, block("make"), loop("u"))),
        accepted(p, reverse_compute_at(p, block("use"), loop("m"))),
    ):
        assert block_at(path_to_block(q, "make")).axes[0].binding == Binary("+", Var("r"), Var("y_1")) or (
            block_at(path_to_block(q, "use")).axes[0].binding == Binary("+", Var("r"), Var("y_1"))
        )


def test_compute_at_refuses_under_control_flow():
    b = ProgramBuilder("branch")
    a, t, o = b.input("A", (8,)), b.alloc("T", (8,)), b.output("B", (8,))
    with b.block("first", spatial("x", 8)) as (x,):
        t[x] = a[x]
    with b.loop("i", 8) as i, b.when(i < 4), b.loop("j", 1) as j, b.block("second", spatial("x", 8, i + j)) as (x,):
        o[x] = t[x]
    with refused("MS340", "an `if` stands above"):
        compute_at(b.finish(), block("first"), loop("j"))


def overwritten():
    b = ProgramBuilder("overwritten")
    x, t = b.inout("X", (8,)), b.alloc("T", (8,))
    with b.block("first", spatial("i", 8)) as (i,):
        t[i] = x[i] * 2.0
    with b.block("second", spatial("i", 8)) as (i,):
        x[i] = t[i] + 1.0
    return b.finish()


def test_compute_at_refuses_to_read_later_values():
    with refused("MS344", "`second` writes `X` after block `first` read it"):
        compute_at(overwritten(), block("first"), loop("i_1"))


def partial_sums():
    b = ProgramBuilder("partial")
    a, s, o = b.input("A", (8,)), b.alloc("S", (1,)), b.output("B", (8, 4))
    with b.loop("i", 8) as i:
        with b.block("sum", spatial("u", 1, i - i), reduce("k", 8, i)) as (u, k):
            s[u] += a[k]
        with b.loop("j", 4) as j, b.block("take", spatial("x", 8, i), spatial("y", 4, j)) as (x, y):
            o[x, y] = s[0]
    return b.finish()


def test_a_reduction_over_a_shared_loop_does_not_move():
    with refused("MS346", "`sum` reduces over loop `i`"):
        compute_at(partial_sums(), block("sum"), loop("j"))


def test_a_predicate_about_loops_does_not_move():
    p = program(
        "A: f32[8], out B: f32[8]",
        """
        alloc T: f32[8]
        for i in 0..16 { block a[x: 8 = i // 2] { where i % 2 == 0 T[x] = A[x] } }
        for j in 0..8 { block b[x: 8 = j] { B[x] = T[x] } }
        """,
    )
    with refused("MS347", "the predicate of block `a` is about loops that it would leave", "of the block's axes"):
        compute_at(p, block("a"), loop("j"))


# ------------------------------------------------------------------ reverse_compute_at
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


def test_a_constant_index_is_no_tile():
    b = ProgramBuilder("first_row")
    a, t, o = b.input("A", (4, 6)), b.alloc("T", (4, 6)), b.output("B", (6,))
    with b.block("first", spatial("x", 4), spatial("y", 6)) as (x, y):
        t[x, y] = a[x, y]
    with b.block("second", spatial("y", 6)) as (y,):
        o[y] = t[0, y]
    p = b.finish()
    with refused("MS332", "`second` reads of `T`", "can be placed"):
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
    with b.loop("i", 4) as i, b.block("half", spatial("x", 8, i)) as (x,):
        o[x] = t[x]
    with refused("MS348", "`half` does not surely run for all values"):
        reverse_compute_at(b.finish(), block("half"), loop("x"))
    b = ProgramBuilder("pad")
    a, t, o = b.input("A", (8,)), b.alloc("T", (8,)), b.output("B", (10,))
    with b.block("first", spatial("x", 8)) as (x,):
        t[x] = a[x]
    with b.block("pad", spatial("x", 10)) as (x,):
        o[x] = select((x >= 1) & (x < 9), t[x - 1], 0.0)
    with refused("MS348", "`pad` would not surely run for all values"):
        reverse_compute_at(b.finish(), block("pad"), loop("x"))


def test_reverse_compute_at_refuses_to_read_what_a_producer_may_leave_out():
    def twice(condition: str):
        return parse_program(f"""program p(A: f32[8], out B: f32[8]) {{
            alloc T: f32[8]
            for h in 8 {{ block first[x: 8 = h] {{ T[x] = A[x] }} }}
            for i in 8 {{ block second[x: 8 = i] {{ where {condition} T[x] = 2.0 }} }}
            for j in 8 {{ block last[x: 8 = j] {{ B[x] = T[x] }} }} }}""")

    with refused("MS332", "`last` would read what is not surely written", "`second` does not surely write all", "`T`"):
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


def test_legal_loops_are_those_that_work():
    p = conv2d(5, 5, 2, 2)
    assert [x.name for x in legal_loops(p, block("add"), "reverse_compute_at")] == ["h_1", "w_1", "co"]
    assert [x.name for x in legal_loops(p, block("pad"), "compute_at")] == ["h_1", "w_1", "co", "r", "s", "ci"]
    assert legal_loops(p, block("none"), "compute_at") == ()


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


def test_a_block_that_writes_two_buffers():
    b = ProgramBuilder("two")
    a, s, t, o = b.input("A", (8, 6)), b.alloc("S", (8,)), b.alloc("T", (10,)), b.output("B", (8,))
    with b.block("both", spatial("i", 8), reduce("k", 6)) as (i, k):
        s[i] += a[i, k]
        t[i + 1] += a[i, k] * 2.0
    with b.block("use", spatial("x", 6)) as (x,):
        o[x] = s[x] + t[x + 3]
    p = b.finish()
    q = accepted(p, compute_at(p, block("both"), loop("x")))
    assert outline(q).splitlines()[1].strip() == "i_1 in 0+3"
    with refused("MS343", "`use` is an output block"):
        compute_at(p, block("use"), loop("i"))


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


# ------------------------------------------------------------------ without producers or consumers at the loop
def two_sums(dead=False):
    b = ProgramBuilder("sums")
    a, t, o = b.input("A", (6, 3)), b.alloc("T", (6,)), b.output("B", (6,))
    u = b.alloc("U", (6,)) if dead else b.output("U", (6,))
    with b.block("first", spatial("i", 6), reduce("k", 3)) as (i, k):
        t[i] += a[i, k]
    with b.block("second", spatial("i", 6), reduce("k", 3)) as (i, k):
        u[i] += a[i, k]
    with b.block("last", spatial("i", 6)) as (i,):
        o[i] = t[i]
    return b.finish()


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


def test_what_nobody_reads_is_done_again_in_each_iteration():
    p = two_sums(dead=True)
    for where, index in (("i", -1), ("k", -2), ("i_2", -1)):
        accepted(p, compute_at(p, block("second"), loop(where), index=index))


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
        with refused("MS310", "different iterations of loop `i` may touch the same elements of `U`"):
            reverse_compute_at(p, block("second"), loop("i"))


def test_threads_do_not_share_what_each_wrote_for_itself():
    b = ProgramBuilder("drawn")
    a, t, u, o = b.input("A", (2,)), b.alloc("T", (2,)), b.alloc("U", (2,)), b.output("B", (2,))
    for name, x, y in (("first", a, t), ("second", t, u), ("third", u, o)):
        with b.block(name, spatial("i", 2)) as (i,):
            y[i] = x[i] + 1.0
    p = reverse_compute_at(b.finish(), block("first"), loop("i_1")).program
    p = bind(p, loop("i_1"), "threadIdx.x").program
    with refused("MS310", "the threadIdx.x loop `i_1` would no longer be independent"):
        compute_at(p, block("second"), loop("i_2"))


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
    with refused("MS310", "the parallel loop `p` would no longer be independent", "touch the same elements of `C`"):
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


def test_again_where_nobody_writes_but_the_iteration():
    # What `t` holds beside block `x` does not matter to whether the loop may run at once.
    b = ProgramBuilder("beside")
    a, t, o = b.input("A", (5, 4)), b.alloc("T", (5, 4)), b.output("B", (5, 4))
    with b.block("x", spatial("i", 5), spatial("j", 4)) as (i, j):
        t[i, j] = a[i, j] * 2.0
    with b.loop("q", 2) as q, b.loop("k", 5) as k, b.loop("p", 2) as p:
        with b.block("y", spatial("i", 5, k), spatial("j", 4, p * 2 + q)) as (i, j):
            o[i, j] = t[i, j]
    before = b.finish()
    for at in ("q", "k", "p"):
        after = parallel(compute_at(before, block("x"), loop(at)).program, loop("q")).program
        assert after == compute_at(parallel(before, loop("q")).program, block("x"), loop(at)).program


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
    with refused("MS310", "different iterations of loop `i` may touch the same elements"):
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
    with refused("MS308", "`sum` would reduce in another order", "axis `k` of block `sum` does not surely begin at 0"):
        reverse_compute_at(p, block("sum"), loop("i"))


def test_what_has_an_order_keeps_it():
    p = summed("i", "B[u] * 2.0")
    accepted(p, reverse_compute_at(p, block("sum"), loop("i")))
    p = split(summed("i", "B[u] * 2.0"), loop("i"), sizes(None, 4)).program
    p = reorder(p, loops("i_1 i_0")).program
    with refused("MS308", "must keep its order"):
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
