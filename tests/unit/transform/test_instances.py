"""Legality by what the instances of a block read and write: inits, updates, predicates, and the loops around writers.

Each program comes with schedules that would change it, and with close ones that do not: those are refused, with their
reasons, and these give a well-formed program that the interpreter runs to the same results, unscheduled and scheduled.
"""

from __future__ import annotations

import re

import numpy as np
import pytest

import mslang as ms
from mslang.backend.reference import interpret
from mslang.diagnostics import MsError, ScheduleError
from mslang.ir.program import For, Program
from mslang.ir.verify import verify
from mslang.ir.visit import walk

DTYPES = {"i32": np.int32, "i64": np.int64, "f32": np.float32}


def scheduled(program: str, schedule: str) -> tuple[Program, Program]:
    space = ms.parse(f"{program}\nschedule s for {re.split('[^a-z]', program.split()[1])[0]} {{ {schedule} }}").space(
        "s"
    )
    return space.program, space.sample(0).program


def refused(program: str, schedule: str, code: str, *words: str) -> None:
    with pytest.raises(ScheduleError) as error:
        scheduled(program, schedule)
    found = error.value.diagnostic
    said = " ".join(x for x in (found.message, found.why, found.help) if x)
    assert found.code.startswith(code), said
    for word in words:
        assert word in said, said


def refuses(program: str, schedule: str, code: str) -> None:
    with pytest.raises(ScheduleError) as error:
        scheduled(program, schedule)
    assert error.value.diagnostic.code.startswith(code)


def accepted(program: str, schedule: str) -> None:
    before, after = scheduled(program, schedule)
    assert verify(after) == ()
    for seed in range(3):
        rng = np.random.default_rng(seed)
        inputs = {}
        for p in before.params:
            if p.direction != "out":
                shape = tuple(int(n.value) for n in p.given.shape)
                high = 8 if p.given.dtype == "i64" else 6
                low = 0 if p.given.dtype == "i64" else -4
                inputs[p.given.name] = rng.integers(low, high, shape).astype(DTYPES[p.given.dtype])
        if "F" in inputs and seed == 1:
            inputs["F"][:] = 200
        try:
            want = interpret.run(before, inputs)
        except MsError as error:
            raise AssertionError("the program itself is wrong") from error
        got = interpret.run(after, inputs)
        for name, expected in want.items():
            assert np.array_equal(expected, got[name]), name


# ------------------------------------------------------------------ later writes, carried by a loop
FILLED_ANEW = """program t(X: i32[4, 8], out Y: i32[4, 8], out Z: i32[4]) {
    alloc T: i32[8]
    for i in 0..4 {
        for j in 0..8 { block a[x: 4 @ KIND = i, y: 8 = j] { T[y] = X[x, y] * 2 } }
        for k in 0..8 { block b[x: 4 = i, y: 8 = k] { Y[x, y] = T[y] + T[7 - y] } }
    }
    for m in 0..4 { block d[x: 4 = m] { Z[x] = X[x, 0] } }
}"""


def test_a_block_does_not_leave_a_loop_that_overwrites_what_it_reads():
    p = FILLED_ANEW.replace("KIND", "opaque")
    words = ("`b` would read other values", "later iterations of loop `i`", "axis `x` of block `a` is opaque")
    refused(p, "let r = b.cache_write(Y) b.compute_inline()", "MS320", *words[1:])
    refused(p, "b.reverse_compute_at(d.loops()[0], index = 0)", "MS320", "place")
    accepted(p, "let r = b.cache_write(Y)")
    accepted(p, "let i, j = b.loops() let c = b.cache_read(T)")
    accepted(p, "d.reverse_compute_at(b.loops()[0])")


