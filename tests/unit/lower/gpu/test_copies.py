"""Vector statements, asynchronous copies and virtual threads."""

from __future__ import annotations

import pytest

from mslang.ir.expr import Call, Const, Load, Ramp
from mslang.ir.visit import walk_expr
from mslang.kernel import Evaluate, For, If, Module, Store
from mslang.kernel.visit import expressions, walk
from mslang.lower.gpu import lower
from mslang.target.description import CUDA, Target
from tests.unit.lower.gpu.support import barriers, lowered, program, same_meaning, scheduled

COPY = """program p(A: f32[4, 100], out B: f32[4, 100]) {
    for b in 4 @ blockIdx.x, t in 13 @ threadIdx.x, v in LANES @ vectorized {
        block c[i: 4 = b, j: 100 = t * 8 + v] { where t * 8 + v < 100
            B[i, j] = A[i, INDEX] + 1.0 }
    }
}"""

GEMM = """
program mm(A: f32[16, 32], B: f32[32, 16], out C: f32[16, 16]) {
    block mm[i: 16, j: 16 | k: 32] { C[i, j] += A[i, k] * B[k, j] }
}
schedule s for mm {
    let i0, i1 = mm.i.split([_, 8])
    let j0, j1 = mm.j.split([_, 8])
    let k0, k1 = mm.k.split([_, 8])
    reorder(i0, j0, i1, j1, k0, k1)
    i0.bind(blockIdx.y)
    j0.bind(blockIdx.x)
    i1.bind(threadIdx.y)
    j1.bind(threadIdx.x)
    let c = mm.cache_write(C, scope = local)
    c.reverse_compute_at(j1)
    for x in [A, B] {
        let s = mm.cache_read(x, scope = shared)
        s.compute_at(k0)
        let f = fuse(*[l for l in s.spatial_loops() if len(l.children()) == 1])
        let r, ty, tx, v = f.split([_, 8, 8, 1])
        ty.bind(threadIdx.y)
        tx.bind(threadIdx.x)
        v.vectorize()
    }
    mm.decompose_reduction(k0)
    k0.pipeline(stages = STAGES COPY)
}
"""


def ramps(module: Module) -> int:
    return sum(
        isinstance(x, Load) and any(isinstance(i, Ramp) for i in x.indices)
        for f in module.functions
        for s in walk(f.body)
        for e in expressions(s)
        for x in walk_expr(e)
    )


def calls(module: Module, name: str) -> int:
    return sum(
        isinstance(s, Evaluate) and isinstance(s.value, Call) and s.value.name == name
        for f in module.functions
        for s in walk(f.body)
    )


@pytest.mark.parametrize(
    ("lanes", "index", "wide"), [("8", "j", 0), ("4", "j", 1), ("4", "99 - j", 1), ("2", "j % 7", 0)]
)
def test_vectorized_loops_become_vector_statements_or_are_unrolled(lanes: str, index: str, wide: int):
    text = COPY.replace("LANES", lanes).replace("INDEX", index).replace("t * 8 + v", f"t * {lanes} + v")
    text = text.replace("t in 13", f"t in {-(-100 // int(lanes))}")
    p = program(text)
    module = lowered(p)
    assert ramps(module) == wide
    assert not any(isinstance(s, For) and s.kind == "vectorized" for f in module.functions for s in walk(f.body))
    same_meaning(p, module)


def test_long_vectors_are_cut():
    p = program("""program p(A: f32[2, 64], out B: f32[2, 64]) {
        for b in 2 @ threadIdx.x, v in 64 @ vectorized { block c[i: 2 = b, j: 64 = v] { B[i, j] = A[i, j] } }
    }""")
    module = lowered(p)
    (loop,) = (s for s in walk(module.functions[0].body) if isinstance(s, For))
    assert loop.extent == Const(4) and loop.kind == "unrolled"
    assert sum(isinstance(s, Store) for s in walk(loop.body)) == 4  # of 16 bytes each
    same_meaning(p, module)


@pytest.mark.parametrize("stages", [2, 3, 4])
def test_asynchronous_copies_run_ahead(stages: int):
    text = GEMM.replace("STAGES", str(stages)).replace("COPY", ", copy = cp_async")
    p = scheduled(text)
    module = lowered(p)
    assert (calls(module, "cp_async"), calls(module, "cp_async_commit")) == (4, 2)
    assert calls(module, "cp_async_wait") == 1
    # one between the wait and the next copies: it protects what was copied, and what the copies replace
    assert barriers(module) == 1
    same_meaning(p, module)


def test_an_older_device_copies_through_registers():
    p = scheduled(GEMM.replace("STAGES", "2").replace("COPY", ", copy = cp_async"))
    module = lower(p, Target("cuda", "cuda", extra=(("arch", "sm_70"),)))
    assert calls(module, "cp_async") == 0
    same_meaning(p, module)
    same_meaning(p, lowered(scheduled(GEMM.replace("STAGES", "3").replace("COPY", ""))))
    assert calls(lower(p, CUDA), "cp_async") > 0


@pytest.mark.parametrize(("lanes", "vectors"), [(1, 0), (2, 2), (3, 0)])
def test_marked_copies_are_shared_out_among_threads(lanes: int, vectors: int):
    text = """program p(A: f32[8, 16], out B: f32[8, 8]) {
        alloc S: f32[8, 16] @ shared
        for b in 2 @ blockIdx.x {
            for i in 4, k in 16 {
                block s[y: 8 = b * 4 + i, x: 16 = k] { attr "meta_schedule.cooperative_fetch" = LANES
                    S[y, x] = A[y, x] }
            }
            for t in 4 @ threadIdx.y, u in 8 @ threadIdx.x {
                block c[y: 8 = b * 4 + t, x: 8 = u] { B[y, x] = S[y, x] + S[y, 15 - x] }
            }
        }
    }""".replace("LANES", str(lanes))
    p = program(text)
    module = lowered(p)
    assert barriers(module) == 1
    assert 2 * ramps(module) == vectors
    # every thread copies: nothing is held at index 0
    assert not any(isinstance(s, If) for s in walk(module.functions[0].body))
    same_meaning(p, module)
