"""Summaries of schedules for GPUs: what the launches that are made of them have."""

from __future__ import annotations

from functools import lru_cache
from math import prod

import pytest

from mslang.diagnostics import TargetError
from mslang.ir.arith import evaluate
from mslang.ir.dtype import size_of
from mslang.ir.expr import Const
from mslang.ir.program import Program
from mslang.kernel import Allocate, Function
from mslang.kernel.visit import walk
from mslang.lower.gpu import lower
from mslang.lower.summary import Summary, numbers, summarize
from mslang.lower.symbolic import lower_symbolic
from mslang.schedule import distribution
from mslang.schedule.space import Candidate
from mslang.schedule.strategies import space_of
from mslang.sema.modules import load
from mslang.target.description import SM_80

GEMM = """
program mm(A: f32[32, 32], B: f32[32, 32], out C: f32[32, 32]) {
    block mm[i: 32, j: 32 | k: 32] { C[i, j] += A[i, k] * B[k, j] }
}
schedule s for mm {
    let ti ~ perfect_tile(mm.i, 4)
    let tj ~ perfect_tile(mm.j, 4)
    let tk ~ perfect_tile(mm.k, 2)
    let i0, i1, i2, i3 = mm.i.split(ti)
    let j0, j1, j2, j3 = mm.j.split(tj)
    let k0, k1 = mm.k.split(tk)
    reorder(i0, j0, i1, j1, i2, j2, k0, k1, i3, j3)
    i0.bind(blockIdx.y)
    j0.bind(blockIdx.x)
    i1.bind(vthread.y)
    j1.bind(vthread.x)
    i2.bind(threadIdx.y)
    j2.bind(threadIdx.x)
    let c = mm.cache_write(C, scope = local)
    c.reverse_compute_at(j2)
    for x in [A, B] {
        let s = mm.cache_read(x, scope = shared)
        s.compute_at(k0)
        let f = fuse(*[l for l in s.spatial_loops() if len(l.children()) == 1])
        let r, ty, tx = f.split([_, ti[2], tj[2]])
        ty.bind(threadIdx.y)
        tx.bind(threadIdx.x)
    }
    mm.decompose_reduction(k0)
}
"""
ROWS = """
program rows(A: f32[16, 64], out B: f32[16, 64]) {
    block b[i: 16, j: 64] { B[i, j] = A[i, j] * 2.0 }
}
schedule s for rows {
    let t ~ perfect_tile(b.j, 3)
    let j0, j1, j2 = b.j.split(t)
    b.i.bind(blockIdx.x)
    j1.bind(threadIdx.x)
    j2.vectorize()
}
"""
TURNED = """
program turned(A: f32[24, 64], out B: f32[24, 64]) {
    block b[i: 24, j: 64] { B[i, j] = A[i, j // 32 * 32 + 31 - j % 32] * 2.0 }
}
schedule s for turned {
    let rows ~ perfect_tile(b.i, 2)
    let i0, i1 = b.i.split(rows)
    let j0, j1 = b.j.split([_, 32])
    reorder(i0, i1, j0, j1)
    i0.bind(blockIdx.x)
    j1.bind(threadIdx.x)
    let c = b.cache_read(A, scope = warp)
    c.compute_at(i0)
    let block_of_rows, ax0, ax1 = c.spatial_loops()
    let part, lane = ax1.split([_, 32])
    lane.bind(threadIdx.x)
}
"""
SUMS = """
program sums(A: f32[6, 960], out B: f32[6]) {
    block b[i: 6 | k: 960] { B[i] += A[i, k] }
}
schedule s for sums {
    let t ~ perfect_tile(b.k, 2)
    let k0, k1 = b.k.split(t)
    b.i.bind(blockIdx.x)
    k1.bind(threadIdx.x)
}
"""
EXTREMES = """
program extremes(X: f32[8, 6, 64], out P: i32[8, 6], out V: f32[8, 6]) {
    block best[i: 8, e: 6 | j: 64] {
        init { P[i, e] = -1 V[i, e] = -inf }
        let place = select(V[i, e] > X[i, e, j] or (V[i, e] == X[i, e, j] and P[i, e] < i32(j)), P[i, e], i32(j))
        let value = select(V[i, e] > X[i, e, j], V[i, e], X[i, e, j])
        P[i, e] = place
        V[i, e] = value
    }
}
schedule s for extremes {
    let rows ~ perfect_tile(best.i, 2)
    let t ~ perfect_tile(best.j, 3)
    let i0, i1 = best.i.split(rows)
    let k0, k1, k2 = best.j.split(t)
    reorder(i0, i1, k0, k1, best.e, k2)
    i0.bind(blockIdx.x)
    i1.bind(threadIdx.y)
    k1.bind(threadIdx.x)
    k2.bind(threadIdx.z)
}
"""
OWN = """
program own(A: f32[8, 96], out B: f32[8, 96]) {
    alloc T: f32[8, 96]
    block put[i: 8, j: 96] { T[i, j] = A[i, j] }
    block get[i: 8, j: 96] { B[i, j] = T[i, j] * 2.0 }
}
schedule s for own {
    let t ~ perfect_tile(get.j, 2)
    put.set_scope(T, local)
    get.i.bind(blockIdx.x)
    put.compute_at(get.i)
    for each in [put, get] {
        let j0, j1 = each.j.split(t)
        j1.bind(threadIdx.x)
    }
}
"""


