"""Strategies: what they propose, in which order, from which measurements."""

from collections import Counter
from collections.abc import Callable, Sequence
from functools import partial
from itertools import islice
from statistics import median
from typing import Any

import msgspec
import numpy as np
import pytest
from numpy.typing import NDArray

from mslang.diagnostics import MsError
from mslang.ir.equal import structural_hash
from mslang.schedule.batch.layout import DecisionBatch
from mslang.schedule.batch.random_words import Stream
from mslang.schedule.sketch import Sketch
from mslang.schedule.strategies import space_of
from mslang.search.estimates import Models
from mslang.search.evolutionary import Breeding, Evolutionary
from mslang.search.exhaustive import Exhaustive
from mslang.search.leaves import Leaf, Leaves
from mslang.search.mutators import Mutator, Part
from mslang.search.population import Point, Scored, in_order, merged, spread
from mslang.search.registry import STRATEGIES, Automatic, strategy_named, unused
from mslang.search.replay_schedule import ReplaySchedule
from mslang.search.replay_trace import ReplayTrace
from mslang.search.strategy import Observed, Problem, Proposal, Rejections, Strategy, uses
from mslang.sema.modules import load
from mslang.target.description import GENERIC, Target
from tests.unit.search.guarded import space

SMALL = Breeding(fresh=256, children=256, rounds=2, population=64)


# ------------------------------------------------------------------ a made-up machine
def logarithm(batch: DecisionBatch) -> NDArray[np.float64]:
    """What a draft may know of the time: how far sizes are from good ones."""
    c = {n: np.log2(np.maximum(x, 1)) for n, x in batch.columns().items()}
    return sum((abs(x - (k * 7 % 4)) * 0.3 for k, (n, x) in enumerate(c.items())), np.zeros(len(batch)))


def hidden(sketch: Sketch, batch: DecisionBatch) -> NDArray[np.float64]:
    """What it does not know: two sizes that must fit together, the structure, and roughness."""
    c = {n: np.log2(np.maximum(x, 1)) for n, x in batch.columns().items()}
    first = next(iter(c.values()))
    apart = sum((abs(x + first - 3) * 0.2 for x in c.values()), np.zeros(len(batch)))
    rough = (sketch.batch().keys(batch) % np.uint64(97)).astype(np.float64) / 970
    return apart + rough + 0.3 * len(sketch.structure and str(sketch.structure[0][1]))


class Draft:
    def __init__(self, sketch: Sketch, target: Target) -> None:
        self.asked = 0

    def seconds(self, batch: DecisionBatch) -> NDArray[np.float64]:
        return 1e-3 * 2 ** logarithm(batch)


class Columns:
    """The decisions' logarithms as features."""

    def __init__(self, sketches: Sequence[Sketch], target: Target) -> None:
        self.names = sorted({n for s in sketches for n in s.batch().layout.names})

    def rows(self, number: int, batch: DecisionBatch) -> NDArray[np.float32]:
        c = batch.columns()
        zeros = np.zeros(len(batch), np.int64)
        return np.log2(np.maximum(np.stack([c.get(n, zeros) for n in self.names], 1), 1)).astype(np.float32)


class Linear:
    """A model of second degree by least squares."""

    def __init__(self, names: Sequence[str], seed: int) -> None:
        self.weights = np.zeros(0)

    def update(self, features: NDArray[np.float32], cost: Any, censored: Any) -> None:
        x = self._terms(features)
        known = np.isfinite(cost)
        y = np.log2(np.where(known, cost, 2 * cost[known].max()) / cost.min())
        self.weights = np.linalg.solve(x.T @ x + 0.1 * np.eye(x.shape[1]), x.T @ y)

    def predict(self, features: NDArray[np.float32]) -> NDArray[np.float64]:
        found: NDArray[np.float64] = self._terms(features) @ self.weights
        return found

    def _terms(self, x: NDArray[np.float32]) -> NDArray[np.float64]:
        return np.concatenate([np.ones((len(x), 1)), x, x**2], axis=1).astype(np.float64)


MODELS = Models(Draft, Columns, Linear)


def cost_of(p: Proposal) -> float:
    sketch = p.candidate.sketch
    batch = sketch.batch().of([{d.address: p.candidate.decisions[d.address] for d in sketch.decisions}])  # type: ignore[misc]
    return float(1e-3 * 2 ** (logarithm(batch) + hidden(sketch, batch))[0])


