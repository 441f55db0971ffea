"""Automatic spaces and default schedules of drawn programs: what the rules make means the same."""

from __future__ import annotations

from collections import Counter

import pytest

from mslang.schedule.rules.automatic import automatic_space
from mslang.schedule.rules.default_cpu import default_schedule
from mslang.schedule.space import Candidate
from mslang.target.detect import host
from tests.property.campaign import GENERATORS
from tests.property.judge import check_meaning

SEED, SHORT, LONG = 5, 5, 400
SAMPLES = 3


def check(generator: str, seed: int, numbers: range) -> None:
    right = 0
    for number in numbers:
        before, _ = GENERATORS[generator].draw(seed, number)
        space = automatic_space(before.program, host())
        drawn = (space.attempt(k) for k in range(SAMPLES))
        scheduled = [c for c in drawn if isinstance(c, Candidate)] + [default_schedule(before.program, host())]
        for program in {c.program for c in scheduled}:
            # Numbers of pairs that are compiled for this machine, half of them with every access checked.
            check_meaning(before, program, 4 * number + 2, Counter())
            right += 1
    assert right > len(numbers)


@pytest.mark.parametrize("generator", GENERATORS)
def test_rules_keep_the_meaning(generator: str, fresh_seed: int | None) -> None:
    check(generator, SEED if fresh_seed is None else fresh_seed, range(SHORT))


@pytest.mark.campaign
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("generator", GENERATORS)
def test_rules_keep_the_meaning_of_many(generator: str) -> None:
    check(generator, SEED, range(LONG))
