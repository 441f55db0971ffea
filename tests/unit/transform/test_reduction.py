"""decompose_reduction: what it makes, and what it refuses."""

import pytest
from msgspec.structs import replace

from mslang.ir.build import ProgramBuilder, reduce, spatial
from mslang.ir.expr import Choice, Const, PerfectTile, Symbol
from mslang.ir.find import blocks_of, path_to_block
from mslang.ir.program import Block
from mslang.ir.verify import verify
from mslang.sema.program import parse_program
from mslang.transform.primitives.annotate import annotate
from mslang.transform.primitives.decompose_reduction import decompose_reduction
from mslang.transform.primitives.loop_kinds import vectorize
from mslang.transform.primitives.loop_partition import loop_partition
from mslang.transform.primitives.loops import fuse, reorder, split
from mslang.transform.rewriting.rewrite import put
from tests.property.block_programs import same_meaning
from tests.unit.transform.meaning import same, scheduled
from tests.unit.transform.programs import block, chain, loop, loops, matmul, outline, refused, sizes, text


def block_of(program, name) -> Block:
    return path_to_block(program, name)[-1]


def test_at_the_outermost_loop():
    out = decompose_reduction(matmul(8, 4, 2), block("mm"), loop("i"))
    assert outline(out.program) == (
        "i_init in 0+8\n  j_init in 0+4\n    mm_init[x = i_init, y = j_init]\n"
        "i in 0+8\n  j in 0+4\n    k in 0+2\n      mm_update[x = i, y = j, z = k]"
    )
    assert out.handles == (block("mm_init"),)
    assert out.forward[block("mm")] == block("mm_update")


def test_both_have_the_annotations():
    program = annotate(matmul(8, 4, 2), block("mm"), "mine", 1).program
    out = decompose_reduction(program, block("mm"), loop("i"))
    assert [block_of(out.program, n).annotations for n in ("mm_init", "mm_update")] == [(("mine", 1),)] * 2


def test_at_the_reduction_loop():
    out = decompose_reduction(matmul(8, 4, 2), block("mm"), loop("k"))
    assert outline(out.program) == (
        "i in 0+8\n  j in 0+4\n    mm_init[x = i, y = j]\n    k in 0+2\n      mm_update[x = i, y = j, z = k]"
    )


def test_between_tiles():
    p = split(matmul(8, 4, 8), loop("k"), sizes(4, 2)).program
    p = reorder(p, loops("k_0 i j k_1")).program
    p = split(p, loop("j"), sizes(2, 2)).program
    out = decompose_reduction(p, block("mm"), loop("k_0"))
    assert outline(out.program).startswith(
        "i_init in 0+8\n  j_0_init in 0+2\n    j_1_init in 0+2\n"
        "      mm_init[x = i_init, y = (j_0_init * 2) + j_1_init]\n"
    )


def test_regions():
    out = decompose_reduction(matmul(8, 4, 2), block("mm"), loop("k")).program
    init, update = block_of(out, "mm_init"), block_of(out, "mm_update")
    assert [r.buffer for r in init.writes] == ["C"] and init.reads == () and init.init is None
    assert {r.buffer for r in update.reads} == {"A", "B", "C"} and update.init is None
    assert [a.kind for a in init.axes] == ["spatial", "spatial"]


def test_guards_of_spatial_loops_go_along_and_those_of_reduction_loops_do_not():
    p = split(matmul(10, 4, 10), loop("i"), sizes(None, 4)).program
    p = split(p, loop("k"), sizes(None, 4)).program
    out = decompose_reduction(p, block("mm"), loop("i_0")).program
    assert text(block_of(out, "mm_init").predicate) == "((i_0_init * 4) + i_1_init) < 10"
    assert "k_0" in text(block_of(out, "mm_update").predicate)


def test_loops_keep_how_they_run():
    p = vectorize(reorder(matmul(8, 4, 2), loops("i k j")).program, loop("j")).program
    out = decompose_reduction(p, block("mm"), loop("k"))
    assert "j_init in 0+4 @ vectorized" in outline(out.program)


def test_sampled_tiles():
    t = [Symbol("t", PerfectTile(Const(8), 2), k) for k in range(2)]
    p = split(matmul(8, 4, 8), loop("k"), t).program
    p = reorder(p, loops("k_0 j i k_1")).program
    assert "mm_init[x = i_init, y = j_init]" in outline(decompose_reduction(p, block("mm"), loop("k_0")).program)


def test_a_loop_fused_of_spatial_and_reduction():
    p = fuse(matmul(8, 4, 2), loops("j k")).program
    out = decompose_reduction(p, block("mm"), loop("i"))
    assert "mm_init[x = i_init, y = j_k_fused_init // 2]" in outline(out.program)


def test_refusals():
    p = matmul(8, 4, 2)
    with refused("MS301", "no block `nope`"):
        decompose_reduction(p, block("nope"), loop("i"))
    with refused("MS314", "inside the reduction loop `k`"):
        decompose_reduction(reorder(p, loops("k j")).program, block("mm"), loop("j"))
    with refused("MS314", "not above block `first`"):
        decompose_reduction(chain(), block("first"), loop("x_1"))
    with refused("MS313", "condition 1", "init"):
        decompose_reduction(chain(), block("first"), loop("x"))


