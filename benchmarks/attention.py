"""Attention with more and more keys: the automatic space's sketches for CPUs beside each other, and beside torch.

    python benchmarks/attention.py [--keys 128 512 2048 4096 16384] [--draws 24] [--threads 1] [--json]

Row by row (`fused`) the scores of some queries and all keys are in the cache; in one pass (`one_pass`, online softmax)
those of a tile of keys. Of each sketch some candidates are drawn and timed briefly, and the fastest three are then
timed in turn with the other sketch's and with torch. Here one pass is drawn however short rows are; the automatic space
has it where keys and values outgrow half of the L2 cache. The number of queries falls as that of keys rises,
so that all lines are about as much work.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import sys
from typing import Any

QUERIES, FEATURES = 1 << 21, 64
"""Queries times keys, and features of a head."""
FINALISTS = 3
TOLERANCE = 1e-4


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--keys", type=int, nargs="+", default=[128, 512, 2048, 4096, 16384])
    parser.add_argument("--draws", type=int, default=24, help="candidates of a sketch that are timed")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--json", action="store_true", help="a line of JSON for each number of keys")
    options = parser.parse_args()
    if min(options.keys) < 1 or options.draws < FINALISTS or options.threads < 1:
        parser.error(f"keys and threads are at least 1, draws at least {FINALISTS}")
    os.environ |= {v: str(options.threads) for v in ("OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "OMP_NUM_THREADS")}
    os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[: options.threads])

    from common import conditions, show, table

    rows = []
    for keys in options.keys:
        found = measured(keys, options)
        times = {what: statistics.median(t) for what, t in found["times"].items()}
        if options.json:
            print(json.dumps({"keys": keys, "queries": found["queries"], "seconds": times, "best": found["best"]}))
        rows.append(
            (
                f"{found['heads']} × {found['queries']} × {keys} × {FEATURES}",
                *(show(times[w]) if w in times else "" for w in ("fused", "one_pass", "torch")),
                *(ratios(found["times"], w) for w in ("fused", "torch")),
            )
        )
    if not options.json:
        head = (
            "heads × queries × keys × features",
            "fused",
            "one pass",
            "torch",
            "fused / one pass",
            "torch / one pass",
        )
        print(table(head, rows))
        print(f"\n{options.threads} threads. {conditions('numpy', 'torch', 'llvmlite')}")


def ratios(times: dict[str, list[float]], what: str) -> str:
    """How many times faster one pass is: median round by round, and quartiles."""
    from common import ratio

    if what not in times or "one_pass" not in times:
        return ""
    middle, low, high = ratio(times["one_pass"], times[what])
    return f"{middle:.2f} [{low:.2f}, {high:.2f}]"


def measured(keys: int, options: argparse.Namespace) -> dict[str, Any]:
    """Times of the fastest candidate of each sketch, and of torch."""
    import numpy as np
    from common import WORKLOADS, interleaved
    from msgspec.structs import replace

    import mslang as ms
    from mslang.schedule.rules.automatic import automatic_space
    from mslang.target.detect import host

    queries = min(1024, max(128, QUERIES // keys))
    heads = max(1, QUERIES // (keys * queries))
    program = ms.load(WORKLOADS / "attention.ms").program("attention", B=heads, L=queries, T=keys, D=FEATURES)
    random = np.random.default_rng(0)
    q, k, v = (random.standard_normal((heads, n, FEATURES), np.float32) for n in (queries, keys, keys))
    target = replace(host(), l2=1)  # All rows are long for it.
    runs: dict[str, Any] = {}
    best: dict[str, Any] = {}
    made: dict[str, Any] = {}
    for sketch in automatic_space(program, target).sketches():
        label = dict(sketch.structure).get("rows:divide", "fused")
        batch = sketch.batch()
        drawn = batch.draw(4 * options.draws, seed=0)
        valid = [drawn.row(int(n)) for n in np.flatnonzero(batch.valid(drawn))][: options.draws]
        tried = {}
        for n, row in enumerate(valid):
            made[f"{label} {n}"] = np.empty_like(q)
            kernel = ms.build(sketch.instantiate(row), host()).bind(q, k, v, made[f"{label} {n}"])
            tried[f"{label} {n}"] = kernel.run
        times = interleaved(tried, rounds=3)
        for name in sorted(tried, key=lambda x: min(times[x]))[:FINALISTS]:
            runs[name] = tried[name]
            best[name] = dict(valid[int(name.split()[1])])
    try:
        import torch
    except ImportError:
        print("torch is absent", file=sys.stderr)
    else:
        torch.set_num_threads(options.threads)
        a, b, c = (torch.from_numpy(x)[None] for x in (q, k, v))
        runs["torch"] = lambda: torch.nn.functional.scaled_dot_product_attention(a, b, c)[0]
    times = interleaved(runs)
    wanted = expected(q, k, v)
    for name in best:
        assert np.allclose(made[name], wanted, rtol=TOLERANCE, atol=TOLERANCE), name
    out = {"torch": times["torch"]} if "torch" in times else {}
    chosen = {}
    for label in ("fused", "one_pass"):
        names = [n for n in best if n.split()[0] == label]
        if names:
            name = min(names, key=lambda x: statistics.median(times[x]))
            out[label], chosen[label] = times[name], best[name]
    return {"times": out, "best": chosen, "heads": heads, "queries": queries}


def expected(q: Any, k: Any, v: Any) -> Any:
    """Attention by NumPy."""
    import numpy as np

    score = q @ k.transpose(0, 2, 1) / np.float32(np.sqrt(FEATURES))
    weight = np.exp(score - score.max(axis=2, keepdims=True))
    return weight @ v / weight.sum(axis=2, keepdims=True)


if __name__ == "__main__":
    main()
