"""What other blocks read of a block that moves: they find the same values there, or the move is refused."""

from __future__ import annotations

import pytest

from mslang.ir.print import print_program
from mslang.ir.verify import verify
from mslang.sema.program import parse_program
from tests.unit.transform.test_instances import accepted, refused, refuses, scheduled

RUNNING = """program t(X: i32[4, 6], out O: i32[4, 6], out Z: i32[6]) {
    alloc T: i32[4]
    for l in 6 {
        for i in 4 { block r[x: 4 = i | y: 6 = l] { init { T[x] = 0 } T[x] = T[x] + X[x, y] } }
        for j in 4 { block w[x: 4 = j, y: 6 = l] { O[x, y] = T[READ] } }
    }
    for m in 6 { block z[x: 6 = m] { Z[x] = X[0, x] } }
}"""


@pytest.mark.parametrize("read", ["x", "3 - x", "0"])
@pytest.mark.parametrize(
    "schedule",
    [
        "let c = r.reindex_cache_read(X, local, fn (p, q) -> [q, p]) r.reverse_compute_at(c.LOOP)",
        "let c = r.cache_read(X, local) r.reverse_compute_at(c.ax0)",
        "let c = r.cache_read(X, local) r.reverse_compute_at(c.ax1, index = 1)",
        "let c = r.reindex(X) r.reverse_compute_at(c.y)",
    ],
)
def test_a_running_reduction_does_not_leave_its_readers(read: str, schedule: str):
    p, s = RUNNING.replace("READ", read), schedule.replace("LOOP", "y")
    refused(p, s, "MS320", "block `w` reads `T` under loop `l`", "accumulates along it")


def test_a_padded_running_reduction_does_not_leave_its_readers():
    refused(RUNNING.replace("READ", "x"), "r.pad_einsum([3, 1]) r.reverse_compute_at(X_pad.ax1)", "MS320", "loop `l`")


def test_a_reduction_that_is_complete_in_each_iteration_may_leave_its_readers():
    p = """program t(A: i32[4], B: i32[4, 5], out O: i32[6, 4]) {
        alloc C: i32[4]
        alloc T: i32[4]
        block c[x: 4] { C[x] = A[x] }
        for l in 6 {
            for i in 4, k in 5 { block r[x: 4 = i | y: 5 = k] { init { T[x] = 0 } T[x] = T[x] + B[x, y] * C[x] } }
            for j in 4 { block w[x: 4 = j, y: 6 = l] { O[y, x] = T[x] } }
        }
    }"""
    accepted(p, "r.reverse_compute_at(c.x)")


ONE_ELEMENT = """program t(A: i32[7], out O: i32[7, 4]) {
    alloc T: i32[DEPTH]
    alloc C: i32[7]
    for k in 7 { block c[x: 7 = k] { C[x] = A[x] } }
    for i in 7 {
        block a[x: 7 = i] { T[INDEX] = C[x] }
        for j in 4 { block b[x: 7 = i, y: 4 = j] { O[x, y] = T[INDEX] } }
    }
}"""


@pytest.mark.parametrize("depth, index", [("1", "0"), ("2", "x % 2"), ("4", "x // 2")])
def test_instances_that_write_the_same_element_stay_with_their_readers(depth: str, index: str):
    p = ONE_ELEMENT.replace("DEPTH", depth).replace("INDEX", index)
    if index != "0":
        refuses(p, "a.reverse_compute_at(c.x)", "MS332")
        return
    words = ("block `b` reads `T` under loop `i`", "several instances of block `a` may write the same element")
    refused(p, "a.reverse_compute_at(c.x)", "MS320", *words)
    refused(p, "a.compute_at(b.y)", "MS320", *words)


@pytest.mark.parametrize("index", ["x", "6 - x"])
def test_instances_that_write_elements_of_their_own_may_leave(index: str):
    accepted(ONE_ELEMENT.replace("DEPTH", "7").replace("INDEX", index), "a.reverse_compute_at(c.x)")


