"""Spaces with guards, requirements, tiles of tiles, free tiles and weights: all that the library's have not."""

from mslang.schedule.interpret import World
from mslang.schedule.space import Space
from mslang.schedule.strategies import space_of
from mslang.sema.modules import load
from mslang.target.description import GENERIC
from tests.unit.schedule.samples import GUARDED

PROGRAM = """
program gemm[M = 64, N = 48, K = 32](A: f32[M, K], B: f32[K, N], out C: f32[M, N]) {
    block mm[i: M, j: N | k: K] { C[i, j] += A[i, k] * B[k, j] }
}
"""

SMALL = """
schedule small for gemm {
    let tk ~ perfect_tile(mm.k, n = 2)
    let k0, k1 = mm.k.split(tk)
    let inner ~ perfect_tile(k1, n = 2)
    let a, b = k1.split(inner)
    let w ~ choose([1, 4, 8])
    if inner[1] > w { b.unroll() }
    require inner[0] + w <= 16, "too wide"
    a.annotate("w", w)
}
"""

LARGE = """
schedule large for gemm {
    let ti ~ perfect_tile(mm.i, n = 4, max_inner = 16)
    let tj ~ perfect_tile(mm.j, n = 4)
    let tk ~ perfect_tile(mm.k, n = 2)
    let i0, i1, i2, i3 = mm.i.split(ti)
    let j0, j1, j2, j3 = mm.j.split(tj)
    let k0, k1 = mm.k.split(tk)
    reorder(i0, j0, i1, j1, k0, i2, j2, k1, i3, j3)
    fork order {
        case straight {}
        case swapped { reorder(j2, i2) }
        case apart { reorder(j1, i1) }
    }
    let steps ~ choose([0, 16, 64])
    k1.unroll(max_steps = steps)
    require ti[3] * tj[3] <= 128, "accumulators spill"
}
"""

MANY = """
schedule many for gemm {
    let tk ~ perfect_tile(mm.k, n = 2)
    let k0, k1 = mm.k.split(tk)
    fork a { case a0 {} case a1 { mm.i.parallel() } case a2 { mm.i.unroll() } }
    fork b { case b0 {} case b1 { mm.j.vectorize() } case b2 { mm.j.unroll() } }
    fork c { case c0 {} case c1 { k0.unroll() } case c2 { k0.annotate("x", 1) } }
    fork d { case d0 {} case d1 { k1.unroll() } case d2 { k1.annotate("x", 1) } }
}
"""

ILLEGAL = """
schedule illegal for gemm {
    fork how {
        case never { mm.k.parallel()  mm.k.vectorize() }
        case fine { mm.i.parallel() }
    }
}
"""

NUMBERS = """
schedule numbers for gemm {
    let registers ~ choose([11, 12, 14, 21, 22, 24, 41, 42, 44, 81, 82, 84])
    let tk ~ choose([1, 2])
    let flag ~ choose([0, 1])
    let i0, i1 = mm.i.split([_, registers // 10])
    let j0, j1 = mm.j.split([_, registers % 10])
    let k0, k1 = mm.k.split([_, tk])
    reorder(i0, j0, k0, k1, i1, j1)
    i0.parallel()
    k0.annotate("flag", flag)
}
"""

WEIGHTED = """
schedule weighted for gemm {
    let height ~ choose([1, 2, 3, 4, 8], weights = [1, 3, 0, 4, 2])
    let ti ~ perfect_tile(mm.i, n = 3)
    let tj ~ perfect_tile(mm.j, n = 2)
    let jump ~ choose([1, 2, 4], weights = [5, 1, 1])
    let i0, i1, i2 = mm.i.split(ti)
    let j0, j1 = mm.j.split(tj)
    require ti[2] * height <= 16, "too high"
    require tj[1] % jump == 0, "torn"
    j1.annotate("jump", jump)
    i2.annotate("height", height)
}
"""

RARE = """
schedule rare for gemm {
    let a ~ choose(["x", "y", "z"])
    let b ~ choose(["x", "y", "z"])
    let c ~ choose(["x", "y", "z"])
    let d ~ choose(["x", "y", "z"])
    if a != "z" or b != "z" or c != "z" or d != "z" { mm.k.parallel()  mm.k.vectorize() }
    let tk ~ perfect_tile(mm.k, n = 2)
    mm.k.split(tk)
}
"""

JOBS = """
schedule jobs for gemm {
    let jobs ~ choose([2, 4, 8])
    let strip ~ choose([8, 16])
    let i0, i1 = mm.i.split([jobs, _])
    let j0, j1 = mm.j.split([_, strip])
    reorder(i0, j0, i1)
    fuse(i0, j0).parallel()
}
"""

BOUND = """
schedule bound for gemm {
    let threads ~ choose([16, 32])
    let each ~ choose([2, 4])
    let i0, i1, i2 = mm.i.split([_, threads, each])
    i0.bind(blockIdx.x)
    i1.bind(threadIdx.x)
}
"""


def space(name: str) -> Space:
    """A space of this module."""
    others = SMALL + LARGE + MANY + ILLEGAL + NUMBERS + WEIGHTED + RARE + JOBS + BOUND
    text = f"{PROGRAM}schedule guarded for gemm {{{GUARDED}}}\n" + others
    return space_of(load("guarded.ms", text), name, world=World(machine=GENERIC))