def observed(p: Proposal) -> Observed:
    """Every 17th fails, every 13th is cut off."""
    kind = int(p.hash[:6], 16)
    cost = None if kind % 17 == 0 or kind % 13 == 0 else cost_of(p)
    bound = cost_of(p) / 2 if kind % 13 == 0 else None
    return Observed(p.hash, p.candidate.decisions, p.candidate.sketch.structure, cost, bound)


def searched(strategy: Strategy, trials: int, n: int = 8) -> list[Proposal]:
    found: list[Proposal] = []
    while len(found) < trials:
        proposals = strategy.propose(n)
        if not proposals:
            break
        found += proposals
        strategy.observe([observed(p) for p in proposals])
    return found[:trials]


def best(proposals: Sequence[Proposal]) -> float:
    return min(o.cost for p in proposals if (o := observed(p)).cost is not None)


# ------------------------------------------------------------------ what holds of all
FACTORIES: dict[str, Callable[[Problem], Strategy]] = {
    "evolutionary": lambda p: Evolutionary(msgspec.structs.replace(p, models=MODELS), breeding=SMALL),
    "evolutionary, nothing known": lambda p: Evolutionary(p, breeding=SMALL),
    "replay_trace": ReplayTrace,
}


@pytest.mark.parametrize("make", FACTORIES.values(), ids=FACTORIES)
@pytest.mark.parametrize("name", ["guarded", "large", "many"])
def test_proposals_are_valid_distinct_and_concrete(make: Callable[[Problem], Strategy], name: str) -> None:
    made = space(name)
    found = searched(make(Problem(made, GENERIC, seed=2, trials=40)), 40)
    assert len(found) == 40 and [p.number for p in found] == list(range(40))
    assert len({p.hash for p in found}) == 40
    for p in found[::5]:
        again = made.replay(p.candidate.decisions)
        assert structural_hash(again.program) == p.hash == structural_hash(p.candidate.program)
        assert again.trace.as_ms("x") == p.candidate.trace.as_ms("x")
        assert again.sketch.structure == p.candidate.sketch.structure


@pytest.mark.parametrize("make", FACTORIES.values(), ids=FACTORIES)
def test_the_same_seed_and_measurements_give_the_same_proposals(make: Callable[[Problem], Strategy]) -> None:
    orders = [[p.hash for p in searched(make(Problem(space("large"), GENERIC, s, 32)), 32)] for s in (4, 4, 5)]
    assert orders[0] == orders[1] != orders[2]


def test_a_structure_with_guards_is_proposed_as_often_as_the_others() -> None:
    found = searched(FACTORIES["evolutionary"](Problem(space("guarded"), GENERIC, 1, 64)), 64)
    guards = Counter(tuple(g.answer for g in p.candidate.sketch.guards) for p in found)
    assert len(guards) == 4
    for p in found:
        values = {d.address: p.candidate.decisions[d.address] for d in p.candidate.sketch.decisions}
        assert p.candidate.sketch.violation(values) is None  # type: ignore[arg-type]


# ------------------------------------------------------------------ exhaustive
@pytest.mark.parametrize("models", [Models(), MODELS], ids=["in the order of the seed", "ranked"])
def test_an_exhaustive_search_proposes_each_point_once(models: Models) -> None:
    made = space("small")
    strategy = Exhaustive(Problem(made, GENERIC, seed=1, models=models))
    found = searched(strategy, 10**6, n=64)
    points = [v for s in made.sketches() for v in s.points()]
    programs = {structural_hash(s.instantiate(v)) for s in made.sketches() for v in s.points()}
    assert {p.hash for p in found} == programs and len(found) == len(programs)
    assert len(found) + strategy.rejections.duplicates == len(points)
    assert strategy.explanation() == f"exhaustive search: {len(points)} points"
    assert not strategy.propose(8)


UNLIKELY = """program p(A: f32[64], out B: f32[64]) { block b[i: 64] { B[i] = A[i] + 1.0 } }
    schedule s for p {
        let n ~ choose([2, 4, 8, 16], weights = [1, 0, 2, 0])
        let kind ~ choose(["vectorize", "none"], weights = [1, 0])
        let parts = b.i.split([none, n])
        if kind == "vectorize" { parts[1].vectorize() }
    }"""


def test_what_has_no_weight_is_not_proposed() -> None:
    made = space_of(load("own.ms", UNLIKELY), "s")
    for found in (
        searched(Exhaustive(Problem(made, GENERIC)), 9),
        searched(FACTORIES["evolutionary"](Problem(made, GENERIC, trials=9)), 9),
    ):
        assert sorted(p.candidate.decisions["n"] for p in found) == [2, 8]
        assert {p.candidate.decisions["kind"] for p in found} == {"vectorize"}
    (sketch,) = made.sketches()
    assert len(list(sketch.points())) == 2


