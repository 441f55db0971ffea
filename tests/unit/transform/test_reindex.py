"""reindex: the layout by axes, where the copy stands, what is refused."""

from mslang.transform.outcome import BlockRef
from mslang.transform.primitives.reindex import reindex
from tests.unit.transform.programs import block, buffer, matmul, refused
from tests.unit.transform.staged import accepted, program

CONV = program("A: f32[18], W: f32[3], out C: f32[16]", "block conv[i: 16 | k: 3] { C[i] += A[i + k] * W[k] }")


def test_what_is_read_gets_the_layout_of_the_axes():
    made = reindex(CONV, block("conv"), buffer("A"))
    text = accepted(CONV, made)
    assert made.handles == (BlockRef("A_reindex"),)
    assert "alloc A_reindex_1: f32[16, 3]" in text
    assert "A_reindex_1[i, k] = A[i + k]" in text


def test_axes_keep_their_order_and_those_not_used_are_left_out():
    p = program("B: f32[4, 6], out C: f32[6]", "block b[i: 6 | k: 4] { C[i] += B[k, i] }")
    text = accepted(p, reindex(p, block("b"), buffer("B"), access="read"))
    assert "alloc B_reindex_1: f32[6, 4]" in text


def test_what_is_written_is_copied_back():
    p = matmul(8, 6, 4)
    text = accepted(p, reindex(p, block("mm"), buffer("C")))
    assert text.index("block mm") < text.index("block C_reindex")


def test_an_axis_of_extent_1_stays_where_it_is_the_index():
    p = program("A: f32[1, 8], out C: f32[1, 8]", "block b[n: 1, i: 8] { C[n, i] = A[n, i] }")
    text = accepted(p, reindex(p, block("b"), buffer("A"), access="read"))
    assert "alloc A_reindex_1: f32[1, 8]" in text


def test_where_the_index_may_leave_the_buffer_there_is_0():
    p = program("A: f32[8], out C: f32[10]", "block b[i: 10] { C[i] = select(1 <= i and i < 9, A[i - 1], 7.0) }")
    text = accepted(p, reindex(p, block("b"), buffer("A")))
    assert "select(" in text.split("block A_reindex")[1].split("block b")[0]


def test_a_condition_on_the_axes_goes_with_the_copy():
    p = program("A: f32[8], inout C: f32[8]", "block b[i: 8] { where i % 2 == 0\n C[i] = A[i] }")
    text = accepted(p, reindex(p, block("b"), buffer("C")))
    assert text.count("where i % 2 == 0") == 2


def test_a_store_that_may_not_happen_is_refused():
    p = program("A: f32[8], inout C: f32[8]", "block b[i: 8] { if A[i] > 0.0 { C[i] = A[i] } }")
    with refused("MS332", "does not provably write `C`"):
        reindex(p, block("b"), buffer("C"))


def test_loops_that_run_once_are_seen_through():
    p = program("A: f32[8], out C: f32[8]", "block b[i: 8] { for u in 1 { C[i + u] = A[i + u] } }")
    text = accepted(p, reindex(p, block("b"), buffer("A"), access="read"))
    assert "A_reindex_1[i] = A[i]" in text


def test_accesses_without_a_single_place_are_refused():
    p = program("A: f32[9], out C: f32[8]", "block b[i: 8] { C[i] = A[i] + A[i + 1] }")
    with refused("MS360", "2 places"):
        reindex(p, block("b"), buffer("A"))
    p = program("A: f32[8], idx: i64[8], out C: f32[8]", "block b[i: 8] { C[i] = A[idx[i]] }")
    with refused("MS360", "depends on data"):
        reindex(p, block("b"), buffer("A"))
    p = program("A: f32[8, 4], out C: f32[8]", "block b[i: 8] { for k in 0..4 { C[i] = A[i, k] } }")
    with refused("MS360", "`k`"):
        reindex(p, block("b"), buffer("A"))
    p = program("A: f32[8], out C: f32[8]", "block o[v: 1] { block b[i: 8] { C[i] = A[i] } }")
    with refused("MS360", "holds other blocks"):
        reindex(p, block("o"), buffer("A"))


