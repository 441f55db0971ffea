"""cache_read and cache_write: where the copy stands, what it copies, what is refused."""

import pytest
from msgspec.structs import replace

from mslang.ir.build import ProgramBuilder, reduce, spatial
from mslang.ir.expr import Binary, Const, Var
from mslang.ir.find import all_buffers, blocks_of, path_to_block
from mslang.ir.operators import Value, select
from mslang.ir.program import Region
from mslang.ir.verify import verify
from mslang.ir.visit import map_program_exprs
from mslang.sema.program import parse_program
from mslang.transform.analysis.position import block_at
from mslang.transform.outcome import BlockRef
from mslang.transform.primitives.caching import cache_read, cache_write
from mslang.transform.primitives.compute_at import compute_at
from mslang.transform.primitives.decompose_reduction import decompose_reduction
from mslang.transform.primitives.loops import split
from tests.property.block_programs import same_meaning
from tests.unit.transform.meaning import same
from tests.unit.transform.programs import block, buffer, chain, loop, matmul, outline, refused, sizes
from tests.unit.transform.workloads import blur, diamond, softmax


def reads(program, name):
    return [r.buffer for r in block_at(path_to_block(program, name)).reads]


def writes(program, name):
    return [r.buffer for r in block_at(path_to_block(program, name)).writes]


def accepted(before, outcome):
    """The program of an outcome, which is well formed and means the same."""
    assert verify(outcome.program) == ()
    same_meaning(before, outcome.program, {}, 1)
    return outcome.program


# ------------------------------------------------------------------ cache_read
def test_an_input_is_copied_at_the_start():
    p = matmul(8, 6, 4)
    made = cache_read(p, block("mm"), buffer("A"), "shared")
    q = accepted(p, made)
    assert made.handles == (BlockRef("A_shared"),)
    assert all_buffers(q)["A_shared_1"].scope == "shared"
    assert all_buffers(q)["A_shared_1"].shape == all_buffers(p)["A"].shape
    assert outline(q).splitlines()[:3] == ["ax0 in 0+8", "  ax1 in 0+4", "    A_shared[ax0 = ax0, ax1 = ax1]"]
    assert reads(q, "mm") == ["A_shared_1", "B"]


def test_a_second_copy_gets_fresh_names():
    p = matmul(8, 6, 4)
    once = cache_read(p, block("mm"), buffer("A")).program
    twice = cache_read(once, block("mm"), buffer("A_global_1"))
    q = accepted(p, twice)
    assert twice.handles == (BlockRef("A_global_1_global"),)
    assert "ax0_1 in 0+8" in outline(q)


def test_only_what_is_read_is_copied():
    b = ProgramBuilder("half")
    a, o = b.input("A", (16,)), b.output("B", (4,))
    with b.block("some", spatial("x", 4)) as (x,):
        o[x] = a[x * 2 + 1]
    p = b.finish()
    q = accepted(p, cache_read(p, block("some"), buffer("A")))
    assert outline(q).splitlines()[:2] == ["ax0 in 0+7", "  A_global[ax0 = ax0 + 1]"]


def test_a_guarded_halo_is_kept_inside_the_buffer():
    b = ProgramBuilder("padded")
    a, o = b.input("A", (6,)), b.output("B", (8,))
    with b.block("pad", spatial("x", 8)) as (x,):
        o[x] = select((x >= 1) & (x < 7), a[x - 1], 0.0)
    p = b.finish()
    q = accepted(p, cache_read(p, block("pad"), buffer("A")))
    assert outline(q).splitlines()[:2] == ["ax0 in 0+6", "  A_global[ax0 = ax0]"]


def test_the_copy_stands_after_the_writer():
    p = chain()
    q = accepted(p, cache_read(p, block("second"), buffer("T"), "local"))
    names = [line.strip() for line in outline(q).splitlines() if "[" in line]
    assert [n.split("[")[0] for n in names] == ["first", "T_local", "second"]