def drawn(text: str, count: int) -> list[Candidate]:
    """Valid draws of the schedule of a text."""
    space = space_of(load("gpu.ms", text), "s")
    return [c for seed in range(count) if isinstance(c := space.attempt(seed), Candidate)]


def allocated(f: Function, scope: str) -> int:
    """Bytes of the buffers of a scope that a function allocates."""
    buffers = [s.buffer for s in walk(f.body) if isinstance(s, Allocate) and s.buffer.scope == scope]
    return sum(size_of(b.dtype) * prod(int(n.value) for n in b.shape if isinstance(n, Const)) for b in buffers)


@lru_cache(maxsize=64)
def summary_of(program: Program) -> Summary:
    """What a program does; all candidates of a sketch have its parametric one."""
    return summarize(lower_symbolic(program, SM_80), SM_80)


def irregular(summary: Summary) -> list[int]:
    """The statements that access a buffer at an index that is not affine."""
    return [k for k, s in enumerate(summary.statements) if s.buffer.endswith("_shared_1")]


@pytest.mark.parametrize("text", [GEMM, ROWS, SUMS, EXTREMES, OWN])
def test_numbers_may_be_put_in_before_or_after(text: str):
    found = drawn(text, 24)
    assert found
    for c in found:
        values = distribution.plain({d.address: c.decisions[d.address] for d in c.sketch.decisions})  # type: ignore[misc]
        open_, fixed = summary_of(c.sketch.program), summary_of(c.program)
        before, after = list(numbers(open_)), list(numbers(fixed))
        assert [p for p, _ in before] == [p for p, _ in after]
        bounds = tuple(f"statements[{k}]" for k in irregular(open_))
        for (path, e), (_, known) in zip(before, after, strict=True):
            symbolic, real = evaluate(e, {}, values), evaluate(known, {})
            if path.startswith(bounds):
                # Copies shared out among threads have indices `f // n` and `f % n`: their footprints are upper bounds.
                assert symbolic >= real or "reuse" in path, path
            else:
                assert symbolic == real, path


@pytest.mark.parametrize("text", [GEMM, ROWS, TURNED, SUMS, EXTREMES, OWN])
def test_a_launch_has_what_the_summary_says(text: str):
    compared = 0
    for c in drawn(text, 12):
        try:
            (function,) = lower(c.program, SM_80).functions
        except TargetError as refused:
            assert refused.diagnostic.code == "MS436"
            continue
        (nest,) = summary_of(c.program).nests
        assert function.launch is not None
        assert nest.grid == function.launch.grid
        assert nest.block == function.launch.block
        assert nest.shared == Const(allocated(function, "shared"))
        assert nest.local == Const(allocated(function, "local"))
        compared += 1
    assert compared >= 4
