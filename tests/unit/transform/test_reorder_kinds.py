"""reorder, parallel, vectorize, unroll: what they make, and what they refuse."""

import numpy as np
import pytest

from mslang.backend.llvm.compile import compile
from mslang.ir.build import ProgramBuilder, reduce, spatial
from mslang.ir.expr import Choice, Const, Symbol
from mslang.ir.program import Block, For
from mslang.ir.visit import map_bodies, walk
from mslang.lower.passes import lower
from mslang.runtime.kernel import load
from mslang.sema.program import parse_program
from mslang.target.detect import host
from mslang.transform.primitives.decompose_reduction import decompose_reduction
from mslang.transform.primitives.loop_kinds import bind, parallel, unroll, vectorize
from mslang.transform.primitives.loops import add_unit_loop, fuse, reorder, split
from tests.unit.transform.meaning import same
from tests.unit.transform.programs import block, chain, copy, loop, loops, matmul, outline, refused, sizes


def kind_of(program, name):
    return next(s.kind for s in walk(program.body) if isinstance(s, For) and s.var == name)


def with_axis_kind(program, name, kind):
    """The program with every axis of a name given another kind."""
    from msgspec.structs import replace

    def visit(s):
        s = map_bodies(s, lambda body: tuple(visit(x) for x in body))
        if not isinstance(s, Block):
            return s
        return replace(s, axes=tuple(replace(a, kind=kind) if a.name == name else a for a in s.axes))

    return replace(program, body=tuple(visit(s) for s in program.body))


def shared_nest(shift=0):
    """T = A + 1 and B = T(shifted) in one loop over i."""
    b = ProgramBuilder("shared")
    a, c, t = b.input("A", (8, 4)), b.output("B", (8, 4)), b.alloc("T", (8, 4))
    with b.loop("i", 8) as i:
        with b.loop("j", 4) as j, b.block("p", spatial("x", 8, i), spatial("y", 4, j)) as (x, y):
            t[x, y] = a[x, y] + 1.0
        with b.loop("l", 4) as j, b.block("q", spatial("x", 8, i), spatial("y", 4, j)) as (x, y):
            c[x, y] = t[(x + 8 - shift) % 8 if shift else x, y]
    return b.finish()


# ------------------------------------------------------------------ reorder
def test_reorder_permutes_in_the_places_held():
    p = matmul()
    assert outline(reorder(p, loops("k i")).program) == (
        "k in 0+32\n  j in 0+48\n    i in 0+64\n      mm[x = i, y = j, z = k]"
    )
    assert outline(reorder(p, loops("k i j")).program).split()[0] == "k"


def test_reorder_of_no_loops_is_refused():
    with refused("MS303", "no loops are given"):
        reorder(matmul(), [])


def test_reorder_of_one_loop_or_of_what_is_so_already_changes_nothing():
    p = matmul()
    assert reorder(p, loops("j")).program is p
    assert reorder(p, loops("i k")).program is p


def test_reorder_keeps_the_init_first():
    # Found by the campaign: pieces of a spatial loop fused with a reduction loop.
    p = fuse(matmul(), loops("j k")).program
    p = split(p, loop("j_k_fused"), sizes(None, 5)).program
    with refused("MS308", "initialisation"):
        reorder(p, loops("j_k_fused_1 j_k_fused_0"))
    assert outline(reorder(p, loops("j_k_fused_0 i")).program).startswith("j_k_fused_0")
    bare = decompose_reduction(p, block("mm"), loop("i")).program
    reorder(bare, loops("j_k_fused_1 j_k_fused_0"))


def test_reorder_keeps_kinds_with_their_loops():
    p = unroll(matmul(), loop("j")).program
    assert outline(reorder(p, loops("j i")).program).startswith("j in 0+48 @ unrolled\n  i in 0+64\n")