def test_a_block_leaves_a_loop_that_writes_other_elements_or_the_same_values():
    rows = """program t(X: i32[4, 8], out Y: i32[4, 8]) {
        alloc T: i32[4, 8]
        alloc U: i32[4, 8]
        for i in 0..4 {
            for j in 0..8 { block a[x: 4 = i, y: 8 = j] { T[x, y] = X[x, y] * 2 } }
            for k in 0..8 { block b[x: 4 = i, y: 8 = k] { U[x, y] = T[x, y] + T[x, 7 - y] } }
        }
        block c[x: 4, y: 8] { Y[x, y] = U[x, y] }
    }"""
    accepted(rows, "b.compute_inline()")
    again = """program t(X: i32[8], out Y: i32[4, 8]) {
        alloc T: i32[8]
        alloc U: i32[4, 8]
        for i in 0..4 {
            for j in 0..8 { block a[y: 8 = j] { T[y] = X[y] * 2 } }
            for k in 0..8 { block b[x: 4 = i, y: 8 = k] { U[x, y] = T[y] + T[7 - y] + i32(x) } }
        }
        block c[x: 4, y: 8] { Y[x, y] = U[x, y] }
    }"""
    accepted(again, "b.compute_inline()")
    changing = again.replace("alloc T: i32[8]", "alloc T: i32[8] alloc V: i32[8]").replace(
        "for j in 0..8 {",
        "for l in 0..8 { block v[z: 4 @ opaque = i, y: 8 = l] { V[y] = X[y] + i32(z) } } for j in 0..8 {",
    )
    changing = changing.replace("T[y] = X[y] * 2", "T[y] = V[y] * 2")
    refused(changing, "b.compute_inline()", "MS320", "elements of `T`", "elements of `V`", "is opaque")


# ------------------------------------------------------------------ predicates
FLAGGED = """program t(F: i32[1], A: i32[4, 8], out Z: i32[4, 8], inout T: i32[4, 8]) {
    block z[i: 4, j: 8] { Z[i, j] = A[i, j] }
    block b[i: 4, j: 8] { where F[0] > 100 T[i, j] = Z[i, j] + 1 }
}"""


@pytest.mark.parametrize(
    "schedule, code, word",
    [
        ("let c = b.cache_write(T, local)", "MS332", "it is not known which part of `T` block `b` writes"),
        ("b.pad_einsum([1, 3])", "MS348", "does not provably run for all values"),
        ("let c = b.loops()[1].blockize()", "MS377", "leaves out some of what its axes run over"),
    ],
)
def test_a_predicate_without_axes_leaves_instances_out(schedule: str, code: str, word: str):
    refused(FLAGGED, schedule, code, word)


@pytest.mark.parametrize(
    "schedule",
    [
        "let c = b.reindex(T, access = write)",
        "let c = b.reindex_cache_write(T, local, fn (i, j) -> [j, i])",
        "b.reverse_compute_at(z.i)",
        "let x, y = b.j.split([_, 3])",
    ],
)
def test_a_predicate_without_axes_goes_with_the_block(schedule: str):
    accepted(FLAGGED, schedule)


def test_a_scan_that_may_not_run_is_not_staged():
    p = """program t(F: i32[1], inout U: i32[16]) {
        block b[i: 16 @ scan] { where F[0] > 100 U[i] = select(i == 0, 1, U[i - 1] + 1) }
    }"""
    refused(p, "let x, y = b.cache_inplace(U)", "MS332", "it is not known which part of `U`")
    accepted(p.replace(" where F[0] > 100", ""), "let x, y = b.cache_inplace(U)")


def test_what_a_predicate_reads_is_a_dependence():
    p = """program t(A: i32[8], inout F: i32[1], out Z: i32[8], inout T: i32[8]) {
        block f[o: 1] { F[o] = 200 }
        block z[i: 8] { Z[i] = A[i] }
        block b[i: 8] { where F[0] > 100 T[i] = Z[i] }
        block g[o: 1] { F[o] = 0 }
    }"""
    refused(p, "b.reverse_compute_at(z.i)", "MS344", "`g` writes `F` after block `b` read it")
    refused(p, "g.reverse_compute_at(z.i)", "MS345", "so is block `f`")
    accepted(p[: p.index("block g")] + "}", "b.reverse_compute_at(z.i)")


# ------------------------------------------------------------------ inits that do not start from scratch
READING = """program t(P: i32[4, 8], inout T: i32[4]) {
    block b[i: 4 | k: 8] { init { T[i] = T[i] * 2 } T[i] = T[i] + P[i, k] }
}"""
CONDITIONAL = """program t(F: i32[4], P: i32[4, 8], inout T: i32[4]) {
    block b[i: 4 | k: 8] { init { if F[i] > 0 { T[i] = 0 } } T[i] = T[i] + P[i, k] }
}"""


