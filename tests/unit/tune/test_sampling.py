"""Sampling on a made-up machine: its clock, its speed and its other programs are the test's."""

from collections.abc import Callable

import pytest
from msgspec.structs import replace

from mslang.runtime.caches import CacheFlush
from mslang.runtime.core_speed import Speed
from mslang.runtime.disturbance import Disturbance, disturbance
from mslang.runtime.timing import Limits, Timing
from mslang.target.detect import host
from mslang.tune.sampling import IN_PLACE_RUNS, LEAST_SAMPLE, Sampler, final_limits, trial_limits

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
        self.waited = self.busy = 0.0
        self.samples = self.switches = self.runs = self.restored = self.flushed = 0
        self.lengths: list[int] = []

    def run(self, times: int) -> None:
        seconds = times * self.seconds / self.speed(self.samples) * (self.cold if self.samples == 0 else 1.0)
        self.now += seconds
        self.busy += seconds
        if self.preempted(self.samples):
            self.now += 0.004
            self.switches += 1
        self.lengths.append(times)
        self.samples += 1

    def yardstick(self) -> float:
        self.now += 1e-4
        return RATE * self.speed(max(self.samples - 1, 0))

    def restore(self) -> None:
        self.restored += 1

    def flush(self) -> None:
        self.flushed += 1

    def take(self, limits: Limits, in_place: bool = False) -> Timing:
        return self.sampler(limits, in_place).take()

    def sampler(self, limits: Limits, in_place: bool = False) -> Sampler:
        return Sampler(
            self.run,
            limits,
            speed=lambda: Speed(self.yardstick(), 1.0),
            nominal=RATE,
            restore=self.restore if in_place else None,
            clock=lambda: round(self.now * 1e9),
            disturbed=lambda: Disturbance(self.switches, self.waited),
            busy=lambda: self.busy,
            flush=self.flush if limits.cache == "cold" else None,
        )


LIMITS = Limits(min_repeat=0.0005)


def taken(machine: Machine, limits: Limits) -> int:
    """How many samples are taken, those included that tell how long one should be."""
    machine.take(limits)
    return machine.samples


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


def test_a_sample_whose_threads_waited_for_a_core_is_disturbed() -> None:
    class Late(Machine):
        def run(self, times: int) -> None:
            super().run(times)
            if self.samples % 2:
                self.now += 0.002
                self.waited += 0.002

    timing = Late(1e-3).take(LIMITS)
    assert timing.disturbed > 0
    assert timing.samples == pytest.approx([1e-3] * len(timing.samples))


def test_a_sample_during_which_the_speed_changed_is_disturbed() -> None:
    # The speed halves within the fifth sample: it is neither a fast one nor a slow one.
    timing = Machine(1e-3, speed=lambda n: 1.0 if n < 5 else 0.5).take(Limits(min_repeat=0.0005, repeats=9))
    assert timing.disturbed == 1
    assert max(timing.samples) == pytest.approx(min(timing.samples))


def test_where_all_is_disturbed_the_least_disturbed_count() -> None:
    class Busy(Machine):
        def run(self, times: int) -> None:
            super().run(times)
            late = 0.004 if self.samples % 3 else 0.0005
            self.now += late
            self.waited += late

    timing = Busy(1e-3).take(Limits(repeats=4, enough=0.05))
    assert timing.disturbed > 4 and len(timing.samples) == 4
    assert timing.samples == pytest.approx([1.5e-3] * 4)


def test_more_samples_are_taken_of_an_unsteady_kernel() -> None:
    unsteady = Machine(1e-3, speed=lambda n: (1.0, 0.93, 1.06, 0.96)[n % 4])
    unsteady.yardstick = lambda: RATE  # type: ignore[method-assign]
    steady = Machine(1e-3)
    assert taken(unsteady, Limits(spread=0.01)) > taken(steady, Limits(spread=0.01))


def test_the_fastest_samples_count() -> None:
    # What shares caches beyond the core slows three of four samples down, and no loop notices.
    class Unnoticed(Machine):
        def run(self, times: int) -> None:
            super().run(times)
            late = (0.1 + 0.05 * (self.samples % 7)) * times * self.seconds if self.samples % 4 else 0.0
            self.now += late
            self.busy += late

    timing = Unnoticed(1e-3).take(final_limits(LIMITS))
    assert len(timing.samples) >= 5 and timing.median == pytest.approx(1e-3)


def test_few_samples_suffice_for_what_is_not_near_the_best_and_where_time_is_short() -> None:
    def unsteady() -> Machine:
        machine = Machine(1e-3, speed=lambda n: (1.0, 0.8, 1.2)[n % 3])
        machine.yardstick = lambda: RATE  # type: ignore[method-assign]
        return machine

    best = 0.5e-3
    limits = trial_limits(LIMITS, best)
    assert limits.cutoff == pytest.approx(3 * best)
    few = taken(unsteady(), limits)
    assert few < 10
    assert taken(unsteady(), trial_limits(LIMITS, 1e-3)) == few + LIMITS.max_repeats - LIMITS.repeats
    assert taken(unsteady(), replace(LIMITS, enough=0.004)) == few
    final = final_limits(limits)
    assert final.cutoff is None and final.near is None and final.spread < LIMITS.spread
    assert trial_limits(LIMITS, None) == LIMITS


def test_with_cold_caches_each_sample_is_one_run_after_a_flush() -> None:
    machine = Machine(1e-6)
    timing = machine.take(Limits(cache="cold", min_repeat=0.0005))
    assert timing.cold and timing.runs == 1 and set(machine.lengths) == {1}
    assert machine.flushed == machine.samples > 5
    assert not Machine(1e-6).take(LIMITS).cold


