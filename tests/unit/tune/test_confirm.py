"""The second measurement of the fastest candidates."""

from collections.abc import Sequence

import msgspec
import pytest
from test_database import make

from mslang.runtime.timing import Timing
from mslang.target.yardstick import NOMINAL_RATE
from mslang.tune.comparison import Compared, Sample, gap
from mslang.tune.confirm import REMEASURED, TRIED_AGAIN, confirm
from mslang.tune.record import Outcome, Record, Result

ROUNDS = 9


def finalists(*costs: float) -> list[Record]:
    return [make(k, cost) for k, cost in enumerate(costs)]


def timed(seconds: float, speed: float = 1.0) -> Result:
    return Result(Outcome.MEASURED, timing=Timing((seconds / speed,) * 3, 1, yardstick=speed * NOMINAL_RATE))


class Machine:
    """Candidates of known cost on a core whose speed changes with each measurement.

    In turns they cost what `beside` says, times what the round makes of all of them.
    """

    def __init__(
        self, costs: list[float], speeds: tuple[float, ...] = (1.0,), beside: dict[int, list[float]] | None = None
    ) -> None:
        self.costs, self.speeds, self.beside = costs, speeds, beside or {}
        self.order: list[int] = []
        self.together: list[int] = []

    def measure(self, record: Record) -> Result:
        self.order.append(record.trial)
        return timed(self.costs[record.trial], self.speeds[len(self.order) % len(self.speeds)])

    def compare(self, records: Sequence[Record]) -> list[Compared]:
        self.together = [r.trial for r in records]
        found = []
        for r in records:
            costs = self.beside.get(r.trial, [self.costs[r.trial]] * ROUNDS)
            samples = tuple(Sample(cost * (1.0 + 0.5 * (k % 2))) for k, cost in enumerate(costs))
            timing = Timing(tuple(costs), 1, yardstick=NOMINAL_RATE)
            found.append(Compared(Result(Outcome.MEASURED, timing=timing), samples))
        return found


def test_near_candidates_are_timed_in_turns() -> None:
    machine = Machine([1.1, 1.05, 1.0, 9.0])
    found = confirm(finalists(1.0, 1.05, 1.1, 9.0), machine.measure, machine.compare)
    assert machine.order == [0, 1, 2] and machine.together == [2, 1, 0]
    # Rounds differ by half: side by side the candidates are told apart all the same.
    assert [r.trial for r in found.ordered] == [2, 1, 0] and found.ties == 0
    assert [g.ratio for g in found.gaps] == pytest.approx([1.05, 1.1])


def test_the_speed_of_the_core_decides_nothing() -> None:
    # By plain times the first would win: it is measured when the core is fast.
    machine = Machine([1.1, 1.0, 1.05], speeds=(1.0, 2.0, 0.5))
    found = confirm(finalists(1.0, 1.0, 1.0), machine.measure, machine.compare)
    assert [r.trial for r in found.ordered] == [1, 2, 0]
    assert found.ordered[0].cost == pytest.approx(1.0)


def test_a_finalist_that_only_a_slow_core_held_back_is_compared() -> None:
    """Its time on a core that it shares with another program is no reason to leave it out; that of its own is."""
    for core, together in ((0.65, [1, 2, 0]), (0.95, [1, 2])):
        machine = Machine([1.0, 1.05, 1.1])
        slow = timed(1.4)
        assert slow.timing is not None
        shared = msgspec.structs.replace(slow, timing=msgspec.structs.replace(slow.timing, core=core))

        def measure(record: Record, machine: Machine = machine, shared: Result = shared) -> Result:
            return shared if record.trial == 0 else machine.measure(record)

        found = confirm(finalists(1.0, 1.05, 1.1), measure, machine.compare)
        assert machine.together == together
        assert found.ordered[0].trial == together[-1 if core < 0.9 else 0]


def test_differences_within_the_noise_are_ties_with_their_numbers() -> None:
    noisy = [1.01, 0.97, 1.05, 1.02, 0.98, 1.04, 1.01, 0.99, 1.0]
    machine = Machine([1.0, 1.01, 1.1], beside={1: noisy})
    found = confirm(finalists(1.0, 1.01, 1.1), machine.measure, machine.compare)
    assert [r.trial for r in found.ordered] == [0, 1, 2] and found.ties == 1
    first, second = found.gaps
    assert first.ratio == pytest.approx(1.01) and 0.01 < first.noise < 0.05 and first.within_noise
    assert second.ratio == pytest.approx(1.1) and not second.within_noise


