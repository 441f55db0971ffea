"""Programs and schedules that the tests of this folder share."""

from mslang.schedule.replay import replay
from mslang.schedule.space import Space
from mslang.schedule.strategies import space_of
from mslang.sema.module import Module
from mslang.sema.modules import load

PROGRAMS = """
target wide = cpu {
    vector_bits = 512
    cores = 8
}

program matmul[M = 64, N = 48, K = 32](A: f32[M, K], B: f32[K, N], out C: f32[M, N]) {
    block mm[i: M, j: N | k: K] { C[i, j] += A[i, k] * B[k, j] }
}

program chain[M = 16, N = 24](A: f32[M, N], out D: f32[M, N]) {
    alloc B: f32[M, N]
    alloc C: f32[M, N]
    block first[i: M, j: N] { B[i, j] = A[i, j] + 1.0 }
    block second[i: M, j: N] { C[i, j] = B[i, j] * 2.0 }
    block third[i: M, j: N] { D[i, j] = C[i, j] - 3.0 }
}
"""

SCHEDULES = """
schedule tiled(max_inner: int = 64) for matmul on wide {
    let ti ~ perfect_tile(mm.i, n = 4, max_inner = max_inner)
    let tj ~ perfect_tile(mm.j, n = 4, max_inner = max_inner)
    let tk ~ perfect_tile(mm.k, n = 2, max_inner = max_inner)
    let i0, i1, i2, i3 = mm.i.split(ti)
    let j0, j1, j2, j3 = mm.j.split(tj)
    let k0, k1 = mm.k.split(tk)
    reorder(i0, j0, i1, j1, k0, i2, j2, k1, i3, j3)
    require ti[3] * tj[3] <= 4 * machine.vector_lanes, "accumulators spill"
    fork order {
        case straight {}
        case swapped { reorder(j2, i2) }
    }
    let steps ~ choose([0, 16, 64])
    fuse(i0, j0).parallel()
    k1.unroll(max_steps = steps)
    if ti[3] >= 8 { i3.unroll() }
    let zero = mm.decompose_reduction(k0)
}

fn tiles(l: loop, n: int) {
    let t ~ perfect_tile(l, n = n)
    let *parts = l.split(t)
    return parts
}

schedule helpers for matmul on wide {
    let a = tiles(mm.i, 2)
    let b = tiles(mm.j, 3)
    let i0, i1 = a
    let j0, *rest = b
    reorder(i0, j0, i1, *rest)
    for l in rest {
        let w ~ choose([1, 2, 3])
        l.annotate("w", w * 2 + 1)
    }
    i0.parallel()
}

schedule free for matmul on wide {
    let ti ~ tile(mm.i, n = 3, max_inner = 9)
    let i0, i1, i2 = mm.i.split(ti)
    let tp ~ partitioned_tile(mm.k, n = 3, at = 1, factor = 4)
    let *ks = mm.k.split(tp)
    let inner ~ perfect_tile(ks[1], n = 2)
    let *more = ks[1].split(inner)
    let width ~ uniform(1, 5)
    let j0, j1 = mm.j.split([_, width * 2])
    let kind ~ choose(["serial", "unrolled"], weights = [1, 3])
    if kind == "unrolled" { j1.unroll() }
    let order ~ permute([i1, i2])
    reorder(*order)
    i2.annotate("note", "a text with \\"quotes\\"")
}

@order(producers_first)
rule mark(b: block) when b.is_injective() {
    let u ~ choose([1, 2, 4])
    b.annotate("mark", u)
}

space either for matmul on wide = tiled | tiled(max_inner = 16) | helpers >> mark
"""


def module(text: str = "") -> Module:
    """A module of the shared items and `text`."""
    return load("samples.ms", PROGRAMS + SCHEDULES + text)


def space(name: str, text: str = "", **sizes: int) -> Space:
    """The space of an item of the shared module, extended by `text`."""
    return space_of(module(text), name, sizes=sizes)


def body(statements: str, program: str = "matmul", **sizes: int) -> Space:
    """The space of a schedule with these statements."""
    return space("s", f"schedule s for {program} on wide {{\n{statements}\n}}\n", **sizes)


__all__ = ["body", "module", "replay", "space"]


GUARDED = """
let ti ~ perfect_tile(mm.i, n = 3, max_inner = 16)
let i0, i1, i2 = mm.i.split(ti)
let tj ~ tile(mm.j, n = 2, max_inner = 9)
let j0, j1 = mm.j.split(tj)
let inner ~ perfect_tile(i1, n = 2)
let a, b = i1.split(inner)
let w ~ choose([0, 1, 2, 5], weights = [1, 2, 3, 1])
if ti[2] * tj[1] > 16 and w != 0 { b.unroll() }
if w == 0 or ti[0] // w > 3 { a.unroll() }
require ti[2] + tj[1] <= 20, "too wide"
require w == 0 or 64 % w == 0 or tj[0] % w != 1, "uneven"
j1.annotate("w", w * ti[1] - tj[1])
"""
"""Statements on a product `mm`: tiles of tiles, a free tile, weights, two guards and two requirements."""
