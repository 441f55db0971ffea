"""A budget of time is held within 10 %, preparation and second measurement counted: by a clock that only work advances.

The processes are simulated. A task takes the seconds that its test gives it, on as many builders as there are, and runs
when they are over; waiting for it advances the clock. So no test depends on the speed of this machine.
"""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import chaos
import msgspec
import pytest
from test_search import drawn, kept
from test_tuning import go

from mslang.diagnostics import MsError
from mslang.ir.equal import structural_hash
from mslang.schedule.space import Candidate
from mslang.tune import finalists, search, session, workers
from mslang.tune import trials as trials_module
from mslang.tune import tune as tune_module
from mslang.tune.budget import Budget
from mslang.tune.progress import Event, Finished, Trial
from mslang.tune.roofline import Roofline
from mslang.tune.workers import Work
from mslang.workers.outcome import Cancelled, Done, Outcome, TimedOut

BUDGET = 20.0
FOREVER = 1e9

Job = Callable[[bytes], bytes]


@pytest.fixture(autouse=True)
def no_limits(monkeypatch: pytest.MonkeyPatch) -> None:
    """The made-up times are no business of this machine's peak."""
    monkeypatch.setattr(session, "roofline_of", lambda task: Roofline(task.program, lambda _: 1e15))
    monkeypatch.setattr(tune_module, "raise_peak", lambda rate: None)


class Clock:
    """Monotonic seconds, which begin somewhere."""

    def __init__(self) -> None:
        self.now = 1000.0

    def monotonic(self) -> float:
        return self.now


class Simulated:
    """A task that ends at some time."""

    def __init__(self, clock: Clock, end: float, outcome: Callable[[], Outcome[bytes]]) -> None:
        self._clock, self.end, self._outcome = clock, end, outcome
        self.cancelled = False

    @property
    def done(self) -> bool:
        return self.cancelled or self._clock.now >= self.end

    def outcome(self, timeout: float) -> Outcome[bytes]:
        if not self.done:
            self._clock.now = min(self.end, self._clock.now + timeout)
        if not self.done:
            raise TimeoutError
        return Cancelled() if self.cancelled else self._outcome()

    def cancel(self) -> None:
        self.cancelled = self.cancelled or not self.done


def pools(clock: Clock, took: Mapping[object, float]) -> type:
    """Pools whose processes work on one task after the other, each for the seconds of its function."""

    class Pool:
        def __init__(self, count: int, **_: object) -> None:
            self._count = count
            self._tasks: list[Simulated] = []

        def submit(self, work: Job, args: Sequence[bytes], seconds: float = FOREVER) -> Simulated:
            busy = sorted(t.end for t in self._tasks if not t.cancelled)[-self._count :]
            start = max(clock.now, busy[0]) if len(busy) == self._count else clock.now
            late = took[work] > seconds
            end = start + min(took[work], seconds)
            self._tasks.append(Simulated(clock, end, lambda: TimedOut(seconds) if late else Done(work(*args))))
            return self._tasks[-1]

        def stop(self) -> None:
            """There are no processes."""

    return Pool


class Seconds(msgspec.Struct, frozen=True):
    """How long the work takes."""

    prepare: float = 1.2
    build: float = 0.7
    measure: float = 0.3
    compare: float = 2.0


class Run(msgspec.Struct, frozen=True):
    """What a search with a budget of time gave, and when."""

    done: Finished
    seconds: float
    trials: int


def simulated(
    folder: Path,
    monkeypatch: pytest.MonkeyPatch,
    takes: Seconds,
    builders: int = 1,
    incumbent: Candidate | None = None,
) -> Run:
    """A search for 20 seconds."""
    clock, started, trials = Clock(), Clock().now, []
    work = Work(chaos.prepare, chaos.build_well, chaos.measure_well, chaos.compare_well)
    took = {getattr(work, name): getattr(takes, name) for name in Seconds.__struct_fields__}
    for module in (finalists, search, session, trials_module, tune_module, workers):
        monkeypatch.setattr(module, "time", clock)
    monkeypatch.setattr(workers, "Pool", pools(clock, took))

    def hear(event: Event) -> None:
        if isinstance(event, Trial):
            trials.append(event)

    done = go(folder, work, budget=Budget(None, BUDGET), listen=hear, workers=builders, incumbent=incumbent)
    return Run(done, clock.now - started, len(trials))


@pytest.mark.parametrize("builders", [1, 4])
@pytest.mark.parametrize(
    "takes",
    [
        Seconds(),
        Seconds(prepare=0.1, build=0.05, compare=1.0),
        # Each part takes most of the time once, or hangs.
        Seconds(prepare=14.0),
        Seconds(build=3.0),
        Seconds(build=6.0),
        Seconds(measure=5.0),
        Seconds(measure=FOREVER),
        Seconds(build=FOREVER),
        Seconds(compare=9.0),
        Seconds(compare=FOREVER),
    ],
    ids=lambda takes: ", ".join(f"{n} {v:g}" for n, v in msgspec.structs.asdict(takes).items()),
)
def test_a_budget_is_held_within_a_tenth(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, takes: Seconds, builders: int
) -> None:
    run = simulated(tmp_path, monkeypatch, takes, builders)
    assert run.seconds <= 1.1 * BUDGET
    assert run.done.seconds == pytest.approx(run.seconds), "what is reported is what was spent"
    # Nearly all of it is used where the space is not exhausted.
    assert run.seconds >= 0.79 * BUDGET
    hangs = FOREVER in (takes.build, takes.measure)
    assert (run.done.best is None) is hangs
    assert run.done.confirmed is not hangs
    assert (run.trials > 0) is not hangs


@pytest.mark.parametrize("takes", [Seconds(), Seconds(measure=1.5), Seconds(prepare=14.0)])
def test_the_standing_schedule_is_timed_where_the_time_ends_the_search(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, takes: Seconds
) -> None:
    standing = drawn(40)[-1]
    run = simulated(tmp_path, monkeypatch, takes, incumbent=standing)
    assert "is spent" in run.done.reason and run.seconds <= 1.1 * BUDGET and run.done.confirmed
    [timed, *_] = [r for r in kept(tmp_path) if r.trial < 0]
    assert timed.candidate == structural_hash(standing.program) and timed.seconds is not None


def test_a_preparation_that_takes_longer_ends_with_the_budget(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(MsError) as error:
        simulated(tmp_path, monkeypatch, Seconds(prepare=100.0))
    assert error.value.diagnostic.code == "MS513"
