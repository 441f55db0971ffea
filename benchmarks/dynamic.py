"""A matrix product whose number of rows is known only at the call, at some numbers of rows, beside torch.

    python benchmarks/dynamic.py [--rows 1 4 17 100 1000 4096] [--trials N] [--static-trials N] [--db FILE] [--json]

The program is `matmul[M: dyn(1..4096), N = 1024, K = 1024]`, f32, on one thread. *Default* is one kernel for all sizes,
by the pass `default`. *Dispatch* is one kernel, too: a call goes to the best record of its bucket, or to the default
where no record is faster. *Static* is the program for that number of rows alone, by its best record or the default.
Both are tuned here, `--trials` candidates for each bucket and `--static-trials` for each static program, unless `--db`
has records of them; 0 tunes none. A bucket is tuned at its smallest, middle and largest size, whatever `--rows` says.

All of a size are timed in turn; our results are compared with NumPy's first.
Ratios are taken round by round over the time of dispatch, so above 1 dispatch is faster: medians with quartiles.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import tempfile
from importlib.util import find_spec
from pathlib import Path
from typing import Any

PROGRAM = """program matmul[{rows}, N = 1024, K = 1024](A: f32[M, K], B: f32[K, N], out C: f32[M, N]) {{
    block mm[i: M, j: N | k: K] {{ C[i, j] += A[i, k] * B[k, j] }}
}}"""
MOST = 4096
OTHERS = ("default", "static", "torch")
"""What dispatch is compared with."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, nargs="+", default=[1, 4, 17, 100, 1000, MOST])
    parser.add_argument("--trials", type=int, default=16, help="candidates for each bucket")
    parser.add_argument("--static-trials", type=int, default=16, help="candidates for each static program")
    parser.add_argument("--rounds", type=int, default=31)
    parser.add_argument("--db", type=Path, help="records; what has none is tuned into it (default: a new file)")
    parser.add_argument("--json", action="store_true", help="a line of JSON for each number of rows")
    options = parser.parse_args()
    if not all(1 <= m <= MOST for m in options.rows):
        parser.error(f"rows are 1 to {MOST}")
    # Libraries read these when they are loaded; the affinity bounds mslang's own pool.
    os.environ |= dict.fromkeys(("OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "OMP_NUM_THREADS"), "1")
    os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:1])

    from common import conditions, table

    with tempfile.TemporaryDirectory() as folder:
        rows = measured(options, options.db or Path(folder) / "records.db")
    if not options.json:
        head = ("M", "dispatch", *(f"{other} / dispatch" for other in OTHERS), "dispatch by", "static by")
        print(table(head, rows))
        print(f"\n1 thread. {conditions('numpy', 'torch', 'llvmlite')}")


def measured(options: argparse.Namespace, database: Path) -> list[tuple[str, ...]]:
    """A row of the table for each number of rows."""
    from common import interleaved, ratio, show

    import mslang as ms
    from mslang.ir.buckets import buckets_of, restricted

    whole = ms.parse_program(PROGRAM.format(rows=f"M: dyn(1..{MOST})"))
    buckets = [b for b in buckets_of(whole) if any(b.holds({"M": m}) for m in options.rows)]
    tune({f"matmul[{b.text}]": restricted(whole, b) for b in buckets}, options.trials, database)
    statics = {m: ms.parse_program(PROGRAM.format(rows=f"M = {m}")) for m in options.rows}
    tune({f"matmul[M = {m}] alone": program for m, program in statics.items()}, options.static_trials, database)
    (default,) = ms.apply(whole, ["default"], database=None)
    (dispatch,) = ms.apply(whole, ["db", "default"], database=database)
    kernels = {"dispatch": ms.build(dispatch), "default": ms.build(default)}
    found = []
    for m, program in statics.items():
        (static,) = ms.apply(program, ["db", "default"], database=database)
        times = interleaved(calls(m, kernels | {"static": ms.build(static)}), options.rounds)
        ratios = {other: ratio(times["dispatch"], times[other]) for other in OTHERS if other in times}
        by = {"dispatch": dispatch.at({"M": m}).headline, "static": static.headline}
        seconds = {what: statistics.median(t) for what, t in times.items()}
        if options.json:
            print(json.dumps({"M": m, "seconds": seconds, "ratios": ratios, "by": by}), flush=True)
        cells = ("{:.2f} [{:.2f}, {:.2f}]".format(*ratios[other]) if other in ratios else "" for other in OTHERS)
        found.append((str(m), show(seconds["dispatch"]), *cells, by["dispatch"], by["static"]))
    return found


def tune(programs: dict[str, Any], trials: int, database: Path) -> None:
    """Tune the programs that have no record yet, with so many candidates each."""
    import mslang as ms

    if database.exists():
        with ms.Database(database) as store:
            programs = {name: p for name, p in programs.items() if store.best(p) is None}
    if programs and trials:
        ms.tune_all(programs, trials=trials * len(programs), scheduler="round-robin", database=database)


def calls(m: int, kernels: dict[str, Any]) -> dict[str, Any]:
    """Calls of kernels at a number of rows, and of torch, on the same inputs.

    Raises:
        SystemExit: a kernel computes something else.
    """
    import numpy as np
    from common import aligned

    random = np.random.default_rng(0)
    a, b = (aligned(random.standard_normal(shape, np.float32)) for shape in ((m, 1024), (1024, 1024)))
    expected = a @ b
    found: dict[str, Any] = {}
    for name, kernel in kernels.items():
        c = aligned(np.full_like(expected, np.nan))
        found[name] = kernel.bind(a, b, c).run
        found[name]()
        if not np.allclose(c, expected, rtol=1e-3, atol=1e-3):
            raise SystemExit(f"M = {m}: {name} computes something else")
    if find_spec("torch") is not None:
        import torch

        torch.set_num_threads(1)
        x, y = torch.from_numpy(a), torch.from_numpy(b)
        out = torch.mm(x, y)
        found["torch"] = lambda: torch.mm(x, y, out=out)
    return found


if __name__ == "__main__":
    main()