def test_what_has_no_weight_is_not_counted_where_a_tile_depends_on_it() -> None:
    text = """program p(A: f32[48], out B: f32[48]) { block b[i: 48] { B[i] = A[i] + 1.0 } }
        schedule s for p {
            let n ~ choose([2, 4, 8], weights = [0, 1, 1])
            let i0, i1 = b.i.split([_, n])
            let t ~ perfect_tile(i0, n = 2)
            let *parts = i0.split(t)
        }"""
    (sketch,) = space_of(load("own.ms", text), "s").sketches()
    points = list(sketch.points())
    assert {v["n"] for v in points} == {4, 8}
    every = sketch.batch().all()
    assert every is not None and len(every) == len(points) == Leaf(0, sketch, GENERIC, 0, Rejections()).count
    pinned = text.replace("weights = [0, 1, 1])", "weights = [0, 1, 1]) = 2")
    (sketch,) = space_of(load("own.ms", pinned), "s").sketches()
    every = sketch.batch().all()
    assert every is not None and len(every) == len(list(sketch.points())) > 0


def test_what_has_no_weight_may_be_pinned_and_known() -> None:
    made = space_of(load("own.ms", UNLIKELY), "s")
    pinned = made.sample(0, {"n": 4, "kind": "none"}, strict=True)
    assert (pinned.decisions["n"], pinned.decisions["kind"]) == (4, "none")
    beside = made.sample(0, {"n": 4}, strict=True)
    known = Observed(structural_hash(beside.program), beside.decisions, beside.sketch.structure, 1e-6)
    found = searched(Evolutionary(Problem(made, GENERIC, trials=9, known=(known,), models=MODELS), breeding=SMALL), 9)
    assert {p.candidate.decisions["n"] for p in found} >= {2, 8}


def test_an_exhaustive_search_takes_the_most_promising_first() -> None:
    random = searched(Exhaustive(Problem(space("small"), GENERIC, 1)), 16)
    ranked = searched(Exhaustive(Problem(space("small"), GENERIC, 1, models=MODELS)), 16)
    assert best(ranked) <= best(random)
    assert median(map(cost_of, ranked)) < 0.8 * median(map(cost_of, random))


def test_a_large_space_is_not_enumerated() -> None:
    for name, why in (("large", "points; at most 300000"), ("many", "8 structures or more")):
        with pytest.raises(MsError) as error:
            Exhaustive(Problem(space(name), GENERIC))
        assert error.value.diagnostic.code == "MS516" and why in (error.value.diagnostic.why or "")


@pytest.mark.parametrize(
    ("name", "trials", "strategy"),
    [
        ("small", 20, "exhaustive"),
        ("small", 3, "evolutionary"),
        ("guarded", 10, "evolutionary"),
        ("large", 1000, "evolutionary"),
        ("illegal", 1, "exhaustive"),
    ],
)
def test_the_size_of_the_space_chooses_the_strategy(name: str, trials: int, strategy: str) -> None:
    found = Automatic()(Problem(space(name), GENERIC, trials=trials))
    assert found.name == strategy and f"{strategy} search: " in found.explanation()


# ------------------------------------------------------------------ evolutionary
@pytest.mark.parametrize("name", ["large", "guarded"])
def test_evolution_finds_better_than_chance(name: str) -> None:
    evolved, random = (
        median(best(searched(make(Problem(space(name), GENERIC, seed, 64)), 64)) for seed in range(3))
        for make in (FACTORIES["evolutionary"], ReplayTrace)
    )
    assert evolved < random


def from_database(found: Observed) -> Observed:
    """With decisions as JSON has them."""
    decisions = msgspec.json.decode(msgspec.json.encode(found.decisions))
    return msgspec.structs.replace(found, decisions=decisions)


def test_what_is_known_is_where_it_begins() -> None:
    first = searched(FACTORIES["evolutionary"](Problem(space("large"), GENERIC, 1, 64)), 64)
    known = tuple(from_database(observed(p)) for p in first)
    stale = Observed("0", {"gone": 1}, (), 1e-9)
    strategy = Evolutionary(
        Problem(space("large"), GENERIC, 2, 64, known=(*known, stale), models=MODELS), breeding=SMALL
    )
    proposals = strategy.propose(16)
    assert best(proposals[:1]) == best(first) and {p.hash for p in proposals[:4]} < {p.hash for p in first}
    assert best(proposals) <= best(first)


