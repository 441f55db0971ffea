"""Random programs under random GPU schedules keep their meaning as CUDA C: 100 pairs; 3,000 with `--campaign`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from tests.cuda.campaign import BATCH, campaign
from tests.cuda.emulator import Emulated, Outcome, why_not
from tests.property.tally import Tally

pytestmark = pytest.mark.skipif(why_not() is not None, reason=str(why_not()))

SHORT, LONG = 100, 3_000
SHORT_SEED, LONG_SEED = 1, 0


def check(tally: Tally) -> None:
    shown = "\n\n".join(f"pair {f.pair} of {f.generator}: {f.what}\n{f.program}" for f in tally.faults)
    assert not tally.faults, shown


@pytest.mark.parametrize("first", range(0, SHORT, BATCH))
def test_programs_keep_their_meaning(first: int, fresh_seed: int | None) -> None:
    tally = campaign(SHORT_SEED if fresh_seed is None else fresh_seed, first, BATCH)
    check(tally)
    assert tally.checks["run"] > 0.8 * tally.pairs
    assert tally.applied["bind"] > tally.pairs


def test_threads_take_turns_in_three_orders_one_of_them_of_the_pair(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[tuple[Sequence[str], int]] = []

    def noted(compiled: Emulated, *args: Any, orders: Sequence[str], seed: int, **named: Any) -> Outcome:
        asked.append((orders, seed))
        return run(compiled, *args, orders=orders, seed=seed, **named)

    run = Emulated.run
    monkeypatch.setattr(Emulated, "run", noted)
    check(campaign(SHORT_SEED, 1, 2))
    assert {orders for orders, _ in asked} == {("forward", "reversed", "shuffled")}
    assert {seed for _, seed in asked} == {1, 2}


@pytest.mark.campaign
@pytest.mark.parametrize("first", range(0, LONG, 500))
def test_programs_keep_their_meaning_at_length(first: int) -> None:
    check(campaign(LONG_SEED, first, 500))