@pytest.mark.parametrize(
    "schedule, code",
    [
        ("let c = b.cache_write(T, local)", "MS333"),
        ("let c = b.reindex(T, access = write)", "MS333"),
        ("let c = b.write_at(b.i, T, local)", "MS332"),
        ("b.pad_einsum([3, 1])", "MS345"),
        ("let x, y = b.i.split([_, 3], tail = shift)", "MS355"),
        ("let f = fuse(b.i, b.k) let a = b.decompose_reduction(f)", "MS313"),
        ("let a = b.decompose_reduction(b.k)", "MS313"),
        ("let a = b.k.rfactor()", "MS"),
        ("let a = b.i.blockize()", "MS378"),
    ],
)
@pytest.mark.parametrize("program", [READING, CONDITIONAL], ids=["reading", "conditional"])
def test_an_init_that_does_not_start_from_scratch(program: str, schedule: str, code: str):
    refuses(program, schedule, code)


@pytest.mark.parametrize(
    "schedule",
    [
        "let x, y = b.k.split([_, 3])",
        "reorder(b.k, b.i)",
        "let f = fuse(b.i, b.k)",
        "let x, y = b.k.split([_, 3], tail = peel)",
        "b.transform_block_layout(fn (i, k) -> [k, i])",
    ],
)
@pytest.mark.parametrize("program", [READING, CONDITIONAL], ids=["reading", "conditional"])
def test_an_init_that_stays_first(program: str, schedule: str):
    accepted(program, schedule)


def test_the_reason_says_what_the_init_does():
    refused(READING, "let a = b.decompose_reduction(b.k)", "MS313", "the init of block `b` reads `T`")
    refused(CONDITIONAL, "let a = b.decompose_reduction(b.k)", "MS313", "does not provably store all")
    accepted(READING.replace("T[i] * 2", "2"), "let c = b.cache_write(T, local)")
    branches = CONDITIONAL.replace("{ T[i] = 0 }", "{ T[i] = 0 } else { T[i] = 1 }")
    accepted(branches, "let c = b.cache_write(T, local) let a = b.decompose_reduction(b.k)")


# ------------------------------------------------------------------ reductions that read elsewhere
ELSEWHERE = """program t(P: i32[4, 8], inout T: i32[4], inout Q: i32[4]) {
    block q[i: 4] { Q[i] = P[i, 0] }
    block b[i: 4 | k: 8] { init { T[i] = 0 } T[i] = T[i] + T[(i + 1) % 4] * P[i, k] }
}"""


@pytest.mark.parametrize(
    "schedule, code, word",
    [
        ("let a = b.decompose_reduction(b.i)", "MS313", "condition 6"),
        ("let a = b.i.blockize()", "MS378", "reads other elements of `T` than it writes"),
        ("b.transform_block_layout(fn (i, k) -> [k, i])", "MS389", "reads other elements of `T`"),
        ("b.reverse_compute_at(q.i)", "MS345", "reads other elements of `T`"),
        ("reorder(b.k, b.i)", "MS308", "may read elements of `T` that it writes in another iteration"),
        ("parallel(b.i)", "MS310", "`T`"),
    ],
)
def test_a_reduction_that_reads_other_elements_keeps_its_order(schedule: str, code: str, word: str):
    refused(ELSEWHERE, schedule, code, word)


def test_a_reduction_that_reads_its_own_element_only():
    p = ELSEWHERE.replace("T[(i + 1) % 4]", "Q[(i + 1) % 4]")
    for schedule in ("let a = b.decompose_reduction(b.i)", "let a = b.i.blockize()", "reorder(b.k, b.i)"):
        accepted(p, schedule)
    accepted(p, "b.transform_block_layout(fn (i, k) -> [k, i])")


# ------------------------------------------------------------------ where the init runs
BACKWARDS = """program t(P: i32[4, 8], inout T: i32[4]) {
    for i in 0..4 { for l in 0..8 { block b[i: 4 = i | k: 8 = BINDING] { init { T[i] = 0 } T[i] = T[i] + P[i, k] } } }
}"""