def test_what_is_known_is_proposed_once_at_most_and_learned_once() -> None:
    first = searched(FACTORIES["evolutionary"](Problem(space("large"), GENERIC, 1, 80)), 80)
    known = tuple(from_database(observed(p)) for p in first)
    learned: list[int] = []

    class Counting(Linear):
        def update(self, features: NDArray[np.float32], cost: Any, censored: Any) -> None:
            learned.append(len(cost))
            super().update(features, cost, censored)

    models = Models(Draft, Columns, Counting)
    strategy = Evolutionary(Problem(space("large"), GENERIC, 2, 64, known=known, models=models), breeding=SMALL)
    generations = [strategy.propose(16)]
    strategy.observe([observed(p) for p in generations[0]])
    generations.append(strategy.propose(16))
    before = {p.hash for p in first}
    assert [sum(p.hash in before for p in g) for g in generations] == [4, 0]
    assert learned == [80, 80 + 12]


def of_structure(proposals: Sequence[Proposal]) -> Counter[object]:
    return Counter(p.candidate.sketch.structure for p in proposals)


@pytest.mark.parametrize("outcome", ["ran", "failed"])
def test_where_nothing_is_known_of_candidates_all_structures_are_tried(outcome: str) -> None:
    strategy = Evolutionary(Problem(space("large"), GENERIC, 3, 96), breeding=SMALL)
    proposals: list[Proposal] = []
    for _ in range(3):
        new = strategy.propose(12)
        proposals += new
        strategy.observe([Observed(p.hash, {}, (), 1.0 if outcome == "ran" else None) for p in new])
    assert sorted(of_structure(proposals).values()) == [12, 12, 12]


def test_random_candidates_are_of_the_structures_that_were_measured_least() -> None:
    """All structures but one are slow: nine tenths of each generation are of that one."""
    strategy = Evolutionary(Problem(space("large"), GENERIC, 3, 400, models=MODELS), breeding=SMALL)
    count: Counter[object] = Counter()
    for _ in range(8):
        new = strategy.propose(10)
        count += of_structure(new)
        strategy.observe(
            [Observed(p.hash, {}, (), 1.0 if "straight" in str(p.candidate.sketch.structure) else 9.0) for p in new]
        )
    assert len(count) == 3 and min(count.values()) >= 6


def test_a_generation_is_not_of_one_kind() -> None:
    """Of candidates with almost equal scores those are measured together that differ."""
    leaf = Leaf(0, next(iter(space("large").sketches())), GENERIC, 0, Rejections())
    batch = leaf.draw(200)
    one = batch[np.zeros(50, np.int64)]
    one.array[:, one.layout["steps"].columns] = np.resize([0, 16, 64], (50, 1))
    rows = DecisionBatch(batch.layout, np.asfortranarray(np.concatenate([one.array, batch.array])))
    scores = np.concatenate([np.full(50, -0.1), np.linspace(0, 0.05, 200)])
    part = merged([Scored(leaf, rows, scores)])
    plain, apart = (list(islice(f, 8)) for f in (in_order(part), spread(part, 0.4)))

    def kinds(points: Sequence[Point]) -> int:
        return len({tuple(v for a, v in p.row.row(0).items() if a != "steps") for p in points})

    assert kinds(plain) == 6 and kinds(apart) == 8
    assert apart[0].score == plain[0].score == -0.1
    everything = list(spread(part, 0.4))
    assert len(everything) == len(part[0]) and len({leaf.key(p.row) for p in everything}) == len(everything)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_scores_that_are_no_numbers_come_last(dtype: type) -> None:
    """A model of a user's own may give any floats."""
    leaf = Leaf(0, next(iter(space("large").sketches())), GENERIC, 0, Rejections())
    part = [Scored(leaf, leaf.draw(4), np.asarray([np.inf, 1.0, np.nan, np.inf], dtype))]
    found = list(spread(part, 0.4))
    assert len({leaf.key(p.row) for p in found}) == len(found) == 4 and found[0].score == 1.0


def test_the_last_trials_go_to_the_neighbourhood_of_the_best() -> None:
    strategy = Evolutionary(Problem(space("large"), GENERIC, 3, 40, models=MODELS), breeding=SMALL)
    found = searched(strategy, 32)
    fastest = sorted(found, key=lambda p: observed(p).cost or 1.0)[:24]
    for p in strategy.propose(8):
        near = []
        for q in fastest:
            a, b = p.candidate.decisions, q.candidate.decisions
            near.append(sum(a[x] != b[x] for x in a))
        assert min(near) == 1


def test_failures_are_learned_from() -> None:
    strategy = Evolutionary(Problem(space("large"), GENERIC, 1, 64, models=MODELS), breeding=SMALL)
    for _ in range(2):
        proposals = strategy.propose(8)
        strategy.observe([Observed(p.hash, {}, ()) for p in proposals])
    assert len(strategy.propose(8)) == 8


