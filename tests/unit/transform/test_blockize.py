"""blockize: of a loop, of several blocks, what it lifts, and what it refuses."""

import numpy as np
import pytest
from msgspec.structs import replace

from mslang.backend.reference.interpret import run
from mslang.ir.build import ProgramBuilder, reduce, spatial
from mslang.ir.expr import Binary, Choice, Const, PerfectTile, Symbol, Var
from mslang.ir.find import path_to_block
from mslang.ir.print import print_expr, print_program
from mslang.ir.program import Block
from mslang.ir.verify import verify
from mslang.sema.program import parse_program
from mslang.transform.primitives.blockize import blockize
from mslang.transform.primitives.buffer_access import unsafe_hide_buffer_access
from mslang.transform.primitives.caching import cache_read, cache_write
from mslang.transform.primitives.compute_at import compute_at, reverse_compute_at
from mslang.transform.primitives.decompose_reduction import decompose_reduction
from mslang.transform.primitives.fission import merge
from mslang.transform.primitives.loop_kinds import bind, parallel
from mslang.transform.primitives.loops import fuse, reorder, split
from mslang.transform.rewriting.rewrite import put
from tests.unit.transform.programs import block, buffer, chain, copy, loop, loops, matmul, outline, refuses, sizes, text


def tiled(m=8, n=8, k=8, t=4):
    p = matmul(m, n, k)
    for name in "ijk":
        p = split(p, loop(name), sizes(None, t)).program
    return reorder(p, loops("i_0 j_0 k_0 i_1 j_1 k_1")).program


def same(before, after):
    assert not verify(after), verify(after)
    assert parse_program(print_program(after)) == after
    rng = np.random.default_rng(0)
    arrays = {
        q.buffer.name: rng.integers(-3, 4, [int(n.value) for n in q.buffer.shape]).astype(np.float32)
        for q in before.params
    }
    want = run(before, {n: a.copy() for n, a in arrays.items()})
    found = run(after, {n: a.copy() for n, a in arrays.items()})
    for q in before.params:
        if q.direction != "in":
            assert np.array_equal(want[q.buffer.name], found[q.buffer.name])


def block_of(program, name) -> Block:
    return path_to_block(program, name)[-1]


# ------------------------------------------------------------------ a loop
def test_a_tile_of_a_reduction():
    out = blockize(tiled(), loop("i_1"))
    assert out.handles == (block("mm_o"),) and out.forward == {}
    assert outline(out.program) == (
        "i_0 in 0+2\n  j_0 in 0+2\n    k_0 in 0+2\n      mm_o[x_o = i_0, y_o = j_0, z_o = k_0]"
    )
    outer, inner = block_of(out.program, "mm_o"), block_of(out.program, "mm")
    assert [(a.name, a.kind, a.extent) for a in outer.axes] == [
        ("x_o", "spatial", Const(2)),
        ("y_o", "spatial", Const(2)),
        ("z_o", "reduce", Const(2)),
    ]
    assert [r.buffer for r in outer.reads] == ["A", "B"] and [r.buffer for r in outer.writes] == ["C"]
    init = block_of(out.program, "mm_init")
    assert [text(a.binding) for a in inner.axes] == ["(x_o * 4) + i_1", "(y_o * 4) + j_1", "(z_o * 4) + k_1"]
    assert [text(a.binding) for a in init.axes] == ["(x_o * 4) + i_1_init", "(y_o * 4) + j_1_init"]
    assert inner.init is None and "C" in {r.buffer for r in inner.reads}
    same(tiled(), out.program)


def test_only_the_innermost_loop():
    out = blockize(tiled(), loop("k_1")).program
    assert "mm_o[x_o = (i_0 * 4) + i_1, y_o = (j_0 * 4) + j_1, z_o = k_0]" in outline(out)
    same(tiled(), out)


def test_the_outermost_loop():
    out = blockize(matmul(4, 4, 4), loop("i")).program
    assert [a.extent for a in block_of(out, "mm_o").axes] == [Const(1)] * 3
    same(matmul(4, 4, 4), out)


def test_a_block_of_blocks_again():
    once = blockize(tiled(), loop("j_1")).program
    twice = blockize(once, loop("i_1"))
    assert twice.handles == (block("mm_o_o"),)
    same(tiled(), twice.program)