@pytest.mark.parametrize("binding", ["7 - l", "(l + 3) % 8"])
@pytest.mark.parametrize(
    "schedule, code",
    [
        ("let x, y = b.loops()[1].split([_, 3]) reorder(y, x)", "MS308"),
        ("let c = b.cache_write(T, local)", "MS333"),
        ("let a = b.decompose_reduction(b.i)", "MS313"),
        ("let f = fuse(b.loops()[0], b.loops()[1]) let a = b.decompose_reduction(f)", "MS313"),
        ("let a = b.loops()[1].rfactor()", "MS"),
        ("let x, y = b.i.split([_, 3], tail = shift)", "MS355"),
    ],
)
def test_an_init_in_a_later_iteration(binding: str, schedule: str, code: str):
    refuses(BACKWARDS.replace("BINDING", binding), schedule, code)


def test_a_reversed_reduction_may_run_in_other_loops():
    accepted(BACKWARDS.replace("BINDING", "7 - l"), "reorder(b.loops()[1], b.loops()[0])")


@pytest.mark.parametrize("binding", ["7 - l", "(l + 3) % 8"])
@pytest.mark.parametrize(
    "schedule",
    [
        "let x, y = b.loops()[1].split([_, 3])",
        "let f = fuse(b.loops()[0], b.loops()[1])",
        "let x, y = b.loops()[1].split([_, 3], tail = peel)",
        "let x, y = b.loops()[1].loop_partition([3, _])",
        "let u = b.i.add_unit_loop()",
        "parallel(b.i)",
    ],
)
def test_an_init_in_a_later_iteration_stays_there(binding: str, schedule: str):
    accepted(BACKWARDS.replace("BINDING", binding), schedule)


FOLD = """program t(P: i32[3, 2, 5], b: i32[3], out D: i32[3]) {
    alloc S: i32[3]
    for f in 0..30 {
        block fold[i: 3 = BINDING | m: 2 = REDUCED, k: 5 = f % 5] {
            init { S[i] = 1 }
            S[i] = 3 * S[i] + P[i, m, k] } }
    for i_1 in 0..3 { block after[i: 3 = i_1] { D[i] = S[i] + b[i] } }
}"""


def test_a_fold_over_a_fused_loop_moves_in_its_order():
    p = FOLD.replace("BINDING", "f // 10").replace("REDUCED", "f // 5 % 2")
    accepted(p, "fold.compute_at(after.i)")


def test_a_fold_against_the_order_of_its_axes_does_not_move():
    p = FOLD.replace("BINDING", "f // 10").replace("REDUCED", "f % 2").replace("k: 5 = f % 5", "k: 5 = f // 2 % 5")
    refused(p, "fold.compute_at(after.i)", "MS308", "must be kept")


def test_only_the_order_along_the_reduction_counts():
    p = """program t(P: i32[4, 8, 5], inout T: i32[4, 5]) {
        for i in 0..4 { for j in 0..5 { for m in 0..8 { for l in 0..5 {
            block b[i: 4 = i, j: 5 = j | m: 8 = m, n: 5 = 4 - l] { init { T[i, j] = 0 }
                T[i, j] = T[i, j] + P[i, m, n] } } } } }
    }"""
    refused(p, "reorder(b.n, b.j, b.m)", "MS308", "the init of block `b` may not come first", "`n`", "begin at 0")
    accepted(p, "reorder(b.j, b.i)")
    accepted(p, "reorder(b.m, b.n, b.j)")


PREDICATED = """program t(P: i32[4, 8], inout T: i32[4]) {
    for i in 0..4 { for l in 0..8 { block b[i: 4 = i | k: 8 = l] { where WHERE init { T[i] = 0 }
        T[i] = T[i] + P[i, k] } } }
}"""


def test_an_init_that_a_predicate_may_leave_out():
    late = PREDICATED.replace("WHERE", "l >= 3")
    refused(late, "let a = b.decompose_reduction(b.k)", "MS313", "may leave out the iteration of its init")
    refused(late, "let a = b.k.rfactor()", "MS313", "may leave out the iteration of its init")
    refused(late, "let c = b.cache_write(T, local)", "MS333", "reads and writes `T`")
    accepted(late, "let x, y = b.k.split([_, 3])")
    early = PREDICATED.replace("WHERE", "l < 5")
    accepted(early, "let a = b.decompose_reduction(b.k)")
    accepted(early, "let a = b.k.rfactor()")
    accepted(early, "let c = b.cache_write(T, local)")


