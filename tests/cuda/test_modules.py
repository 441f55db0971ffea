"""Scheduled programs as CUDA C in the emulation, and what the emulation finds when a barrier is missing."""

from __future__ import annotations

import re

import numpy as np
import pytest

from mslang.diagnostics import MsError
from mslang.schedule.strategies import space_of
from mslang.sema.modules import load
from mslang.sema.program import parse_program
from tests.cuda.emulator import Emulated, why_not
from tests.cuda.modules import Made, emulate, made, run
from tests.property.judge import Case, judged, sparse_inputs

pytestmark = pytest.mark.skipif(why_not() is not None, reason=str(why_not()))

GEMM = """program p(A: f32[20, 24], B: f32[24, 32], out C: f32[20, 32]) {
    block mm[i: 20, j: 32 | k: 24] { C[i, j] += A[i, k] * B[k, j] }
}
schedule s for p {
    let cl = mm.cache_write(C, "local")
    let i0, i1 = mm.i.split([_, 8])
    let j0, j1 = mm.j.split([_, 16])
    let k0, k1 = mm.k.split([_, 8])
    reorder(i0, j0, i1, j1, k0, k1)
    i0.bind(blockIdx.y)
    j0.bind(blockIdx.x)
    i1.bind(threadIdx.y)
    j1.bind(threadIdx.x)
    cl.reverse_compute_at(j1)
    let b = mm.cache_read(B, "shared")
    b.compute_at(k0)
    let y0, y1 = b.ax0.split([_, 8])
    let x0, x1 = b.ax1.split([_, 16])
    y1.bind(threadIdx.y)
    x1.bind(threadIdx.x)
}
"""

SUM = """program p(A: f32[5, 100], out S: f32[5]) {
    block sum[i: 5 | k: 100] { S[i] += A[i, k] }
}
schedule s for p {
    let k0, k1 = sum.k.split([_, 64])
    sum.i.bind(blockIdx.x)
    k1.bind(threadIdx.x)
}
"""

ATOMIC = """program p(A: f32[5, 100], out S: f32[5]) {
    block sum[i: 5 | k: 100] { S[i] += A[i, k] }
}
schedule s for p {
    let zero = sum.decompose_reduction(sum.i)
    zero.i.bind(threadIdx.x)
    sum.atomic()
    let k0, k1 = sum.k.split([_, 32])
    sum.i.bind(blockIdx.y)
    k0.bind(blockIdx.x)
    k1.bind(threadIdx.x)
}
"""

AFTER_SUM = """program p(A: u32[3, 64], inout U: u32[3]) {
    alloc T: u32[3]
    block sum[i: 3 | k: 64] { T[i] += A[i, k] }
    block add[i: 3 | l: 4] { init {} U[i] += T[i] }
}
schedule s for p {
    add.i.bind(blockIdx.x)
    sum.compute_at(add.i)
    sum.set_scope(T, local)
    sum.k.bind(threadIdx.x)
}
"""
"""All threads have the sum, and one of them must add it to what is there (seed 904, pair 51 of `instances`)."""

ATOMIC_AFTER_SUM = """program p(A: u32[6, 64], inout U: u32[3]) {
    alloc T: u32[6]
    block sum[i: 6 | k: 64] { T[i] += A[i, k] }
    block add[l: 3 | i: 6] { init {} U[l] += T[i] }
}
schedule s for p {
    add.atomic()
    reorder(add.i, add.l)
    add.i.bind(blockIdx.x)
    sum.compute_at(add.i)
    sum.set_scope(T, local)
    sum.k.bind(threadIdx.x)
}
"""

COUNTS = """program p(I: i32[8], inout U: i32[7]) {
    block add[| i: 8] { init {} U[i64(I[i]) % 7] += I[(i + 1) % 8] }
}
schedule s for p {
    add.atomic()
    let i0, i1 = add.i.split([_, 5])
    i0.bind(blockIdx.x)
    i1.bind(threadIdx.x)
}
"""
"""Each thread adds to an element of its own, so there is nothing that threads combine (seed 37, pair 723)."""

