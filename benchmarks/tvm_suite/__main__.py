"""How many of the schedule tests in a checkout of TVM this project reproduces.

    python -m benchmarks.tvm_suite PATH/TO/tvm [-k NAME] [-j PROCESSES] [-v]

A *pair* is a test that compares the program after some primitives with one that is written out; it is reproduced if
every such comparison finds the same form, or the same results on the same arguments. A *rejection* is a test in which
something must be refused; it is reproduced if each is. What asks for TVM's own objects, or for programs of which this
project has not the parts, is not portable: the share is given of all, and of what is portable. Where TVM is installed
it makes the programs that a test has it make (`te`, `topi`); without it those tests are not portable.
"""

from __future__ import annotations

import argparse
import sys
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from benchmarks import common
from benchmarks.tvm_suite.functions import programs_of
from benchmarks.tvm_suite.running import FOLDER, Finding, findings

GOOD = ("same form", "same meaning", "refused as expected")


def table(found: Sequence[Finding]) -> str:
    """The figures of each file, in Markdown."""
    files = dict.fromkeys(f.file for f in found if f.kind != "other")
    rows = [(f"`{file}`", *_cells(found, file, "pair"), *_cells(found, file, "rejection")) for file in files]
    return common.table(("file", "pairs", "not portable", "rejections", "not portable"), rows)


def _cells(found: Sequence[Finding], file: str, kind: str) -> tuple[str, str]:
    here = [f for f in found if f.file == file and f.kind == kind]
    apart = sum(f.outcome == "not portable" for f in here)
    good = sum(f.outcome in GOOD for f in here)
    return f"{good} of {len(here)}" if here else "", str(apart) if apart else ""


def summary(found: Sequence[Finding], kind: str) -> str:
    """How many of a kind are reproduced, of all and of those that are portable."""
    here = [f for f in found if f.kind == kind]
    good = sum(f.outcome in GOOD for f in here)
    portable = sum(f.outcome != "not portable" for f in here)
    counted = ", ".join(f"{n} {what}" for what, n in Counter(f.outcome for f in here).most_common())
    shares = f"{_share(good, len(here))} of all, {_share(good, portable)} of the {portable} that are portable"
    return f"{kind}s: {good} of {len(here)} reproduced ({shares}): {counted}"


def _share(part: int, whole: int) -> str:
    return f"{100 * part / max(1, whole):.0f} %"


def main() -> int:
    """Print the counts; the exit status says whether there was anything to run."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("checkout", type=Path)
    parser.add_argument("-k", default="", help="only tests with this in `file::name`")
    parser.add_argument("-j", type=int, default=1, help="how many processes")
    parser.add_argument("-v", action="store_true", help="show what is not reproduced, and a table by file")
    options = parser.parse_args()
    found: list[Finding] = []
    for f in findings(options.checkout, options.k, options.j):
        found.append(f)
        if options.v and f.kind != "other" and f.outcome not in GOOD:
            print(f"{f.file}::{f.test}: {f.kind} {f.outcome}: {f.why}"[:400], flush=True)
    if options.v:
        print(table(found))
    for kind in ("pair", "rejection"):
        print(summary(found, kind))
    if not options.k:
        print(programs_of(options.checkout / FOLDER).text)
    print(common.conditions("apache-tvm"))
    return 0 if found else 1


if __name__ == "__main__":
    sys.exit(main())
