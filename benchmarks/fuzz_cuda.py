"""The long campaign on GPUs: random programs under random GPU schedules, their CUDA C run on the CPU.

Results are appended to a file; a second run resumes after them. Needs g++.

python benchmarks/fuzz_cuda.py --pairs 3000
"""

from __future__ import annotations

import argparse
import subprocess
import sys
from pathlib import Path

from common import ROOT, table

sys.path.insert(0, str(ROOT))

from tests.cuda.campaign import BATCH, check_batch
from tests.cuda.emulator import why_not
from tests.property.chunks import Chunk, chunks, keep, kept, run
from tests.property.tally import Tally

GENERATOR = "cuda"
LIMIT = 1800.0
"""Seconds that a batch may take, on a machine that does other things, too."""


def check(chunk: Chunk, number: int) -> Tally:
    """The result of one batch: chunks count in batches."""
    return check_batch(chunk.seed, range(number * BATCH, (number + 1) * BATCH))


def _commit() -> str:
    found = subprocess.run(("git", "rev-parse", "--short", "HEAD"), cwd=ROOT, capture_output=True, text=True)
    return found.stdout.strip() or "an unknown commit"


def main() -> int:
    """Run the campaign; the exit status says whether all pairs were right."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--pairs", type=int, default=3_000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--state", type=Path, help="the file that results are kept in (.mslang/cuda-SEED.jsonl)")
    options = parser.parse_args()
    if reason := why_not():
        print(reason, file=sys.stderr)
        return 3
    state = options.state or ROOT / ".mslang" / f"cuda-{options.seed}.jsonl"
    wanted = chunks(options.seed, -(-options.pairs // BATCH), 2, [GENERATOR])
    results = [r for r in kept(state) if r.chunk in wanted]
    todo = [c for c in wanted if c not in {r.chunk for r in results}]
    total = Tally()
    for result in results:
        total.add(result.tally)
    for result in run(todo, options.processes, _commit(), check, LIMIT):
        keep(state, result)
        total.add(result.tally)
        for fault in result.tally.faults:
            print(f"\npair {fault.pair} of {fault.generator}: {fault.what}\n{fault.program}", flush=True)
        print(f"{total.pairs} of {options.pairs} pairs, {len(total.faults)} faults", flush=True)
    print(table(("", ""), [(what, total.checks[what]) for what in sorted(total.checks)]))
    print(
        table(("primitive", "tried", "applied"), [(op, n, total.applied[op]) for op, n in sorted(total.tried.items())])
    )
    print(f"{total.pairs} pairs, wrong: {len(total.faults)}")
    return 1 if total.faults else 0


if __name__ == "__main__":
    sys.exit(main())
