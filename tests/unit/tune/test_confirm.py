"""The second measurement of the fastest candidates."""

import msgspec
import pytest
from test_database import make

from mslang.runtime.timing import Timing
from mslang.target.yardstick import NOMINAL_RATE
from mslang.tune.confirm import REMEASURED, ROUNDS, confirm
from mslang.tune.record import Outcome, Record, Result


def finalists(*costs: float) -> list[Record]:
    return [make(k, cost) for k, cost in enumerate(costs)]


def timed(seconds: float, speed: float = 1.0) -> Result:
    return Result(Outcome.MEASURED, timing=Timing((seconds / speed,) * 3, 1, yardstick=speed * NOMINAL_RATE))


class Machine:
    """Candidates of known cost on a core whose speed changes with each measurement."""

    def __init__(self, costs: list[float], speeds: tuple[float, ...] = (1.0,)) -> None:
        self.costs, self.speeds = costs, speeds
        self.order: list[int] = []

    def __call__(self, record: Record, dense: bool) -> Result:
        self.order.append(record.trial)
        return timed(self.costs[record.trial], self.speeds[len(self.order) % len(self.speeds)])


def test_near_candidates_are_measured_in_rounds() -> None:
    machine = Machine([1.0, 1.05, 1.1, 9.0])
    found = confirm(finalists(1.0, 1.05, 1.1, 9.0), machine)
    assert machine.order == [0, 1, 2] * ROUNDS
    assert [r.trial for r in found.ordered] == [0, 1, 2] and found.ties == 0


def test_the_speed_of_the_core_decides_nothing() -> None:
    # By plain times the first would win: it is measured when the core is fast.
    machine = Machine([1.1, 1.0, 1.05], speeds=(1.0, 2.0, 0.5))
    found = confirm(finalists(1.0, 1.0, 1.0), machine)
    assert [r.trial for r in found.ordered] == [1, 2, 0]
    assert found.ordered[0].cost == pytest.approx(1.0)


def test_differences_within_the_noise_are_ties() -> None:
    times = {0: [1.0, 1.04, 1.0], 1: [1.01, 1.03, 1.05], 2: [1.1, 1.1, 1.1]}

    def measure(record: Record, dense: bool) -> Result:
        return timed(times[record.trial].pop(0))

    found = confirm(finalists(1.0, 1.01, 1.1), measure)
    assert found.ordered[0].trial == 0 and found.ties == 1 and found.ordered[1].trial == 1


def test_one_that_was_only_lucky_gives_way() -> None:
    machine = Machine([5.0, 5.0, 5.0, 2.0, 3.0])
    found = confirm(finalists(1.0, 1.1, 1.2, 2.0, 3.0), machine)
    assert found.ordered[0].trial == 3 and 4 not in machine.order


def test_one_that_fails_in_a_later_round_is_out() -> None:
    calls = {0: 0, 1: 0}

    def measure(record: Record, dense: bool) -> Result:
        calls[record.trial] += 1
        wrong = record.trial == 0 and calls[0] == 2
        return Result(Outcome.WRONG_RESULT, "it differs") if wrong else timed(1.0 + record.trial / 100)

    found = confirm(finalists(1.0, 1.01), measure)
    assert [r.trial for r in found.failed] == [0] and [r.trial for r in found.ordered] == [1]


def test_without_time_the_first_is_measured_all_the_same() -> None:
    machine = Machine([1.0, 1.0, 1.0])
    found = confirm(finalists(1.0, 1.0, 1.0), machine, over=lambda: True)
    assert machine.order == [0] and len(found.ordered) == 1
    nothing = confirm(finalists(1.0, 1.0), lambda *_: None, over=lambda: True)
    assert nothing.ordered == nothing.failed == ()


def test_at_least_some_are_measured_again() -> None:
    machine = Machine([1.0, 2.0, 3.0, 4.0])
    confirm(finalists(1.0, 2.0, 3.0, 4.0), machine)
    assert sorted(set(machine.order)) == list(range(REMEASURED))
    assert msgspec.structs.replace(make(0, 1.0)).cost == 1.0