# ------------------------------------------------------------------ the others
@pytest.mark.parametrize("models", [MODELS, Models()], ids=["ranked", "nothing known"])
def test_points_that_were_drawn_and_not_proposed_are_left(models: Models) -> None:
    """A population may hold all points of a space: the search goes on while some were not proposed."""
    text = """program p(A: f32[64], out B: f32[64]) { block b[i: 64] { B[i] = A[i] + 1.0 } }
        schedule s for p {
            let t ~ perfect_tile(b.i, n = 3, max_inner = none)
            b.i.split(t)
        }"""
    made = space_of(load("own.ms", text), "s")
    strategy = Evolutionary(Problem(made, GENERIC, trials=100, models=models), breeding=SMALL)
    proposed = []
    while proposals := strategy.propose(8):
        proposed += proposals
        strategy.observe([Observed(p.hash, p.candidate.decisions, ()) for p in proposals])  # all fail
    assert len({p.hash for p in proposed}) == len(proposed) == 28


def test_a_schedule_replayed_is_one_candidate() -> None:
    made = space("large")
    strategy = ReplaySchedule(Problem(made, GENERIC, seed=3))
    (proposal,) = strategy.propose(16)
    assert proposal.hash == structural_hash(made.sample(3).program) and not strategy.propose(16)
    strategy.observe([observed(proposal)])


def test_strategies_have_names() -> None:
    for name in ("evolutionary", "exhaustive", "replay_trace", "replay_schedule"):
        assert strategy_named(name)(Problem(space("illegal"), GENERIC)).name == name
    with pytest.raises(MsError) as error:
        strategy_named("evolutionery")
    assert error.value.diagnostic.code == "MS515" and error.value.diagnostic.help == "did you mean `evolutionary`?"


def test_a_strategy_says_whether_it_uses_models_and_mutators() -> None:
    does = {name: (uses(make, "models"), uses(make, "mutators")) for name, make in STRATEGIES.items()}
    assert does == {
        "auto": (True, True),
        "evolutionary": (True, True),
        "exhaustive": (True, False),
        "replay_trace": (False, False),
        "replay_schedule": (False, False),
    }
    assert uses(partial(Evolutionary, breeding=SMALL), "models") and not uses(lambda p: Evolutionary(p), "models")
    why, help = unused("replay_schedule", "models") or ("", "")
    assert why == "the strategy `replay_schedule` does not rank candidates"
    assert help == "leave it out, or search with `auto`, `evolutionary` or `exhaustive`"
    why, help = unused(lambda p: Evolutionary(p), "mutators") or ("", "")
    assert "does not say that it can mutate candidates" in why and 'has `uses = ("mutators",)`' in help


@pytest.mark.parametrize(("name", "trials", "is_small"), [("small", 16, True), ("large", 16, False)])
def test_auto_ranks_by_the_models_whatever_it_chooses(name: str, trials: int, is_small: bool) -> None:
    given: list[int] = []

    class Counting(Linear):
        def update(self, features: NDArray[np.float32], cost: Any, censored: Any) -> None:
            given.append(len(cost))
            super().update(features, cost, censored)

    problem = Problem(space(name), GENERIC, 1, trials, models=Models(Draft, Columns, Counting))
    made = strategy_named("auto")(problem)
    assert isinstance(made, Exhaustive if is_small else Evolutionary)
    searched(made, trials)
    assert given


def test_evolution_mutates_with_the_mutators_of_the_problem() -> None:
    asked: list[str] = []

    class Noting(msgspec.Struct, frozen=True):
        name: str = "noting"
        weight: float = 1.0

        def applies(self, leaf: Leaf, leaves: Leaves) -> bool:
            return True

        def mutate(self, leaf: Leaf, leaves: Leaves, batch: DecisionBatch, stream: Stream) -> Sequence[Part]:
            asked.append(self.name)
            return [(leaf, batch)]

    problem = Problem(space("large"), GENERIC, 1, 32, models=MODELS, mutators=(Noting(),))
    assert isinstance(Noting(), Mutator) and searched(Evolutionary(problem, breeding=SMALL), 32)
    assert asked


def test_illegal_structures_are_told_apart_from_candidates() -> None:
    for name in ("evolutionary", "exhaustive", "auto"):
        strategy = strategy_named(name)(Problem(space("illegal"), GENERIC))
        assert len(strategy.propose(4)) == 1 and sum(strategy.rejections.take().illegal.values()) == 1
        assert not strategy.propose(4)