def test_a_core_that_is_slow_after_a_flush_and_after_a_cold_run_disturbs_no_sample() -> None:
    class Woken(Machine):
        """The yardstick's first run after the core waited for memory is slow."""

        waited_for_memory = False

        def run(self, times: int) -> None:
            super().run(times)
            self.waited_for_memory = True

        def flush(self) -> None:
            super().flush()
            self.waited_for_memory = True

        def yardstick(self) -> float:
            rate = super().yardstick() * (0.5 if self.waited_for_memory else 1.0)
            self.waited_for_memory = False
            return rate

    timing = Woken(1e-4).take(Limits(cache="cold"))
    assert timing.disturbed == 0 and timing.yardstick == pytest.approx(RATE)
    assert timing.samples == pytest.approx([1e-4] * len(timing.samples))


def test_the_time_of_flushes_counts_as_spent() -> None:
    class Flushing(Machine):
        def flush(self) -> None:
            super().flush()
            self.now += 0.01

    # Where every sample is disturbed, only the time ends it.
    limits = Limits(cache="cold", max_total=0.5)
    machine = Flushing(1e-5, preempted=lambda _: True)
    machine.take(limits)
    assert machine.now <= limits.max_total + 0.02


def test_caches_are_emptied() -> None:
    size = 1 << 16
    flush = CacheFlush(cores=2, size=size)
    flush()
    flush()
    assert [part.nbytes for part in flush.parts] == [size, size]
    assert all((part == 2).all() for part in flush.parts)
    whole = CacheFlush()
    assert sum(part.nbytes for part in whole.parts) >= 2 * host().l3


def test_what_others_take_is_counted() -> None:
    before = disturbance()
    after = disturbance()
    assert after.switches >= before.switches and after.waited >= before.waited >= 0


def test_a_sample_on_fewer_cores_is_disturbed() -> None:
    # A thread that waits to the end of the sample is no switch, and what it waited is not counted yet.
    class Parallel(Machine):
        def run(self, times: int) -> None:
            alone = self.samples % 3 != 0
            self.now += times * self.seconds * (2.0 if alone else 1.0)
            self.busy += times * self.seconds * 2.0
            self.samples += 1

    timing = Parallel(1e-3).take(LIMITS)
    assert timing.disturbed > 0 and timing.samples == pytest.approx([1e-3] * len(timing.samples))


def test_a_sample_whose_yardstick_was_preempted_is_disturbed() -> None:
    class Preempted(Machine):
        asked = 0

        def yardstick(self) -> float:
            self.asked += 1
            self.switches += self.asked % 3 == 0
            return super().yardstick()

    assert Preempted(1e-3).take(LIMITS).disturbed > 0


class Shared(Machine):
    """A kernel of two threads, which share one core in samples as `shared` says."""

    def __init__(self, seconds: float, shared: Callable[[int], bool]) -> None:
        super().__init__(seconds)
        self.shared, self.asked = shared, 0

    def run(self, times: int) -> None:
        seconds = times * self.seconds * (2.0 if self.shared(self.samples) else 1.0)
        self.now += seconds
        self.busy += 2.0 * seconds
        self.samples += 1

    def share(self, rate: float, patience: float) -> float:
        assert rate == RATE
        self.asked += 1
        return 0.5 if self.shared(self.samples) else 1.0


def shared_sampler(machine: Shared, limits: Limits) -> Sampler:
    return Sampler(
        machine.run,
        limits,
        speed=lambda: Speed(RATE, 1.0),
        nominal=RATE,
        clock=lambda: round(machine.now * 1e9),
        busy=lambda: machine.busy,
        share=machine.share,
    )


def test_a_sample_in_which_two_threads_share_a_core_is_disturbed() -> None:
    # Both threads ran all the time and nobody waited, but each had half of a core.
    timing = shared_sampler(Shared(1e-3, lambda n: n % 3 == 2), LIMITS).take()
    assert timing.disturbed > 0 and timing.samples == pytest.approx([1e-3] * len(timing.samples))


def test_the_time_in_which_threads_are_moved_apart_does_not_count() -> None:
    class Moved(Shared):
        """They are kept busy for 40 ms before each sample, and then have a core each."""

        def share(self, rate: float, patience: float) -> float:
            self.now += 0.04 if patience else 0.0
            return 1.0

    machine = Moved(1e-3, lambda _: False)
    timing = shared_sampler(machine, replace(LIMITS, enough=0.05)).take()
    assert timing.samples == pytest.approx([1e-3] * 5) and machine.now > 0.2


def test_threads_that_share_a_core_do_not_cut_a_good_candidate_off() -> None:
    machine = Shared(1e-3, lambda n: 0 < n < 20)
    assert not shared_sampler(machine, Limits(cutoff=1.5e-3, min_repeat=0.0005)).take().censored


def test_where_threads_always_share_a_core_the_time_is_limited_and_counts() -> None:
    machine = Shared(1e-3, lambda _: True)
    timing = shared_sampler(machine, replace(LIMITS, enough=0.05)).take()
    assert timing.samples == pytest.approx([2e-3] * len(timing.samples)) and machine.now < 1.1 * LIMITS.max_total


def test_nobody_is_asked_about_a_kernel_of_one_thread() -> None:
    class Alone(Shared):
        def run(self, times: int) -> None:
            self.now += times * self.seconds
            self.busy += times * self.seconds
            self.samples += 1

    machine = Alone(1e-3, lambda _: False)
    shared_sampler(machine, LIMITS).take()
    assert machine.asked == 0
