"""Softmax and layer norm along rows beside NumPy and torch, interleaved in one run.

    python benchmarks/rows.py [--threads 2] [--rows 256] [--columns 1024]

`by_row` runs all steps on one row while it is in the cache, `rows_vectorized` takes its sums and maxima lane by lane,
too (`rfactor`). Figures are medians, ratios are medians of the ratios round by round with their quartiles.
"""

from __future__ import annotations

import argparse
import os
import statistics
import sys

SCHEDULES = ("rows_vectorized", "by_row")
TOLERANCE = 1e-4


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--rows", type=int, default=256)
    parser.add_argument("--columns", type=int, default=1024)
    args = parser.parse_args()
    # Libraries read these when they are loaded; the affinity bounds mslang's own pool.
    os.environ |= {v: str(args.threads) for v in ("OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "OMP_NUM_THREADS")}
    os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[: args.threads])

    import numpy as np
    from common import WORKLOADS, conditions, interleaved, ratio, show, table

    import mslang as ms
    from mslang.target.detect import host

    try:
        import torch
    except ImportError:
        torch = None
        print("torch is absent: only NumPy is beside", file=sys.stderr)
    else:
        torch.set_num_threads(args.threads)

    random = np.random.default_rng(0)
    shape = args.rows, args.columns
    x, y = random.standard_normal(shape, np.float32), np.empty(shape, np.float32)
    gamma, beta = (random.standard_normal(args.columns, np.float32) for _ in range(2))

    def softmax() -> np.ndarray:
        shifted = np.exp(x - x.max(axis=1, keepdims=True))
        return np.divide(shifted, shifted.sum(axis=1, keepdims=True), out=y)

    def layer_norm() -> np.ndarray:
        centred = x - x.mean(axis=1, keepdims=True)
        scale = 1 / np.sqrt((centred * centred).mean(axis=1, keepdims=True) + np.float32(1e-5))
        return np.add(centred * scale * gamma, beta, out=y)

    cases = {"softmax": (softmax, (x,)), "layer_norm": (layer_norm, (x, gamma, beta))}
    rows = []
    for name, (plain, given) in cases.items():
        module = ms.load(WORKLOADS / f"{name}.ms")
        runs, results = {}, {}
        for schedule in SCHEDULES:
            space = module.space(schedule, sizes={"M": args.rows, "N": args.columns}, target=host())
            results[schedule] = np.empty(shape, np.float32)
            runs[schedule] = ms.build(space.sample(0).program, host()).bind(*given, results[schedule]).run
        runs["numpy"] = plain
        if torch is not None:
            t, *rest = (torch.from_numpy(a) for a in given)
            if name == "softmax":
                runs["torch"] = lambda t=t: torch.softmax(t, 1)
            else:
                runs["torch"] = lambda t=t, rest=rest: torch.layer_norm(t, (args.columns,), *rest)
        times = interleaved(runs)
        for found in results.values():
            assert np.allclose(found, plain(), rtol=TOLERANCE, atol=TOLERANCE)
        for what, found in times.items():
            middle, low, high = ratio(times[SCHEDULES[0]], found)
            faster = f"{middle:.2f} [{low:.2f}, {high:.2f}]"
            rows.append((f"{name}, {args.rows} × {args.columns}", what, show(statistics.median(found)), faster))
    print(table(("workload", "what", "time", f"{SCHEDULES[0]} is faster by"), rows))
    print(f"\n{conditions('numpy', 'torch', 'llvmlite')}")


if __name__ == "__main__":
    main()
