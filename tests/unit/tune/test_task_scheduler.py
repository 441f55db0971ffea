"""Which task is next: one generation of each first, then the largest weighted gain; failures sink."""

import math
from fractions import Fraction

import pytest

from mslang.diagnostics import MsError
from mslang.tune.task_scheduler import Gradient, RoundRobin, TaskScheduler, TaskState, scheduler_named


def state(name: str, *best: float, weight: float = 1.0, over: bool = False) -> TaskState:
    return TaskState(name, weight, best, 16 * len(best), over)


def test_each_task_has_a_generation_first() -> None:
    tasks = [state("a", 1.0), state("b"), state("c")]
    assert Gradient().next(tasks) == 1
    assert Gradient().next([state("a"), *tasks[1:]]) == 0


def test_the_gain_is_that_of_the_paper() -> None:
    # alpha (best[n-1-w] - best[n-1]) / w + (1 - alpha) best[n-1] / n, with exact arithmetic beside it
    best = (8.0, 6.0, 5.0, 4.0, 3.5)
    a, w, n = Fraction(1, 5), 3, len(best)
    exact = a * Fraction(best[n - 1 - w] - best[-1]) / w + (1 - a) * Fraction(best[-1]) / n
    assert Gradient().gain(state("t", *best, weight=3.0)) == pytest.approx(float(3 * exact))


def test_short_histories_take_the_mean_time_by_generation() -> None:
    assert Gradient().gain(state("t", 6.0, 4.0)) == pytest.approx(4.0 / 2)
    # exactly `window` generations: there is no generation `window` back yet
    assert Gradient().gain(state("t", 6.0, 4.0, 3.0)) == pytest.approx(1.0)


def test_weights_and_recent_gains_decide() -> None:
    still, falling = state("still", *[4.0] * 5), state("falling", 9.0, 9.0, 8.0, 6.0, 4.0)
    assert Gradient().next([still, falling]) == 1
    heavy = state("heavy", *[4.0] * 5, weight=4.0)
    assert Gradient().next([heavy, falling]) == 0


def test_a_first_generation_without_a_valid_candidate_is_followed_by_a_second_one() -> None:
    failed, fresh, fine = state("failed", math.inf), state("fresh"), state("fine", 1e-3)
    assert Gradient().next([failed, fresh, fine]) == 1
    assert Gradient().next([fine, failed]) == 1
    assert Gradient().next([fine, state("failed", math.inf, math.inf)]) == 0


def test_failures_sink_but_are_tried_where_nothing_else_is_left() -> None:
    failing, fine = state("failing", math.inf, math.inf, weight=100.0), state("fine", 1e-9, 1e-9, 1e-9)
    assert Gradient().next([failing, fine]) == 1
    assert Gradient().next([failing, state("fine", 1e-9, over=True)]) == 0


def test_a_first_success_after_failures_counts() -> None:
    assert math.isfinite(Gradient().gain(state("t", math.inf, math.inf, math.inf, 2.0)))


def test_ties_go_to_the_fewest_generations_then_the_first() -> None:
    assert Gradient().next([state("a", math.inf, math.inf), state("b", math.inf)]) == 1
    assert Gradient().next([state("a", 1.0), state("b", 1.0)]) == 0


@pytest.mark.parametrize("scheduler", [Gradient(), RoundRobin()])
def test_what_is_over_is_never_chosen(scheduler: TaskScheduler) -> None:
    assert scheduler.next([state("a", 1.0, over=True), state("b", 1.0, 1.0)]) == 1
    assert scheduler.next([state("a", 1.0, over=True), state("b", over=True)]) is None
    assert scheduler.next([]) is None


def test_round_robin_takes_turns() -> None:
    curves: list[list[float]] = [[], [], []]
    order = []
    for _ in range(7):
        chosen = RoundRobin().next([state(str(k), *c) for k, c in enumerate(curves)])
        assert chosen is not None
        order.append(chosen)
        curves[chosen].append(1.0)
    assert order == [0, 1, 2, 0, 1, 2, 0]


def test_schedulers_by_name() -> None:
    assert isinstance(scheduler_named("gradient"), Gradient)
    assert isinstance(scheduler_named("round-robin"), RoundRobin)
    with pytest.raises(MsError) as error:
        scheduler_named("gradeint")
    assert error.value.diagnostic.code == "MS546" and "gradient" in str(error.value.diagnostic.help)