def test_the_copy_stands_in_the_loop_that_writer_and_reader_share():
    p = compute_at(blur(), block("bx"), loop("y_1")).program
    q = accepted(p, cache_read(p, block("by"), buffer("T"), "local"))
    assert outline(q) == "\n".join(
        (
            "y_1 in 0+8",
            "  y_2 in 0+3",
            "    x_2 in 0+6",
            "      bx[y = y_1 + y_2, x = x_2]",
            "  ax0 in 0+3",
            "    ax1 in 0+6",
            "      T_local[ax0 = ax0 + y_1, ax1 = ax1]",
            "  x_1 in 0+6",
            "    by[y = y_1, x = x_1]",
        )
    )


def test_readers_outside_of_the_shared_loop_get_all_that_is_written_there():
    b = ProgramBuilder("outside")
    a, t, u, o = b.input("A", (8,)), b.alloc("T", (8,)), b.output("U", (8,)), b.output("B", (8,))
    with b.loop("i", 8) as i:
        with b.block("first", spatial("x", 8, i)) as (x,):
            t[x] = a[x] + 1.0
        with b.block("near", spatial("x", 8, i)) as (x,):
            u[x] = t[x] * 2.0
    with b.block("far", spatial("x", 8)) as (x,):
        o[x] = t[x] * 3.0
    p = b.finish()
    q = accepted(p, cache_read(p, block("far"), buffer("T")))
    assert outline(q).splitlines()[:4] == ["i in 0+8", "  first[x = i]", "  ax0 in 0+1", "    T_global[ax0 = ax0 + i]"]
    assert reads(q, "near") == reads(q, "far") == ["T_global_1"]


def test_only_chosen_consumers_read_the_copy():
    p = diamond()
    q = accepted(p, cache_read(p, block("left"), buffer("T"), consumers=[block("left")]))
    assert reads(q, "left") == ["T_global_1"]
    assert reads(q, "right") == ["T"]


def test_nested_blocks_follow():
    p = nested()
    q = accepted(p, cache_read(p, block("row"), buffer("A"), "shared"))
    assert reads(q, "row") == reads(q, "inner") == ["A_shared_1"]
    inside = accepted(p, cache_read(p, block("inner"), buffer("A"), "local"))
    assert "A_local[ax0 = ax0 + r, ax1 = ax1]" in [line.strip() for line in nested_outline(inside, "row")]
    assert [b.name for b in block_at(path_to_block(inside, "row")).allocs] == ["A_local_1"]
    assert inside.allocs == ()


def nested():
    b = ProgramBuilder("nested")
    a, o = b.input("A", (4, 6)), b.output("B", (4, 6))
    with b.block("row", spatial("r", 4)) as (r,), b.block("inner", spatial("y", 4, r), spatial("k", 6)) as (y, k):
        o[y, k] = a[y, k] * 2.0
    return b.finish()


def nested_outline(program, name):
    return outline(replace(program, body=block_at(path_to_block(program, name)).body)).splitlines()


def test_cache_read_refuses():
    p = matmul()
    with refused("MS334", "unknown storage scope `smem`", "shared"):
        cache_read(p, block("mm"), buffer("A"), "smem")
    with refused("MS330", "does not read `C`", "`A`, `B`"):
        cache_read(p, block("mm"), buffer("C"))
    with refused("MS301", "`none`"):
        cache_read(p, block("mm"), buffer("none"))
    with refused("MS330", "`right`"):
        cache_read(diamond(), block("join"), buffer("U"), consumers=[block("right")])


HALVES = """program p(A: f32[8], out O: f32[8], out Q: f32[8]) {{
    alloc T: f32[8]
    for i in 5 {{ block low[x: 8 = i] {{ T[x] = A[x] * 2.0 }} }}
    for i_1 in {} {{ block high[x: 8 = i_1 + 5] {{ T[x] = A[x] * 2.0 }} }}
    for i_2 in 8 {{ block use[x: 8 = i_2] {{ O[x] = T[x] + 1.0 }} }}
    for i_3 in 8 {{ block also[x: 8 = i_3] {{ Q[x] = T[x] * T[x] }} }} }}"""


