"""The long campaign on GPUs: random programs under random GPU schedules, their CUDA C run on the CPU.

Results are appended to a file; a second run resumes after them. Needs g++.

With `--device` the kernels of each pair, and of the library's schedules, also run on the GPU of this machine, and its
results are compared with the interpreter's and the emulation's. Without a GPU or a compiler of CUDA C the exit status
is 3.

python benchmarks/fuzz_cuda.py --pairs 3000
python benchmarks/fuzz_cuda.py --pairs 3000 --device
"""

from __future__ import annotations

import argparse
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from benchmarks.common import ROOT, table
from tests.cuda import emulator, on_gpu
from tests.cuda.campaign import BATCH, check_batch
from tests.cuda.library import CASES, LIBRARY, check_schedules
from tests.cuda.on_gpu import OnGpu
from tests.property.chunks import Chunk, chunks, keep, kept, run
from tests.property.tally import Tally

EMULATED, ON_GPU = "cuda", "cuda, on the GPU too"
"""Generators of chunks: results of one are not those of the other."""

LIMIT = 1800.0
"""Seconds that a batch may take, on a machine that does other things, too."""


def check(chunk: Chunk, number: int) -> Tally:
    """The result of one batch, in which chunks count, or of the library's schedules."""
    numbers = range(number * BATCH, (number + 1) * BATCH)
    if chunk.generator == EMULATED:
        return check_batch(chunk.seed, numbers)
    with OnGpu() as gpu:
        return check_schedules(CASES, gpu) if chunk.generator == LIBRARY else check_batch(chunk.seed, numbers, gpu)


def planned(seed: int, pairs: int, device: bool) -> list[Chunk]:
    """What is run: batches of pairs, and on a GPU the library's schedules before them."""
    library = [Chunk(LIBRARY, 0, 0, 1)] if device else []
    return [*library, *chunks(seed, -(-pairs // BATCH), 2, [ON_GPU if device else EMULATED])]


def _commit() -> str:
    found = subprocess.run(("git", "rev-parse", "--short", "HEAD"), cwd=ROOT, capture_output=True, text=True)
    return found.stdout.strip() or "an unknown commit"


def main(words: Sequence[str] | None = None) -> int:
    """Run the campaign; the exit status says whether all pairs were right, 3: that it cannot be run here."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--pairs", type=int, default=3_000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--state", type=Path, help="the file that results are kept in (.mslang/cuda-SEED.jsonl)")
    parser.add_argument("--device", action="store_true", help="run the kernels on the GPU of this machine, too")
    options = parser.parse_args(words)
    if reason := emulator.why_not() or (on_gpu.why_not() if options.device else None):
        print(reason, file=sys.stderr)
        return 3
    state = options.state or ROOT / ".mslang" / f"cuda-{options.seed}.jsonl"
    wanted = planned(options.seed, options.pairs, options.device)
    pairs = options.pairs + (len(CASES) if options.device else 0)
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
        print(f"{total.pairs} of {pairs} pairs, {len(total.faults)} faults", flush=True)
    print(table(("", ""), [(what, total.checks[what]) for what in sorted(total.checks)]))
    print(
        table(("primitive", "tried", "applied"), [(op, n, total.applied[op]) for op, n in sorted(total.tried.items())])
    )
    print(f"{total.pairs} pairs, wrong: {len(total.faults)}")
    return 1 if total.faults else 0


if __name__ == "__main__":
    sys.exit(main())
