"""Drawing distinct candidates: when a space has no more."""

from __future__ import annotations

import pytest

from mslang.schedule.interpret import World
from mslang.schedule.strategies import space_of
from mslang.search.replay_trace import ReplayTrace
from mslang.search.strategy import Problem
from mslang.sema.modules import load
from mslang.target.description import GENERIC

TEXT = """
program p(A: f32[64], out B: f32[64]) { block b[i: 64] { B[i] = A[i] } }
schedule nothing_open for p { b.i.vectorize() }
schedule number_pinned for p { let n ~ choose([4, 8]) = 4  let i0, i1 = b.i.split([_, n]) }
schedule fork_pinned for p { fork how = plain { case plain {} case parallel { b.i.parallel() } } }
schedule never_holds for p { require 64 < 64, "short rows"  b.i.vectorize() }
schedule one_case_never_holds for p {
    fork how {
        case a { require 64 < 64, "short rows" }
        case b { b.i.vectorize() }
    }
}
schedule one_open for p {
    let n ~ choose([4, 8]) = 4
    let m ~ choose([1, 2])
    let i0, i1, i2 = b.i.split([_, n, m])
}
"""


@pytest.mark.parametrize(
    ("name", "candidates", "duplicates"),
    [("nothing_open", 1, False), ("number_pinned", 1, False), ("fork_pinned", 1, False), ("one_open", 2, True)],
)
def test_a_space_of_which_all_is_pinned_is_drawn_from_once(name: str, candidates: int, duplicates: bool) -> None:
    space = space_of(load("p.ms", TEXT), name, world=World(machine=GENERIC))
    strategy = ReplayTrace(Problem(space, GENERIC))
    assert [p.number for p in strategy.propose(9)] == list(range(candidates)) and not strategy.propose(9)
    assert (strategy.rejections.take().duplicates > 0) is duplicates
    assert strategy.rejections.take().duplicates == 0


@pytest.mark.parametrize(("name", "candidates"), [("never_holds", 0), ("one_case_never_holds", 1)])
def test_a_requirement_that_never_holds_is_counted_once(name: str, candidates: int) -> None:
    space = space_of(load("p.ms", TEXT), name, world=World(machine=GENERIC))
    strategy = ReplayTrace(Problem(space, GENERIC))
    assert len(strategy.propose(9)) == candidates
    ((reason, count),) = strategy.rejections.take().constraint.items()
    assert "short rows" in reason and count == 1
