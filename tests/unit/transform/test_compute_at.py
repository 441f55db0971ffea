"""compute_at: what is computed where its consumers need it, and what is refused."""

import pytest
from msgspec.structs import replace

from mslang.ir.build import ProgramBuilder, reduce, spatial
from mslang.ir.expr import Binary, Const, DynamicRange, FreeTile, PerfectTile, Symbol, Var
from mslang.ir.find import path_to_block, path_to_loop
from mslang.ir.operators import Value, select
from mslang.ir.program import Block
from mslang.ir.verify import verify
from mslang.ir.visit import walk
from mslang.sema.program import parse_program
from mslang.transform.analysis.position import block_at
from mslang.transform.outcome import Gone
from mslang.transform.primitives.caching import cache_read, cache_write
from mslang.transform.primitives.compute_at import compute_at, legal_loops, reverse_compute_at
from mslang.transform.primitives.decompose_reduction import decompose_reduction
from mslang.transform.primitives.loop_kinds import bind, parallel, vectorize
from mslang.transform.primitives.loops import fuse, reorder, split
from mslang.transform.rewriting.nest import inserted
from mslang.transform.rewriting.rewrite import put
from tests.property.block_programs import same_meaning
from tests.unit.transform.moves import accepted, part
from tests.unit.transform.programs import block, buffer, chain, loop, loops, matmul, outline, refused, sizes
from tests.unit.transform.staged import program
from tests.unit.transform.workloads import blur, conv2d, diamond, softmax, two_sums


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

    with refused("MS348", "`first` does not provably run for all values of its axes", "more than its enclosing block"):
        compute_at(rows(4), block("first"), loop("j"))
    accepted(rows(8), compute_at(rows(8), block("first"), loop("j")))


def test_compute_at_keeps_to_what_the_enclosing_block_declares():
    """A tail inside of a block reaches the elements of the next one, which that block does not read (campaign, seed
    16, pair 3712 of stages)."""

    def rows(tail: str):
        return parse_program(f"""program p(A: f32[24], out B: f32[24]) {{
            for h in 4 {{
                block row[r: 4 = h] {{
                    alloc T: f32[24]
                    reads A[r * 6 .. r * 6 + 6]
                    for i in 6 {{ block copy[x: 24 = r * 6 + i] {{ T[x] = A[x] }} }}
                    {tail} }} }} }}""")

    over = "for j in 2, k in 4 { block last[x: 24 = r * 6 + j * 4 + k] { where j * 4 + k < 6  B[x] = T[x] } }"
    with refused("MS332", "`last` would read elements that are not provably written"):
        compute_at(rows(over), block("copy"), loop("j"))
    whole = rows("for j in 2, k in 3 { block last[x: 24 = r * 6 + j * 3 + k] { B[x] = T[x] } }")
    accepted(whole, compute_at(whole, block("copy"), loop("j")))


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


def test_legal_loops_are_those_that_work():
    p = conv2d(5, 5, 2, 2)
    assert [x.name for x in legal_loops(p, block("add"), "reverse_compute_at")] == ["h_1", "w_1", "co"]
    assert [x.name for x in legal_loops(p, block("pad"), "compute_at")] == ["h_1", "w_1", "co", "r", "s", "ci"]
    assert legal_loops(p, block("none"), "compute_at") == ()


def test_a_block_that_writes_two_buffers():
    b = ProgramBuilder("two")
    a, s, t, o = b.input("A", (8, 6)), b.alloc("S", (8,)), b.alloc("T", (10,)), b.output("B", (6,))
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


# ------------------------------------------------------------------ without consumers at the loop
def test_what_nobody_reads_is_done_again_in_each_iteration():
    p = two_sums(dead=True)
    for where, index in (("i", -1), ("k", -2), ("i_2", -1)):
        accepted(p, compute_at(p, block("second"), loop(where), index=index))


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


def test_behind_a_let_a_nest_stands_where_the_let_holds_it():
    """Pair 146 of seed 1 of `instances` moves a reduction there."""
    p = parse_program("""program p(A: f32[6], inout U: f32[6], inout B: f32[6]) {
        for l in 0..6 { let q = (l + 1) % 6 block t[x: 6 = l, i: 6 = q] { U[i] = U[i] + f32(x) } }
        for a in 0..6 { block p[i: 6 = a] { B[i] = A[i] * 2.0 } }
    }""")
    first, second = p.body
    path = path_to_loop(p, "l")
    assert path is not None
    for index in (0, 1):
        after = inserted(replace(p, body=(first,)), path, index, second)
        assert verify(after) == ()
        same_meaning(p, after, {}, 1)
