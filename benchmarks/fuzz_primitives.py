"""The long campaign: random programs under random sequences of primitives; the summary goes to docs/campaign.md.

python benchmarks/fuzz_primitives.py --pairs 20000
"""

from __future__ import annotations

import argparse
import sys
from functools import partial
from multiprocessing import get_context

from common import ROOT, conditions, table

sys.path.insert(0, str(ROOT))

from mslang.schedule.trace import ENTER_POSTPROC
from tests.property.campaign import WEIGHTS, Fault, Tally, campaign
from tests.property.sampled_steps import SAMPLERS

CHUNK = 100
PAGE = """# The campaign

`python benchmarks/fuzz_primitives.py --pairs {pairs} --seed {seed}` made this page.

A *pair* is a random program and a random sequence of 1 to 8 primitives on it, drawn through the `Schedule` API: sizes,
orders and places are given, or decisions that samplers draw; those that are numbers stay symbols until the end, and are
used again by later primitives. Of each pair

- every program on the way is well-formed (`mslang.ir.verify`);
- the scheduled program, interpreted with all checks (bounds, races, uninitialised reads, declared regions) and compiled
  through LLVM, gives on sparse integers bit for bit what the unscheduled program gives in the interpreter;
- the printed program parses back to an equal one;
- of every third, if it has decisions, the same structure with decisions drawn anew gives the same, too.

| | |
|---|---|
| pairs | {pairs} |
{checks}
| primitives applied | {applied}, {mean:.2f} a pair |
| **wrong results, exceptions, failed round trips** | **{faults}** |
| seed | {seed} |

{conditions}

{rows}

Every primitive takes part. Loops that are bound to thread axes run one iteration after the other on the CPU here, so
that `bind` is judged by its results like any other.

{samplers}

*Used* counts primitives that were applied with a value of this sampler, or one that was made of it before. *Drawn anew*
are the decisions of which another value was put into the same parametric program, which was then judged again; orders
and places are structure, and what a program looks like with others is another sketch. `enter_postproc` marks a place in
the trace.

*Tried* counts calls with arguments that look legal at first sight; some primitives are tried again with others.
*Rejected* are those that the primitive refused. *After three others* are applications
to a program that at least three other primitives had changed before.
"""


def page(tally: Tally, seed: int) -> str:
    """The summary as Markdown."""
    rows = [
        (f"`{op}`", tally.tried[op], tally.applied[op], tally.tried[op] - tally.applied[op], tally.late[op])
        for op in WEIGHTS
    ]
    samplers = [
        *((f"`{name}`", tally.drawn[name], tally.used[name], tally.anew[name] or "–") for name in SAMPLERS),
        (f"`{ENTER_POSTPROC}`", tally.drawn[ENTER_POSTPROC], "–", "–"),
    ]
    return PAGE.format(
        pairs=tally.pairs,
        seed=seed,
        conditions=conditions("numpy", "llvmlite"),
        applied=tally.applied.total(),
        faults=len(tally.faults),
        mean=tally.applied.total() / tally.pairs,
        checks="\n".join(f"| of these, {what} | {n} |" for what, n in sorted(tally.checks.items())),
        samplers=table(("sampler", "drawn", "used", "drawn anew"), samplers),
        rows=table(("primitive", "tried", "applied", "rejected", "after three others"), rows),
    )


def show(fault: Fault) -> None:
    """Print what went wrong."""
    print(f"\npair {fault.pair}: {fault.what}\n{fault.program}", flush=True)


def main() -> int:
    """Run the campaign; the exit status says whether all pairs were right."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--pairs", type=int, default=20_000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--processes", type=int, default=2)
    options = parser.parse_args()
    total = Tally()
    chunks = [range(k, min(k + CHUNK, options.pairs)) for k in range(0, options.pairs, CHUNK)]
    # Fresh processes now and then: what the caches and the linker keep of thousands of programs slows the rest down.
    with get_context("spawn").Pool(options.processes, maxtasksperchild=8) as pool:
        for tally in pool.imap(partial(campaign, options.seed), chunks):
            total.add(tally)
            for fault in tally.faults:
                show(fault)
            print(f"\r{total.pairs} of {options.pairs} pairs, {len(total.faults)} faults", end="", flush=True)
    print()
    (ROOT / "docs" / "campaign.md").write_text(page(total, options.seed))
    return 1 if total.faults else 0


if __name__ == "__main__":
    sys.exit(main())
