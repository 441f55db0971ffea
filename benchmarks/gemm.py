"""The hand-written packed gemm schedule beside NumPy's BLAS and torch, interleaved in one run.

    python benchmarks/gemm.py [--threads 1] [--sizes 512 1024] [--avx2]

Each row is a size; figures are medians, ratios are medians of the ratios round by round with their quartiles.
With --avx2 all of them keep to AVX2 on a processor that has more.
"""

from __future__ import annotations

import argparse
import os
import statistics
import sys


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--sizes", type=int, nargs="+", default=[512, 1024])
    parser.add_argument("--schedule", default="packed")
    parser.add_argument("--avx2", action="store_true")
    args = parser.parse_args()
    # Libraries read these when they are loaded; the affinity bounds mslang's own pool.
    os.environ |= {v: str(args.threads) for v in ("OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "OMP_NUM_THREADS")}
    if args.avx2:
        os.environ |= {"OPENBLAS_CORETYPE": "Haswell", "MKL_ENABLE_INSTRUCTIONS": "AVX2"}
    os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[: args.threads])

    import numpy as np
    from common import WORKLOADS, conditions, interleaved, ratio, show, table

    import mslang as ms
    from mslang.target.description import AVX2
    from mslang.target.detect import host

    try:
        import torch
    except ImportError:
        torch = None
        print("torch is absent: only NumPy's BLAS is beside", file=sys.stderr)
    else:
        torch.set_num_threads(args.threads)

    target = AVX2 if args.avx2 else host()
    rows = []
    for n in args.sizes:
        module = ms.load(WORKLOADS / "gemm.ms")
        program = module.space(args.schedule, sizes={"M": n, "N": n, "K": n}, target=target).sample(0).program
        kernel = ms.build(program, target)
        random = np.random.default_rng(0)
        a, b = (random.random((n, n), np.float32) for _ in range(2))
        c, d = np.empty((n, n), np.float32), np.empty((n, n), np.float32)
        bound = kernel.bind(a, b, c)
        runs = {"mslang": bound.run, "numpy": lambda a=a, b=b, d=d: np.matmul(a, b, out=d)}
        if torch is not None:
            ta, tb, tc = torch.from_numpy(a), torch.from_numpy(b), torch.empty(n, n)
            runs["torch"] = lambda ta=ta, tb=tb, tc=tc: torch.mm(ta, tb, out=tc)
        times = interleaved(runs)
        assert np.allclose(c, d, rtol=1e-4, atol=1e-3)
        for name, found in times.items():
            middle, low, high = ratio(times["mslang"], found)
            time = statistics.median(found)
            faster = f"{middle:.2f} [{low:.2f}, {high:.2f}]"
            rows.append((n, name, show(time), f"{2 * n**3 / time / 1e9:.0f}", faster))
    print(table(("n", "what", "time", "GFLOP/s", "mslang is faster by"), rows))
    print(f"\n{conditions('numpy', 'torch', 'llvmlite')}")


if __name__ == "__main__":
    main()