def test_a_reader_does_not_leave_a_loop_that_overwrites_what_was_there_before_it():
    p = """program t(inout U: i32[7], X: i32[7], inout V: i32[7, 7], out Z: i32[7]) {
        for l in 7 { block p[i: 7 = l] { U[i] = X[i] } }
        for l in 7 {
            for k in 5 { block u[x: 7 = l | k: 5 = k] { U[x] = i32(x) * 3 } }
            for m in 7 { block w[x: 7 = l, y: 7 = m] { V[x, y] = U[INDEX] } }
        }
        for l in 7 { block z[i: 7 = l] { Z[i] = X[i] } }
    }"""
    late = p.replace("INDEX", "6 - y")
    accepted(late, "let c = w.cache_read(U)")
    refused(late, "w.reverse_compute_at(z.i, index = 0)", "MS320", "are provably written before")
    accepted(p.replace("INDEX", "x"), "w.reverse_compute_at(z.i, index = 0)")


def test_a_predicate_that_changes_with_a_loop_changes_a_reduction():
    p = """program t(X: i32[4, 6], out O: i32[4, 3]) {
        alloc C: i32[4]
        alloc T: i32[4]
        block c[x: 4] { C[x] = X[x, 0] }
        for l in 3 {
            for i in 4, k in 6 {
                block r[x: 4 = i | y: 6 = k] {
                    where k < l * 2 + 1
                    init { T[x] = 0 }
                    T[x] = T[x] + X[x, y] + C[x]
                }
            }
            for j in 4 { block w[x: 4 = j, y: 3 = l] { O[x, y] = T[x] } }
        }
    }"""
    refuses(p, "r.reverse_compute_at(c.x)", "MS3")


def test_an_if_of_the_body_does_not_narrow_what_an_init_writes():
    p = """program t(inout U: i32[8, 8]) {
        for k in 2, i in 8, j0 in 3, j1 in 3 {
            block r[i: 8 = i, j: 8 = j0 * 3 + j1 | k: 2 = k] {
                where j0 * 3 + j1 < 8
                init { U[i, j] = 3 }
                if j < 2 { U[i, j] = U[i, j] + 1 }
            }
        }
    }"""
    accepted(p, "let c = r.cache_write(U, local)")
    p = """program t(inout U: i32[4]) {
        for i in 4, k in 4 {
            block r[x: 4 = i | y: 4 = 3 - k] { init { U[x] = U[max(x - 1, 0)] } if x < 1 { U[x] = 1 } }
        }
    }"""
    refused(p, "let c, d = r.cache_inplace(U, local)", "MS332", "it is not known which part of `U`")


@pytest.mark.parametrize("schedule", ["", "let f = fuse(r.k, r.i)"])
def test_an_init_that_never_runs_is_not_moved(schedule: str):
    p = """program t(inout U: i32[5], X: i32[5, 4]) {
        for l in START..4, i in 5 {
            block r[i: 5 = i | k: 4 = l] { init { U[i] = 0 } U[i] = U[i] + X[i, k] }
        }
    }"""
    at = "f" if schedule else "r.loops()[0]"
    words = "does not provably begin at 0"
    refused(p.replace("START", "1"), f"{schedule} let o = r.decompose_reduction({at})", "MS313", words)
    accepted(p.replace("START", "0"), f"{schedule} let o = r.decompose_reduction({at})")


def test_a_copy_of_a_view_copies_what_the_block_declares():
    p = """program t(X: i32[6, 5], out O: i32[6, 3]) {
        for l in 6 {
            block o[i: 6 = l] {
                view V: i32[5] = X[i, 0..5]
                reads X[i, 1..4]
                writes O[i, 0..3]
                for m in 3 { block n[x: 6 = i, y: 3 = m] { O[x, y] = V[(y + 5) % 3 + 1] } }
            }
        }
    }"""
    accepted(p, "let c = n.cache_read(V, local)")