def test_a_guard_in_a_block_of_blocks_names_the_block_around():
    p = parse_program("program p(A: f32[7, 4], out B: f32[7, 4]) { block b[x: 7, y: 4] { B[x, y] = A[x, y] + 1.0 } }")
    p = split(p, loop("x"), sizes(1, None)).program
    p = split(p, loop("x_1"), sizes(None, 8)).program
    once = blockize(p, loop("x_1_1")).program
    twice = blockize(once, loop("y"))
    assert "x_o" not in [a.name for a in block_of(twice.program, twice.handles[0].name).axes]
    same(p, twice.program)


def test_tiles_that_run_over_keep_their_guards_inside():
    p = matmul(7, 8, 9)
    for name in "ijk":
        p = split(p, loop(name), sizes(None, 4)).program
    p = reorder(p, loops("i_0 j_0 k_0 i_1 j_1 k_1")).program
    out = blockize(p, loop("i_1")).program
    assert text(block_of(out, "mm").predicate) == "(x < 7) and (z < 9)"
    assert block_of(out, "mm_o").predicate == Const(True, "bool")
    same(p, out)


def test_a_guard_of_the_loops_outside_goes_to_the_new_block():
    p = split(copy(10), loop("i"), sizes(None, 4)).program
    p = split(p, loop("i_1"), sizes(None, 2)).program
    out = blockize(p, loop("i_1_1")).program
    same(p, out)


def test_fused_loops():
    p = fuse(matmul(8, 8, 4), loops("i j")).program
    p = split(p, loop("i_j_fused"), sizes(None, 4)).program
    out = blockize(p, loop("i_j_fused_1")).program
    assert "mm_o[x_o = i_j_fused_0 // 2, y_o = i_j_fused_0 % 2, z_o = 0]" in outline(out)
    same(p, out)


def test_sampled_tiles():
    t = [Symbol("t", PerfectTile(Const(8), 2), k) for k in range(2)]
    p = split(matmul(8, 8, 8), loop("i"), t).program
    p = reorder(p, loops("i_0 j k i_1")).program
    out = blockize(p, loop("i_1")).program
    assert block_of(out, "mm_o").axes[0].extent == t[0]
    assert not verify(out)


def test_what_follows_works_on_the_new_block():
    p = blockize(tiled(), loop("i_1")).program
    p = cache_write(p, block("mm_o"), buffer("C"), "local").program
    p = reverse_compute_at(p, block("C_local"), loop("j_0")).program
    p = cache_read(p, block("mm_o"), buffer("A"), "local").program
    p = compute_at(p, block("A_local"), loop("k_0")).program
    p = decompose_reduction(p, block("mm_o"), loop("k_0")).program
    assert "mm_o_update[x_o = i_0, y_o = j_0, z_o = k_0]" in outline(p)
    same(tiled(), p)


# ------------------------------------------------------------------ several blocks
def test_blocks_of_a_program():
    out = blockize(chain(), (block("first"), block("second")))
    assert out.handles == (block("first_second_o"),)
    made = block_of(out.program, "first_second_o")
    assert made.axes == () and [r.buffer for r in made.writes] == ["T", "B"]
    same(chain(), out.program)


def test_blocks_under_a_loop():
    p = split(chain(), loop("x"), sizes(None, 4)).program
    p = reverse_compute_at(p, block("second"), loop("x_0")).program
    out = blockize(p, (block("first"), block("second"))).program
    assert [a.name for a in block_of(out, "first_second_o").axes] == ["x_o"]
    same(p, out)


# ------------------------------------------------------------------ refusals
def test_several_blocks_under_the_loop():
    p = split(chain(), loop("x"), sizes(None, 4)).program
    p = reverse_compute_at(p, block("second"), loop("x_0")).program
    refuses("MS375", lambda: blockize(p, loop("x_0")), "2 statements stand under it")


def test_no_such_loop():
    refuses("MS301", lambda: blockize(chain(), loop("nowhere")), "no loop")


def test_tiles_that_overlap():
    p = split(copy(64), loop("i"), sizes(4, 16)).program
    path = path_to_block(p, "b")
    b = block_of(p, "b")
    axis = replace(b.axes[0], binding=Binary("+", Binary("*", Var("i_0"), Const(10)), Var("i_1")))
    refuses("MS376", lambda: blockize(put(p, path, replace(b, axes=(axis,))), loop("i_1")), "not a multiple")


