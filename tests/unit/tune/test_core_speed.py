"""The speed of a core and a thread's share of it, and samples beside another program on the same core."""

from __future__ import annotations

import ctypes
from collections.abc import Callable

import pytest

from mslang.runtime.core_speed import REMEMBERED, CoreSpeed, Speed, process_core_speed
from mslang.runtime.timing import ALONE, Limits, Timing
from mslang.target.core_loops import CHAINS, STEPS, Pace, loops_text
from mslang.target.known_loops import compiled
from mslang.tune.patience import SLOW, speed_of
from mslang.tune.record import Outcome, Result
from mslang.tune.sampling import Sampler, final_limits
from tests.unit.tune.test_sampling import LIMITS, RATE, Machine


class Core:
    """A core on which this thread begins `width` instructions a cycle, and the yardstick makes 64 operations."""

    def __init__(self, width: float) -> None:
        self.width, self.cycles = width, 3e9

    def pace(self) -> Pace:
        return Pace(self.cycles, self.width)

    def watched(self) -> CoreSpeed:
        return CoreSpeed(self.pace, 64.0)


def test_a_thread_alone_has_the_whole_core_at_any_speed() -> None:
    core = Core(5.0)
    watched = core.watched()
    assert watched.now() == pytest.approx((64 * 3e9, 1.0))
    core.cycles = 1.2e9
    assert watched.now() == pytest.approx((64 * 1.2e9, 1.0))


def test_a_thread_beside_another_has_a_part_of_a_core_that_is_as_fast() -> None:
    core = Core(5.0)
    watched = core.watched()
    core.width = 2.5
    assert watched.now() == pytest.approx((64 * 3e9, 0.5))


def test_a_core_that_was_always_shared_so_far_becomes_a_part_once_it_is_not() -> None:
    core = Core(2.5)
    watched = core.watched()
    assert watched.now().share == 1.0
    core.width = 5.0
    for _ in range(64):
        assert watched.now().share == 1.0
    core.width = 2.5
    assert watched.now().share == pytest.approx(0.5)


def test_a_core_that_stays_shared_is_what_is_usual_after_a_while() -> None:
    core = Core(5.0)
    watched = core.watched()
    core.width = 2.5
    for _ in range(REMEMBERED):
        watched.now()
    assert watched.now().share == 1.0


def test_the_loops_do_all_of_their_work() -> None:
    # Were a loop computed in closed form, its rate would say nothing.
    keep, wide, long = compiled(loops_text(), "wide", "long")
    call = ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_int64)
    chains, one = list(range(CHAINS)), 1
    for i in range(100):
        chains = [(x ^ i) + k + 3 for k, x in enumerate(chains)]
        for k in range(STEPS):
            one = one ^ i if k % 2 else one + i
    assert call(wide)(100) == sum(chains) and call(long)(100) == one
    assert keep


def test_the_speed_of_this_core() -> None:
    watched = process_core_speed()
    for _ in range(10):
        speed = watched.now()
        assert speed.rate > 0 and 0 < speed.share <= 1


class Beside(Machine):
    """A kernel that takes half as long again in samples beside another program; its core is no slower."""

    def __init__(self, seconds: float, beside: Callable[[int], bool]) -> None:
        super().__init__(seconds)
        self.beside = beside

    def run(self, times: int) -> None:
        seconds = times * self.seconds * (1.5 if self.beside(self.samples) else 1.0)
        self.now += seconds
        self.busy += seconds
        self.samples += 1

    def core(self) -> Speed:
        self.now += 3e-5
        return Speed(RATE, 0.6 if self.beside(self.samples) else 1.0)

    def timed(self, limits: Limits) -> Timing:
        return Sampler(
            self.run,
            limits,
            speed=self.core,
            nominal=RATE,
            clock=lambda: round(self.now * 1e9),
            busy=lambda: self.busy,
        ).take()


def test_a_sample_beside_another_program_is_disturbed() -> None:
    timing = Beside(1e-3, lambda n: n % 10 >= 4).timed(LIMITS)
    assert timing.disturbed > 0 and timing.alone == 1.0
    assert timing.samples == pytest.approx([1e-3] * len(timing.samples))


def test_a_program_that_stays_is_told_by_the_share() -> None:
    machine = Beside(1e-3, lambda n: n > 0)
    timing = machine.timed(Limits(min_repeat=0.0005, enough=0.05))
    assert timing.alone == 0.6 < ALONE and timing.slow_core and timing.median == pytest.approx(1.5e-3)
    assert speed_of(Result(Outcome.MEASURED, timing=timing)) == 0.6 < SLOW


def test_a_finalist_waits_longer_for_what_is_undisturbed() -> None:
    # Quiet times are rare: five samples of two hundred.
    def beside(n: int) -> bool:
        return n % 200 < 195

    limits = Limits(min_repeat=0.0005, enough=0.05)
    assert Beside(1e-3, beside).timed(limits).median == pytest.approx(1.5e-3)
    assert Beside(1e-3, beside).timed(final_limits(limits)).median == pytest.approx(1e-3)


def test_where_nobody_knows_the_speed_no_share_is_known() -> None:
    machine = Machine(1e-3)
    sampler = Sampler(machine.run, LIMITS, clock=lambda: round(machine.now * 1e9), busy=lambda: machine.busy)
    timing = sampler.take()
    assert timing.alone is None and timing.yardstick is None