def test_a_consumer_that_writes_the_buffer_is_refused():
    p = parse_program("""program p(A: f32[8], out B: f32[8]) {
        alloc T: f32[8]
        block a[x: 8] { T[x] = A[x] }
        block w[x: 8] { T[x] = T[x] + A[x] }
        block b[x: 8] { B[x] = T[x] } }""")
    with refused("MS333", "block `w` reads and writes `T`", "changes while it runs"):
        cache_read(p, block("b"), buffer("T"), consumers=[block("w")])


def test_a_consumer_of_more_than_the_block_writes_is_refused():
    p = parse_program("""program p(A: f32[8], inout C: f32[8], out B: f32[8]) {
        block w[x: 4] { C[x] = A[x] }
        block r[x: 8] { B[x] = C[x] } }""")
    with refused(
        "MS332", "`r` would read elements that are not provably written", "block `w` does not provably write all"
    ):
        cache_write(p, block("w"), buffer("C"), consumers=[block("r")])


def test_cache_read_of_what_several_write():
    p = parse_program(HALVES.format(3).replace("use[", "`use`["))
    out = cache_read(p, block("use"), buffer("T"), "local")
    assert [b.name for b in blocks_of(out.program.body)] == ["low", "high", "T_local", "use", "also"]
    assert all(path_to_block(out.program, n)[-1].reads[0].buffer == "T_local_1" for n in ("use", "also"))
    same(p, out.program)
    p = softmax()
    taken_apart = decompose_reduction(p, block("top"), loop("k")).program
    same(p, cache_read(taken_apart, block("ex"), buffer("M")).program)


def test_cache_read_of_what_several_do_not_write_together():
    p = parse_program(HALVES.format(2).replace("use[", "`use`["))
    with refused("MS332", "`low`, `high`"):
        cache_read(p, block("use"), buffer("T"))


SHARED = """program p(A: f32[8], F: bool[1], out T: f32[8], inout O: f32[8]) {{
    for i in 6 {{ block low[x: 8 = i] {{ T[x] = A[x] * 2.0 }} }}
    for j in 2 {{
        block high[x: 8 = j + 6] {{ T[x] = A[x] * 2.0 }}
        block reader[x: 8 = j + 6] {{ where F[0]
            O[x] = T[{}] + 1.0 }}
    }} }}"""


def test_cache_read_counts_what_is_written_before_in_a_loop_around_both():
    with refused("MS332", "`low`, `high`"):
        cache_read(parse_program(SHARED.format("min(x + 1, 7)")), block("reader"), buffer("T"))
    p = parse_program(SHARED.format("x - 6"))
    accepted(p, cache_read(p, block("reader"), buffer("T"), "local"))
    p = parse_program(SHARED.format("x"))
    accepted(p, cache_read(p, block("reader"), buffer("T"), "local"))


def test_cache_read_between_writers():
    p = parse_program(HALVES.format(3).replace("use[", "`use`[").replace("O[x] = T[x] + 1.0", "T[x] = T[x] + A[x]"))
    with refused("MS333", "`use` reads and writes `T`"):
        cache_read(p, block("use"), buffer("T"))


@pytest.mark.parametrize("name", ["low", "high"])
def test_cache_write_of_what_others_write_too(name):
    p = parse_program(HALVES.format(3).replace("use[", "`use`["))
    out = cache_write(p, block(name), buffer("T"), "local")
    order = ["low", "high", "use", "also"]
    order.insert(order.index(name) + 1, "T_local")
    assert [b.name for b in blocks_of(out.program.body)] == order
    same(p, out.program)
    with refused("MS331", "`low`, `high`"):
        cache_write(p, block(name), buffer("T"), "local", consumers=[block("use")])


