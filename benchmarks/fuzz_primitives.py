"""The long campaign: random programs under random sequences of primitives; prints the tables of docs/campaign.md.

Results are appended to a file. A second run resumes after those of the same code, whatever else was committed, so a
campaign can be made in parts, with the file in the repository.

python benchmarks/fuzz_primitives.py --pairs 100000
"""

from __future__ import annotations

import argparse
import gc
import hashlib
import math
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from common import ROOT, conditions, table

sys.path.insert(0, str(ROOT))

from mslang.schedule.instruction import ENTER_POSTPROC
from tests.property.campaign import GENERATORS, WEIGHTS
from tests.property.chunks import CODE, Chunk, Result, check_one, chunks, condense, keep, kept, left, run
from tests.property.sampled_steps import SAMPLERS
from tests.property.tally import Fault, Tally

CHUNK = 50
PAGE = """# The campaign

Random programs under random sequences of primitives, compared bit for bit with the unscheduled program.

`python benchmarks/fuzz_primitives.py --pairs {pairs} --seed {seed}` printed this, at {commits}.

## What is run

A *pair* is a random program and a random sequence of 1 to 8 primitives on it, applied through the `Schedule` API.
Sizes, orders and places are either given or sampled. Sampled numbers stay symbolic until the end, and later primitives
use them again. Two generators, written independently, produce half of the pairs each:

- `stages`: chains of affine blocks over whole buffers, and programs made for one family of primitives;
- `instances`: blocks whose instances depend on data, order and sizes. Flags and data in predicates; inits that read,
  gather, branch or are nested; reversed, shifted, strided, rotated and partial bindings; several writers, in-place
  updates, scans, running reductions, opaque axes; gathers and scatters; triangular loops; sizes known only at the call,
  which are run at their minimum, at tile sizes and below them; extents of 0 and 1; every element type with its extreme
  values (NaN, infinities, −0.0, the smallest and largest integers); conditions on what was combined before, bounds of
  loops that other blocks write, and axes called like loops that they do not follow; data that change while they are
  still asked for (axes, bounds, indices); conditions on sums of 64-bit data that wrap round; branches, `while` loops
  and values above blocks.

Both give some parameters strides and offsets, and draw programs for primitives that few other programs can take.

## What is checked

- Every intermediate program is well-formed (`mslang.ir.verify`).
- The scheduled program gives bit for bit what the unscheduled program gives in the interpreter. It runs in the
  interpreter with all checks (bounds, races, uninitialised reads, declared regions) and compiled through LLVM, on whole
  numbers for which sums are exact in any order, and on extreme values.
- The printed program parses back to an equal one.
- For every third pair that has decisions, the same structure with other values of them gives the same result, too.

Loops bound to thread axes run serially on the CPU here, so `bind` is judged by its results like any other primitive.

## Results

{totals}

{conditions}

## Primitives

*Tried* counts calls with arguments that look legal at first sight; some primitives are tried again with other
arguments. *Rejected* counts calls that the primitive refused. *After three others* counts applications to a program
that at least three other primitives had changed before. Columns count both generators; the share of `instances` is in
parentheses.

{rows}

## Samplers

*Used* counts applied primitives that took a value of this sampler, or a value derived from one. *Drawn anew* counts
decisions for which another value was put into the same parametric program, which was then checked again. Orders and
places are structure: another one gives another sketch. `enter_postproc` marks a place in the trace.

{samplers}
"""


def page(total: Tally, by_generator: dict[str, Tally], seed: int, commits: Sequence[str]) -> str:
    """The summary as Markdown."""
    second = by_generator["instances"]

    def both(count: str, name: str) -> str:
        whole, part = (getattr(t, count)[name] for t in (total, second))
        return f"{whole} ({part})"

    rows = [
        (
            f"`{op}`",
            both("tried", op),
            total.applied[op],
            second.applied[op],
            total.tried[op] - total.applied[op],
            both("late", op),
        )
        for op in WEIGHTS
    ]
    samplers = [
        *((f"`{name}`", both("drawn", name), both("used", name), both("anew", name)) for name in SAMPLERS),
        (f"`{ENTER_POSTPROC}`", both("drawn", ENTER_POSTPROC), "–", "–"),
    ]
    columns = [total, *by_generator.values()]
    checks = sorted({what for t in columns for what in t.checks})
    totals = [
        ("pairs", *(t.pairs for t in columns)),
        *((f"of these, {what}", *(t.checks[what] for t in columns)) for what in checks),
        (
            "primitives applied",
            *(f"{t.applied.total()}, {t.applied.total() / max(t.pairs, 1):.2f} a pair" for t in columns),
        ),
        ("**wrong results, exceptions, failed round trips**", *(f"**{len(t.faults)}**" for t in columns)),
    ]
    return PAGE.format(
        pairs=total.pairs,
        seed=seed,
        commits=" and ".join(commits),
        conditions=conditions("numpy", "llvmlite"),
        totals=table(("", "both", *(f"`{name}`" for name in by_generator)), totals),
        samplers=table(("sampler", "drawn", "used", "drawn anew"), samplers),
        rows=table(("primitive", "tried", "applied", "of these, `instances`", "rejected", "after three others"), rows),
    )