def test_reorder_of_guarded_loops():
    p = split(matmul(60), loop("i"), sizes(None, 8)).program
    out = reorder(p, loops("j i_0 k i_1"))
    assert [s.var for s in walk(out.program.body) if isinstance(s, For)] == ["j", "i_0", "k", "i_1"]


def test_reorder_loops_above_blocks_that_feed_each_other_in_one_iteration():
    p = add_unit_loop(shared_nest(), loop("i")).program
    assert outline(reorder(p, loops("i u")).program).startswith("i in 0+8\n  u in 0+1\n")


def test_reorder_refuses():
    p = matmul()
    with refused("MS303", "named twice"):
        reorder(p, loops("i i"))
    with refused("MS304", "not in one nest"):
        reorder(chain(), loops("x x_1"))
    with refused("MS304", "holds more than"):
        reorder(shared_nest(), loops("j i"))
    with refused("MS308", "axis `z`", "scan"):
        reorder(with_axis_kind(p, "z", "scan"), loops("k i"))
    with refused("MS308", "opaque"):
        reorder(with_axis_kind(p, "z", "opaque"), loops("k i"))


def test_reorder_refuses_bindings_that_are_not_affine():
    b = ProgramBuilder("square")
    a, c = b.input("A", (8, 8)), b.inout("B", (64, 8))
    with b.loop("i", 8) as i, b.loop("j", 8) as j:
        with b.block("b", spatial("x", 64, i * i), spatial("y", 8, j)) as (x, y):
            c[x, y] = a[y, y]
    with refused("MS308", "not affine"):
        reorder(b.finish(), loops("j i"))


def test_bindings_that_are_not_affine_may_run_at_once():
    # Which iterations meet is told by what they access: of `T` each fills an element of its own memory.
    p = parse_program("""program p(A: f32[12], out B: f32[12]) {
        alloc T: f32[12]
        for i in 0..12, u in 0..1 {
            block t[x: 12 = (i + 2) % 12] { T[x] = A[x] }
            block b[x: 12 = i] { B[x] = T[(x + 2) % 12] } } }""")
    same(p, parallel(p, loop("i")).program)
    same(p, vectorize(p, loop("i")).program)


def test_indices_that_are_looked_up_may_meet():
    p = parse_program("""program p(A: f32[12], I: i64[12], out C: f32[12]) {
        for j in 0..12 { block c[x: 12 = I[j]] { C[x] = A[x] } } }""")
    with refused("MS310", "different iterations of loop `j` may access the same elements of `C`"):
        parallel(p, loop("j"))


def test_reorder_refuses_a_domain_turned_inside_out():
    b = ProgramBuilder("triangle")
    a, c = b.input("A", (8, 8)), b.inout("B", (8, 8))
    with b.loop("i", 8) as i, b.loop("j", i + 1) as j:
        with b.block("b", spatial("x", 8, i), spatial("y", 8, j)) as (x, y):
            c[x, y] = a[x, y]
    with refused("MS307", "bounds of loop `j` depend on loop `i`"):
        reorder(b.finish(), loops("j i"))


def test_reorder_refuses_when_a_partial_sum_is_read_on_the_way():
    b = ProgramBuilder("prefix")
    a, s, c = b.input("A", (8,)), b.alloc("S", (1,)), b.output("B", (8,))
    with b.loop("k0", 2) as k0, b.loop("k1", 4) as k1:
        with b.block("sum", spatial("x", 1, k0 * 0), reduce("z", 8, k0 * 4 + k1)) as (x, z):
            s[x] += a[z]
        with b.block("out", spatial("y", 8, k0 * 4 + k1)) as (y,):
            c[y] = s[0]
    with refused("MS308", "accumulates into `S`"):
        reorder(b.finish(), loops("k1 k0"))


