"""A search over structures of which some are tensorized in vain: each is rejected with its reason, and costs no other
candidate."""

from __future__ import annotations

from pathlib import Path

import pytest

import mslang as ms
from mslang.schedule.interpret import World
from mslang.schedule.space import Space
from mslang.schedule.strategies import space_of
from mslang.search.registry import strategy_named
from mslang.search.strategy import Problem
from mslang.sema.modules import load
from mslang.target.description import GENERIC
from mslang.target.detect import host
from mslang.tune.record import Outcome

TEXT = """
program twice[N = 64](A: f32[N], out B: f32[N]) { block b[i: N] { B[i] = A[i] + A[i] } }
intrin twice4(a: f32[4], out c: f32[4]) {
    desc { block d[i: 4] { c[i] = a[i] + a[i] } }
    impl { block d[i: 4] { c[i] = a[i] + a[i] } }
}
intrin backwards(a: f32[4], out c: f32[4]) {
    desc { block d[i: 4] { c[i] = a[i] + a[i] } }
    impl { block d[i: 4] { c[i] = a[3 - i] + a[3 - i] } }
}
intrin nonsense(a: f32[4], out c: f32[4]) {
    desc { block d[i: 4] { c[i] = a[i] + a[i] } }
    impl llvm "this is no LLVM"
}
schedule tensorized for twice {
    let t ~ choose([2, 8])
    let i0, i1, i2 = b.i.split([_, t, 4])
    fork how {
        case not_at_all {}
        case well { i2.tensorize(twice4) }
        case by_a_loop_of_another_size { i1.tensorize(twice4) }
        case to_another_result { i2.tensorize(backwards) }
        case to_no_code { i2.tensorize(nonsense) }
    }
}
"""
REFUSED = "with how = by_a_loop_of_another_size no draw is legal: "


def space() -> Space:
    return space_of(load("twice.ms", TEXT), "tensorized", world=World(machine=host()))


@pytest.mark.parametrize("strategy", ["exhaustive", "evolutionary", "replay_trace"])
def test_a_structure_that_cannot_be_tensorized_is_counted_once(strategy: str) -> None:
    searching = strategy_named(strategy)(Problem(space(), GENERIC))
    assert len(searching.propose(99)) == 8
    ((why, count),) = searching.rejections.take().illegal.items()
    assert why.startswith(REFUSED) and "twice4" in why and count == 1


def test_the_search_goes_on(tmp_path: Path) -> None:
    done = ms.tune(space(), trials=20, workers=1, database=tmp_path / "r.db").done
    outcomes = done.tally.outcomes
    assert (outcomes[Outcome.ILLEGAL], outcomes[Outcome.COMPILE_ERROR], outcomes[Outcome.WRONG_RESULT]) == (1, 2, 2)
    # A candidate that is far slower than the best is not timed to the end.
    assert outcomes[Outcome.MEASURED] + outcomes[Outcome.CUT_OFF] == 4
    assert done.best is not None and done.confirmed
    reasons = dict(done.tally.reasons.keys())
    assert reasons[Outcome.ILLEGAL].startswith(REFUSED)
    assert "nonsense" in reasons[Outcome.COMPILE_ERROR]
