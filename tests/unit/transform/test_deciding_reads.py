"""What decides which instances run, and in which order: predicates, conditions and bounds of loops that read data, and
axes that hide loops of the same name. Each refusal stands beside a close schedule that is legal."""

from __future__ import annotations

import pytest

from mslang.ir.find import blocks_of
from mslang.transform.primitives.caching import cache_write
from tests.unit.transform.meaning import same, scheduled
from tests.unit.transform.programs import block, buffer, refused

# ------------------------------------------------------------------ axes that hide loops
HIDING = """program p(A: f32[17, 4], out S: f32[17]) {
    for i in 0..2, j in 0..3, k in 0..3, r in 0..4 {
        block s[x: 17 = i * 8 + j * 3 + k, j: 3 = 0, k: 3 = 0 | y: 4 = r] {
            where j * 3 + k < 8
            init { S[x] = 0.0 }
            S[x] = S[x] + A[x, y]
        }
    }
}"""
"""The predicate is about the axes `j` and `k`, which are 0, not about the loops: elements are computed twice."""


@pytest.mark.parametrize(
    ("steps", "code", "why"),
    [
        ("s.decompose_reduction(s.loops()[0])", "MS314", "run an instance of block `s` twice"),
        ("s.loops()[0].parallel()", "MS310", "may access the same elements of `S`"),
        ("let i, j, k, r = s.loops() reorder(r, i, j, k)", "MS308", "would repeat steps"),
    ],
)
def test_a_predicate_on_axes_says_nothing_of_the_loops_that_they_hide(steps: str, code: str, why: str):
    with refused(code, why):
        scheduled(HIDING, steps)
    plain = HIDING.replace(", j: 3 = 0, k: 3 = 0", "").replace("17", "16")
    same(*scheduled(plain, steps))


def test_a_predicate_that_reads_by_an_axis_called_like_a_loop():
    program = """program p(A: f32[8], inout F: f32[8]) {
        for i in 0..8, j in 0..8 {
            block b[j: 8 = i, a: 8 @ opaque = j] {
                where F[AT] < 1.0
                F[j] = A[j]
            }
        }
    }"""
    with refused("MS310", "may access the same elements of `F`"):
        scheduled(program.replace("AT", "a"), "b.loops()[0].parallel()")
    same(*scheduled(program.replace("AT", "j"), "b.loops()[0].parallel()"))


def test_axes_called_like_each_others_loops_get_another_layout():
    program = """program p(A: f32[8, 8], inout S: f32[8, 8]) {
        for i in 0..8, j in 0..8 {
            block s[j: 8 = i, i: 8 = j] {
                where j < 3
                S[j, i] = A[j, i]
            }
        }
    }"""
    same(*scheduled(program, "s.transform_block_layout(fn (a, b) -> [a * 8 + b])"))


# ------------------------------------------------------------------ bounds of loops
COUNTED = """program p(A: f32[8], inout N: f32[9], inout B: f32[8, 4]) {
    for i in 0..8 {
        for j in 0..i64(min(max(N[i], 0.0), 4.0)) {
            block a[x: 8 = i, y: 4 = j] { B[x, y] = 1.0 }
        }
        block w[x: 8 = i] { N[x + 1] = A[x] }
    }
}"""


def test_iterations_that_count_by_what_others_write_are_not_concurrent():
    with refused("MS310", "may access the same elements of `N`", "`a`, `w`"):
        scheduled(COUNTED, "a.loops()[0].parallel()")
    same(*scheduled(COUNTED.replace("x + 1", "x"), "a.loops()[0].parallel()"))