def test_a_loop_in_both_parts():
    p = split(copy(64), loop("i"), sizes(4, 16)).program
    path = path_to_block(p, "b")
    b = block_of(p, "b")
    binding = Binary("//", Binary("+", Binary("*", Var("i_0"), Const(6)), Var("i_1")), Const(4))
    broken = put(p, path, replace(b, axes=(replace(b.axes[0], binding=binding),)))
    refuses("MS376", lambda: blockize(broken, loop("i_1")), "axis `x`")


def test_a_predicate_that_leaves_something_out():
    p = parse_program(
        "program p(A: f32[8], inout B: f32[8]) {\n"
        "    for i in 8 {\n        block b[x: 8 = i] {\n            where A[x] > 0.0 and x % 2 == 0\n"
        "            reads A[x]\n            writes B[x]\n            B[x] = A[x]\n        }\n    }\n}\n"
    )
    refuses("MS377", lambda: blockize(p, loop("i")), "leaves out some")


def test_a_repeated_reduction():
    b = ProgramBuilder("p")
    a, s = b.input("A", (4,)), b.output("S", ())
    with b.block("s", reduce("k", 4)) as (k,):
        s[()] += a[k]
    p = b.finish()
    from mslang.ir.program import For

    p = replace(p, body=(For("again", Const(2), p.body),))
    refuses("MS378", lambda: blockize(p, loop("again")), "repeats the whole reduction")


def test_a_reduction_by_threads():
    p = bind(matmul(4, 4, 4), loop("k"), "threadIdx.x").program
    refuses("MS378", lambda: blockize(p, loop("k")), "are concurrent")


def test_parallel_loops_outside_are_fine():
    p = parallel(tiled(), loop("i_0")).program
    same(p, blockize(p, loop("i_1")).program)


@pytest.mark.parametrize(
    ("names", "says"), [(("second", "first"), "do not follow one another"), (("first", "first"), "given twice")]
)
def test_blocks_in_another_order(names, says):
    refuses("MS379", lambda: blockize(chain(), tuple(block(n) for n in names)), says)


def test_no_blocks():
    refuses("MS379", lambda: blockize(chain(), ()), "no block")


def test_blocks_that_share_loops_with_others():
    p = split(chain(), loop("x"), sizes(None, 4)).program
    p = reverse_compute_at(p, block("second"), loop("x_0")).program
    p = cache_write(p, block("second"), buffer("B"), "global").program
    refuses("MS379", lambda: blockize(p, (block("first"), block("B_global"))), "shares loops")


def test_loops_around_all_that_reduce():
    b = ProgramBuilder("p")
    a, s, t = b.input("A", (4, 8)), b.output("S", (4,)), b.output("T", (4, 8))
    with b.block("s", spatial("x", 4), reduce("k", 8)) as (x, k):
        s[x] += a[x, k]
    with b.block("t", spatial("x", 4), spatial("k", 8)) as (x, k):
        t[x, k] = a[x, k]
    from mslang.ir.program import For

    p = b.finish()
    outer = p.body[0]
    second = block_of(p, "t")
    inner = outer.body[0]
    axes = tuple(replace(x, binding=Var(v)) for x, v in zip(second.axes, (outer.var, inner.var), strict=True))
    both = For(inner.var, inner.extent, (*inner.body, replace(second, axes=axes)))
    joined = replace(p, body=(replace(outer, body=(both,)),))
    refuses("MS379", lambda: blockize(joined, (block("s"), block("t"))), "reduces over axis")


def test_a_choice_of_sizes_stays_a_size():
    width = Symbol("w", Choice((2, 4)))
    p = split(copy(8), loop("i"), [None, width]).program
    out = blockize(p, loop("i_1")).program
    assert not verify(out)


def rows(binding: str, around: str):
    """Sums of rows, by axes bound as given."""
    return parse_program(
        f"program p(A: f32[4, 8], out S: f32[4]) {{ for {around} {{\n"
        f"    block s[{binding}] {{ init {{ S[x] = 0.0 }} S[x] += A[x, y] }} }} }}"
    )


def test_a_reduction_with_a_buffer_of_its_own():
    p = parse_program("""program p(A: f32[4, 8], out S: f32[4]) {
        block s[i: 4 | k: 8] { alloc t: f32[1] init { S[i] = 0.0 } t[0] = A[i, k] S[i] += t[0] } }""")
    refuses(
        "MS378", lambda: blockize(p, loop("k")), "init of block `s` cannot be lifted", "the block allocates buffers"
    )