def test_cache_write_in_turn_with_another_writer():
    p = parse_program("""program p(A: f32[8], out O: f32[8]) {
        for i in 8 {
            block a[x: 8 = i] { O[x] = A[x] }
            for k in 3 { block b[x: 8 = i | k: 3 = k] { init {} O[x] += A[x] } } } }""")
    out = cache_write(p, block("a"), buffer("O"), "local").program
    assert [getattr(s, "name", "") or s.var for s in out.body[0].body] == ["a", "ax0", "k"]
    same(p, out)
    with refused("MS333", "`b` reads and writes `O`"):
        cache_write(p, block("b"), buffer("O"), "local")


def in_place():
    b = ProgramBuilder("in_place")
    x, o = b.inout("X", (8,)), b.output("B", (8,))
    with b.block("before", spatial("i", 8)) as (i,):
        o[i] = x[i]
    with b.block("step", spatial("i", 8)) as (i,):
        x[i] = x[i] + 1.0
    return b.finish()


def test_cache_read_refuses_what_changes():
    p = in_place()
    with refused("MS333", "reads and writes `X`"):
        cache_read(p, block("step"), buffer("X"))
    with refused("MS344", "`before`", "before it is written"):
        cache_read(p, block("before"), buffer("X"))
    with refused("MS344", "before it is written"):
        cache_read(p, block("before"), buffer("X"), consumers=[block("before")])


def half_written():
    b = ProgramBuilder("half")
    a, t, o = b.input("A", (8,)), b.alloc("T", (8,)), b.output("B", (4,))
    with b.block("first", spatial("x", 8), where=Value(Binary("<", Binary("%", Var("x"), Const(3)), Const(2)))) as (x,):
        t[x] = a[x]
    with b.block("second", spatial("x", 4)) as (x,):
        o[x] = t[x]
    return b.finish()


def test_caching_refuses_what_is_not_provably_written():
    with refused("MS332", "`T`", "`first`"):
        cache_read(half_written(), block("second"), buffer("T"))
    with refused("MS332", "not known which part of `T`"):
        cache_write(half_written(), block("first"), buffer("T"))


# ------------------------------------------------------------------ cache_write
def test_an_output_is_copied_after_all_loops():
    p = matmul(8, 6, 4)
    made = cache_write(p, block("mm"), buffer("C"), "local")
    q = accepted(p, made)
    assert made.handles == (BlockRef("C_local"),)
    assert writes(q, "mm") == ["C_local_1"]
    assert outline(q).splitlines()[-3:] == ["ax0 in 0+8", "  ax1 in 0+6", "    C_local[ax0 = ax0, ax1 = ax1]"]


def test_a_guarded_tile_is_copied_as_a_whole():
    p = split(matmul(10, 6, 4), loop("i"), sizes(None, 4)).program
    q = accepted(p, cache_write(p, block("mm"), buffer("C")))
    assert outline(q).splitlines()[-3:] == ["ax0 in 0+10", "  ax1 in 0+6", "    C_global[ax0 = ax0, ax1 = ax1]"]


def test_the_copy_stands_before_readers_in_a_shared_loop():
    p = compute_at(blur(), block("bx"), loop("y_1")).program
    q = accepted(p, cache_write(p, block("bx"), buffer("T"), "local"))
    assert reads(q, "by") == ["T"]
    assert [line.strip() for line in outline(q).splitlines()[4:7]] == [
        "ax0 in 0+3",
        "ax1 in 0+6",
        "T_local[ax0 = ax0 + y_1, ax1 = ax1]",
    ]


def test_chosen_consumers_read_the_new_buffer():
    p = diamond()
    q = accepted(p, cache_write(p, block("first"), buffer("T"), consumers=[block("right")]))
    assert (reads(q, "left"), reads(q, "right")) == (["T"], ["T_global_1"])


def test_only_the_part_that_exists_is_copied():
    b = ProgramBuilder("part")
    a, o = b.input("A", (8,)), b.inout("X", (8,))
    with b.block("some", spatial("x", 5)) as (x,):
        o[x + 1] = a[x]
    p = b.finish()
    q = accepted(p, cache_write(p, block("some"), buffer("X")))
    assert outline(q).splitlines()[-2:] == ["ax0 in 0+5", "  X_global[ax0 = ax0 + 1]"]