def test_a_loop_is_not_merged_past_what_writes_its_bounds():
    program = """program p(A: f32[8], inout N: f32[8], inout B: f32[8, 4], out C: f32[8]) {
        for c in 0..8 { block first[x: 8 = c] { C[x] = 1.0 } }
        for n in 0..8 { block count[x: 8 = n] { N[x] = 2.0 } }
        for i in 0..8 {
            for j in 0..i64(min(max(N[i], 0.0), 4.0)) {
                block a[x: 8 = i, y: 4 = j] { B[x, y] = 1.0 }
            }
        }
    }"""
    before, after = scheduled(program, "merge(first.loops()[0], a.loops()[0])")
    assert [s.body[0].name for s in after.body][:1] == ["count"]
    same(before, after)


RECOUNTED = """program p(A: f32[8], inout N: f32[8], inout B: f32[8, 8]) {
    alloc T: f32[8]
    for first in 0..8 { block filled[y: 8 = first] { T[y] = 1.0 } }
    for i in 0..8 {
        for j in 0..i64(max(min(N[i], 8.0), 0.0)) { block a[y: 8 = j] { T[y] = A[y] } }
        block w[x: 8 = i] { N[x] = 3.0 }
        for l in 0..i64(max(min(N[i], 8.0), 0.0)) { block b[x: 8 = i, y: 8 = l] { B[x, y] = T[y] } }
    }
}"""
"""As many elements of `T` are read as `N` says, which is not as many as it said when they were written."""


def test_what_is_written_for_a_bound_is_not_what_is_read_for_another_value_of_it():
    own = RECOUNTED.replace("for first in 0..8 { block filled[y: 8 = first] { T[y] = 1.0 } }", "")
    with refused("MS310", "reads elements of `T` that block `a` does not provably write in the same iteration"):
        scheduled(own, "a.loops()[0].parallel()")
    _, after = scheduled(own, "a.loops()[0].loop_partition([3, _])")
    assert [b.name for b in after.allocs] == ["T"]
    steady = own.replace("N[x] = 3.0", "B[x, 0] = 3.0").replace("y: 8 = l", "y: 8 = l + 0")
    same(*scheduled(steady, "a.loops()[0].parallel()"))
    same(*scheduled(RECOUNTED, "a.loops()[0].loop_partition([3, _])"))


def test_a_copy_of_as_many_elements_as_the_last_iteration_counts():
    program = """program p(A: f32[8], inout N: f32[1], inout T: f32[8]) {
        for i in 0..4 {
            for j in 0..i64(max(min(N[0], 8.0), 0.0)) { block a[y: 8 = j] { T[y] = A[y] } }
            block w[x: 4 @ opaque = i] { N[0] = N[0] + 1.0 }
        }
    }"""
    with refused("MS332", "it is not known which part of `T` block `a` writes"):
        scheduled(program, "a.cache_write(T)")


# ------------------------------------------------------------------ the start of a reduction, and padding
REDUCED = """program p(A: f32[8, 4], inout S: f32[9], inout B: f32[8], inout N: f32[9]) {
    for i in 0..8 {
        block w[x: 8 = i] { N[x + 1] = A[x, 0] }
        for k in 0..4 {
            block s[x: 8 = i | y: 4 = k] {
                init { S[x] = 0.0 }
                S[x] = S[x] + A[x, y]
            }
        }
        block r[x: 8 = i] {
            where S[AT] < 1.0
            B[x] = S[x]
        }
    }
}"""


def test_a_reduction_is_not_started_where_its_loops_are_counted_later():
    program = REDUCED.replace("for k in", "for e in 0..i64(min(max(N[i], 0.0), 1.0)), k in")
    program = program.replace("where S[AT] < 1.0", "").replace("x: 8 = i | y", "x: 8 = i + e * 0 | y")
    with refused("MS319", "block `w` writes `N` under the loop", "bounds of a loop"):
        scheduled(program, "s.decompose_reduction(s.loops()[0])")


def test_a_reduction_is_not_started_before_a_predicate_reads_what_was_there():
    with refused("MS319", "block `r` may read elements of `S` under the loop before the reduction starts them"):
        scheduled(REDUCED.replace("AT", "x + 1"), "s.decompose_reduction(s.loops()[0])")
    same(*scheduled(REDUCED.replace("AT", "x"), "s.decompose_reduction(s.loops()[0])"))


