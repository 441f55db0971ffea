"""Programs whose lowered modules are kept in `tests/expect/gpu`."""

from __future__ import annotations

from collections.abc import Mapping

from mslang.ir.program import Program
from tests.unit.lower.gpu.support import program, scheduled
from tests.unit.lower.gpu.test_copies import GEMM

ELEMENTWISE = """program elementwise[N = 1000](A: f32[N], B: f32[N], out C: f32[N]) {
    for b in 8 @ blockIdx.x, t in 32 @ threadIdx.x, v in 4 @ vectorized {
        block add[i: N = b * 128 + t * 4 + v] { where b * 128 + t * 4 + v < N
            C[i] = A[i] + B[i] }
    }
}"""

TRANSPOSE = """
program transpose(A: f32[64, 48], out B: f32[48, 64]) { block t[i: 48, j: 64] { B[i, j] = A[j, i] } }
schedule s for transpose {
    let i0, i1 = t.i.split([_, 16])
    let j0, j1 = t.j.split([_, 16])
    reorder(i0, j0, i1, j1)
    i0.bind(blockIdx.y)
    j0.bind(blockIdx.x)
    let a = t.cache_read(A, scope = shared)
    a.compute_at(j0)
    a.storage_align(axis = 0, factor = 32, offset = 1)
    let x, y = [l for l in a.spatial_loops() if l != i0 and l != j0]
    x.bind(threadIdx.y)
    y.bind(threadIdx.x)
    i1.bind(threadIdx.y)
    j1.bind(threadIdx.x)
}"""

VTHREADS = """
program gemm(A: f32[64, 32], B: f32[32, 64], out C: f32[64, 64]) {
    block mm[i: 64, j: 64 | k: 32] { C[i, j] += A[i, k] * B[k, j] }
}
schedule s for gemm {
    let i0, iv, i1, i2 = mm.i.split([_, 2, 4, 4])
    let j0, jv, j1, j2 = mm.j.split([_, 2, 8, 2])
    let k0, k1 = mm.k.split([_, 8])
    reorder(i0, j0, iv, jv, i1, j1, k0, k1, i2, j2)
    let c = mm.cache_write(C, scope = local)
    c.reverse_compute_at(j1)
    i0.bind(blockIdx.y)
    j0.bind(blockIdx.x)
    iv.bind(vthread.y)
    jv.bind(vthread.x)
    i1.bind(threadIdx.y)
    j1.bind(threadIdx.x)
    for x in [A, B] {
        let s = mm.cache_read(x, scope = shared.dyn)
        s.compute_at(k0)
        let f = fuse(*[l for l in s.spatial_loops() if len(l.children()) == 1])
        let r, ty, tx, v = f.split([_, 4, 8, 2])
        ty.bind(threadIdx.y)
        tx.bind(threadIdx.x)
        v.vectorize()
    }
    mm.decompose_reduction(k0)
}"""

SOFTMAX = """program softmax(A: f32[8, 200], out C: f32[8, 200]) {
    alloc M: f32[8] @ shared
    alloc S: f32[8] @ shared
    for b in 8 @ blockIdx.x {
        for k0 in 4, t0 in 64 @ threadIdx.x {
            block m[i: 8 = b | k: 200 = k0 * 64 + t0] { where k0 * 64 + t0 < 200
                init { M[i] = f32(-inf) } M[i] = max(M[i], A[i, k]) }
        }
        for k1 in 4, t1 in 64 @ threadIdx.x {
            block s[i: 8 = b | k: 200 = k1 * 64 + t1] { where k1 * 64 + t1 < 200
                init { S[i] = 0.0 } S[i] = S[i] + exp(A[i, k] - M[i]) }
        }
        for k2 in 4, t2 in 64 @ threadIdx.x {
            block c[i: 8 = b, k: 200 = k2 * 64 + t2] { where k2 * 64 + t2 < 200
                C[i, k] = exp(A[i, k] - M[i]) / S[i] }
        }
    }
}"""

ROWS = """program rows(A: f32[6, 32], out B: f32[6]) {
    for b in 3 @ blockIdx.x, y in 2 @ threadIdx.y, t in 16 @ threadIdx.x, k in 2 {
        block s[i: 6 = b * 2 + y | r: 32 = k * 16 + t] { init { B[i] = 0.0 } B[i] = B[i] + A[i, r] }
    }
}"""

CONV = """
program conv(A: f32[16, 20], W: f32[8, 16, 3], out C: f32[8, 18]) {
    block c[f: 8, x: 18 | d: 16, r: 3] { C[f, x] += A[d, x + r] * W[f, d, r] }
}
schedule s for conv {
    let f0, f1 = c.f.split([_, 4])
    let x0, x1 = c.x.split([_, 8])
    let d0, d1 = c.d.split([_, 4])
    reorder(f0, x0, f1, x1, d0, d1)
    f0.bind(blockIdx.y)
    x0.bind(blockIdx.x)
    f1.bind(threadIdx.y)
    x1.bind(threadIdx.x)
    let a = c.cache_read(A, scope = shared)
    a.compute_at(d0)
    let flat = fuse(*[l for l in a.spatial_loops() if len(l.children()) == 1])
    let _, ty, tx = flat.split([_, 4, 8])
    ty.bind(threadIdx.y)
    tx.bind(threadIdx.x)
}"""

BATCHED = """
program batched(A: f32[4, 8, 16], B: f32[4, 16, 8], out C: f32[4, 8, 8]) {
    block mm[b: 4, i: 8, j: 8 | k: 16] { C[b, i, j] += A[b, i, k] * B[b, k, j] }
}
schedule s for batched {
    mm.b.bind(blockIdx.z)
    mm.i.bind(threadIdx.y)
    mm.j.bind(threadIdx.x)
    mm.k.unroll()
}"""

TWO_KERNELS = """program two(A: f32[64], out B: f32[64]) {
    alloc T: f32[64]
    for a in 2 @ blockIdx.x, b in 32 @ threadIdx.x { block t[i: 64 = a * 32 + b] { T[i] = A[i] * 2.0 } }
    for c in 4 @ blockIdx.x, d in 16 @ threadIdx.x { block u[i: 64 = c * 16 + d] { B[i] = T[63 - i] + 1.0 } }
}"""

UNBOUND = "program unbound(A: f32[8], out B: f32[8]) { for i in 8 { block b[x: 8 = i] { B[x] = A[x] + 1.0 } } }"

LAUNCHES = """program host(A: f32[64], inout B: f32[64]) {
    for r in 2, b in 2 @ blockIdx.x, t in 32 @ threadIdx.x {
        block s[x: 64 = b * 32 + t | k: 2 = r] { B[x] = B[x] * 0.5 + A[x] }
    }
}"""


def kept() -> Mapping[str, Program]:
    """The programs by name."""
    stages = GEMM.replace("STAGES", "3")
    return {
        "elementwise": program(ELEMENTWISE),
        "transpose": scheduled(TRANSPOSE),
        "vthreads": scheduled(VTHREADS),
        "softmax": program(SOFTMAX),
        "rows": program(ROWS),
        "conv": scheduled(CONV),
        "pipelined": scheduled(stages.replace("COPY", "")),
        "async_copies": scheduled(stages.replace("COPY", ", copy = cp_async")),
        "batched": scheduled(BATCHED),
        "two_kernels": program(TWO_KERNELS),
        "unbound": program(UNBOUND),
        "host_loop": program(LAUNCHES),
    }
