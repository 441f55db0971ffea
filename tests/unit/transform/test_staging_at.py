"""read_at and write_at: what one iteration of a loop accesses, and what is refused."""

from mslang.transform.outcome import BlockRef
from mslang.transform.primitives.buffer_access import unsafe_hide_buffer_access
from mslang.transform.primitives.read_write_at import read_at, write_at
from tests.unit.transform.programs import block, buffer, loop, refused
from tests.unit.transform.staged import accepted, program

MM = program(
    "A: f32[8, 4], B: f32[4, 6], out C: f32[8, 6]",
    """
    for i0 in 0..4, j in 0..6, i1 in 0..2, k in 0..4 {
        block mm[i: 8 = i0 * 2 + i1, j: 6 = j | k: 4 = k] { C[i, j] += A[i, k] * B[k, j] }
    }
    """,
)
PAIR = """
    alloc T: f32[8]
    for i in 0..8 {
        block a[x: 8 = i] { T[x] = A[x] * 2.0 }
        block b[x: 8 = i] { B[x] = T[x] + 1.0 }
    }
"""


def test_what_one_iteration_reads_is_copied_there():
    made = read_at(MM, block("mm"), loop("i0"), buffer("A"), "shared")
    text = accepted(MM, made)
    assert made.handles == (BlockRef("A_shared"),)
    assert 'attr "auto_copy" = 1' in text
    assert text.index("for i0 in 4") < text.index("block A_shared") < text.index("for j in 6")
    assert "ax0: 8 = i0 * 2 + ax0" in text


def test_what_one_iteration_writes_is_copied_back_there():
    text = accepted(MM, write_at(MM, block("mm"), loop("j"), buffer("C"), "local"))
    assert text.index("block mm") < text.index("block C_local")
    assert "C[ax0, ax1] = C_local_1[ax0, ax1]" in text


def test_all_readers_under_the_loop_read_the_copy():
    p = program(
        "A: f32[8], out B: f32[8], out C: f32[8]",
        "for i in 0..8 { block a[x: 8 = i] { B[x] = A[x] }\n block b[x: 8 = i] { C[x] = A[x] + 1.0 } }",
    )
    text = accepted(p, read_at(p, block("b"), loop("i"), buffer("A"), "local"))
    assert text.count("A_local_1[x]") == 2


def test_a_reader_between_two_writers_reads_the_new_buffer():
    p = program("A: f32[8], out B: f32[8]", PAIR)
    with refused("MS362", "after it is written there last"):
        write_at(p, block("a"), loop("i"), buffer("T"))


def test_a_loop_that_still_reduces_is_refused():
    with refused("MS346", "`k` still reduces"):
        write_at(MM, block("mm"), loop("k"), buffer("C"))


def test_a_buffer_written_after_it_is_read_is_refused():
    p = program(
        "A: f32[8], inout C: f32[8], out B: f32[8]",
        "for i in 0..8 { block b[x: 8 = i] { B[x] = C[x] }\n block w[x: 8 = i] { C[x] = A[x] } }",
    )
    with refused("MS362", "not a stage pipeline"):
        read_at(p, block("b"), loop("i"), buffer("C"))


ELSEWHERE = """
block w[x: 8] { if A[x] > 0.0 { T[x] = A[x] } }
for i in 0..8 { block b[x: 8 = i] { B[x] = T[x] + A[x] } }
block late[x: 8] { T[x] = 1.0 }
"""


def test_what_others_do_to_other_buffers_does_not_matter():
    p = program("A: f32[8], inout T: f32[8], out B: f32[8]", ELSEWHERE)
    accepted(p, read_at(p, block("b"), loop("i"), buffer("A"), "local"))
    accepted(p, write_at(p, block("b"), loop("i"), buffer("B"), "local"))
    with refused("MS362", "not a stage pipeline for `T`", "writes `T` after"):
        read_at(p, block("b"), loop("i"), buffer("T"))


def test_a_loop_elsewhere_and_a_vectorized_one_are_refused():
    p = program(
        "A: f32[8], out B: f32[8], out C: f32[8]",
        "block a[x: 8] { B[x] = A[x] }\n block b[x: 8] { C[x] = A[x] }",
    )
    with refused("MS340", "not above block `a`"):
        read_at(p, block("a"), loop("x_1"), buffer("A"))
    p = program("A: f32[8], out B: f32[8]", "for i in 0..8 @ vectorized { block a[x: 8 = i] { B[x] = A[x] } }")
    with refused("MS346", "vectorized"):
        read_at(p, block("a"), loop("i"), buffer("A"))