def test_others_under_the_loops_must_not_touch_what_is_staged():
    parts = "for i in 0..8 {{ block b[i: 8 = i] {{ {} }}\n block c[i: 8 = i] {{ {} }} }}"
    p = program("A: f32[8], out C: f32[8], out D: f32[8]", parts.format("C[i] = A[i]", "D[i] = A[i]"))
    text = accepted(p, reindex(p, block("b"), buffer("A")))
    assert text.index("block A_reindex") < text.index("for i in 8 {\n        block b")
    accepted(p, reindex(p, block("b"), buffer("C")))
    p = program("A: f32[8], out C: f32[8], out D: f32[8]", parts.format("C[i] = A[i]", "D[i] = C[i]"))
    with refused("MS360", "block `c` reads `C` under loops of block `b`"):
        reindex(p, block("b"), buffer("C"))
    with refused("MS360", "block `b` writes `C` under loops of block `c`"):
        reindex(p, block("c"), buffer("C"))


def test_a_scope_that_is_no_stage_pipeline_is_refused():
    p = program("inout A: f32[8], out C: f32[8]", "block b[i: 8] { C[i] = A[i] }\n block w[i: 8] { A[i] = 1.0 }")
    with refused("MS362", "`w`"):
        reindex(p, block("b"), buffer("A"))


def test_a_scope_need_be_a_stage_pipeline_for_the_buffer_alone():
    p = program(
        "A: f32[8], inout T: f32[8], out C: f32[8]",
        "block w[i: 8] { if A[i] > 0.0 { T[i] = A[i] } }\n block b[i: 8] { C[i] = T[i] + A[i] }\n"
        "block late[i: 8] { T[i] = 1.0 }",
    )
    accepted(p, reindex(p, block("b"), buffer("A")))
    accepted(p, reindex(p, block("b"), buffer("C")))
    with refused("MS362", "not a stage pipeline for `T`", "writes `T` after"):
        reindex(p, block("b"), buffer("T"), access="read")


def test_indices_that_meet_are_refused_for_writing():
    p = program("A: f32[8], out C: f32[4]", "block b[i: 8] { C[i // 2] = A[i] }")
    with refused("MS361", "several values"):
        reindex(p, block("b"), buffer("C"))


def test_a_buffer_that_is_read_and_written_is_refused():
    p = program("inout A: f32[8]", "block b[i: 8] { A[i] = A[i] + 1.0 }")
    with refused("MS333", "hold nothing"):
        reindex(p, block("b"), buffer("A"))
    with refused("MS333", "changes while it runs"):
        reindex(p, block("b"), buffer("A"), access="read")


def test_a_buffer_that_the_block_does_not_touch_is_refused():
    with refused("MS330", "does not read `C`"):
        reindex(CONV, block("conv"), buffer("C"), access="read")


def test_instances_that_do_not_surely_run_are_refused():
    p = program("A: f32[8], out C: f32[8]", "for i in 0..4 { block b[i: 8 = i * 2] { C[i] = A[i] } }")
    with refused("MS348"):
        reindex(p, block("b"), buffer("C"))


def test_a_condition_on_an_axis_that_the_copy_has_not_is_refused():
    p = program("A: f32[8, 4], out C: f32[8]", "block b[i: 8 | k: 4] { where k < 3\n C[i] += A[i, k] }")
    with refused("MS347", "cannot be said of the axes by which it writes", "no more"):
        reindex(p, block("b"), buffer("C"))


def test_units_in_sums_are_left_out_on_request():
    p = program("A: f32[8], out C: f32[8]", "block b[i: 8 | k: 1] { C[i] += A[i + k] }")
    assert "alloc A_reindex_1: f32[8, 1]" in accepted(p, reindex(p, block("b"), buffer("A")))
    assert "alloc A_reindex_1: f32[8]\n" in accepted(p, reindex(p, block("b"), buffer("A"), fold_units=True))
    q = program("A: f32[1, 8], out C: f32[1, 8]", "block b[n: 1, i: 8] { C[n, i] = A[n, i] }")
    assert "f32[1, 8]\n" in accepted(q, reindex(q, block("b"), buffer("A"), access="read", fold_units=True))
