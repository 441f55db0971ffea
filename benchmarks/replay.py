"""Replaying schedules: new sketches, further draws by substitution, and the time to compile a candidate.

python benchmarks/replay.py
"""

from __future__ import annotations

import statistics

from common import WORKLOADS, percentile, seconds, show, table

import mslang as ms
from mslang.backend.llvm.compile import compile
from mslang.lower.lower import lower
from mslang.schedule.space import Candidate
from mslang.target.detect import host

TILED = {"gemm.ms": "tiled", "conv2d.ms": "tiled", "softmax.ms": "placed", "dense.ms": "tiled", "blur.ms": "tiled"}
DRAWS = 60


def main() -> None:
    target = host()
    rows = []
    for file, name in TILED.items():
        module = ms.load(WORKLOADS / file)
        space = module.space(name, target=target)
        drawn = (space.attempt(0, k) for k in range(4 * DRAWS))
        candidates = [c for c in drawn if isinstance(c, Candidate)][:DRAWS]
        fresh = seconds(lambda module=module, name=name: module.space(name, target=target).attempt(1), 7)
        again = seconds(lambda space=space, c=candidates[0]: space.replay(c.decisions), 15)
        lowering = [seconds(lambda c=c: lower(c.program, target), 1)[0] for c in candidates[:20]]
        kernels = [lower(c.program, target) for c in candidates[:20]]
        compiling = [seconds(lambda k=k: compile(k, target), 1)[0] for k in kernels]
        rows.append(
            (
                f"{file}:{name}",
                len(candidates[0].trace.instructions),
                show(statistics.median(fresh)),
                f"{1 / statistics.median(again):.0f}/s",
                show(statistics.median(lowering)),
                show(statistics.median(compiling)),
                show(percentile(compiling, 95)),
            )
        )
    head = ("sketch", "instructions", "first replay", "draws by substitution", "lower", "compile", "compile p95")
    print(table(head, rows))


if __name__ == "__main__":
    main()