def test_reorder_moves_a_vector_loop_outwards_but_not_around_a_parallel_one():
    p = vectorize(reorder(matmul(), loops("i k j")).program, loop("j")).program
    same(matmul(), reorder(p, loops("j k")).program)
    with refused("MS311", "loop `j` is around the parallel loop `i`", "neither lanes nor threads"):
        reorder(parallel(p, loop("i")).program, loops("j k i"))


# ------------------------------------------------------------------ parallel and vectorize
def test_parallel_and_vectorize_mark_spatial_loops():
    p = reorder(matmul(), loops("i k j")).program
    p = vectorize(parallel(p, loop("i")).program, loop("j")).program
    assert (kind_of(p, "i"), kind_of(p, "j"), kind_of(p, "k")) == ("parallel", "vectorized", "serial")


def test_the_same_kind_again_changes_nothing():
    p = parallel(matmul(), loop("i")).program
    assert parallel(p, loop("i")).program is p


def test_parallel_over_a_guarded_and_over_a_fused_loop():
    p = split(matmul(60), loop("i"), sizes(None, 8)).program
    assert kind_of(parallel(p, loop("i_0")).program, "i_0") == "parallel"
    q = fuse(p, loops("i_0 i_1")).program
    assert kind_of(parallel(q, loop("i_0_i_1_fused")).program, "i_0_i_1_fused") == "parallel"
    r = fuse(reorder(p, loops("i_0 j i_1")).program, loops("i_0 j")).program
    assert kind_of(parallel(r, loop("i_0_j_fused")).program, "i_0_j_fused") == "parallel"


def test_parallel_over_the_tiles_of_a_sampled_size():
    t = Symbol("t", Choice((4, 8, 16)))
    p = split(matmul(), loop("i"), [None, t]).program
    p = split(p, loop("j"), [None, t]).program
    p = fuse(reorder(p, loops("i_0 j_0 k i_1 j_1")).program, loops("i_0 j_0")).program
    p = vectorize(parallel(p, loop("i_0_j_0_fused")).program, loop("j_1")).program
    assert kind_of(p, "i_0_j_0_fused") == "parallel"


def test_parallel_after_decompose():
    p = decompose_reduction(matmul(), block("mm"), loop("k")).program
    assert kind_of(parallel(p, loop("i")).program, "i") == "parallel"


def test_parallel_with_a_buffer_that_is_private_to_an_iteration():
    assert kind_of(parallel(shared_nest(), loop("i")).program, "i") == "parallel"


def test_parallel_refuses():
    p = matmul()
    with refused("MS309", "reduce axis `z` of block `mm`"):
        parallel(p, loop("k"))
    with refused("MS311", "inside the parallel loop `i`"):
        parallel(parallel(p, loop("i")).program, loop("j"))
    with refused("MS311", "around the parallel loop `j`"):
        parallel(parallel(p, loop("j")).program, loop("i"))
    with refused("MS309", "scan axis"):
        parallel(with_axis_kind(p, "x", "scan"), loop("i"))


def test_parallel_refuses_to_read_what_another_iteration_wrote():
    with refused("MS310", "does not provably write in the same iteration"):
        parallel(shared_nest(shift=1), loop("i"))


def test_parallel_refuses_iterations_that_write_the_same():
    b = ProgramBuilder("again")
    a, c = b.input("A", (8,)), b.output("B", (8,))
    with b.loop("r", 4), b.loop("i", 8) as i, b.block("b", spatial("x", 8, i)) as (x,):
        c[x] = a[x]
    p = b.finish()
    with refused("MS310", "same elements of `B`"):
        parallel(p, loop("r"))
    assert kind_of(parallel(p, loop("i")).program, "i") == "parallel"


def test_a_loop_that_surely_runs_once_may_be_parallel():
    p = add_unit_loop(copy(), loop("i")).program
    assert kind_of(parallel(p, loop("u")).program, "u") == "parallel"