SMALLEST = ATOMIC.replace("{ S[i] += A[i, k] }", "{ init { S[i] = inf } S[i] = min(S[i], A[i, k]) }")


def scheduled(text: str) -> Made:
    return made(space_of(load("gpu.ms", text), "s").sample(0).program)


@pytest.mark.parametrize("text", [GEMM, SUM, ATOMIC, SMALLEST, AFTER_SUM, ATOMIC_AFTER_SUM, COUNTS])
def test_results_are_those_of_the_interpreter(text: str):
    m = scheduled(text)
    arrays = sparse_inputs(m.program, 3)
    (expected,) = judged(m.program, [Case(arrays)]).wanted
    ran = emulate(m.program, arrays)
    assert ran.faults == () and ran.harmless == ()
    for name, array in expected.items():
        assert np.array_equal(array, ran.results[name])


def test_a_negated_vector_is_negated_lane_by_lane():
    p = parse_program("""program p(A: f32[128], out B: f32[128]) {
        for b in 64 @ threadIdx.x, c in 2 @ vectorized { block n[i: 128 = b * 2 + c] { B[i] = -A[i] } }
    }""")
    arrays = sparse_inputs(p, 1)
    ran = emulate(p, arrays)
    assert ran.faults == () and np.array_equal(ran.results["B"], -arrays["A"])


def test_without_being_atomic_the_updates_of_blocks_would_race():
    m = scheduled(ATOMIC)
    source = m.source.text
    assert source.count("atomicAdd") == 1
    plain = re.sub(r"atomicAdd\(&(.*?), (.*)\);", r"\1 = \1 + \2;", source)
    with Emulated(plain) as file:
        assert "race of blocks" in {f.kind for f in run(m, sparse_inputs(m.program, 3), file).faults}


@pytest.mark.parametrize("text", [GEMM, SUM])
def test_each_barrier_is_needed(text: str):
    m = scheduled(text)
    arrays = sparse_inputs(m.program, 3)
    barriers = [n for n, line in enumerate(m.source.text.split("\n"), 1) if re.search(r"__syncthreads\(\)", line)]
    assert barriers
    with Emulated(m.source.text) as file:
        for line in barriers:
            assert "race" in {f.kind for f in run(m, arrays, file, ignored_lines=[line]).faults}, line


def test_a_remainder_runs_where_its_loop_of_blocks_is_empty():
    """M // 6 blocks are none for M = 1: the launch has one all the same, for the rest."""
    p = parse_program("""program p[M: dyn(1..9)](A: f32[M], out B: f32[M]) {
        for o in 1 @ blockIdx.y {
            for i in M // 6 @ blockIdx.x, j in 6 { block a[x: M = i * 6 + j] { B[x] = A[x] } }
            for t in M % 6 { block b[x: M = M // 6 * 6 + t] { B[x] = A[x] } }
        }
    }""")
    for m in (1, 6, 8):
        a = np.arange(m, dtype=np.float32)
        ran = emulate(p, {"A": a}, sizes={"M": m})
        assert ran.faults == () and np.array_equal(ran.results["B"], a)


def test_threads_start_from_all_that_an_init_does():
    p = parse_program("""program p(A: f32[4, 64], out S: f32[4]) {
        for i in 4, k in 64 @ threadIdx.x {
            block s[x: 4 = i | y: 64 = k] {
                init { S[x] = 0.0 if x < 2 { S[x] = 1.0 } }
                S[x] += A[x, y]
            }
        }
    }""")
    arrays = sparse_inputs(p, 3)
    ran = emulate(p, arrays)
    (expected,) = judged(p, [Case(arrays)]).wanted
    assert ran.faults == () and np.array_equal(expected["S"], ran.results["S"])


