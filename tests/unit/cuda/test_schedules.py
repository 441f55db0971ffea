"""From a schedule to CUDA C that runs: the back end's own passes, its source on the CPU."""

import numpy as np
import pytest

import mslang as ms
from mslang.backend.backend import Options
from mslang.backend.cuda.backend import CUDA as BACK_END
from mslang.target.description import SM_80
from tests.cuda.emulator import why_not
from tests.unit.cuda.test_meaning import emulated

GEMM = """
use std.cuda.{cooperative_fetch, sm_80}

program gemm[M = 64, N = 64, K = 32](A: f32[M, K], B: f32[K, N], out C: f32[M, N]) {
    block mm[i: M, j: N | k: K] { C[i, j] += A[i, k] * B[k, j] }
}

schedule tiled for gemm on sm_80 {
    let sums = mm.cache_write(C, scope = local)
    let i0, i1, i2 = mm.i.split([_, 8, 4])
    let j0, j1, j2 = mm.j.split([_, 8, 4])
    let k0, k1 = mm.k.split([_, 16])
    reorder(i0, j0, i1, j1, k0, k1, i2, j2)
    i0.bind(blockIdx.y)
    j0.bind(blockIdx.x)
    let thread = fuse(i1, j1)
    thread.bind(threadIdx.x)
    sums.reverse_compute_at(thread)
    let a = mm.cache_read(A, scope = shared)
    a.compute_at(k0)
    cooperative_fetch(a, vector = 4, threads = 64)
    let b = mm.cache_read(B, scope = shared)
    b.compute_at(k0)
    cooperative_fetch(b, vector = 4, threads = 64)
    mm.decompose_reduction(k0)
}
"""

WMMA = """
use std.cuda.{cooperative_fetch, sm_80}
use std.cuda.wmma.{load_a, load_b, fill_f32, store_f32, f16f16f32}

program gemm[M = 32, N = 32, K = 32](A: f16[M, K], B: f16[K, N], out C: f32[M, N]) {
    block mm[i: M, j: N | k: K] { C[i, j] += f32(A[i, k]) * f32(B[k, j]) }
}

fn stage(tile: block, buf: buffer, k0: loop, frag: scope, load: intrin) {
    let copy = tile.cache_read(buf, scope = shared)
    copy.compute_at(k0)
    let held = tile.cache_read(copy.writes()[0], scope = frag)
    held.tensorize(load)
    cooperative_fetch(copy, vector = 4, threads = 32)
    copy.storage_align(axis = -2, factor = 32, offset = 8)
}

schedule tensor_cores for gemm on sm_80 {
    let io, it = mm.i.split([_, 16])
    let jo, jt = mm.j.split([_, 16])
    let ko, kt = mm.k.split([_, 16])
    reorder(io, jo, ko, it, jt, kt)
    let tile = blockize(it)
    io.bind(blockIdx.y)
    jo.bind(blockIdx.x)
    let sums = tile.cache_write(C, scope = wmma.acc)
    sums.reverse_compute_at(jo)
    sums.tensorize(store_f32)
    stage(tile, A, ko, wmma.a, load_a)
    stage(tile, B, ko, wmma.b, load_b)
    let zero = tile.decompose_reduction(ko)
    zero.tensorize(fill_f32)
    tile.tensorize(f16f16f32)
}
"""


@pytest.mark.skipif(why_not() is not None, reason=str(why_not()))
@pytest.mark.parametrize(
    ("text", "schedule", "dtype", "sizes"),
    [(GEMM, "tiled", "float32", (64, 64, 32)), (WMMA, "tensor_cores", "float16", (32, 32, 32))],
)
def test_a_scheduled_product_is_exact(text: str, schedule: str, dtype: str, sizes: tuple[int, int, int]) -> None:
    program = ms.parse(text).space(schedule).sample(0).program
    executable = BACK_END.built(program, SM_80, Options(text_only=True))
    m, n, k = sizes
    rng = np.random.default_rng(0)
    a, b = rng.integers(-3, 4, (m, k)).astype(dtype), rng.integers(-3, 4, (k, n)).astype(dtype)
    arrays = {"A": a, "B": b, "C": np.zeros((m, n), np.float32)}
    found = emulated(executable.source, arrays, {}, ("C",))
    assert not found.faults, found.faults[0].text
    assert found.arrays["C"].tolist() == (a.astype(np.float32) @ b.astype(np.float32)).tolist()
    assert "ms_vector" in executable.source.text
