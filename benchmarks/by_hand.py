"""The fastest of the library's schedules by hand for a program, from random draws of each."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import numpy as np
from automatic import drawn
from common import undisturbed
from workloads import Workload

import mslang as ms
from mslang.diagnostics import MsError
from mslang.ir.program import Program
from mslang.runtime.arrays import poison
from mslang.sema.modules import load
from mslang.target.detect import host
from mslang.tune.verification import DENSE, Difference, compare

KEPT = 3
"""So many candidates are timed again."""
ROUNDS, AGAIN = 3, 9
"""Of all candidates, and of those that are timed again."""

Arrays = Mapping[str, np.ndarray[Any, Any]]


class ByHand(NamedTuple):
    """A candidate of a schedule by hand, among how many of all schedules."""

    schedule: str
    candidates: int
    run: Callable[[], object]


def fastest(workload: Workload, program: Program, draws: int, arrays: Arrays) -> ByHand | None:
    """The fastest candidate of all schedules that the library has for a workload, bound to arrays; None: there is none.

    It is chosen by rounds of its own: all candidates in turn, then the fastest of them, which the median decides.

    Raises:
        SystemExit: a result is wrong.
    """
    expected = expected_outputs(program, arrays)
    runs: dict[str, Callable[[], object]] = {}
    for schedule in schedules_for(workload):
        for number, candidate in enumerate(candidates(workload, schedule, draws)):
            try:
                bound = ms.build(candidate).bind(**arrays)
            except MsError:
                continue
            require_same(program, expected, arrays, bound.run, schedule)
            runs[f"{schedule} #{number}"] = bound.run
    if not runs:
        return None
    first = {label: min(times) for label, times in undisturbed(runs, ROUNDS, 0.002).items()}
    kept = sorted(first, key=lambda label: first[label])[:KEPT]
    again = undisturbed({label: runs[label] for label in kept}, AGAIN)
    best = min(kept, key=lambda label: float(np.median(again[label])))
    return ByHand(best.partition(" #")[0], len(runs), runs[best])


def schedules_for(workload: Workload) -> list[str]:
    """The schedules in the file that are for the program."""
    given = load(str(workload.path)).schedules
    return [name for name, s in given.items() if s.program is not None and s.program[-1].text == workload.program]


def candidates(workload: Workload, schedule: str, draws: int) -> list[Program]:
    """Distinct random candidates of a schedule; none where this machine lacks what it needs."""
    try:
        space = ms.load(workload.path).space(schedule, sizes=dict(workload.sizes), target=host())
        return list(drawn([space], draws))
    except MsError:
        return []


def expected_outputs(program: Program, arrays: Arrays) -> Arrays:
    """What the unscheduled program computes."""
    ms.build(program).bind(**arrays).run()
    return {p.given.name: np.copy(arrays[p.given.name]) for p in program.params if p.direction == "out"}


def require_same(program: Program, expected: Arrays, arrays: Arrays, run: Callable[[], object], schedule: str) -> None:
    """A kernel must compute what the program does.

    Raises:
        SystemExit: it does not.
    """
    for param in program.params:
        if param.direction == "out":
            poison(arrays[param.given.name], param.given.dtype)
    run()
    different = compare(program, expected, arrays, DENSE)
    if isinstance(different, Difference):
        raise SystemExit(f"{program.name}, {schedule}: {different.text}")
