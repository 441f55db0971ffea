"""How long kernels may run before `mslang run` and `compare` give up."""

from mslang.cli.time_limits import seconds_alone, seconds_together
from mslang.runtime.timing import Limits
from mslang.tune.job import Prepared
from mslang.tune.workers import RUN_SECONDS

LIMITS = Limits(max_total=3.0)


def test_a_kernel_may_run_as_long_as_the_unscheduled_program_suggests() -> None:
    assert seconds_alone(LIMITS, None) == seconds_alone(LIMITS, Prepared(0.1)) == RUN_SECONDS
    # Three calls of 10 s: two are verified, one is timed.
    assert seconds_alone(LIMITS, Prepared(2 * 10.0)) == 3.0 + 2 * 3.0 + 20 * 20.0


def test_kernels_in_turn_may_run_as_long_as_their_calls_take() -> None:
    assert seconds_together(10.0, [1e-3, 1e-3]) < RUN_SECONDS + 3 * 10.0 + 1.0
    slow = [12.0, 15.0]
    # Two samples before the first round, and two rounds, whatever they take.
    assert seconds_together(10.0, slow) > 4 * sum(slow)