TWO_SUMS = """program p(A: f32[4, 4], out V: f32[4]) {
    alloc s: f32[4] @ local
    alloc q: f32[4] @ {scope}
    for o in 1 @ blockIdx.x {
    for i in 4, k in 4 @ threadIdx.x {
        block sums[x: 4 = i | y: 4 = k] {
            init {
                s[x] = {start}
                q[x] = 0.0
            }
            let a = s[x] + A[x, y]
            let c = q[x] + A[x, y] * A[x, y]
            s[x] = a
            q[x] = c
        }
    }
    for i in 4 @ threadIdx.x { block both[x: 4 = i] { V[x] = q[x] * 4.0 - s[x] * s[x] } }
    }
}"""


@pytest.mark.parametrize("scope", ["global", "shared", "local"])
def test_a_result_of_each_thread_next_to_one_that_they_share(scope: str):
    """Pair 1342 of seed 6: only the first thread had its sum, as the other result was for one thread to store."""
    p = parse_program(TWO_SUMS.replace("{scope}", scope).replace("{start}", "0.0"))
    arrays = sparse_inputs(p, 3)
    ran = emulate(p, arrays)
    (expected,) = judged(p, [Case(arrays)]).wanted
    assert ran.faults == () and np.array_equal(expected["V"], ran.results["V"])


def test_such_results_are_not_combined_with_what_an_init_stores():
    p = parse_program(TWO_SUMS.replace("{scope}", "global").replace("{start}", "1.0"))
    with pytest.raises(MsError) as caught:
        emulate(p, sparse_inputs(p, 3))
    assert caught.value.diagnostic.code == "MS435"
    assert "each thread has a `s` of its own, they share `q`" in (caught.value.diagnostic.why or "")


OWN = """program p(out B: i32[7]) {
    for b in 0..1 @ blockIdx.x, t in 0..7 @ threadIdx.x {
        block u[i: 7 = t] {
            alloc T: i32[8]
            alloc at: i32[1]
            at[0] = 4
            T[i64(at[0])] = i32(i)
            at[0] = 0
            T[i64(at[0])] = 9
            at[0] = 4
            B[i] = T[i64(at[0])]
        }
    }
}"""


def test_what_a_block_allocates_is_that_of_one_thread() -> None:
    program = parse_program(OWN)
    m = made(program)
    assert not m.module.workspaces and "__shared__" not in m.source.text
    ran = emulate(program, {})
    assert ran.results["B"].tolist() == list(range(7)) and not ran.faults


def test_what_a_block_of_several_threads_allocates_is_not_in_global_memory() -> None:
    text = """program p(A: i32[2, 4], out B: i32[2, 4]) {
        for b in 0..2 @ blockIdx.x {
            block o[i: 2 = b] {
                alloc T: i32[4]
                for t in 0..4 @ threadIdx.x { block x[r: 2 = i, j: 4 = t] { T[j] = A[r, j] } }
                for u in 0..4 @ threadIdx.x { block y[r: 2 = i, j: 4 = u] { B[r, j] = T[3 - j] } }
            }
        }
    }"""
    with pytest.raises(MsError, match=r"MS437.*`T` of block `o` is in global memory"):
        made(parse_program(text))
    a = np.arange(8, dtype=np.int32).reshape(2, 4)
    ran = emulate(parse_program(text.replace("i32[4]\n", "i32[4] @ shared\n")), {"A": a})
    assert (ran.results["B"] == a[:, ::-1]).all() and not ran.faults


def test_a_loop_runs_as_long_as_its_bounds_said_before_it() -> None:
    program = parse_program("""program p(inout N: i32[4], inout U: i32[4, 3]) {
        for t in 0..4 @ threadIdx.x {
            block k[x: 4 = t] {
                for q in i64(N[x] % 2)..min(i64(max(N[x], 0)), 3) { U[x, q] = U[x, q] + 1  N[x] = 0 }
            }
        }
    }""")
    ran = emulate(program, {"N": np.array([0, 1, 2, 9], np.int32), "U": np.zeros((4, 3), np.int32)})
    assert ran.results["U"].tolist() == [[0, 0, 0], [0, 0, 0], [1, 1, 0], [0, 1, 1]]
    assert ran.results["N"].tolist() == [0, 1, 0, 0] and not ran.faults