def test_a_reduction_that_runs_instances_twice():
    p = rows("x: 4 = i | y: 4 = k // 2", "i in 4, k in 8")
    refuses("MS378", lambda: blockize(p, loop("k")), "cannot be lifted", "from `k` on may run an instance of the block")


def test_a_reduction_with_a_loop_of_both_kinds():
    p = rows("x: 4 = f // 2 | y: 2 = f % 2", "f in 8")
    refuses("MS378", lambda: blockize(p, loop("f")), "cannot be lifted", "loop `f` serves spatial and reduction axes")


OTHER_WORDS = (
    "i * 8 < 30 - j",
    "i * 8 + j + 2 < 32",
    "2 * (i * 8 + j) < 59",
    "not i * 8 + j >= 30",
    "i * 4 + j // 2 < 15",
    "i * 8 + j < 30 or i < 2",
    "i * 8 + j != 30 and i * 8 < 31 - j",
    "i * 8 + j < 30 and i * 8 < 31 - j",
)
"""What keeps `i * 8 + j` below 30, besides saying so."""


@pytest.mark.parametrize("condition", OTHER_WORDS)
def test_a_guard_in_other_words_than_the_binding(condition):
    p = parse_program(f"""program p(A: f32[30], out B: f32[30]) {{
        for i in 4, j in 8 {{ block b[x: 30 = i * 8 + j] {{ where {condition} B[x] = A[x] }} }} }}""")
    done = blockize(p, loop("j")).program
    told = print_expr(block_of(done, "b").predicate)
    assert told in ("x < 30", "x != 30 and x < 30")
    same(p, done)


def test_a_guard_of_one_loop_by_both():
    # What keeps the axis `a` of the new block below 4 is said of `j`, too.
    p = parse_program("""program p(A: f32[4, 8], out B: f32[4, 8]) {
        for i in 5, j in 8 {
            block b[a: 4 = i, x: 8 = j] { where i * 8 + j < 32 B[a, x] = A[a, x] } } }""")
    done = blockize(p, loop("j")).program
    assert print_expr(block_of(done, "b_o").predicate) == "a_o < 4"
    assert print_expr(block_of(done, "b").predicate) == "a < 4"
    same(p, done)


def test_a_guard_in_a_block_of_several():
    p = parse_program("""program p(A: f32[30], out B: f32[30], out C: f32[30]) {
        for i in 4 {
            for j in 8 { block b[x: 30 = i * 8 + j] { where i * 8 < 30 - j B[x] = A[x] } }
            for k in 8 { block c[x: 30 = i * 8 + k] { where x <= 29 C[x] = A[x] } } } }""")
    done = blockize(p, (block("b"), block("c"))).program
    assert print_expr(block_of(done, "b").predicate) == "x < 30"
    same(p, done)


@pytest.mark.parametrize("condition", ["i * 8 < 29 - j", "2 * (i * 8 + j) < 58", "i < 3", "j < 6 or i < 2"])
def test_a_guard_that_says_more_than_the_binding(condition):
    p = parse_program(f"""program p(A: f32[30], inout B: f32[30]) {{
        for i in 4, j in 8 {{
            block b[x: 30 = i * 8 + j] {{ where {condition} and i * 8 + j < 30 B[x] = A[x] }} }} }}""")
    refuses("MS377", lambda: blockize(p, loop("j")), "leaves out some of what its axes run over")


@pytest.mark.parametrize("first", ["a[x: 10 = I[i]] { S[x] = A[x] }", "a[x: 8 = i - 2] { where i >= 2 S[x] = A[x] }"])
def test_blocks_around_which_an_axis_has_no_extent(first):
    p = parse_program(f"""program p(A: f32[10], I: i64[10], out S: f32[10], out T: f32[10]) {{
        for i in 10 {{ block {first} block b[x: 10 = i] {{ T[x] = A[x] }} }} }}""")
    says = "not known how far the loops around all blocks run over axis `x` of block `a`"
    refuses("MS377", lambda: blockize(p, (block("a"), block("b"))), says, "would have no extent")