def test_a_layout_keeps_the_init_where_it_runs():
    early = PREDICATED.replace("WHERE", "l < 5")
    refused(early, "b.transform_block_layout(fn (i, k) -> [i, 7 - k])", "MS318", "would run in other instances")
    accepted(early, "b.transform_block_layout(fn (i, k) -> [k, i])")
    accepted(PREDICATED.replace("where WHERE", ""), "b.transform_block_layout(fn (i, k) -> [i, 7 - k])")


# ------------------------------------------------------------------ running reductions are not private
RUNNING = """program t(X: i32[3, 7], out O: i32[3, 7]) {
    alloc A: i32[3]
    for k in 0..7 { for l in 0..3 {
        block b[i: 3 = l | m: 7 = k] { init { A[i] = 0 } A[i] = A[i] + X[i, m] }
        block c[i: 3 = l, m: 7 = k] { O[i, m] = A[i] } } }
}"""


def test_a_buffer_in_which_a_reduction_runs_is_not_cloned():
    p = ms.parse_program(RUNNING)
    s = ms.Schedule(p)
    s.specialize(s.loops(s.get("c"))[1], s.loops(s.get("c"))[0] > 1)
    assert [b.name for b in s.program.allocs] == ["A"]
    x = np.arange(21, dtype=np.int32).reshape(3, 7)
    assert np.array_equal(interpret.run(p, {"X": x})["O"], interpret.run(s.program, {"X": x})["O"])
    accepted(RUNNING, "let a, d = b.loops()[1].loop_partition([2, _])")
    accepted(RUNNING, "let a, d = b.loops()[0].loop_partition([2, _])")
    accepted(RUNNING, "parallel(b.loops()[1])")
    refused(RUNNING, "parallel(b.loops()[0])", "MS309", "reduce axis")


def test_a_running_reduction_cannot_be_repeated():
    refused(RUNNING, "let x, y = b.loops()[1].split([_, 2], tail = shift)", "MS355", "accumulates along a loop around")


# ------------------------------------------------------------------ decomposing past others
RESET = """program t(X: i32[4, 3], inout U: i32[4], out O: i32[4]) {
    for i in 0..4 {
        FIRST
        for k in 0..3 { block b[x: 4 = i | y: 3 = k] { init { U[x] = 0 } U[x] = U[x] + X[x, y] } }
        LAST
    }
}"""


def test_an_init_does_not_pass_a_reader():
    def program(first: str = "", last: str = "") -> str:
        return RESET.replace("FIRST", first).replace("LAST", last)

    before = program("block a[x: 4 = i] { O[x] = U[x] }")
    refused(before, "let z = b.decompose_reduction(b.loops()[0])", "MS319", "block `a` may read elements of `U`")
    accepted(before, "let z = b.decompose_reduction(b.y)")
    other = program(last="block a[x: 4 = i] { O[x] = U[3 - x] }")
    refused(other, "let z = b.decompose_reduction(b.loops()[0])", "MS319", "block `a` may read elements of `U`")
    accepted(other, "let z = b.decompose_reduction(b.y)")
    after = program(last="block a[x: 4 = i] { O[x] = U[x] }")
    accepted(after, "let z = b.decompose_reduction(b.loops()[0])")


def test_an_init_does_not_pass_a_writer_of_what_it_reads():
    p = """program t(X: i32[4, 3], inout V: i32[4], out U: i32[4]) {
        for i in 0..4 {
            block a[x: 4 = i] { V[x] = 7 }
            for k in 0..3 { block b[x: 4 = i | y: 3 = k] { init { U[x] = V[x] } U[x] = U[x] + X[x, y] } }
        }
    }"""
    refused(p, "let z = b.decompose_reduction(b.loops()[0])", "MS319", "block `a` writes `V`")
    accepted(p, "let z = b.decompose_reduction(b.y)")


def test_an_init_that_gathers():
    p = """program t(U: i32[16], I: i64[16], X: i32[16, 8], out T: i32[16]) {
        block b[i: 16 | k: 8] { init { T[i] = U[I[i]] } T[i] = T[i] + X[i, k] }
    }"""
    accepted(p, "let a = b.decompose_reduction(b.k)")
    accepted(p, "let a = b.decompose_reduction(b.i)")
    accepted(p, "let a = b.k.blockize()")


