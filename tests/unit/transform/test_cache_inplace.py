"""cache_inplace: what is filled, what is copied back, what is refused."""

from mslang.sema.program import parse_program
from mslang.transform.outcome import BlockRef
from mslang.transform.primitives.caching import cache_inplace
from tests.unit.transform.programs import block, buffer, refused
from tests.unit.transform.staged import accepted, program

ADD = program("inout A: f32[16], B: f32[16]", "block add[i: 16] { A[i] = A[i] + B[i] }")


def test_a_block_updates_a_copy():
    made = cache_inplace(ADD, block("add"), buffer("A"), "local")
    text = accepted(ADD, made)
    assert made.handles == (BlockRef("A_local"), BlockRef("A_local_back"))
    assert "{ A_local_1[i] += B[i] }" in text
    assert "A[ax0] = A_local_1[ax0]" in text


def test_only_what_is_written_is_copied_back():
    p = program(
        "inout A: f32[16]", "for i in 0..8 { block b[i: 8 @ opaque = i] { A[i * 2] = A[i * 2] + A[i * 2 + 1] } }"
    )
    with refused("MS332", "which part of `A`"):
        cache_inplace(p, block("b"), buffer("A"))
    p = program("inout A: f32[16]", "for i in 0..8 { block b[i: 8 = i] { A[i] = A[i] + A[i + 8] } }")
    text = accepted(p, cache_inplace(p, block("b"), buffer("A")))
    assert "for ax0 in 16" in text
    assert "for ax0_1 in 8" in text


def test_the_copies_stand_between_others_that_touch_the_buffer():
    p = program(
        "A: f32[8, 4], out C: f32[8]",
        """
        for i in 0..8 {
            block start[i: 8 = i] { C[i] = 0.0 }
            for k in 0..4 { block add[i: 8 = i | k: 4 = k] { init {}
                C[i] += A[i, k] } }
        }
        """,
    )
    text = accepted(p, cache_inplace(p, block("add"), buffer("C"), "local"))
    assert text.index("block start") < text.index("block C_local[") < text.index("block add")


def test_a_block_that_only_reads_or_only_writes_is_refused():
    p = program("A: f32[8], out B: f32[8]", "block b[i: 8] { B[i] = A[i] }")
    with refused("MS330", "does not write `A`", "cache_read"):
        cache_inplace(p, block("b"), buffer("A"))
    with refused("MS330", "does not read `B`"):
        cache_inplace(p, block("b"), buffer("B"))


def test_an_unknown_scope_is_refused():
    with refused("MS334"):
        cache_inplace(ADD, block("add"), buffer("A"), "attic")


def test_what_was_not_written_is_not_copied():
    p = program(
        "out C: f32[8]", "for i in 0..8 { block b[i: 8 @ opaque = i] { C[i] = select(i > 0, C[i - 1], 0.0) + 1.0 } }"
    )
    with refused("MS332", "nothing has written `C` before"):
        cache_inplace(p, block("b"), buffer("C"))


def test_iterations_that_run_at_once_stay_apart():
    p = program(
        "inout B: f32[16], A: f32[8]",
        """
        for p in 0..8 @ parallel {
            block x[i: 8 = p] { B[i] = A[i] }
            for q in 0..2 {
                block y[i: 8 = p, q: 2 @ opaque = q] { B[i] = max(B[i + q * 8], 1.0) }
            }
        }
        """,
    )
    with refused("MS346", "more of `B` than it writes"):
        cache_inplace(p, block("y"), buffer("B"))


def test_another_name_of_the_buffer_is_refused():
    p = program(
        "inout A: f32[8]",
        """
        block outer[o: 1] {
            view V: f32[8] = A[0..8]
            block b[i: 8] { A[i] = A[i] + V[i] }
        }
        """,
    )
    with refused("MS352", "as `V` too"):
        cache_inplace(p, block("b"), buffer("A"))


def test_what_a_loop_that_may_not_run_would_write_is_not_provably_written():
    p = parse_program(
        """
        program p[K: dyn(1..8)](A: f32[8, 8], out B: f32[8]) {
            alloc T: f32[8]
            for i in 0..8, k in 0..K // 2 { block s[i: 8 = i | k: 8 = k] { T[i] += A[i, k] } }
            for i1 in 0..8 { block b[i: 8 = i1] { T[i] = T[i] + 1.0 } }
            for i2 in 0..8 { block c[i: 8 = i2] { B[i] = T[i] } }
        }
        """
    )
    with refused("MS332"):
        cache_inplace(p, block("b"), buffer("T"))


def test_loops_that_run_as_often_as_one_around_them_says_are_copied_whole():
    p = parse_program("""program t(inout U: i32[2, 1]) {
        for l0 in 1 { for l1 in l0 + 1 {
            block s[i: 1 @ scan = l0, j: 1 = l1] { U[i, j] = U[i, j] + U[i + 1, j] }
        } }
    }""")
    text = accepted(p, cache_inplace(p, block("s"), buffer("U"), "local"))
    assert "for ax0_1 in 1, ax1_1 in 1 {" in text