SECOND = """program p(A: f32[4, 5], out C: f32[4], inout D: f32[4]) {{
    for i in 4 {{
        for k in 5 {{ block s[x: 4 = i | z: 5 = k] {{ init {{ C[x] = 0.0 }} C[x] += A[x, z] }} }}
        {} }}
    for i_1 in 4 {{ block u[x: 4 = i_1] {{ C[x] = C[x] * 2.0 }} }} }}"""


def test_a_second_writer_in_another_nest():
    p = parse_program(SECOND.format("block t[x: 4 = i] { D[x] = A[x, 0] }"))
    for name in ("i", "k"):
        out = decompose_reduction(p, block("s"), loop(name)).program
        assert [b.name for b in blocks_of(out.body)][-1] == "u"
        same(p, out)


def test_refuses_a_second_writer_under_the_loop():
    for more in ("block t[x: 4 = i] { C[x] = C[x] * 2.0 }", "block t[x: 4 = i] { D[x] = C[x] }"):
        p = parse_program(SECOND.format(more))
        with refused("MS313", "block `s` is not the only writer of `C`: so is block `"):
            decompose_reduction(p, block("s"), loop("i"))
        same(p, decompose_reduction(p, block("s"), loop("k")).program)


def test_the_parts_of_a_partitioned_reduction():
    p = matmul(6, 4, 5)
    parts = loop_partition(p, loop("i"), sizes(4, None)).program
    for name, at in (("mm", "i_0"), ("mm_1", "i_1")):
        parts = decompose_reduction(parts, block(name), loop(at)).program
    assert [b.name for b in blocks_of(parts.body)] == ["mm_init", "mm_update", "mm_1_init", "mm_1_update"]
    same(p, parts)


def test_refuses_an_output_indexed_by_the_reduction():
    p = matmul(4, 4, 4)
    path = path_to_block(p, "mm")
    old = path[-1]
    axes = tuple(replace(a, kind="reduce") if a.name == "y" else a for a in old.axes)
    with refused("MS313", "condition 5", "`C` is indexed by `y`"):
        decompose_reduction(put(p, path, replace(old, axes=axes)), block("mm"), loop("i"))


def test_refuses_to_sum_twice_what_was_summed_anew():
    b = ProgramBuilder("again")
    a, c = b.input("A", (4, 4)), b.output("C", (4,))
    with b.loop("r", 3), b.loop("i", 4) as i, b.loop("k", 4) as k:
        with b.block("s", spatial("x", 4, i), reduce("z", 4, k)) as (x, z):
            c[x] += a[x, z]
    p = b.finish()
    with refused("MS314", "loop `r` repeats the whole reduction"):
        decompose_reduction(p, block("s"), loop("r"))
    assert "s_init" in outline(decompose_reduction(p, block("s"), loop("i")).program)


def test_refuses_overlapping_windows():
    b = ProgramBuilder("overlap")
    a, c = b.input("A", (6, 4)), b.output("C", (6,))
    with b.loop("i", 4) as i, b.loop("h", 3) as h, b.loop("k", 4) as k:
        with b.block("s", spatial("x", 6, i + h), reduce("z", 4, k)) as (x, z):
            c[x] += a[x, z]
    p = b.finish()
    with refused("MS314", "twice"):
        decompose_reduction(p, block("s"), loop("i"))


def test_refuses_a_spatial_loop_bounded_by_a_reduction_loop():
    b = ProgramBuilder("ragged")
    a, c = b.input("A", (4, 4)), b.output("C", (4,))
    with b.loop("k", 4) as k, b.loop("i", k + 1) as i:
        with b.block("s", spatial("x", 4, i), reduce("z", 4, k)) as (x, z):
            c[x] += a[x, z]
    with refused("MS314", "depend on the reduction loop `k`"):
        decompose_reduction(b.finish(), block("s"), loop("k"))


def test_refuses_a_reduction_that_does_not_begin_at_zero():
    b = ProgramBuilder("late")
    a, c = b.input("A", (4, 8)), b.output("C", (4,))
    with b.loop("i", 4) as i, b.loop("k", 4) as k:
        with b.block("s", spatial("x", 4, i), reduce("z", 8, k + 4)) as (x, z):
            c[x] += a[x, z]
    with refused("MS313", "does not provably begin at 0"):
        decompose_reduction(b.finish(), block("s"), loop("k"))


def test_a_free_tile_of_the_reduction():
    width = Symbol("v", Choice((2, 3)))
    p = split(matmul(8, 4, 8), loop("k"), sizes(None, width)).program
    out = decompose_reduction(p, block("mm"), loop("k_0")).program
    assert block_of(out, "mm_init").predicate == Const(True, "bool")


