"""What a block reads at its new place is finished there: no later iteration of a loop around it writes it."""

from __future__ import annotations

import pytest

from tests.unit.transform.test_instances import accepted, refused

FOLDED = """program t(A: f32[6], out B: f32[6], out R: f32[6]) {
    alloc X: f32[6]
    for i in 6 { block clear[x: 6 = i] { B[x] = 0.0 } }
    for i in 6 {
        block fill[x: 6 = i] { B[x] = A[x] }
        block make[x: 6 = PLACE] { X[x] = A[x] * 2.0 }
    }
    for i in 6 { block after[x: 6 = i] { R[x] = X[x] + B[READ] } }
}"""
"""`clear` has written all that `after` reads, and `fill` overwrites it later in the loop."""


@pytest.mark.parametrize(("place", "read"), [("5 - i", "x"), ("i", "5 - x"), ("i", "0")])
def test_a_block_is_not_folded_into_a_loop_that_still_writes_what_it_reads(place: str, read: str) -> None:
    p = FOLDED.replace("PLACE", place).replace("READ", read)
    refused(p, "after.reverse_compute_inline()", "MS320", "block `make` reads `B` under loop `i_1`")


@pytest.mark.parametrize(("place", "read"), [("i", "x"), ("5 - i", "5 - x")])
def test_a_block_is_folded_into_a_loop_that_has_written_what_it_reads(place: str, read: str) -> None:
    accepted(FOLDED.replace("PLACE", place).replace("READ", read), "after.reverse_compute_inline()")


SUMMED = """program t(A: f32[6, 4], out B: f32[6], out R: f32[6]) {
    alloc X: f32[6]
    for i in 6 { block clear[x: 6 = i] { B[x] = 0.0 } }
    for i in 6 {
        block fill[x: 6 = i] { B[x] = A[x, 0] }
        for k in 4 { block sum[x: 6 = i | k: 4 = k] { init { X[x] = 0.0 } X[x] += A[x, k] } }
    }
    for i in 6 { block after[x: 6 = i] { R[x] = X[x] + B[READ] } }
}"""


def test_an_epilogue_is_not_fused_in_a_loop_that_still_writes_what_it_reads() -> None:
    p = SUMMED.replace("READ", "5 - x")
    refused(p, "sum.fuse_reduction_epilogue(after)", "MS320", "block `sum` reads `B` under loop `i_1`")
    accepted(SUMMED.replace("READ", "x"), "sum.fuse_reduction_epilogue(after)")


AGAIN = """program t(A: f32[6], out B: f32[6], out R: f32[6]) {
    alloc X: f32[6]
    for i in 6 { block clear[x: 6 = i] { B[x] = 0.0 } }
    for i in 6 {
        block fill[x: 6 = i] { B[x] = A[x] }
        for j in 6 { block make[x: 6 = j] { X[x] = A[x] * 2.0 } }
        BESIDE
    }
    AFTER
}"""
"""`make` computes all elements in each iteration: what moves to it reads `B` six times, once when it is finished."""
AFTER = "for l in 6 { block after[x: 6 = l] { R[x] = X[x] + B[x] } }"
BESIDE = "block after[x: 6 = i] { R[x] = X[x] + B[x] }"


@pytest.mark.parametrize("beside", [True, False])
@pytest.mark.parametrize("steps", ["after.reverse_compute_inline()", "after.reverse_compute_at(make.loops()[1])"])
def test_a_block_does_not_come_into_iterations_in_which_what_it_reads_is_unfinished(steps: str, beside: bool) -> None:
    p = AGAIN.replace("BESIDE", BESIDE if beside else "").replace("AFTER", "" if beside else AFTER)
    refused(p, steps, "MS320", "reads `B` under loop `i_1`")


def test_a_reader_may_come_into_a_loop_that_no_longer_writes_what_it_reads() -> None:
    p = AGAIN.replace("BESIDE", "").replace("AFTER", AFTER)
    accepted(p, "let a, b = make.loops()[0].fission(fill) after.reverse_compute_at(make.loops()[1])")


FOUND = """program t(A: i32[6, 10], out at: i32[6], out best: i32[6], out R: i32[6]) {
    alloc X: i32[6, 10]
    for i in 6, k in 10 { block make[i: 6 = i, k: 10 = k] { X[i, k] = A[i, k] * A[i, k] } }
    for i in 6, k in 10 {
        block find[i: 6 = i | k: 10 = k] {
            init { at[i] = -1
                best[i] = 2147483647 }
            let p = select(best[i] < A[i, k] or best[i] == A[i, k] and at[i] > i32(k), at[i], i32(k))
            let v = select(best[i] <= A[i, k], best[i], A[i, k])
            at[i] = p
            best[i] = v
        }
    }
    for i in 6 { block after[i: 6 = i] { R[i] = best[i] + X[i, 0] } }
}"""


def test_an_init_that_was_moved_does_not_finish_what_the_reduction_writes() -> None:
    """Pair 42248 of `stages`, seed 33."""
    steps = "find.decompose_reduction(find.i) make.reverse_compute_at(find.i) after.reverse_compute_inline()"
    refused(FOUND, steps, "MS320", "block `make` reads `best` under loop")
