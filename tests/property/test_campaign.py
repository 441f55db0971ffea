"""Random programs under random sequences of primitives keep their meaning: 600 pairs; 20,000 with `--campaign`."""

from __future__ import annotations

from pathlib import Path

import pytest

from mslang.ops.signature import Group
from mslang.ops.table import OPERATIONS
from mslang.schedule.trace import ENTER_POSTPROC
from mslang.transform.registry import IMPLEMENTATIONS
from tests.property.campaign import WEIGHTS, Tally, campaign, drawn_pair
from tests.property.sampled_steps import SAMPLERS

SHORT, LONG = 600, 20_000
SHORT_CHUNK, LONG_CHUNK = 25, 500
SHORT_SEED, LONG_SEED = 1, 0
ROOT = Path(__file__).parents[2]


def check(tally: Tally) -> None:
    shown = "\n\n".join(f"pair {f.pair}: {f.what}\n{f.program}" for f in tally.faults)
    assert not tally.faults, shown
    assert tally.applied.total() > tally.pairs


@pytest.mark.parametrize("first", range(0, SHORT, SHORT_CHUNK))
def test_programs_keep_their_meaning(first: int, fresh_seed: int | None) -> None:
    seed = SHORT_SEED if fresh_seed is None else fresh_seed
    check(campaign(seed, range(first, first + SHORT_CHUNK)))


@pytest.mark.campaign
@pytest.mark.parametrize("first", range(0, LONG, LONG_CHUNK))
def test_programs_keep_their_meaning_at_length(first: int) -> None:
    check(campaign(LONG_SEED, range(first, first + LONG_CHUNK)))


def test_every_primitive_is_drawn() -> None:
    assert WEIGHTS.keys() == IMPLEMENTATIONS.keys()
    assert all(n > 0 for n in WEIGHTS.values())


def test_every_sampler_is_drawn_from() -> None:
    assert {s.name for s in OPERATIONS.values() if s.group is Group.SAMPLER} == set(SAMPLERS)


def test_the_summary_of_the_long_campaign_is_good() -> None:
    text = (ROOT / "docs" / "campaign.md").read_text()
    rows = {
        cells[0].strip("`*"): cells[1:]
        for cells in (
            [c.strip() for c in line.strip("| ").split("|")] for line in text.splitlines() if line.startswith("| ")
        )
    }
    assert int(rows["pairs"][0]) >= LONG
    assert rows["wrong results, exceptions, failed round trips"] == ["**0**"]
    assert float(rows["primitives applied"][0].split()[1]) >= 4, "sequences are long"
    assert rows.keys() >= WEIGHTS.keys()
    assert all(int(rows[op][1]) >= 500 for op in WEIGHTS), "each primitive is applied often"
    assert all(int(rows[op][3]) >= 200 for op in WEIGHTS), "each is applied after three others"
    assert all(int(rows[s][1]) >= 500 for s in SAMPLERS), "the values of each sampler are used often"
    assert int(rows[ENTER_POSTPROC][0]) >= 500


def test_a_pair_is_the_same_everywhere() -> None:
    for number in range(5):
        (first, one), (second, two) = drawn_pair(7, number), drawn_pair(7, number)
        assert first == second and one.getstate() == two.getstate()
    assert campaign(7, range(3)) == campaign(7, range(3))
