"""The register tile of the packed gemm as a vectorized loop and as an instruction, interleaved in one run.

    python benchmarks/micro_kernel.py [--threads 1] [--sizes 512 1024]

The instruction is a row of the tile from `std.cpu.fma`, of AVX-512 or of AVX2. Figures are medians, ratios are medians
of the ratios round by round with their quartiles.
"""

from __future__ import annotations

import argparse
import os
import statistics

SCHEDULE = """
## `packed` of `gemm.ms` with each row of the register tile an instruction of {lanes} lanes.
schedule packed_instruction(rows: int = 6, vectors: int = 4) for gemm on host {{
    let i0, i1 = mm.i.split([_, rows])
    let j0, j1, lane = mm.j.split([_, vectors, {lanes}])
    let k = mm.k
    reorder(j0, i0, k, i1, j1, lane)

    let row = blockize(lane)
    let tile = row.cache_write(C, scope = local)
    tile.reverse_compute_at(i0)
    let panel = row.cache_read(B, scope = global)
    panel.compute_at(j0)

    j0.parallel()
    panel.ax1.vectorize()
    tile.ax1.vectorize()
    i1.unroll()
    j1.unroll()
    row.decompose_reduction(k)
    row.tensorize({intrin})
}}
"""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--sizes", type=int, nargs="+", default=[512, 1024])
    args = parser.parse_args()
    # The affinity bounds mslang's own pool.
    os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[: args.threads])

    import numpy as np
    from common import WORKLOADS, conditions, interleaved, ratio, show, table

    import mslang as ms
    from mslang.target.detect import host

    intrin, lanes = ("f32_avx512", 16) if host().has("avx512f") else ("f32_avx2", 8)
    text = (WORKLOADS / "gemm.ms").read_text() + SCHEDULE.format(intrin=intrin, lanes=lanes)
    module = ms.parse(f"use std.cpu.fma.{{{intrin}}}\n{text}")
    rows = []
    for n in args.sizes:
        random = np.random.default_rng(0)
        a, b = (random.random((n, n), np.float32) for _ in range(2))
        runs, results = {}, {}
        for what, schedule in (("vectorized loop", "packed"), (intrin, "packed_instruction")):
            space = module.space(schedule, sizes={"M": n, "N": n, "K": n}, target=host())
            results[what] = np.empty((n, n), np.float32)
            runs[what] = ms.build(space.sample(0).program, host()).bind(a, b, results[what]).run
        times = interleaved(runs)
        for found in results.values():
            assert np.allclose(found, a @ b, rtol=1e-4, atol=1e-3)
        for what, found in times.items():
            middle, low, high = ratio(times["vectorized loop"], found)
            time = statistics.median(found)
            faster = f"{middle:.2f} [{low:.2f}, {high:.2f}]"
            rows.append((n, what, show(time), f"{2 * n**3 / time / 1e9:.0f}", faster))
    print(table(("n", "what", "time", "GFLOP/s", "the vectorized loop is faster by"), rows))
    print(f"\n{conditions('numpy', 'llvmlite')}")


if __name__ == "__main__":
    main()