VIEWED = """program p(A: f32[8, 4], out O: f32[8]) {{
    for i in 8, k in 4 {{
        block r[x: 8 = i | y: 4 = k] {{
            alloc X: f32[4]
            alloc Y: f32[4]
            view V: f32[2] = X[1..3]
            view W: f32[1] = V[1..2]
            reads A[x, y]
            writes O[x]
            init {{ {init} }}
            {body}
        }}
    }}
}}"""
PLAIN, ADDED = "O[x] = 0.0", "O[x] = O[x] + A[x, y]"


@pytest.mark.parametrize(
    ("init", "body", "first", "rest"),
    [
        ("W[0] = 0.0 O[x] = W[0]", ADDED, ["X", "V", "W"], ["Y"]),
        ("X[2] = 0.0 O[x] = X[2]", ADDED, ["X"], ["Y"]),
        (PLAIN, "W[0] = A[x, y] O[x] = O[x] + W[0]", [], ["X", "Y", "V", "W"]),
        ("W[0] = 0.0 O[x] = W[0]", "Y[0] = A[x, y] O[x] = O[x] + Y[0]", ["X", "V", "W"], ["Y"]),
    ],
)
def test_what_the_block_allocates_goes_where_it_is_used(init, body, first, rest):
    p = parse_program(VIEWED.format(init=init, body=body))
    q = decompose_reduction(p, block("r"), loop("i")).program
    assert verify(q) == ()
    same_meaning(p, q, {}, 1)
    for name, wanted in (("r_init", first), ("r_update", rest)):
        found = block_of(q, name)
        assert [*(b.name for b in found.allocs), *(v.buffer.name for v in found.views)] == wanted


@pytest.mark.parametrize(
    ("init", "body"),
    [
        ("X[2] = 0.0 O[x] = X[2]", "W[0] = A[x, y] O[x] = O[x] + W[0]"),
        ("W[0] = 0.0 O[x] = W[0]", "V[0] = A[x, y] O[x] = O[x] + V[0]"),
    ],
)
def test_refuses_what_init_and_body_use_by_views(init, body):
    with refused("MS314", "`X`, which block `r` allocates"):
        decompose_reduction(parse_program(VIEWED.format(init=init, body=body)), block("r"), loop("i"))


def test_refuses_a_loop_of_both_kinds_of_axes_that_others_repeat():
    p = parse_program("""program p(A: f32[4, 8], out O: f32[4]) {
        for t in 0..2 {
            for f in 0..32 {
                block r[x: 4 = f // 8 | y: 8 = f % 8] {
                    init { O[x] = 0.0 }
                    O[x] = O[x] + A[x, y]
                }
            }
        }
    }""")
    with refused("MS314", "loop `f` serves spatial and reduction axes of block `r`", "cannot be determined"):
        decompose_reduction(p, block("r"), loop("f"))


def test_refuses_an_init_that_uses_a_view_of_one_step():
    p = parse_program("""program p(A: f32[8, 4], out S: f32[8]) {
        for i in 0..8, k in 0..4 {
            block s[x: 8 = i | y: 4 = k] {
                view V: f32[1] = A[x, y .. y + 1]
                init { S[x] = V[0] }
                S[x] = S[x] + A[x, y]
            }
        }
    }""")
    with refused("MS314", "the view `V`, which a reduction axis moves", "another part in each iteration"):
        decompose_reduction(p, block("s"), loop("k"))


def test_an_axis_of_one_iteration_has_its_only_value():
    # The number of the one tile of `i` is an axis in the regions of the tile, and 0 in its body.
    before, after = scheduled(
        """program p(A: f32[4, 8], B: f32[8, 8], out C: f32[4, 8]) {
            block mm[i: 4, j: 8 | k: 8] { C[i, j] += A[i, k] * B[k, j] }
        }""",
        """
        let k = mm.k
        let i0, i1 = mm.i.split([_, 4])
        let j0, j1 = mm.j.split([_, 4])
        reorder(i0, j0, k, i1, j1)
        let tile = blockize(i1)
        let sums = tile.cache_write(C, scope = local)
        tile.transform_layout(tile.writes()[0], fn (i, j) -> [i // 4, j // 4, i % 4, j % 4])
        sums.reverse_compute_at(j0)
        let zero = tile.decompose_reduction(k)
        """,
    )
    assert {"zero", "tile_update"} < {b.name for b in blocks_of(after.body)}
    same(before, after)


def test_a_tile_that_reads_another_one_is_refused():
    program = parse_program(
        """program p(A: f32[4, 2], inout C: f32[2, 4]) {
            for t in 2, k in 2 {
                block tile[x: 2 = t | z: 2 = k] {
                    init { for i in 4 { block zero[w: 2 = x, y: 4 = i] { C[w, y] = 0.0 } } }
                    for i in 4 { block sum[w: 2 = x, y: 4 = i, v: 2 = z] { C[w, y] = C[w, y] + C[0, y] * A[y, v] } }
                }
            }
        }"""
    )
    with refused("MS313", "reads other elements"):
        decompose_reduction(program, block("tile"), loop("k"))