def test_parallel_refuses_what_stands_in_no_block():
    b = ProgramBuilder("bare")
    a, c = b.input("A", (10,)), b.output("B", (10,))
    with b.loop("i", 10) as i:
        c[i] = a[i]
    with refused("MS309", "stands in no block"):
        parallel(b.finish(), loop("i"))


def test_vectorize_refuses():
    p = matmul()
    with refused("MS311", "loop `i` is around the vectorized loop `j`", "neither lanes nor threads"):
        vectorize(vectorize(p, loop("j")).program, loop("i"))
    with refused("MS311", "loop `j` is inside the vectorized loop `i`"):
        vectorize(vectorize(p, loop("i")).program, loop("j"))
    with refused("MS311", "loop `i` is around the parallel loop `j`"):
        vectorize(parallel(p, loop("j")).program, loop("i"))
    with refused("MS311", "loop `i` is around the threadIdx.x loop `j`"):
        vectorize(bind(p, loop("j"), "threadIdx.x").program, loop("i"))
    with refused("MS309", "reduce axis"):
        vectorize(p, loop("k"))


@pytest.mark.parametrize("order", ["i j k", "j k i", "k i j"])
def test_an_outer_loop_is_vectorized(order):
    p, rng, target = reorder(matmul(), loops(order)).program, np.random.default_rng(0), host()
    given = {q.buffer.name: rng.integers(-4, 5, [int(n.value) for n in q.buffer.shape]) for q in p.params}
    a, b, c = (given[n].astype("float32") for n in given)
    for name in ("i", "j"):
        out = vectorize(p, loop(name)).program
        assert kind_of(out, name) == "vectorized"
        same(p, out)
        made = compile(lower(out, target), target)
        load(made.object, made.signature)(**dict(zip(given, (a, b, c), strict=True)))
        assert np.array_equal(c, a @ b)


def test_the_kind_that_is_said_last_counts():
    p = reorder(matmul(), loops("i k j")).program
    marks = {
        "parallel": lambda p: parallel(p, loop("j")).program,
        "vectorized": lambda p: vectorize(p, loop("j")).program,
        "unrolled": lambda p: unroll(p, loop("j"), max_steps=Const(64)).program,
        "threadIdx.x": lambda p: bind(p, loop("j"), "threadIdx.x").program,
        "blockIdx.y": lambda p: bind(p, loop("j"), "blockIdx.y").program,
    }
    for first in marks.values():
        for kind, last in marks.items():
            assert outline(last(first(p))) == outline(last(p))
            assert kind_of(last(first(p)), "j") == kind


def test_another_kind_needs_what_the_kind_needs():
    p = unroll(matmul(), loop("k")).program
    with refused("MS309", "reduce axis `z` of block `mm`"):
        parallel(p, loop("k"))
    with refused("MS309", "reduce axis `z` of block `mm`"):
        vectorize(p, loop("k"))
    with refused("MS309", "reduce axis `z` of block `mm`"):
        bind(p, loop("k"), "blockIdx.x")


def test_vectorize_over_unrolled_loops():
    p = unroll(unroll(reorder(matmul(8, 8, 2), loops("j k i")).program, loop("i")).program, loop("k")).program
    assert kind_of(vectorize(p, loop("j")).program, "j") == "vectorized"
    with refused("MS311", "inside the vectorized loop `j`"):
        parallel(split_inner(vectorize(p, loop("j")).program), loop("u"))


def split_inner(program):
    return add_unit_loop(program, block("mm")).program


# ------------------------------------------------------------------ unroll
def test_unroll_with_and_without_a_limit():
    p = matmul()
    assert "k in 0+32 @ unrolled\n" in outline(unroll(p, loop("k")).program)
    steps = Symbol("u", Choice((0, 16, 64)))
    out = unroll(p, loop("k"), max_steps=steps).program
    assert "k in 0+32 @ unrolled unroll.max_steps=u\n" in outline(out)
    assert unroll(out, loop("k"), max_steps=steps).program is out
    assert "k in 0+32 @ unrolled unroll.max_steps=16\n" in outline(unroll(out, loop("k"), max_steps=Const(16)).program)
    assert "k in 0+32 @ unrolled\n" in outline(unroll(out, loop("k")).program)


