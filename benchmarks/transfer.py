"""What other programs teach: the candidates of each program of a record store, ranked by what the others taught.

    python benchmarks/transfer.py RECORDS.db [--candidates 48] [--trees 20 50 200] [--others N] [--json]

`mslang tune` keeps in the record store what each search measured, in features that all programs have. Here each
program in turn counts as new: the correction of the draft is trained on the others by the code that `mslang tune`
begins a search with, and its candidates are ranked by the draft alone and by the draft so corrected. Printed are
Spearman's rank correlation with the measured costs, and how much slower the best of the six that come first is than
the best of all; then the means over the programs. Candidates that were cut off are learned from, but are not ranked;
a program that has fewer than two others teaches, and has no row.

Searches chose the candidates, and later ones were themselves guided by earlier ones: the worst are not among them.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
from common import conditions, table
from msgspec.structs import replace
from numpy.typing import NDArray

from mslang.search.lessons import Lesson
from mslang.search.models.boosting import is_installed
from mslang.search.models.transfer import TREES
from mslang.tune.database import Database
from mslang.tune.lessons import packed, taught, unpacked
from mslang.tune.record import RunLesson

FIRST = 6
"""So many candidates of a ranking are measured."""

Floats = NDArray[np.float64]


class Quality(NamedTuple):
    """How good a ranking is: Spearman's correlation, and the best of the first six over the best of all."""

    spearman: float
    first: float


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("records", type=Path, metavar="RECORDS.db")
    parser.add_argument("--candidates", type=int, default=48, help="of each program at most, drawn at random")
    parser.add_argument("--trees", type=int, nargs="+", default=[TREES], help="numbers of trees to compare")
    parser.add_argument("--others", type=int, help="learn from so many other programs (default: all)")
    parser.add_argument("--json", action="store_true", help="a line of JSON for each program")
    args = parser.parse_args()
    if not is_installed():
        raise SystemExit("XGBoost is not installed: pip install '.[learn]'")
    if not args.records.is_file():
        raise SystemExit(f"there is no file {args.records}")
    with Database(args.records) as database:
        kept = latest(database.lessons())
        names = {w.hash: f"{w.name} {w.hash[:6]}" for w in database.texts()}
    kept = [fewer(x, args.candidates) for x in kept]
    if len(kept) < 2:
        raise SystemExit(f"{args.records} has lessons of {len(kept)} programs on one machine; two are needed")
    rows = {
        names.get(x.workload, x.workload): ranked(kept, k, args.trees, args.others)
        for k, x in enumerate(kept)
        if sum(np.count_nonzero(~y.censored) for y in unpacked(x)) > 1
    }
    if left := len(kept) - len(rows):
        print(f"left out, as fewer than two candidates were not cut off: {left} programs", file=sys.stderr)
    if args.json:
        for name, found in rows.items():
            print(json.dumps({"program": name, **{what: q._asdict() for what, q in found.items()}}))
        return
    if not rows:
        raise SystemExit(f"{args.records}: all candidates but one of each program were cut off")
    columns = list(next(iter(rows.values())))
    mean = {c: Quality(*np.mean([found[c] for found in rows.values()], axis=0)) for c in columns}
    head = ("program", *(f"{c}: {what}" for c in columns for what in ("Spearman", f"first {FIRST} / best")))
    lines = [(name, *cells(found)) for name, found in {**rows, "mean": mean}.items()]
    print(table(head, lines))
    print(f"\n{conditions('numpy', 'xgboost')}")


def cells(found: dict[str, Quality]) -> list[str]:
    return [f"{x:.2f}" for q in found.values() for x in q]


def latest(kept: Sequence[RunLesson]) -> list[RunLesson]:
    """The newest lessons of each program, on the machine with the newest ones and in the same features."""
    same = [x for x in kept if (x.machine, x.columns) == (kept[0].machine, kept[0].columns)]
    found: dict[str, RunLesson] = {}
    for x in same:
        found.setdefault(x.workload, x)
    return list(found.values())


def fewer(kept: RunLesson, most: int, seed: int = 0) -> RunLesson:
    """The same lessons with so many candidates at most."""
    lessons = unpacked(kept)
    count = sum(map(len, lessons))
    if count <= most:
        return kept
    chosen = np.zeros(count, np.bool_)
    chosen[np.random.default_rng(seed).choice(count, most, replace=False)] = True
    parts = np.split(chosen, np.cumsum([len(x) for x in lessons])[:-1])
    made = packed([taken(x, at) for x, at in zip(lessons, parts, strict=True) if at.any()], kept.run, kept.workload, "")
    if made is None:
        raise SystemExit(f"--candidates {most} are too few to learn from")
    return replace(kept, data=made.data)


def taken(lesson: Lesson, at: NDArray[np.bool_]) -> Lesson:
    """Some of the candidates."""
    return Lesson(lesson.names, lesson.stores[at], lesson.draft[at], lesson.cost[at], lesson.censored[at])


def ranked(kept: Sequence[RunLesson], k: int, trees: Sequence[int], others: int | None) -> dict[str, Quality]:
    """How well program `k` is ranked by the draft, and by what the others taught, those tuned just before it first."""
    lessons = [taken(x, ~x.censored) for x in unpacked(kept[k])]
    cost = np.concatenate([x.cost for x in lessons])
    draft = np.concatenate([x.draft for x in lessons])
    found = {"draft": quality(draft, cost)}
    rest = [*kept[k + 1 :], *kept[:k]][:others]
    for count in trees:
        lesson = taught(rest, kept[k].workload, kept[k].machine, trees=count)
        assert lesson is not None, "XGBoost is installed, and there are other programs"
        above = np.concatenate([lesson.correction(x.stores) for x in lessons])
        found[f"{count} trees"] = quality(draft + above, cost)
    return found


def quality(score: Floats, cost: Floats) -> Quality:
    """How good scores are, lower for faster candidates."""
    first = cost[np.argsort(score, kind="stable")[:FIRST]].min() / cost.min()
    return Quality(correlation(ranks(score), ranks(cost)), float(first))


def ranks(values: Floats) -> Floats:
    """The rank of each value; equal ones share the mean of theirs."""
    _, group, count = np.unique(values, return_inverse=True, return_counts=True)
    middle: Floats = np.cumsum(count) - (count - 1) / 2
    return middle[group]


def correlation(a: Floats, b: Floats) -> float:
    """Pearson's; 0 where one of the two is constant."""
    a, b = a - a.mean(), b - b.mean()
    norm = float(np.sqrt((a @ a) * (b @ b)))
    return float(a @ b) / norm if norm else 0.0


if __name__ == "__main__":
    main()