def test_blocks_of_different_scopes():
    p = parse_program("""program p(A: f32[8], out S: f32[8], out T: f32[8]) {
        for i in 2 { block o[z: 2 = i] { for j in 4 { block a[x: 8 = z * 4 + j] { S[x] = A[x] } } } }
        for k in 8 { block b[x: 8 = k] { T[x] = A[x] } } }""")
    says = "block `b` is in another scope than block `a`"
    refuses("MS379", lambda: blockize(p, (block("a"), block("b"))), says, "one block holds them all")
    assert blockize(p, (block("o"), block("b"))).handles == (block("o_b_o"),)


def test_blocks_under_a_condition():
    p = parse_program("""program p(A: f32[8], inout S: f32[8], out T: f32[8]) {
        for i in 8 { if A[i] > 0.0 { block a[x: 8 = i] { S[x] = A[x] } } }
        for k in 8 { block b[x: 8 = k] { T[x] = A[x] } } }""")
    says = "`if` stands above one of the blocks"
    refuses("MS379", lambda: blockize(p, (block("a"), block("b"))), says, "among loops alone")


# ------------------------------------------------------------------ hidden accesses
def hiding(name: str, access: str):
    p = tiled() if name == "mm" else chain()
    return unsafe_hide_buffer_access(p, block(name), access, [buffer("A")]).program


def test_what_a_block_hides_the_one_around_hides_too():
    p = hiding("first", "read")
    for target in (loop("y"), [block("first"), block("second")]):
        if isinstance(target, list):
            p = merge(p, loops("y y_1")).program
        out = blockize(p, target)
        made = block_of(out.program, out.handles[0].name)
        assert dict(made.annotations) == {"hidden_reads": ("A",)} and "A" not in {r.buffer for r in made.reads}
        same(p, out.program)


def test_a_reduction_that_hides_what_it_touches():
    refuses("MS379", lambda: blockize(hiding("mm", "read"), loop("i_1")), "block `mm` hides that it accesses `A`")


def test_a_predicate_that_keeps_instances_from_running_twice_is_not_taken_for_a_bound():
    # Rows 2 and 3 come again where `x` is 1, at `o = 0`: each axis keeps to its domain there.
    p = parse_program("""program p(A: f32[4], out B: f32[4]) {
        for o in 2, x in 2, y in 2 {
            block s[i: 4 = o * 2 + x * 2 + y] { where x * 2 + y < 2 B[i] = A[i] } } }""")
    refuses("MS377", lambda: blockize(p, loop("y")), "mixes loops outside with loops inside")


@pytest.mark.parametrize("stored", ["at", "V"])
def test_an_axis_that_data_tell_which_the_block_writes(stored):
    """Each instance has the index that those before it left; the block around all of them would have one."""
    p = parse_program(f"""program p(inout at: i64[1], inout U: i32[4]) {{
        for l in 0..3 {{
            block b[i: 4 @ opaque = at[0]] {{ view V: i64[1] = at[0..1]  {stored}[0] = (i + 1) % 4  U[i] = U[i] + 1 }}
        }}
    }}""")
    refuses("MS376", lambda: blockize(p, loop("l")), "loads `at`, which block `b` writes")
    once = parse_program(print_program(p).replace("in 3", "in 1"))
    assert "in 1" in print_program(once)
    after = blockize(once, loop("l")).program
    arrays = {"at": np.array([2]), "U": np.zeros(4, np.int32)}
    assert run(after, arrays)["U"].tolist() == run(once, arrays)["U"].tolist() == [0, 0, 1, 0]


def test_a_predicate_that_loads_what_the_block_writes():
    p = parse_program("""program p(inout F: i32[1], inout U: i32[4]) {
        for l in 0..4 { block b[i: 4 = l] { where F[0] > 0  F[0] = F[0] - 1  U[i] = U[i] + 1 } }
    }""")
    refuses("MS377", lambda: blockize(p, loop("l")), "predicate")


def test_blocks_of_which_one_writes_what_tells_the_other_its_axis():
    p = parse_program("""program p(inout at: i64[4], inout U: i32[4]) {
        for l in 0..4 {
            block a[x: 4 = l] { at[x] = 3 - x }
            block b[i: 4 = at[l] % 4] { U[i] = 7 }
        }
    }""")
    refuses("MS376", lambda: blockize(p, (block("a"), block("b"))), "loads `at`, which block `a` writes")