def test_cache_write_refuses():
    with refused("MS330", "does not write `A`", "it writes `C`"):
        cache_write(matmul(), block("mm"), buffer("A"))
    with refused("MS334", "unknown storage scope"):
        cache_write(matmul(), block("mm"), buffer("C"), "register")
    apart = decompose_reduction(matmul(), block("mm"), loop("k")).program
    with refused("MS333", "block `mm_update` reads and writes `C`"):
        cache_write(apart, block("mm_update"), buffer("C"))
    with refused("MS333", "reads and writes `X`"):
        cache_write(in_place(), block("step"), buffer("X"))
    with refused("MS330", "`join` does not read `T`"):
        cache_write(diamond(), block("first"), buffer("T"), consumers=[block("join")])


def prefix_sums():
    b = ProgramBuilder("prefix")
    a, s, o = b.input("A", (8,)), b.alloc("S", (1,)), b.output("B", (8,))
    with b.loop("i", 8) as i:
        with b.block("sum", spatial("u", 1, i - i), reduce("k", 8, i)) as (u, k):
            s[u] += a[k]
        with b.block("take", spatial("x", 8, i)) as (x,):
            o[x] = s[0]
    return b.finish()


def test_partial_results_are_not_staged():
    with refused("MS346", "loop `i` still reduces", "`sum`"):
        cache_write(prefix_sums(), block("sum"), buffer("S"))


def test_nothing_else_changes():
    p = matmul(8, 6, 4)
    q = cache_read(p, block("mm"), buffer("A")).program
    back = map_program_exprs(q, lambda e: e)
    assert back == q
    assert replace(q, body=(), allocs=()) == replace(p, body=(), allocs=())
    assert Region("B", block_at(path_to_block(p, "mm")).reads[1].ranges) in block_at(path_to_block(q, "mm")).reads


def test_a_copy_of_what_other_iterations_write_at_the_same_time() -> None:
    """A block may declare to read more than it reads, and a copy holds what is declared (campaign, seed 16, pair 19667
    of instances)."""
    text = """program t(A: f32[6, 4], out B: f32[6, 4]) {{
        alloc T: f32[6]
        for k in 6 {{ block z[x: 6 = k] {{ T[x] = 0.0 }} }}
        for i in 4, j in 6{kind} {{
            block r[x: 6 = j, y: 4 = i] {{ T[x] = A[x, y] }}
            block w[x: 6 = j, y: 4 = i] {{ reads T[0..6] attr "explicit_read_region" = [0] B[x, y] = T[x] }}
        }}
    }}"""
    cache_read(parse_program(text.format(kind="")), block("w"), buffer("T"))
    with refused("MS346", "parallel loop `j`", "may access the same elements of `T`"):
        cache_read(parse_program(text.format(kind=" @ parallel")), block("w"), buffer("T"))


ALIASED = """program p(A: f32[8], out C: f32[8], out Q: f32[8]) {
    for i in 0..1 {
        block outer[z: 1 = i] {
            writes C[0..8], Q[0..8]
            view v: f32[8] = C[0..8]
            for j in 0..8 { block w[x: 8 = j] { BODY } }
        }
    }
}"""


@pytest.mark.parametrize("body", ["v[x] = 1.0 C[x] = A[x] Q[x] = 2.0", "v[x] = A[x] Q[x] = C[x]"])
def test_cache_write_refuses_a_block_that_accesses_the_buffer_by_another_name(body: str):
    with refused("MS352", "block `w` accesses `v` as `C` too"):
        cache_write(parse_program(ALIASED.replace("BODY", body)), block("w"), buffer("v"))
    plain = parse_program(ALIASED.replace("BODY", "v[x] = A[x] Q[x] = 2.0"))
    same(plain, cache_write(plain, block("w"), buffer("v")).program)