def test_a_box_that_cannot_be_bounded_is_a_refusal():
    p = """program t(inout U: i32[4, 2]) {
        alloc T: i32[4] @ local
        for i in 4 { block m[i: 4 = i] { T[i] = 1 } }
        for l in 4, k in 2 { block b[i: 4 = l, j: 2 = (k + 1) % 2] { U[i, j] = min(T[j + 2], T[max(i - 1, 0)]) } }
    }"""
    accepted(p, "m.compute_at(b.i) let size ~ choose([2, 6]) let a, c = m.i.split([size, _])")


def test_a_block_whose_predicate_alone_reads_is_not_inlined_into_its_producer():
    p = """program t(X: i32[4], out O: i32[4]) {
        alloc T: i32[4]
        block a[i: 4] { T[i] = X[i] }
        block w[i: 4] { where T[i] > 0 O[i] = X[i] }
    }"""
    refused(p, "w.reverse_compute_inline()", "MS341", "the body of block `w` reads nothing that block `a` writes")


def test_loops_without_iterations():
    copied = """program t(X: i32[4], inout U: i32[6]) {
        for l in 0 { block p[i: 6 = l] { U[i] = X[i - 1] } }
    }"""
    after = scheduled(copied, "let c = p.cache_read(X, local)")[1]
    assert verify(after) == () and parse_program(print_program(after)) == after
    partitioned = """program t(X: i32[4, 3], inout T: i32[4, 3]) {
        for i in 4, j in 3 { block s[x: 4 = i, y: 3 = j] { where x < 1 T[x, y] = X[x, y] } }
    }"""
    steps = "let d ~ choose([2, 3]) let u = s.x.loop_partition([d]) let c = s_1.cache_write(T)"
    after = scheduled(partitioned, steps)[1]
    assert parse_program(print_program(after)) == after
    accepted(partitioned, steps)


def test_a_buffer_without_elements_is_not_made():
    p = """program t(X: i32[4, 7], inout O: i32[4]) {
        for i in 4, k in 0 { block r[x: 4 = i | y: 7 = k] { init { O[x] = 0 } O[x] = O[x] + X[x, y] } }
    }"""
    refused(p, "let f = r.y.rfactor(axis = -1)", "MS321", "would have no elements")


def test_what_an_inner_reduction_updates_is_read():
    p = """program t(X: i32[4], F: i32[2], inout U: i32[6]) {
        for i in 6, k in 4 {
            block r[x: 6 @ opaque = i | y: 4 = k] {
                init { if F[1] > 0 { U[x] = 0 } }
                U[x] = U[x] + U[5 - x] * X[y]
            }
        }
    }"""
    parts = "let a, b = r.x.loop_partition([_, 2]) let e = r.cache_read(X, local, consumers = [r])"
    accepted(p, f"{parts} let o = blockize([e, r]) let c, d = o.cache_inplace(U)")


def test_a_hull_that_holds_more_than_is_accessed_is_no_fault():
    p = """program t(X: i32[17], out U: i32[5]) {
        for l in 5 { block x[i: 5 = l] { U[i] = X[(i * 3 + 1) // 4] } }
    }"""
    accepted(p, "let o = x.i.blockize() let a, b = x.i.loop_partition([_, 4])")


def test_what_a_guard_leaves_out_is_not_accessed():
    """Pair 42136 of `stages`, seed 34: the last iterations of both tiles are beyond the extents."""
    p = """program t(A: i32[8, 6], out U: i32[48]) {
        alloc T: i32[48]
        for i in 8, j in 6 { block x[i: 8 = i, j: 6 = j] { T[i * 6 + j] = A[i, j] } }
        for k in 48 { block y[k: 48 = k] { U[k] = A[k // 6, k % 6] } }
    }"""
    steps = "let t, u = x.j.split([2, 4]) let a, b = x.i.loop_partition([_, 1])"
    accepted(p, f"{steps} let o = blockize([x, x_1]) let c, d = a.split([3, 3])")