def test_a_part_that_is_not_known_is_refused():
    p = program("A: f32[8], inout B: f32[16]", "for i in 0..8 { block a[x: 8 = i] { B[x * 2] = A[x] } }\n")
    assert accepted(p, write_at(p, block("a"), loop("i"), buffer("B"), "local"))
    p = program("A: f32[8], inout B: f32[16]", "for o in 0..1, i in 0..8 { block a[x: 8 = i] { B[x * 2] = A[x] } }\n")
    with refused("MS332", "which part of `B`"):
        write_at(p, block("a"), loop("o"), buffer("B"))


def test_unknown_scopes_and_buffers_are_refused():
    with refused("MS334"):
        read_at(MM, block("mm"), loop("i0"), buffer("A"), "attic")
    with refused("MS330", "does not write `A`"):
        write_at(MM, block("mm"), loop("i0"), buffer("A"))


def test_a_writer_in_the_same_part_of_the_loop_is_refused():
    p = program(
        "A: f32[8], out B: f32[8]", PAIR.replace("i in 0..8", "o in 0..2, i in 0..4").replace("= i]", "= o * 4 + i]")
    )
    assert accepted(p, read_at(p, block("b"), loop("i"), buffer("T"), "local"))
    with refused("MS362", "`T` is written under loop `o` after it is read there first", "what was there before"):
        read_at(p, block("b"), loop("o"), buffer("T"))


def test_writers_of_different_parts_are_refused():
    parts = "for i in 0..8 {{ block a[x: 8 = i] {{ B[x] = A[x] }}\n block b[x: 8 = i] {{ B[{at}] = A[x] }} }}"
    p = program("A: f32[8], inout B: f32[16]", parts.format(at="x"))
    assert accepted(p, write_at(p, block("a"), loop("i"), buffer("B"), "local"))
    p = program("A: f32[8], inout B: f32[16]", parts.format(at="x + 8"))
    with refused("MS332", "blocks under the loop write different parts of `B`", "must not access"):
        write_at(p, block("a"), loop("i"), buffer("B"))


def test_what_was_there_before_the_loop_is_refused():
    p = program("A: f32[8], inout B: f32[8]", "for i in 0..8 { block a[x: 8 = i] { B[x] = B[x] + A[x] } }")
    with refused("MS332", "block `a` would read elements that the same iteration has not provably written"):
        write_at(p, block("a"), loop("i"), buffer("B"))


def test_what_a_block_under_the_loop_hides_is_refused():
    p = program(
        "A: f32[8], out B: f32[8], out C: f32[8]",
        "for i in 0..8 { block a[x: 8 = i] { B[x] = A[x] }\n block b[x: 8 = i] { C[x] = A[7 - x] } }",
    )
    p = unsafe_hide_buffer_access(p, block("b"), "read", [buffer("A")]).program
    with refused("MS352", "`b` hides that it accesses `A`"):
        read_at(p, block("a"), loop("i"), buffer("A"))
    accepted(p, write_at(p, block("a"), loop("i"), buffer("B")))
    p = unsafe_hide_buffer_access(p, block("b"), "write", [buffer("C")]).program
    with refused("MS330", "does not write `C`"):
        write_at(p, block("b"), loop("i"), buffer("C"))


def test_a_reduction_may_declare_that_it_reads_what_its_init_started():
    text = """
    for i in 0..8 @ parallel, k in 0..4 {
        block s[x: 8 = i | r: 4 = k] {
            reads C[x], A[x, r]
            writes C[x]
            init { C[x] = 0.0 }
            C[x] += A[x, r]
        }
    }
    """
    p = program("A: f32[8, 4], out C: f32[8]", text)
    assert "C_local_1[x] += A[x, r]" in accepted(p, write_at(p, block("s"), loop("i"), buffer("C"), "local"))
    without = program("A: f32[8, 4], inout C: f32[8]", text.replace("init { C[x] = 0.0 }", "init { }"))
    with refused("MS332"):
        write_at(without, block("s"), loop("i"), buffer("C"), "local")