PADDED = """program p(A: f32[8, 4], inout P: f32[9, 4], inout B: f32[8], inout N: f32[9]) {
    for i in 0..8 {
        FIRST
        for j in 0..COUNT {
            block pad[x: 8 = i, y: 4 = j] {
                WHERE
                P[x, y] = select(x < 4, A[x, y], 0.0)
            }
        }
        LAST
    }
}"""


@pytest.mark.parametrize(
    ("first", "count", "where", "last", "why"),
    [
        ("block r[x: 8 = i] { B[x] = P[x, 0] }", "4", "", "", "block `r` may read elements of `P`"),
        ("", "4", "", "block r[x: 8 = i] { where P[x + 1, 0] < 1.0 B[x] = A[x, 0] }", "block `r` may read elements"),
        ("block w[x: 8 = i] { N[x + 1] = 3.0 }", "4", "where N[x] < 2.0", "", "block `w` writes `N`"),
        ("block w[x: 8 = i] { N[x + 1] = 3.0 }", "i64(min(max(N[i], 0.0), 4.0))", "", "", "block `w` writes `N`"),
    ],
)
def test_padding_is_not_filled_before_it_is_read_or_its_place_decided(
    first: str, count: str, where: str, last: str, why: str
):
    program = PADDED
    for word, text in (("FIRST", first), ("COUNT", count), ("WHERE", where), ("LAST", last)):
        program = program.replace(word, text)
    with refused("MS374", why):
        scheduled(program, "pad.decompose_padding(pad.loops()[0])")
    same(
        *scheduled(
            program.replace("[x + 1", "[x").replace("P[x, 0]", "A[x, 0]").replace("N[x] =", "B[x] ="),
            "pad.decompose_padding(pad.loops()[0])",
        )
    )


# ------------------------------------------------------------------ what does not run
def test_a_split_loads_no_bounds_beyond_the_loop():
    program = """program p(A: f32[8], N: f32[6], inout B: f32[6, 8]) {
        for i in 0..6 {
            for j in 0..i64(max(min(N[i], 8.0), 0.0)) { block a[x: 6 = i, y: 8 = j] { B[x, y] = A[y] } }
        }
    }"""
    same(*scheduled(program, "let i, j = a.loops() let i0, i1 = i.split([_, 4]) i1.split([_, 3])"))


def test_a_part_of_a_loop_that_lies_beyond_its_predicate_writes_nothing():
    program = """program p(A: f32[4], inout B: f32[4]) {
        for i in 0..1, j in 0..4 { block a[z: 1 = i, x: 4 = j] { B[x] = A[x] } }
    }"""
    steps = "let i, j = a.loops() let i0, i1 = i.split([8, _]) let first, rest = i0.loop_partition([_, 3])"
    _, after = scheduled(program, steps)
    late = [b.name for b in blocks_of(after.body)][1]
    with refused("MS332", f"it is not known which part of `B` block `{late}` writes"):
        cache_write(after, block(late), buffer("B"))
    same(after, cache_write(after, block("a"), buffer("B")).program)


def test_a_block_is_not_moved_to_run_for_more_instances_that_write_the_same_elements():
    program = """program p(A: f32[8], out B: f32[8]) {
        alloc T: f32[8]
        for i in 0..8 { block a[x: 8 = i, c: 3 = AT] { T[x] = A[x] + f32(c) } }
        for j in 0..8 { block b[x: 8 = j] { B[x] = T[x] } }
    }"""
    for at in ("0", "i % 2"):
        with refused("MS348", "`a` does not provably run for all values", "several of them write the same element"):
            scheduled(program.replace("AT", at), "a.compute_at(b.x)")
    same(*scheduled(program.replace("c: 3 = AT", "c: 1 = 0"), "a.compute_at(b.x)"))