# ------------------------------------------------------------------ copies
def test_a_copy_of_what_changes_makes_no_promise():
    after = scheduled(RUNNING, "let d = c.cache_read(A)")[1]
    assert "@ opaque" in ms.print_program(after)
    accepted(RUNNING, "let d = c.cache_read(A)")
    accepted(RUNNING, "let d = c.read_at(c.loops()[1], A, global)")
    refused(RUNNING, "let d = c.cache_read(A) d.compute_inline()", "MS345", "is opaque")
    steady = RUNNING.replace("O[i, m] = A[i]", "O[i, m] = A[i] + X[i, m]")
    assert "@ opaque" not in ms.print_program(scheduled(steady, "let d = c.cache_read(X)")[1])


def test_a_predicate_reads_the_old_buffer():
    p = """program t(X: i32[5, 7], out O: i32[5]) {
        block f[i: 5] { O[i] = 0 }
        for i in 0..5 { block b[i: 5 = i] { where X[i, 6 - i] <= 1 O[i] = X[i, i] } }
    }"""
    accepted(p, "let c = b.cache_read(X, local)")


def test_blocks_of_an_init_and_of_a_body_are_not_put_together():
    p = """program t(A: i32[2, 4], out B: i32[2]) {
        for l0 in 0..2, l1 in 0..2 {
            block o0[i: 2 = l0, o: 2 @ reduce = l1] {
                init { for l6 in 0..1 { block z0[x: 2 = i, y: 1 = l6] { B[x] = 0 } } }
                for l5 in 0..2 { block n0[x: 2 = i, r: 4 @ reduce = o * 2 + l5] { init {} B[x] = B[x] + A[x, r] } }
            }
        }
    }"""
    refused(p, "let o = blockize([z0, n0])", "MS379", "block `n0` is in another scope than block `z0`")
    accepted(p, "let o = blockize([z0])")


def test_a_buffer_is_filled_in_place_with_what_a_conditional_init_leaves():
    p = """program t(inout U: i32[3], X: i32[6]) {
        for i in 0..3, k in 0..8 {
            block e[i: 3 @ opaque = i | k: 8 = k] {
                init { if X[i + 3] <= 1 { U[i] = 0 } }
                U[i] += U[max(i - 1, 0)] * X[k // 2]
            }
        }
    }"""
    accepted(p, "let u, v = e.cache_inplace(U)")


def test_a_strided_reduction_keeps_its_values():
    p = """program t(X: i32[4, 8], out O: i32[4]) {
        alloc T: i32[4]
        for i in 0..4, l in 0..LOOPS {
            block a[i: 4 = i | k: 8 = BINDING] { init { T[i] = 0 } T[i] += X[i, k] }
        }
        block b[i: 4] { O[i] = T[i] }
    }"""
    strided = p.replace("LOOPS", "4").replace("BINDING", "l * 2")
    refused(strided, "a.compute_at(b.i)", "MS348", "does not provably reduce over all values of its axes")
    accepted(strided, "b.reverse_compute_at(a.loops()[0])")
    accepted(p.replace("LOOPS", "8").replace("BINDING", "l"), "a.compute_at(b.i)")


@pytest.mark.parametrize("schedule", ["let a = b.decompose_reduction(b.j)", "let a = b.j.rfactor()"])
def test_an_init_that_does_not_run_where_a_loop_has_no_iterations(schedule: str):
    p = """program t(inout U: i32[2, 4]) {
        for l in 0..2, m in 0..4, o in 0..2, q in 0..COUNT {
            block b[i: 2 = l, j: 4 = m | r: 2 = o, k: 3 = q] { init { U[i, j] = 0 } U[i, j] = U[i, j] + 1 }
        }
    }"""
    schedule = schedule.replace("b.j.rfactor", "b.r.rfactor")
    refused(p.replace("COUNT", "0"), schedule, "MS31", "loop `q` may have no iterations")
    accepted(p.replace("COUNT", "3"), schedule)
    tile = p.replace("COUNT", "0")
    refused(tile, "let a = b.r.blockize()", "MS376", "a loop inside may not run at all")


