"""Lowering: where buffers go and how large they are, which guards stay, where loops are cut."""

from __future__ import annotations

import numpy as np
import pytest

from mslang.backend.reference import interpret
from mslang.ir import program as ir
from mslang.ir import visit
from mslang.ir.build import ProgramBuilder, reduce, spatial
from mslang.ir.expr import Const
from mslang.ir.operators import select
from mslang.ir.program import Program
from mslang.kernel.nodes import Allocate, For, If, Module, Stmt, While
from mslang.kernel.print import print_module
from mslang.kernel.visit import walk
from mslang.lower.passes import LOOPS, lower
from mslang.schedule.replay import space_of_text
from mslang.sema.program import parse_program
from mslang.target.description import GENERIC
from tests.unit.llvm.support import loaded, run
from tests.unit.lower.programs import packed_gemm


def lowered(program: Program) -> Module:
    return lower(program, GENERIC, passes=LOOPS)


def found(kernel: Module, kind: type[Stmt]) -> list[Stmt]:
    return [s for s in walk(kernel.body) if isinstance(s, kind)]


def shape_of(kernel: Module, buffer: str) -> set[tuple[int, ...]]:
    return {
        tuple(int(e.value) for e in s.buffer.shape if isinstance(e, Const))
        for s in walk(kernel.body)
        if isinstance(s, Allocate) and s.buffer.name == buffer
    }


# ------------------------------------------------------------------ buffers
def test_buffers_shrink_to_what_is_touched_at_their_place():
    kernel = lowered(packed_gemm(60, 256, 32))
    assert shape_of(kernel, "L") == {(6, 64)}
    assert shape_of(kernel, "P") == {(1, 32, 64)}


def test_a_stencil_keeps_its_halo():
    b = ProgramBuilder("blur")
    x, y, t = b.input("X", (64,)), b.output("Y", (62,)), b.alloc("T", (64,))
    with b.loop("o", 31) as o:
        with b.loop("p", 4) as p, b.block("t", spatial("i", 64, at=o * 2 + p)) as (i,):
            t[i] = x[i] * 2.0
        with b.loop("q", 2) as q, b.block("y", spatial("i", 62, at=o * 2 + q)) as (i,):
            y[i] = t[i] + t[i + 1] + t[i + 2]
    program = b.finish()
    assert shape_of(lowered(program), "T") == {(4,)}
    data = np.arange(64, dtype=np.float32)
    assert np.array_equal(run(program, data), 2 * (data[:-2] + data[1:-1] + data[2:]))


def test_what_a_reduction_carries_stays_outside_of_its_loop():
    b = ProgramBuilder("sums")
    x, y, t = b.input("X", (4, 8)), b.output("Y", (4,)), b.alloc("T", (4,))
    with b.loop("k0", 8) as k0, b.loop("i0", 4) as i0:
        with b.block("t", spatial("i", 4, at=i0), reduce("k", 8, at=k0)) as (i, k):
            t[i] += x[i, k]
    with b.loop("i1", 4) as i1, b.block("y", spatial("i", 4, at=i1)) as (i,):
        y[i] = t[i]
    data = np.arange(32, dtype=np.float32).reshape(4, 8)
    assert np.array_equal(run(b.finish(), data), data.sum(1))


def test_what_a_recurrence_carries_is_not_shrunk_away():
    """Each iteration reads what the one before wrote: the buffer must outlive an iteration."""
    b = ProgramBuilder("running")
    x, y, t = b.input("X", (9,)), b.output("Y", (9,)), b.alloc("T", (10,))
    with b.block("start", spatial("z", 1)) as (z,):
        t[z] = 0.0
    with b.loop("i0", 9) as i0, b.block("step", spatial("i", 9, at=i0)) as (i,):
        t[i + 1] = t[i] + x[i]
    with b.loop("i1", 9) as i1, b.block("y", spatial("i", 9, at=i1)) as (i,):
        y[i] = t[i + 1]
    data = np.arange(9, dtype=np.float32)
    assert np.array_equal(run(b.finish(), data), np.cumsum(data))


def test_a_buffer_under_a_parallel_loop_is_private():
    kernel = lowered(packed_gemm(60, 256, 32, parallel=True))
    (loop,) = (s for s in found(kernel, For) if isinstance(s, For) and s.kind == "parallel")
    assert {s.buffer.name for s in walk(loop.body) if isinstance(s, Allocate)} == {"P", "L"}
    assert not [s for s in kernel.body if isinstance(s, Allocate)]