def test_unroll_refuses():
    p = matmul()
    with refused("MS303", "`max_steps`"):
        unroll(p, loop("k"), max_steps=Const(-1))


def test_parallel_over_a_tile_of_a_tile_that_does_not_divide():
    p = split(matmul(60), loop("i"), sizes(None, 8)).program
    p = split(p, loop("i_1"), sizes(None, 3)).program
    assert kind_of(parallel(p, loop("i_0")).program, "i_0") == "parallel"


@pytest.mark.parametrize("index", ["l * 2 + j", "5 - l * 2 - j", "(l * 2 + j) % 6"])
def test_an_element_each_that_an_index_of_several_axes_tells(index):
    p = parse_program(f"""program p(A: f32[3, 2, 3], out B: f32[3, 6]) {{
        for i in 3, j in 2, l in 3 {{
            block b[x: 3 = i, y: 2 = j, z: 3 = l] {{ B[x, {index.replace("j", "y").replace("l", "z")}] = A[x, y, z] }}
        }} }}""")
    for name in "ijl":
        same(p, parallel(p, loop(name)).program)


def test_elements_that_an_index_does_not_tell_apart():
    p = parse_program("""program p(A: f32[3, 2, 3], out B: f32[3, 6]) {
        for i in 3, j in 2, l in 3 {
            block b[x: 3 = i, y: 2 = j, z: 3 = l] { B[x, y + z] = A[x, y, z] }
        } }""")
    with refused("MS310", "same elements of `B`"):
        parallel(p, loop("j"))
    assert kind_of(parallel(p, loop("l")).program, "l") == "parallel"


def test_parallel_inside_of_the_loop_that_a_reduction_runs_over():
    p = parse_program("""program p(A: f32[6, 8], out S: f32[6]) {
        for k in 8, i in 3, j in 2 {
            block s[z: 8 @ reduce = k, x: 3 = i, y: 2 = j] {
                init { S[y * 3 + x] = 0.0 }
                S[y * 3 + x] += A[y * 3 + x, z]
            }
        } }""")
    for name in "ij":
        same(p, parallel(p, loop(name)).program)
        same(p, vectorize(p, loop(name)).program)


GUARDED_TILE = """program p(A: f32[7, 3], out O: f32[6, 3]) {{
    alloc T: f32[7, 3]
    for a in 2, b in 2, c in 2, j in 3 {{
        for i in 2 {{
            block s0[x: 7 = a * 4 + b * 2 + i + c, y: 3 = j] {{
                where {first}
                T[x, y] = A[x, y] * 2.0
            }}
        }}
        for r in 2 {{
            block s1[x: 6 = a * 4 + b * 2 + c, y: 3 = j | z: 2 = r] {{
                reads T[x + z, y]
                writes O[x, y]
                where {second}
                init {{ O[x, y] = 0.0 }}
                O[x, y] += T[x + z, y]
            }}
        }}
    }} }}"""


def test_what_is_private_under_a_guard_that_both_blocks_have():
    p = parse_program(GUARDED_TILE.format(first="a * 2 + b < 3", second="a * 2 + b < 3"))
    for name in "bcj":
        same(p, parallel(p, loop(name)).program)
    p = parse_program(GUARDED_TILE.format(first="a * 2 + b < 3 and i < 2 - c", second="a * 2 + b < 3"))
    with refused("MS310", "does not provably write in the same iteration"):
        parallel(p, loop("c"))
    p = parse_program(GUARDED_TILE.format(first="a * 2 + b < 2", second="a * 2 + b < 3"))
    with refused("MS310", "does not provably write in the same iteration"):
        parallel(p, loop("c"))