def test_a_copy_inside_a_block_that_makes_no_promise_makes_none():
    p = """program t(out O: i32[6, 3]) {
        alloc T: i32[3]
        for l in 6 {
            for i in 3 { block a[x: 6 @ opaque = l, y: 3 = i] { T[y] = i32(x) } }
            for j in 3 { block w[x: 6 = l, y: 3 = j] { O[x, y] = T[y] } }
        }
    }"""
    staged = "let c = w.read_at(w.y, T, local) let o = c.loops()[2].blockize()"
    accepted(p, f"{staged} let d = c.reindex(o.writes()[0], access = write)")
    accepted(p, f"{staged} let d = c.cache_read(T, local)")
    accepted(p, f"{staged} let d = c.cache_write(o.writes()[0], local)")


GIVEN = """program t(X: i32[6, 4], DIRECTION U: i32[4], out T: i32[4, 4], out Z: i32[6]) {
    for m in 6 { block z[x: 6 = m] { Z[x] = X[x, 0] } }
    for l in 4 {
        block u[x: 4 = l] { U[x] = 1 }
        for j in 4 { block w[x: 4 = l, y: 4 = j] { T[x, y] = U[READ] } }
    }
}"""


def test_a_reader_of_what_was_there_before_keeps_it():
    p = GIVEN.replace("DIRECTION", "inout").replace("READ", "y")
    refused(p, "u.reverse_compute_at(z.x, index = 0)", "MS3", "U")


def test_a_reader_of_what_its_own_iteration_writes():
    accepted(GIVEN.replace("DIRECTION", "inout").replace("READ", "x"), "u.reverse_compute_at(z.x, index = 0)")


FOLDED = """program t(inout U: i32[7, 7], A: i32[7, 7, 3], out O: i32[7, 8]) {
    alloc T: i32[7, 7]
    PRODUCER
    for l in 7 {
        for j in 7 { block w[x: 7 = l, y: 7 = j] { U[x, y] = T[x, y] + 1 } }
        for m in 8 { block r[x: 7 = l, y: 8 = m] { O[x, y] = U[READ] } }
    }
}"""


@pytest.mark.parametrize(
    ("producer", "schedule"),
    [
        ("block d[i: 7, j: 7] { T[i, j] = A[i, j, 0] }", "w.reverse_compute_inline()"),
        ("block d[i: 7, j: 7 | k: 3] { T[i, j] += A[i, j, k] }", "d.fuse_reduction_epilogue(w)"),
    ],
)
def test_what_is_folded_into_its_producer_does_not_leave_its_readers(producer: str, schedule: str):
    """The reader finds the old values of rows that later iterations write (campaign, seed 16, pair 7068 of
    instances)."""
    p = FOLDED.replace("PRODUCER", producer)
    refused(p.replace("READ", "y // 2, x"), schedule, "MS320", "block `r` reads `U` under loop `l`")
    accepted(p.replace("READ", "x, y // 2"), schedule)


@pytest.mark.parametrize(
    ("producer", "schedule"),
    [
        ("for k in 5 { block d[i: 7 = l, j: 5 = k] { T[j, i] = A[i, j] } }", "w.reverse_compute_inline()"),
        (
            "for k in 5, h in 3 { block d[i: 7 = l, j: 5 = k | h: 3] { T[j, i] += A[i, j] } }",
            "d.fuse_reduction_epilogue(w)",
        ),
    ],
)
def test_what_is_folded_into_its_producer_under_the_same_loop(producer: str, schedule: str):
    """The producer has its axes in another order, and more of them; it writes the same row in each iteration."""
    p = f"""program t(inout U: i32[7, 5], A: i32[7, 5], out O: i32[7, 8]) {{
        alloc T: i32[5, 7]
        for l in 7 {{
            {producer}
            for j in 5 {{ block w[x: 7 = l, y: 5 = j] {{ U[x, y] = T[y, x] + 1 }} }}
            for m in 8 {{ block r[x: 7 = l, y: 8 = m] {{ O[x, y] = U[READ, y // 2] }} }}
        }}
    }}"""
    accepted(p.replace("READ", "x"), schedule)