# ------------------------------------------------------------------ guards
@pytest.mark.parametrize("sizes", [(60, 128, 16), (61, 128, 16), (64, 100, 16), (5, 3, 2), (13, 65, 7)])
def test_tails_are_cut_off_so_that_no_branch_is_left(sizes: tuple[int, int, int]):
    m, n, k = sizes
    program = packed_gemm(m, n, k)
    assert not found(lowered(program), If)
    random = np.random.default_rng(0)
    a, b = (random.integers(-3, 4, shape).astype(np.float32) for shape in ((m, k), (k, n)))
    assert np.array_equal(run(program, a, b), a @ b)
    assert np.array_equal(run(program, a, b, checked=True), a @ b)


def test_a_parallel_loop_is_not_cut_in_two():
    kernel = lowered(packed_gemm(13, 130, 7, parallel=True))
    assert len([s for s in found(kernel, For) if isinstance(s, For) and s.kind == "parallel"]) == 1
    program = packed_gemm(13, 130, 7, parallel=True)
    a, b = np.ones((13, 7), np.float32), np.ones((7, 130), np.float32)
    assert np.array_equal(run(program, a, b), a @ b)


def test_init_is_done_before_the_reduction():
    b = ProgramBuilder("sum")
    x, y = b.input("X", (4, 16)), b.output("Y", (4,))
    with b.loop("i0", 4) as i0, b.loop("ko", 4) as ko, b.loop("ki", 4) as ki:
        with b.block("y", spatial("i", 4, at=i0), reduce("k", 16, at=ko * 4 + ki)) as (i, k):
            y[i] += x[i, k]
    program = b.finish()
    assert print_module(lowered(program)).count("for") == 3
    assert not found(lowered(program), If)
    data = np.arange(64, dtype=np.float32).reshape(4, 16)
    assert np.array_equal(run(program, data), data.sum(1))


def test_init_under_an_inner_loop_is_peeled_with_the_first_iteration():
    b = ProgramBuilder("sum")
    x, y = b.input("X", (8, 4)), b.output("Y", (4,))
    with b.loop("k0", 8) as k0, b.loop("i0", 4, kind="vectorized") as i0:
        with b.block("y", spatial("i", 4, at=i0), reduce("k", 8, at=k0)) as (i, k):
            y[i] += x[k, i]
    program = b.finish()
    assert not found(lowered(program), If)
    data = np.arange(32, dtype=np.float32).reshape(8, 4)
    assert np.array_equal(run(program, data), data.sum(0))


def test_padding_becomes_border_and_interior():
    b = ProgramBuilder("pad")
    x, y = b.input("X", (30,)), b.output("Y", (34,))
    with b.loop("i0", 34) as i0, b.block("y", spatial("i", 34, at=i0)) as (i,):
        y[i] = select((i >= 2) & (i < 32), x[i - 2], 0.0)
    program = b.finish()
    kernel = lowered(program)
    assert "select" not in print_module(kernel)
    data = np.arange(30, dtype=np.float32)
    assert np.array_equal(run(program, data), np.pad(data, 2))


def test_unit_loops_and_dead_statements_go():
    b = ProgramBuilder("small")
    x, y = b.input("X", (4,)), b.output("Y", (4,))
    with b.loop("u", 1) as u, b.loop("i0", 4) as i0, b.block("y", spatial("i", 4, at=i0 + u), where=i0 < 4) as (i,):
        y[i] = x[i]
    with b.loop("i1", 4) as i1, b.block("never", spatial("i", 4, at=i1), where=i1 > 7) as (i,):
        y[i] = 0.0
    kernel = lowered(b.finish())
    assert print_module(kernel) == (
        "kernel small(X: f32[4], out Y: f32[4]) {\n    for i0 in 0..4 {\n        Y[i0] = X[i0]\n    }\n}\n"
    )


