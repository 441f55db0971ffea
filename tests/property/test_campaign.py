"""Random programs under random sequences of primitives keep their meaning: 1,500 pairs; 20,000 with `--campaign`."""

from __future__ import annotations

import pytest

from mslang.transform.registry import IMPLEMENTATIONS
from tests.property.campaign import WEIGHTS, Tally, campaign, drawn_pair

CHUNK = 50
SHORT, LONG = 1_500, 20_000
SHORT_SEED, LONG_SEED = 1, 0


def check(tally: Tally) -> None:
    shown = "\n\n".join(f"pair {f.pair}: {f.what}\n{f.program}" for f in tally.faults)
    assert not tally.faults, shown
    assert tally.pairs == CHUNK and tally.applied.total() > CHUNK


@pytest.mark.parametrize("first", range(0, SHORT, CHUNK))
def test_programs_keep_their_meaning(first: int) -> None:
    check(campaign(SHORT_SEED, range(first, first + CHUNK)))


@pytest.mark.campaign
@pytest.mark.parametrize("first", range(0, LONG, CHUNK))
def test_programs_keep_their_meaning_at_length(first: int) -> None:
    check(campaign(LONG_SEED, range(first, first + CHUNK)))


def test_every_primitive_for_the_cpu_is_drawn() -> None:
    assert WEIGHTS.keys() <= IMPLEMENTATIONS.keys()
    drawn = campaign(SHORT_SEED, range(60)).tried
    assert drawn.keys() == WEIGHTS.keys()


def test_a_pair_is_the_same_everywhere() -> None:
    for number in range(5):
        (first, one), (second, two) = drawn_pair(7, number), drawn_pair(7, number)
        assert first == second and one.getstate() == two.getstate()
    assert campaign(7, range(3)) == campaign(7, range(3))
