"""cache_index: which indices are computed beforehand."""

from mslang.transform.outcome import BlockRef
from mslang.transform.primitives.cache_index import cache_index
from tests.unit.transform.programs import block, refused
from tests.unit.transform.staged import accepted, program

UP = program("A: f32[8, 8], out B: f32[8, 8]", "block up[i: 8, j: 8] { B[i, j] = A[(i * 3 + 1) // 4, (j + 2) % 8] }")


def test_each_index_gets_a_buffer():
    made = cache_index(UP, block("up"), "local")
    text = accepted(UP, made)
    assert made.handles == (BlockRef("index_0"), BlockRef("index_1"))
    assert "A[index_var_0[i], index_var_1[j]]" in text
    assert "reads A[(i * 3 + 1) // 4, (j + 2) % 8], index_var_0[i], index_var_1[j]" in text


def test_an_index_by_two_axes_gets_a_buffer_of_two_dimensions():
    p = program("A: f32[64], out B: f32[8, 8]", "block b[i: 8, j: 8] { B[i, j] = A[i * 8 + j] }")
    text = accepted(p, cache_index(p, block("b")))
    assert "alloc index_var_0: i64[8, 8]" in text


def test_the_threshold_counts_occurrences():
    p = program("A: f32[20], out B: f32[8]", "block b[i: 8] { B[i] = A[i * 2] + A[i * 2] + A[i * 2 + 4] }")
    assert len(cache_index(p, block("b"), threshold=0).handles) == 2
    text = accepted(p, cache_index(p, block("b"), threshold=2))
    assert "A[index_var_0[i]] + A[index_var_0[i]] + A[index_var_0[i] + 4]" in text


def test_plain_indices_and_those_of_what_is_updated_are_refused():
    p = program("A: f32[8, 4], out B: f32[16]", "block b[i: 8 | k: 4] { B[i * 2] += A[i, k] }")
    with refused("MS363", "nothing to compute beforehand in block `b`"):
        cache_index(p, block("b"))


def test_a_division_that_may_fail_stays_where_it_is_guarded():
    p = program("A: f32[8], out B: f32[8]", "block b[i: 8] { B[i] = select(i > 0, A[8 // i - 1], 0.0) }")
    with refused("MS363", "nothing to compute beforehand in block `b`"):
        cache_index(p, block("b"))


def test_conversions_and_functions_are_computed_beforehand_in_their_own_type():
    place = "i64(min(i32(floor(f32(i) * 0.5)){}, 7))"
    p = program(
        "A: f32[8], out B: f32[8]", f"block b[i: 8] {{ B[i] = A[{place.format('')}] + A[{place.format(' + 1')}] }}"
    )
    text = accepted(p, cache_index(p, block("b"), threshold=2))
    assert "alloc index_var_0: i32[8]" in text
    assert "A[i64(min(index_var_0[i] + 1, 7))]" in text
    assert len(cache_index(p, block("b")).handles) == 2


def test_a_threshold_that_nothing_reaches_is_refused():
    with refused("MS363", "no index in block `up` occurs 2 times", "1 time(s)"):
        cache_index(UP, block("up"), threshold=2)


def test_a_block_that_holds_others_is_refused():
    p = program("A: f32[9], out B: f32[8]", "block o[v: 1] { block b[i: 8] { B[i] = A[i + 1] } }")
    with refused("MS363", "block `o` holds other blocks"):
        cache_index(p, block("o"))


def test_refusals():
    with refused("MS363", "-1"):
        cache_index(UP, block("up"), threshold=-1)
    with refused("MS334"):
        cache_index(UP, block("up"), "attic")
