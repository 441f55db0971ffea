"""Drawing distinct candidates: when a space has no more, and what the limits of the machine leave of it."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from mslang.diagnostics import MsError
from mslang.schedule.interpret import World
from mslang.schedule.strategies import space_of
from mslang.search.registry import STRATEGIES, strategy_named
from mslang.search.replay_trace import ReplayTrace
from mslang.search.strategy import Problem
from mslang.sema.modules import load
from mslang.target.description import GENERIC
from tests.unit.search.guarded import space as guarded_space

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
schedule unrolled for p { b.i.unroll() }
schedule on_threads for p { b.i.bind(threadIdx.x) }
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


# ------------------------------------------------------------------ limits of the machine
TIGHT = replace(GENERIC, extra=(("max_code", 30),))
"""A machine for which a part of the unrolled candidates of the space `small` is too much code."""
TOO_LONG = "needs more than 30 instructions, by estimate"


def test_random_draws_and_an_exhaustive_search_have_the_same_candidates() -> None:
    found = {}
    for name in ("exhaustive", "replay_trace"):
        strategy = strategy_named(name)(Problem(guarded_space("small"), TIGHT))
        found[name] = {p.hash for p in strategy.propose(500)}
        reasons = strategy.rejections.take().constraint
        assert any(TOO_LONG in why and n > 0 for why, n in reasons.items()), reasons
    unlimited = {p.hash for p in ReplayTrace(Problem(guarded_space("small"), GENERIC)).propose(500)}
    assert found["replay_trace"] == found["exhaustive"] and 1 < len(found["exhaustive"]) < len(unlimited)


def test_the_draw_of_an_open_schedule_keeps_the_limits() -> None:
    made = guarded_space("small")
    problem = Problem(made, TIGHT)
    seed = next(s for s in range(100) if problem.space.sample(s).decisions != made.sample(s).decisions)
    (proposal,) = strategy_named("replay_schedule")(replace(problem, seed=seed)).propose(1)
    assert proposal.candidate.decisions == problem.space.sample(seed).decisions


def test_what_a_user_replays_by_hand_may_exceed_a_limit_that_the_search_keeps() -> None:
    made = guarded_space("small")
    kept = {p.hash for p in ReplayTrace(Problem(made, TIGHT)).propose(500)}
    every = ReplayTrace(Problem(made, GENERIC)).propose(500)
    left_out = next(p.candidate.decisions for p in every if p.hash not in kept)
    assert made.replay(left_out).decisions == left_out
    with pytest.raises(MsError) as refused:
        Problem(made, TIGHT).space.replay(left_out)
    assert TOO_LONG in refused.value.diagnostic.message


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_an_estimate_does_not_reject_a_schedule_without_open_decisions(strategy: str) -> None:
    space = space_of(load("p.ms", TEXT), "unrolled", world=World(machine=GENERIC))
    assert len(strategy_named(strategy)(Problem(space, TIGHT, trials=4)).propose(9)) == 1


def test_a_schedule_without_open_decisions_that_cannot_run_is_counted_once() -> None:
    few = replace(GENERIC, extra=(("max_threads", 32),))
    space = space_of(load("p.ms", TEXT), "on_threads", world=World(machine=GENERIC))
    strategy = ReplayTrace(Problem(space, few))
    assert not strategy.propose(9)
    assert strategy.rejections.take().constraint == {"i needs more than 32 threads a block": 1}
