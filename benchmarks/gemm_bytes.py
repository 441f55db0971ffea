"""Products of byte matrices on dot-product instructions beside torch, interleaved in one run.

    python benchmarks/gemm_bytes.py [--threads 1] [--sizes 1024]

The schedules of `std.cpu.gemm_bytes` draw the tile of registers: the fastest of some draws is taken. Packing of B is
part of each run. torch multiplies signed by signed only (`torch._int_mm`), and is beside both.
"""

from __future__ import annotations

import argparse
import os
import statistics
import sys
from functools import partial
from itertools import islice

DRAWS = 16
CASES = (("gemm_u8s8", "uint8"), ("gemm_s8s8", "int8"))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--sizes", type=int, nargs="+", default=[1024])
    parser.add_argument("--instructions", default="vnni", choices=("vnni", "avx512bw", "avx2"))
    args = parser.parse_args()
    # Libraries read these when they are loaded; the affinity bounds mslang's own pool.
    os.environ |= {v: str(args.threads) for v in ("OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "OMP_NUM_THREADS")}
    os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[: args.threads])

    import numpy as np
    from common import ROOT, conditions, interleaved, ratio, seconds, show, table

    import mslang as ms
    from mslang.schedule.space import Candidate
    from mslang.target.detect import host

    try:
        import torch
    except ImportError:
        torch = None
        print("torch is absent: mslang runs alone", file=sys.stderr)
    else:
        torch.set_num_threads(args.threads)

    rows = []
    for n in args.sizes:
        for program, left in CASES:
            module = ms.load(ROOT / "stdlib" / "cpu" / "gemm_bytes.ms")
            name = f"{program.removeprefix('gemm_')}_on_{args.instructions}"
            space = module.space(name, sizes={"M": n, "N": n, "K": n}, target=host())
            random = np.random.default_rng(0)
            a = random.integers(0, 100, (n, n)).astype(left)
            b = random.integers(-100, 100, (n, n)).astype(np.int8)
            c = np.empty((n, n), np.int32)
            drawn = (space.attempt(0, k) for k in range(8 * DRAWS))
            candidates = islice((x for x in drawn if isinstance(x, Candidate)), DRAWS)
            kernels = [ms.build(x.program, host()).bind(a, b, c) for x in candidates]
            best = min(kernels, key=lambda k: statistics.median(seconds(k.run, 5)))
            runs = {f"mslang {program}": best.run}
            if torch is not None:
                pair = torch.from_numpy(a.astype(np.int8)), torch.from_numpy(b)
                runs["torch s8·s8"] = partial(torch._int_mm, *pair)
            times = interleaved(runs)
            assert np.array_equal(c, a.astype(np.int32) @ b.astype(np.int32))
            mine = times[f"mslang {program}"]
            for what, found in times.items():
                middle, low, high = ratio(mine, found)
                time = statistics.median(found)
                faster = f"{middle:.2f} [{low:.2f}, {high:.2f}]"
                rows.append((n, what, show(time), f"{2 * n**3 / time / 1e9:.0f}", faster))
    print(table(("n", "what", "time", "GOP/s", "mslang is faster by"), rows))
    print(f"\n{conditions('numpy', 'torch', 'llvmlite')}")


if __name__ == "__main__":
    main()