def test_loops_that_never_run_touch_nothing():
    p = parse_program("""program p(A: f32[2], out B: f32[2]) {
        alloc T: f32[2]
        block a[i: 2] { T[i] = A[i] }
        block b[i: 2] { B[i] = T[i] + 1.0 }
    }""")
    text = """schedule s for p {
        let t, x, y = b.i.split([_, 2, 2], tail = peel)
        let y0, y1 = y.loop_partition([1])
        let x0, x1 = x.loop_partition([1])
        b.reindex(T)
    }"""
    made = space_of_text(text, p).sample(0).program
    assert any(
        int(s.extent.value) <= 0 for s in visit.walk(made.body) if isinstance(s, ir.For) and isinstance(s.extent, Const)
    )
    assert all(n > 0 for shape in shape_of(lowered(made), "T_reindex_1") for n in shape)
    given, out = np.arange(2, dtype=np.float32), np.zeros(2, np.float32)
    run(made, given, out)
    assert np.array_equal(out, given + 1)


def test_a_guard_on_a_dynamic_size_stays_and_holds():
    b = ProgramBuilder("copy")
    m = b.dynamic("M", 1, 100)
    x, y = b.input("X", (m,)), b.output("Y", (m,))
    with b.loop("io", (m + 7) // 8) as io, b.loop("ii", 8, kind="vectorized") as ii:
        with b.block("y", spatial("i", m, at=io * 8 + ii), where=io * 8 + ii < m) as (i,):
            y[i] = x[i] + 1.0
    kernel = loaded(b.finish())
    for count in (1, 7, 8, 9, 100):
        data = np.arange(count, dtype=np.float32)
        assert np.array_equal(kernel(data), data + 1)


# ------------------------------------------------------------------ vector loops
@pytest.mark.parametrize("count", [1, 2, 3, 7, 15, 16, 17, 31, 61, 64, 100, 1000])
@pytest.mark.parametrize("dtype", ["f32", "f64", "i8"])
def test_vector_loops_of_any_length(count: int, dtype: str):
    b = ProgramBuilder("mixed")
    x, y = b.input("X", (count + 1, 3), dtype), b.output("Y", (2, count), dtype)
    with b.loop("i0", count, kind="vectorized") as i0:
        with b.block("y", spatial("i", count, at=i0)) as (i,):
            y[0, i] = x[i, 1] + x[count - i, 0]
        with b.block("z", spatial("i", count, at=i0)) as (i,):
            y[1, count - 1 - i] = select(i % 3 < 1, x[i // 2, i % 3], x[0, 2])
    program = b.finish()
    random = np.random.default_rng(count)
    data = random.integers(-3, 4, (count + 1, 3)).astype({"f32": np.float32, "f64": np.float64, "i8": np.int8}[dtype])
    wanted = interpret.run(program, {"X": data})["Y"]
    assert np.array_equal(run(program, data), wanted)


def test_a_vector_loop_around_a_reduction_keeps_its_lanes_in_registers():
    b = ProgramBuilder("sums")
    x, y, t = b.input("X", (20, 48)), b.output("Y", (48,)), b.alloc("T", (48,), scope="local")
    with b.loop("j0", 48, kind="vectorized") as j0:
        with b.loop("k0", 20) as k0, b.block("t", spatial("j", 48, at=j0), reduce("k", 20, at=k0)) as (j, k):
            t[j] += x[k, j]
        with b.block("y", spatial("j", 48, at=j0)) as (j,):
            y[j] = t[j]
    data = np.arange(960, dtype=np.float32).reshape(20, 48)
    assert np.array_equal(run(b.finish(), data), data.sum(0))


def test_a_condition_that_a_loop_does_not_change_is_asked_outside_of_it():
    """The rows of a padded tile are read or zero; the large nest beside it is not copied for that."""
    b = ProgramBuilder("conv")
    x, y, t = b.input("X", (32, 16)), b.output("Y", (32, 16)), b.alloc("T", (34, 16))
    with b.loop("row", 32) as row:
        with b.loop("h", 3) as h, b.loop("c", 16, kind="vectorized") as c:
            with b.block("pad", spatial("p", 34, at=row + h), spatial("q", 16, at=c)) as (p, q):
                t[p, q] = select((p >= 1) & (p < 33), x[p - 1, q], 0.0)
        with b.loop("k", 3) as k, b.loop("r", 100) as r, b.loop("d", 16, kind="vectorized") as d:
            axes = (spatial("i", 32, at=row), spatial("j", 16, at=d), reduce("n", 300, at=k * 100 + r))
            with b.block("sum", *axes) as (i, j, n):
                y[i, j] += t[i + n // 100, j]
    program = b.finish()
    kernel = lowered(program)
    text = print_module(kernel)
    assert text.count("for r in") <= 2
    assert "select" not in text
    for s in found(kernel, For):
        assert isinstance(s, For)
        assert s.kind != "vectorized" or not [x for x in walk(s.body) if isinstance(x, If)]
    data = (np.arange(512, dtype=np.float32).reshape(32, 16) % 5) - 2
    assert np.array_equal(run(program, data), interpret.run(program, {"X": data}, check=False)["Y"])


def test_a_range_of_a_parallel_loop_in_which_nothing_is_done():
    b = ProgramBuilder("late")
    y = b.inout("Y", (9,))
    with b.loop("i0", 9, kind="parallel") as i0, b.block("y", spatial("i", 9, at=i0), where=i0 >= 4) as (i,):
        y[i] = y[i] + 1.0
    data = np.zeros(9, np.float32)
    assert run(b.finish(), data).tolist() == [0] * 4 + [1] * 5


def test_what_an_iteration_leaves_as_it_was_stays_outside_of_its_loop():
    # Found by the campaign: the second iteration reads what only the first one writes.
    program = parse_program("""program p(X: u8[6], out Y: u8[1]) {
        alloc T: u8[3]
        for t in 2 {
            for i in 3 {
                block a[i: 3 = i] {
                    where t < 1
                    T[i] = X[i * 2] + X[i * 2 + 1]
                }
            }
            for j in 1 { block b[i: 1 = j] { Y[i] = T[i * 2] + T[i * 2 + 1] } }
        }
    }""")
    body = lowered(program).body
    assert isinstance(body[0], Allocate) and body[0].buffer.name == "T"
    data = np.arange(6, dtype=np.uint8)
    assert np.array_equal(run(program, data), interpret.run(program, {"X": data})["Y"])


def test_a_parallel_loop_that_does_nothing_goes():
    # Found by the campaign: its parts were empty, but there.
    program = parse_program("""program p(X: i32[4], out Y: i32[8]) {
        for i in 2, j in 8 @ parallel {
            block b[x: 1 = i, y: 8 = j] {
                where i < 1
                Y[y] = select(y >= 2 and y < 6, X[y - 2], 0)
            }
        }
    }""")
    assert [s.kind for s in found(lowered(program), For) if isinstance(s, For)] == ["parallel"]
    data = np.arange(4, dtype=np.int32)
    assert np.array_equal(run(program, data), interpret.run(program, {"X": data})["Y"])


def test_a_buffer_that_is_indexed_by_changing_data_stays_whole():
    program = parse_program("""program p(out B: i32[2]) {
        block b[] {
            alloc t: i32[8]
            alloc at: i64[1]
            at[0] = 1
            t[at[0]] = i32(5)
            at[0] = 2
            t[at[0]] = i32(7)
            B[1] = t[at[0]]
            at[0] = 1
            B[0] = t[at[0]]
        }
    }""")
    assert shape_of(lowered(program), "t") == {(8,)}
    assert run(program).tolist() == [5, 7]


def test_a_buffer_whose_part_data_measure_stays_whole():
    program = parse_program("""program p(inout N: i32[1], inout B: i32[8]) {
        block b[] {
            alloc t: i32[2, 8]
            for r in 2, q in 0..i64(N[0]) { t[r, q] = i32(q + 10 * r) }
            N[0] = i32(2)
            for r in 2, q in 0..i64(N[0]) { B[r * 4 + q] = t[r, q] }
        }
    }""")
    assert run(program, np.array([4], np.int32), np.zeros(8, np.int32))[1].tolist() == [0, 1, 0, 0, 10, 11, 0, 0]


def test_a_buffer_is_placed_outside_of_a_while_loop():
    program = parse_program("""program p(out B: i32[1]) {
        block b[] {
            alloc t: i32[1]
            alloc c: i32[1]
            c[0] = i32(0)
            while c[0] < i32(3) {
                if c[0] == i32(0) { t[0] = i32(5) }
                t[0] = t[0] + i32(1)
                B[0] = t[0]
                c[0] = c[0] + i32(1)
            }
        }
    }""")
    kernel = lowered(program)
    (loop,) = found(kernel, While)
    assert not [s for s in walk((loop,)) if isinstance(s, Allocate)]
    assert run(program).tolist() == [8]
