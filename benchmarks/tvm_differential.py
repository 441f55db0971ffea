"""Primitives beside TVM's: random programs, random steps; prints tables. Needs the extra `bench`.

python benchmarks/tvm_differential.py --pairs 3000 --update    writes them into docs/tvm.md, too
"""

from __future__ import annotations

import argparse
import re
import sys
from collections import Counter
from collections.abc import Sequence
from functools import partial
from multiprocessing import get_context

from common import ROOT, conditions, table

sys.path.insert(0, str(ROOT))

try:
    import tvm
except ImportError:
    print("apache-tvm is not installed (extra `bench`)", file=sys.stderr)
    raise SystemExit(3) from None

from tests.property.tvm_calls import CALLS
from tests.property.tvm_decided import DECIDED, FAILS, decided
from tests.property.tvm_differential import Tally, campaign

CHUNK = 25
PAGE = ROOT / "docs" / "tvm.md"
BEGIN, END = "<!-- differential: begin -->", "<!-- differential: end -->"


HEAD = (
    "primitive",
    "tried",
    "both take",
    "both refuse",
    "only ours takes",
    "only TVM takes",
    "TVM fails",
    "only TVM takes, and is wrong",
    "agree",
    "agree where TVM stands",
    "or decided",
    "results compared",
    "TVM's differs",
    "ours differs",
)


def rows(tally: Tally) -> list[tuple[object, ...]]:
    """A row for each primitive that was tried, and one for all."""
    found = [_row(tally, f"`{op}`", (op,)) for op in sorted(CALLS) if tally.tried(op)]
    return [*found, _row(tally, "all", tuple(CALLS))]


def _row(tally: Tally, name: str, ops: Sequence[str]) -> tuple[object, ...]:
    both, neither, ours, theirs = (
        sum(c[op] for op in ops) for c in (tally.both, tally.neither, tally.ours, tally.theirs)
    )
    tried, alike = both + neither + ours + theirs, both + neither
    kinds = {key: decided(*key) for key in tally.classes if key[0] in ops}
    fails = sum(tally.classes[key] for key, kind in kinds.items() if kind == FAILS)
    wrong = sum(tally.broken[key] for key in kinds)
    known = sum(tally.classes[key] for key, kind in kinds.items() if kind is not None)
    return (
        name,
        tried,
        both,
        neither,
        ours,
        theirs,
        fails,
        wrong,
        _percent(alike, tried),
        _percent(alike, tried - fails - wrong),
        _percent(alike + known, tried),
        sum(tally.compared[op] for op in ops),
        sum(c.op in ops for c in tally.theirs_wrong),
        sum(c.op in ops for c in tally.ours_wrong),
    )


def _percent(part: int, whole: int) -> str:
    return f"{100 * part / max(1, whole):.1f} %"


def section(tally: Tally, seed: int) -> str:
    """The summary as Markdown."""
    counts: Counter[str] = Counter()
    broken: Counter[str] = Counter()
    for key, n in tally.classes.items():
        counts[decided(*key) or ""] += n
        broken[decided(*key) or ""] += tally.broken[key]
    classes = [(name, counts[name], broken[name], DECIDED[name].why) for name in DECIDED if counts[name]]
    total = sum(tally.tried(op) for op in CALLS)
    return "\n\n".join(
        (
            f"`python benchmarks/tvm_differential.py --pairs {tally.pairs} --seed {seed}` made these tables"
            f" with TVM {tvm.__version__}:\n{total} steps on {tally.pairs} programs.",
            table(HEAD, rows(tally)),
            f"{counts.total()} steps were accepted by one side only; {counts.total() - counts['']} of these belong to"
            " the classes below, which are decided.",
            table(("class", "steps", "TVM's program is wrong", "decision"), classes),
            conditions("apache-tvm", "numpy", "llvmlite"),
        )
    )


def main() -> int:
    """Run both; the exit status is 1 if a result of ours was wrong."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--pairs", type=int, default=6000)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--update", action="store_true", help="put the tables on docs/tvm.md, too")
    options = parser.parse_args()
    tally, end = Tally(), options.first + options.pairs
    chunks = [range(k, min(k + CHUNK, end)) for k in range(options.first, end, CHUNK)]
    with get_context("spawn").Pool(options.processes, maxtasksperchild=8) as pool:
        for part in pool.imap(partial(campaign, options.seed), chunks):
            tally.add(part)
            print(f"{tally.pairs} of {options.pairs} pairs", file=sys.stderr, flush=True)
    for key, n in tally.classes.most_common():
        if not options.update or decided(*key) is None:
            case = tally.examples[key]
            print(
                f"{n} {key} wrong {tally.broken[key]} of {decided(*key)}\npair {case.pair}: {case.step}\n{case.program}"
            )
    for case in tally.ours_wrong:
        print(f"WRONG here: pair {case.pair}: {case.reason}\n{case.step}\n{case.program}")
    for case in tally.not_taken:
        print(f"not a program for TVM: pair {case.pair}: {case.reason}")
    text = section(tally, options.seed)
    print(text)
    if options.update:
        was = PAGE.read_text()
        PAGE.write_text(re.sub(f"{BEGIN}.*{END}", lambda _: f"{BEGIN}\n{text}\n{END}", was, flags=re.DOTALL))
    return 1 if tally.ours_wrong else 0


if __name__ == "__main__":
    sys.exit(main())