def test_a_copy_of_one_element_that_changes():
    p = """program t(X: i32[4, 4], out O: i32[4, 4]) {
        alloc T: i32[4]
        for k in 0..4 {
            for i in 0..4 { block r[x: 4 = i | y: 4 = k] { init { T[x] = 0 } T[x] += X[x, y] } }
            for j in 0..4 { block w[x: 4 = j, y: 4 = k] { O[x, y] = T[0] } }
        }
    }"""
    accepted(p, "let c = w.reindex_cache_read(T, local, fn (x, y) -> [0])")


def test_a_copy_of_elements_that_are_written_later():
    p = """program t(inout U: i32[4], out T: i32[4, 4], out O: i32[4]) {
        for l in 0..4 {
            for m in 0..6 { block u[x: 4 = l | k: 6 = m] { init { U[x] = 0 } U[x] += 1 } }
            for n in 0..4 { block w[x: 4 = l, y: 4 = n] { T[x, y] = U[y] } }
            block v[x: 4 = l] { O[x] = U[x] }
        }
    }"""
    accepted(p, "let c = v.cache_read(U)")


def test_instances_stay_in_their_iterations():
    p = """program t(X: i32[3, 4], out O: i32[3, 4]) {
        alloc T: i32[3]
        for l in 0..4 {
            for m in 0..3 { block r[x: 3 = m | y: 4 = l] { init { T[x] = 0 } T[x] += X[x, y] } }
            for n in 0..3 { block w[x: 3 = n, y: 4 = l] { O[x, y] = T[0] } }
        }
    }"""
    refused(p, "let c = w.cache_read(T, local) w.reverse_compute_at(c.ax0)", "MS3")


def test_a_conditional_init_inside_of_a_block():
    p = """program t(inout U: f32[6, 6]) {
        alloc Z: f32[4]
        for i in 0..6, j in 0..6, k in 0..5 {
            block r[i: 6 = i, j: 6 = j | k: 5 = k] { init { INIT } U[i, j] = U[i, j] + 1.0 }
        }
        block e[i: 4] { Z[i] = 1.0 }
    }"""
    schedule = "let o = blockize([r, e]) let c = o.cache_write(U, local)"
    refused(p.replace("INIT", "if j % 2 == 1 { U[i, j] = 0.0 }"), schedule, "MS333", "reads and writes `U`")
    accepted(p.replace("INIT", "U[i, j] = 0.0"), schedule)


def test_sizes_are_replaced_alike_in_loads_and_stores():
    p = """program t[M: dyn(2..8)](X: i32[M, M], out O: i32[M]) {
        for i in M, k in M { block a[i: M = i | k: M = k] { init { O[M - i - 1] = 0 } O[M - i - 1] += X[i, k] } }
    }"""
    after = scheduled(p, "let a1, a2 = a.i.specialize(M == 3)")[1]
    assert verify(after) == ()


def test_a_block_whose_loops_data_bound_accesses_what_it_declares() -> None:
    program = """program rows(count: i32[6] in 0..5, A: f32[6, 4], out B: f32[6]) {
        block row[i: 6] {
            alloc total: f32[] @ local
            reads count[i], A[i, 0 .. 4]
            writes B[i]
            total[] = 0.0
            for k in 0..count[i] { total[] += A[i, k] }
            B[i] = total[]
        }
    }"""
    before, after = scheduled(program, "let outer, inner = row.i.split([_, 4])  outer.parallel()")
    assert any(isinstance(s, For) and s.kind == "parallel" for s in walk(after.body))
    given = {"count": np.array([0, 4, 2, 1, 3, 4], np.int32), "A": np.arange(24, dtype=np.float32).reshape(6, 4)}
    assert np.array_equal(interpret.run(before, given)["B"], interpret.run(after, given)["B"])


# ------------------------------------------------------------------ what a predicate reads
GUARDED = """program p(inout U: i32[4, 7]) {
    for i in 4, j in 7 {
        block b[i: 4 = i, j: 7 = j] {
            where U[GUARD] <= 0
            U[i, j] = max(U[i, j], 2)
        }
    }
}"""


def test_a_predicate_that_reads_what_other_iterations_write_keeps_their_order():
    words = "may read elements of `U` that it writes in another iteration"
    refused(GUARDED.replace("GUARD", "j % 4, i"), "reorder(b.j, b.i)", "MS308", words)


def test_a_predicate_that_reads_the_element_of_its_own_iteration():
    accepted(GUARDED.replace("GUARD", "i, j"), "reorder(b.j, b.i)")
