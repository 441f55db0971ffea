"""What candidates are given to be measured: limits of time that their timing fits in."""

from collections.abc import Callable
from typing import Any, Literal

import pytest

from mslang.runtime.timing import Limits, Timing
from mslang.tune.comparison import Compared
from mslang.tune.job import Built, CompareJob, MeasureJob, Prepared
from mslang.tune.patience import Patience
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


class Told:
    """Workers that keep how long a finalist may take alone, and how long in turn with others."""

    def __init__(self) -> None:
        self.alone: list[float | None] = []
        self.in_turn: list[float] = []

    def measure(self, job: MeasureJob, seconds: float, runner: object) -> Result:
        self.alone.append(job.limits.enough)
        return Result(Outcome.TIME_OUT, "running took too long")

    def compare(self, job: CompareJob, seconds: float, runner: object) -> None:
        self.in_turn.append(job.seconds)


@pytest.mark.parametrize(
    ("searched", "alone", "in_turn"), [(1.0, 0.1, 0.5), (4.0, 0.2, 1.0), (1000.0, 0.3, 2.0)], ids=str
)
def test_finalists_of_a_short_search_have_less_time(searched: float, alone: float, in_turn: float) -> None:
    workers = Told()
    told: Any = workers
    task: Any = Stub()
    roofline: Any = None
    candidate: Any = Stub()
    made = Trials(task, Limits(), told, "folder", roofline, Patience(lambda: 50.0 + searched), begun=50.0)
    made.keep("a", candidate, Built(), lambda _: 0.0)
    made.measure_again("a", lambda: candidate)
    made.compare({"a": lambda: candidate})
    assert workers.alone == pytest.approx([alone])
    assert workers.in_turn == pytest.approx([in_turn])


class Shared:
    """Workers of which other programs have a part of the core from 100 s to 102 s: candidates take four times as long,
    and are cut off."""

    def __init__(self) -> None:
        self.now, self.measured = 0.0, 0

    def timed(self) -> Result:
        self.now += 0.1
        slow = 100.0 < self.now < 102.0
        outcome = Outcome.CUT_OFF if slow else Outcome.MEASURED
        return Result(outcome, timing=Timing((4.0 if slow else 1.0,), 1, slow))

    def measure(self, job: MeasureJob, seconds: float, runner: object) -> Result:
        self.measured += 1
        return self.timed()

    def compare(self, job: CompareJob, seconds: float, runner: object) -> tuple[Compared, ...]:
        return tuple(Compared(self.timed()) for _ in job.candidates)

    def pause(self, seconds: float) -> None:
        self.now += seconds


class Unbroken:
    """A roofline that no time breaks."""

    def broken_by(self, seconds: float) -> None:
        return None


@pytest.fixture
def shared() -> tuple[Shared, Trials]:
    workers: Any = Shared()
    task: Any = Stub()
    roofline: Any = Unbroken()
    made = Trials(task, Limits(), workers, "folder", roofline, Patience(lambda: workers.now, workers.pause))
    candidate: Any = Stub()
    made.keep("slow", candidate, Built(), {"slow": 2.0}.__getitem__)
    made.keep("fast", candidate, Built(), {"slow": 2.0, "fast": 1.0}.__getitem__)
    return workers, made


def test_before_a_candidate_is_measured_the_fastest_one_must_be_as_fast_as_it_was(
    shared: tuple[Shared, Trials],
) -> None:
    workers, made = shared
    made.settle()
    assert workers.measured == 0, "it was measured just now"
    workers.now = 50.0
    made.settle()
    made.settle()
    assert workers.measured == 1
    workers.now = 100.0
    made.settle()
    assert 102.0 < workers.now < 102.5


def test_finalists_are_measured_again_if_they_are_slower_than_before(shared: tuple[Shared, Trials]) -> None:
    workers, made = shared
    candidate: Any = Stub()
    workers.now = 100.0
    assert made.measure_again("fast", lambda: candidate).cost is None, "nothing is known of it"
    assert made.measure_again("fast", lambda: candidate, 1.0).cost == 1.0 and 102.0 < workers.now < 102.5
    workers.now = 100.0
    found = made.compare({h: lambda: candidate for h in ("fast", "slow")})
    assert found is not None and [c.result.cost for c in found] == [None, None]
    found = made.compare({h: lambda: candidate for h in ("fast", "slow")}, [1.0, 1.1])
    assert found is not None and [c.result.cost for c in found] == [1.0, 1.0]