def show(fault: Fault) -> None:
    """Print the failures."""
    print(f"\npair {fault.pair} of {fault.generator}: {fault.what}\n{fault.program}", flush=True)


def _git(*words: str) -> str:
    return subprocess.run(("git", *words), cwd=ROOT, capture_output=True, text=True).stdout.strip()


def _commit() -> str:
    return _git("rev-parse", "--short", "HEAD") or "an unknown commit"


def _code() -> str:
    """What tells one state of the code from another: its trees, and what is not committed."""
    trees = _git("rev-parse", *(f"HEAD:{path}" for path in CODE)), _git("diff", "HEAD", "--", *CODE)
    return hashlib.sha1("\n".join(trees).encode()).hexdigest()[:12]


def _progress(results: Sequence[Result], wanted: int) -> str:
    """How many pairs are done, how many of them wrong, and how many a minute each generator gets through."""
    done = sum(r.tally.pairs for r in results)
    wrong = sum(len(r.tally.faults) for r in results)
    speed = []
    for name in GENERATORS:
        own = [r for r in results if r.chunk.generator == name]
        seconds = sum(r.seconds for r in own)
        if seconds:
            speed.append(f"{name} {60 * sum(r.tally.pairs for r in own) / seconds:.0f} pairs/min a process")
    return f"{done} of {wanted} pairs, {wrong} faults; {', '.join(speed)}"


def _warm(seed: int) -> None:
    """Import what pairs import once, for all processes, and look for garbage seldom: most of it is in no cycle.

    Fifty pairs of `stages` take 7.4 s of a processor instead of 10.4, fifty of `instances` 5.7 instead of 7.6.
    """
    for generator in GENERATORS:
        check_one(Chunk(generator, seed, 0, 1), 0)
    gc.collect()
    gc.freeze()
    gc.set_threshold(100_000, 50, 100)


def main() -> int:
    """Run the campaign; the exit status says whether all pairs were right."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--pairs", type=int, default=100_000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--generators", nargs="*", choices=list(GENERATORS), default=list(GENERATORS))
    parser.add_argument("--state", type=Path, help="the file that results are kept in (.mslang/campaign-SEED.jsonl)")
    parser.add_argument("--minutes", type=float, help="begin nothing after so long; the summary is of what is done")
    options = parser.parse_args()
    state = options.state or ROOT / ".mslang" / f"campaign-{options.seed}.jsonl"
    code = _code()
    before = [r for r in kept(state) if r.chunk.seed == options.seed and r.chunk.generator in options.generators]
    results = [r for r in before if r.code == code]
    if others := sum(r.tally.pairs for r in before if r.code != code):
        print(f"{others} pairs in {state} ran under other code and do not count", file=sys.stderr)
    todo = left(chunks(options.seed, options.pairs, CHUNK, options.generators), results)
    _warm(options.seed)
    end = math.inf if options.minutes is None else time.monotonic() + 60 * options.minutes
    for result in run(todo, options.processes, _commit(), code=code, stop=lambda: time.monotonic() > end):
        keep(state, result)
        results.append(result)
        for fault in result.tally.faults:
            show(fault)
        print(_progress(results, options.pairs), flush=True)
    condense(state)
    total, by_generator = Tally(), {name: Tally() for name in GENERATORS}
    for result in results:
        total.add(result.tally)
        by_generator[result.chunk.generator].add(result.tally)
    print(page(total, by_generator, options.seed, sorted({r.commit for r in results})))
    return 1 if total.faults else 0


if __name__ == "__main__":
    sys.exit(main())
