"""What candidates are given to be measured: limits of time that their timing fits in."""

from collections.abc import Callable
from typing import Any, Literal

import pytest

from mslang.runtime.timing import Limits
from mslang.tune.job import Built, CompareJob, MeasureJob, Prepared
from mslang.tune.record import Outcome, Result
from mslang.tune.trials import Trials


class Recorded:
    """Workers that keep what they are asked to do, and end with an outcome of the test's."""

    def __init__(self, result: Result) -> None:
        self.result = result
        self.asked: list[tuple[Limits, float]] = []

    def measure(self, job: MeasureJob, seconds: float, runner: object) -> Result:
        self.asked.append((job.limits, seconds))
        return self.result

    def compare(self, job: CompareJob, seconds: float, runner: object) -> None:
        self.asked.append((job.limits, seconds))


class Stub:
    """A task or a candidate of which only these fields matter."""

    runner = program = None
    instances = ()


def trials(workers: Any, limits: Limits) -> Trials:
    task: Any = Stub()
    roofline: Any = None
    made = Trials(task, limits, workers, "folder", roofline)
    made.prepared = Prepared(0.001)
    return made


@pytest.mark.parametrize("max_total", [0.5, 60.0])
@pytest.mark.parametrize(
    "asked",
    [
        lambda t, c: t.measure(c, Built()),
        lambda t, c: t.measure(c, Built(), final=True),
        lambda t, c: t.compare({"a": lambda: c}),
    ],
    ids=["trial", "finalist", "in turns"],
)
def test_the_time_limit_leaves_room_for_timing(max_total: float, asked: Callable[[Trials, Any], object]) -> None:
    workers = Recorded(Result(Outcome.TIME_OUT, "running took too long"))
    made = trials(workers, Limits(max_total=max_total))
    candidate: Any = Stub()
    made.keep("a", candidate, Built(), lambda _: 0.0)
    asked(made, candidate)
    ((limits, seconds),) = workers.asked
    assert seconds > limits.max_total


@pytest.mark.parametrize(("cache", "cold"), [("cold", True), ("warm", False), (None, None)])
def test_a_time_out_keeps_which_caches_it_ran_with(cache: Literal["warm", "cold"] | None, cold: bool | None) -> None:
    candidate: Any = Stub()
    made = trials(Recorded(Result(Outcome.TIME_OUT, "running took too long")), Limits(cache=cache))
    assert made.measure(candidate, Built()).cold is cold
    # A wrong result is one with any caches, and so is a compilation that takes too long.
    made = trials(Recorded(Result(Outcome.WRONG_RESULT, "on dense inputs …")), Limits(cache=cache))
    assert made.measure(candidate, Built()).cold is None
    late = Built(result=Result(Outcome.TIME_OUT, "compiling took too long"))
    assert made.measure(candidate, late).cold is None
