"""Sampling on a made-up machine: its clock, its speed and its other programs are the test's."""

from collections.abc import Callable

import pytest

from mslang.runtime.timing import Limits, Timing
from mslang.tune.sampling import IN_PLACE_RUNS, LEAST_SAMPLE, Sampler

RATE = 1e11


class Machine:
    """A kernel of `seconds` at full speed; `speed` and `preempted` say what happens in the n-th sample."""

    def __init__(
        self,
        seconds: float,
        speed: Callable[[int], float] = lambda _: 1.0,
        preempted: Callable[[int], bool] = lambda _: False,
        cold: float = 1.0,
    ) -> None:
        self.seconds, self.speed, self.preempted, self.cold = seconds, speed, preempted, cold
        self.now = 0.0
        self.samples = self.switches = self.runs = self.restored = 0
        self.lengths: list[int] = []

    def run(self, times: int) -> None:
        self.now += times * self.seconds / self.speed(self.samples) * (self.cold if self.samples == 0 else 1.0)
        if self.preempted(self.samples):
            self.now += 0.004
            self.switches += 1
        self.lengths.append(times)
        self.samples += 1

    def yardstick(self) -> float:
        self.now += 1e-4
        return RATE * self.speed(self.samples - 1)

    def restore(self) -> None:
        self.restored += 1

    def take(self, limits: Limits, in_place: bool = False) -> Timing:
        return Sampler(
            self.run,
            limits,
            yardstick=self.yardstick,
            nominal=RATE,
            restore=self.restore if in_place else None,
            clock=lambda: round(self.now * 1e9),
            switches=lambda: self.switches,
        ).take()


LIMITS = Limits(min_repeat=0.0005)


def test_disturbed_samples_are_left_out() -> None:
    timing = Machine(1e-3, preempted=lambda n: n % 3 == 0).take(LIMITS)
    assert timing.disturbed > 0
    assert timing.samples == pytest.approx([1e-3] * len(timing.samples), rel=1e-6)


def test_a_machine_that_always_disturbs_still_gives_a_time() -> None:
    timing = Machine(1e-3, preempted=lambda _: True).take(LIMITS)
    assert timing.samples and timing.disturbed >= len(timing.samples)


def test_the_yardstick_makes_times_of_a_changing_core_comparable() -> None:
    fast = Machine(1e-3).take(LIMITS)
    slow = Machine(1e-3, speed=lambda _: 0.5).take(LIMITS)
    assert slow.median == pytest.approx(2 * fast.median)
    assert fast.yardstick == pytest.approx(RATE) and slow.yardstick == pytest.approx(RATE / 2)


@pytest.mark.parametrize("seconds", [1e-7, 4e-7, 1e-5, 1e-3])
def test_a_slow_first_run_does_not_cut_a_good_candidate_off(seconds: float) -> None:
    # What a single call took decided before: for kernels of less than 0.5 µs always against them.
    machine = Machine(seconds, cold=1000.0 if seconds < 1e-4 else 3.9)
    timing = machine.take(Limits(cutoff=1.5 * seconds, min_repeat=0.0005))
    assert not timing.censored and timing.median == pytest.approx(seconds, rel=1e-2)
    assert max(n * seconds for n in machine.lengths) >= 0.79 * 0.0005
    assert timing.runs * seconds >= 0.79 * 0.0005 > LEAST_SAMPLE


def test_a_slow_core_does_not_cut_a_good_candidate_off() -> None:
    assert not Machine(1e-3, speed=lambda _: 0.4).take(Limits(cutoff=1.5e-3)).censored


def test_a_preempted_sample_does_not_cut_a_good_candidate_off() -> None:
    assert not Machine(1e-3, preempted=lambda n: n < 4).take(Limits(cutoff=1.5e-3)).censored


def test_a_bad_candidate_is_cut_off_early() -> None:
    machine = Machine(4e-3)
    timing = machine.take(Limits(cutoff=3e-3))
    assert timing.censored and machine.samples == 4


def test_a_very_slow_candidate_is_cut_off_by_one_run() -> None:
    machine = Machine(3.0)
    assert machine.take(Limits(cutoff=3e-3)).censored
    assert machine.samples == 1


def test_a_very_slow_kernel_without_cut_off_runs_once() -> None:
    machine = Machine(3.0)
    assert machine.take(LIMITS).samples == pytest.approx((3.0,))
    assert machine.samples == 1


def test_inputs_are_restored_before_each_sample_and_runs_on_results_are_few() -> None:
    machine = Machine(1e-7)
    machine.take(LIMITS, in_place=True)
    assert machine.restored == machine.samples
    assert max(machine.lengths) == IN_PLACE_RUNS


@pytest.mark.parametrize("cutoff", [None, 1.0])
def test_one_slow_run_does_not_make_samples_short(cutoff: float | None) -> None:
    # The first runs wake threads and load pages: what they take says little of many runs in a row.
    class Overhead(Machine):
        def run(self, times: int) -> None:
            super().run(times)
            self.now += 1e-4

    timing = Overhead(1e-6).take(Limits(cutoff=cutoff, min_repeat=0.0005))
    assert timing.runs >= 300
