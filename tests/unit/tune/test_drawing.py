"""Drawing distinct candidates: when a space has no more."""

from __future__ import annotations

import pytest

from mslang.schedule.interpret import World
from mslang.schedule.strategies import space_of
from mslang.sema.modules import load
from mslang.target.description import GENERIC
from mslang.tune.drawing import distinct_candidates
from mslang.tune.progress import Tally
from mslang.tune.record import Outcome

TEXT = """
program p(A: f32[64], out B: f32[64]) { block b[i: 64] { B[i] = A[i] } }
schedule nothing_open for p { b.i.vectorize() }
schedule number_pinned for p { let n ~ choose([4, 8]) = 4  let i0, i1 = b.i.split([_, n]) }
schedule fork_pinned for p { fork how = plain { case plain {} case parallel { b.i.parallel() } } }
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
    tally = Tally()
    space = space_of(load("p.ms", TEXT), name, world=World(machine=GENERIC))
    assert len(list(distinct_candidates(space, 0, tally))) == candidates
    assert (tally.outcomes[Outcome.DUPLICATE] > 0) is duplicates