def test_without_samples_the_times_are_compared() -> None:
    costs = [1.0, 1.1]
    found = confirm(
        finalists(*costs), lambda r: timed(costs[r.trial]), lambda rs: [Compared(timed(costs[r.trial])) for r in rs]
    )
    [only] = found.gaps
    assert only.ratio == pytest.approx(1.1) and not only.is_known and found.ties == 1


def test_rounds_that_others_disturbed_do_not_count() -> None:
    disturbed = [Sample(9.0, clean=False)] * 4
    found = gap([*disturbed, *[Sample(1.5)] * 5], [Sample(1.0)] * 9)
    assert found.ratio == 1.5 and found.noise == 0
    assert gap(disturbed, [Sample(1.0)] * 4).ratio == 9.0
    assert gap([Sample(2.0)], [Sample(1.0)]).within_noise


def test_one_that_was_only_lucky_gives_way() -> None:
    machine = Machine([5.0, 5.0, 5.0, 2.0, 3.0])
    found = confirm(finalists(1.0, 1.1, 1.2, 2.0, 3.0), machine.measure, machine.compare)
    assert found.ordered[0].trial == 3 and 4 not in machine.order


def test_one_that_may_only_have_been_unlucky_is_measured_again() -> None:
    machine = Machine([1.0, 1.0, 1.0, 0.9, 1.0])
    found = confirm(finalists(1.0, 1.0, 1.0, 1.02, 1.03), machine.measure, machine.compare)
    assert found.ordered[0].trial == 3 and 4 not in machine.order
    # However many come near, only so many are.
    machine = Machine([1.0] * 20)
    confirm(finalists(*[1.0] * 20), machine.measure, machine.compare)
    assert machine.order == list(range(TRIED_AGAIN))
    # And none when the time is spent.
    machine = Machine([1.0] * 20)
    confirm(finalists(*[1.0] * 20), machine.measure, machine.compare, over=lambda: len(machine.order) == 5)
    assert machine.order == list(range(5)) and machine.together == []


def test_one_that_fails_beside_others_is_out() -> None:
    machine = Machine([1.0, 1.01])

    def compare(records: Sequence[Record]) -> list[Compared]:
        second = machine.compare(records)[1]
        return [Compared(Result(Outcome.WRONG_RESULT, "it differs")), second]

    found = confirm(finalists(1.0, 1.01), machine.measure, compare)
    assert [r.trial for r in found.failed] == [0] and [r.trial for r in found.ordered] == [1]


def test_where_they_cannot_be_compared_the_times_alone_count() -> None:
    machine = Machine([1.02, 1.01])
    found = confirm(finalists(1.0, 1.01), machine.measure, lambda _: None)
    assert [r.trial for r in found.ordered] == [1, 0] and found.gaps == () and found.ties == 0


def test_verifications_of_before_stay() -> None:
    machine = Machine([1.0])
    found = confirm(finalists(1.0), machine.measure, machine.compare)
    assert found.ordered[0].result.timing == Timing((1.0,) * ROUNDS, 1, yardstick=NOMINAL_RATE)


def test_without_time_the_first_is_measured_all_the_same() -> None:
    machine = Machine([1.0, 1.0, 1.0])
    found = confirm(finalists(1.0, 1.0, 1.0), machine.measure, machine.compare, over=lambda: True)
    assert machine.order == [0] and machine.together == [] and len(found.ordered) == 1
    nothing = confirm(finalists(1.0, 1.0), lambda _: None, machine.compare, over=lambda: True)
    assert nothing.ordered == nothing.failed == ()


def test_at_least_some_are_measured_again() -> None:
    machine = Machine([1.0, 2.0, 3.0, 4.0])
    confirm(finalists(1.0, 2.0, 3.0, 4.0), machine.measure, machine.compare)
    assert sorted(set(machine.order)) == list(range(REMEASURED))
    assert msgspec.structs.replace(make(0, 1.0)).cost == 1.0


def test_rounds_that_something_disturbed_as_a_whole_do_not_make_a_slower_one_the_best() -> None:
    """The record store orders by the last time of each: the first of both is the same."""
    machine = Machine([1.0, 1.1, 1.25], beside={0: [1.5] * ROUNDS, 1: [1.4] * ROUNDS})
    found = confirm(finalists(1.0, 1.1, 1.25), machine.measure, machine.compare)
    assert machine.together == [0, 1]
    assert [r.trial for r in found.ordered] == [2, 1, 0] and found.gaps == () and found.ties == 0
