"""std.cuda and std.testing.fits: what schedules for GPUs share, and whether they keep within a device."""

from __future__ import annotations

import pytest

from mslang.diagnostics import MsError
from mslang.ir.program import For
from mslang.ir.visit import walk
from mslang.schedule.strategies import space_of
from mslang.schedule.testing import TestResult, run_test
from mslang.sema.modules import load
from mslang.syntax import tree
from mslang.tune.equivalence import difference

TEXT = """
use std.cuda.{cooperative_fetch}
use std.testing.{fits, implements}
target small = cuda { shared = 1KiB max_threads = 64 }
target large = cuda { shared = 48KiB max_threads = 1024 }
program mm[M = 32, N = 32, K = 32](A: f32[M, K], B: f32[K, N], out C: f32[M, N]) {
    block mm[i: M, j: N | k: K] { C[i, j] += A[i, k] * B[k, j] }
}
schedule staged for mm {
    let i0, i1 = mm.i.split([_, 8])
    let j0, j1 = mm.j.split([_, 8])
    let k0, k1 = mm.k.split([_, 8])
    reorder(i0, j0, k0, i1, j1, k1)
    i0.bind(blockIdx.y)
    j0.bind(blockIdx.x)
    let a = mm.cache_read(A, scope = shared)
    a.compute_at(k0)
    let vec ~ choose([1, 2, 4])
    a.cooperative_fetch(vector = vec, threads = 8)
    i1.bind(threadIdx.y)
    j1.bind(threadIdx.x)
}
test "large" { let s = sample(staged, mm, seed = 0) check fits(s, large) }
test "small" { let s = sample(staged, mm, seed = 0) check fits(s, small) }
"""


def results() -> dict[str, TestResult]:
    module = load("gpu.ms", TEXT)
    tests = [p for p in module.file.items if isinstance(p.item, tree.Test)]
    return {r.title: r for r in (run_test(module, t, difference) for t in tests)}


def test_threads_share_a_copy_and_what_is_computed_stays():
    space = space_of(load("gpu.ms", TEXT), "staged")
    for vec in (1, 2, 4):
        c = space.sample(0, {"vec": vec})
        copy = [s.kind for s in walk(c.program.body) if isinstance(s, For)][3:6]
        assert copy == ["serial", "threadIdx.x", "vectorized"]
        assert difference(space.program, c.program, 1e-4, 1e-5, 0) is None


def test_fits():
    found = results()
    assert found["large"].passed and found["large"].checks == 1
    # 32 × 32 f32 are 4 KiB
    assert not found["small"].passed
    assert "shared is 4096" in (found["small"].diagnostics[0].why or "")


def test_a_copy_that_threads_would_write_twice_is_refused():
    text = TEXT.replace("a.cooperative_fetch(vector = vec, threads = 8)", "k0.bind(threadIdx.z)")
    with pytest.raises(MsError) as found:
        space_of(load("gpu.ms", text), "staged").sample(0)
    assert found.value.diagnostic.code in ("MS309", "MS310")
