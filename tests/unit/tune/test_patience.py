"""A candidate that ran on a slow core is measured again, but not for ever."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from mslang.runtime.timing import Timing
from mslang.tune.patience import SHARE, SLOW, Patience, speed_of
from mslang.tune.record import Outcome, Result
from mslang.tune.workers import BudgetSpent


class Day:
    """A clock, and a core whose speed depends on the time; a measurement takes 0.1 s."""

    def __init__(self, core: Callable[[float], float | None], end: float = 1e9) -> None:
        self.now, self.core, self.end = 0.0, core, end

    def clock(self) -> float:
        return self.now

    def pause(self, seconds: float) -> None:
        self.now += seconds

    def measured(self) -> Result:
        if self.now >= self.end:
            raise BudgetSpent
        core = self.core(self.now)
        self.now += 0.1
        return Result(Outcome.MEASURED, timing=Timing((1.0,), 1, core=core))

    def patience(self) -> Patience:
        return Patience(self.clock, self.pause)


def core_of(result: Result) -> float | None:
    assert result.timing is not None
    return result.timing.core


@pytest.mark.parametrize("core", [1.0, SLOW, None])
def test_what_ran_on_a_good_core_is_measured_once(core: float | None) -> None:
    day = Day(lambda _: core)
    patience = day.patience()
    day.now = 100.0
    assert core_of(patience.measure(day.measured, speed_of)) == core and day.now == pytest.approx(100.1)


def test_a_slow_core_is_waited_for() -> None:
    day = Day(lambda now: 0.6 if 100.0 <= now < 103.0 else 0.95)
    patience = day.patience()
    day.now = 100.0
    assert core_of(patience.measure(day.measured, speed_of)) == 0.95
    assert 103.0 < day.now < 103.5


def test_a_core_that_stays_slow_takes_a_share_of_the_time() -> None:
    day = Day(lambda now: 0.6 + 1e-9 * now)
    patience = day.patience()
    for _ in range(400):
        patience.measure(day.measured, speed_of)
    assert day.now == pytest.approx(400 * 0.1 / (1 - SHARE), rel=0.02)


def test_of_all_attempts_that_on_the_fastest_core_counts() -> None:
    speeds = iter((0.6, 0.7, 0.5, 0.65))
    day = Day(lambda _: next(speeds, 0.1))
    patience = day.patience()
    day.now = 4.0
    assert core_of(patience.measure(day.measured, speed_of)) == 0.7


def test_where_the_budget_ends_meanwhile_the_first_attempt_counts() -> None:
    day = Day(lambda _: 0.6, end=100.2)
    patience = day.patience()
    day.now = 100.0
    assert core_of(patience.measure(day.measured, speed_of)) == 0.6
    with pytest.raises(BudgetSpent):
        patience.measure(day.measured, speed_of)


def test_a_failure_of_a_later_attempt_counts() -> None:
    results = iter((Result(Outcome.MEASURED, timing=Timing((1.0,), 1, core=0.6)), Result(Outcome.CRASH, "it died")))
    day = Day(lambda _: None)
    patience = day.patience()
    day.now = 100.0
    assert patience.measure(lambda: next(results), speed_of).outcome is Outcome.CRASH
