"""Cost models: what they learn, that they repeat, that bounds are bounds, files, names."""

from pathlib import Path

import msgspec
import numpy as np
import pytest

import mslang as ms
from mslang.diagnostics import MsError, Severity
from mslang.schedule.rules.automatic import automatic_space
from mslang.search.evolutionary import Breeding, Evolutionary
from mslang.search.features.task import features_of
from mslang.search.lessons import Lesson
from mslang.search.models import registry
from mslang.search.models.boosting import LEAST, NEAR, XGBoost, is_installed
from mslang.search.models.labels import FAILED, Labels, labels_of, limited
from mslang.search.models.model import CostModel, DraftModel, RandomModel
from mslang.search.models.pairwise import OF_PAIRS, OPPONENTS, Pairwise
from mslang.search.models.registry import default_models, model_named
from mslang.search.models.saved import load, save
from mslang.search.models.transfer import PackSum
from mslang.search.strategy import Observed, Problem
from mslang.target.description import AVX512

needs_xgboost = pytest.mark.skipif(not is_installed(), reason="XGBoost is not installed (the extra `learn`)")


def task(n: int, seed: int, draft: float = 1.0) -> tuple[np.ndarray, np.ndarray]:
    """Features of which the last is a draft of some worth, and costs."""
    x = np.random.default_rng(seed).random((n, 6)).astype(np.float32)
    time = 3 * x[:, 0] + 2 * (x[:, 1] > 0.5) + np.abs(x[:, 2] - 0.5)
    x[:, -1] = draft * 3 * x[:, 0] - 9
    return x, 1e-3 * 2.0**time


def correlation(a: np.ndarray, b: np.ndarray) -> float:
    return float(np.corrcoef(np.argsort(np.argsort(a)), np.argsort(np.argsort(b)))[0, 1])


def test_labels_are_logarithms_and_failures_are_far_slower() -> None:
    cost = np.array([2e-3, 1e-3, 4e-3, np.inf])
    found = labels_of(cost, np.array([False, False, True, False]))
    assert found.value.tolist() == pytest.approx([1, 0, 2, 2 + FAILED])
    assert found.bounded.tolist() == [False, False, True, True]


def test_labels_where_everything_failed() -> None:
    assert labels_of(np.array([np.inf, np.inf]), np.array([False, False])).value.tolist() == [FAILED, FAILED]


@needs_xgboost
def test_it_ranks_better_than_the_draft_after_some_data() -> None:
    (x, cost), (unseen, times) = task(64, 0), task(256, 1)
    model = XGBoost(seed=0)
    np.testing.assert_array_equal(model.predict(unseen), unseen[:, -1].astype(np.float64))
    before = correlation(model.predict(unseen), times)
    near = times < 2**NEAR * cost.min()
    before_near = correlation(unseen[near, -1], times[near])
    model.update(x, cost, np.zeros(64, bool))
    assert correlation(model.predict(unseen), times) > max(before, 0.8)
    assert correlation(model.predict(unseen)[near], times[near]) > max(before_near, 0.85)
    # Predictions are about log2(cost / best of what was seen), or at least as slow as is learned.
    above = np.log2(cost / cost.min())
    assert np.abs(np.minimum(model.predict(x), NEAR) - np.minimum(above, NEAR)).max() < 0.2


def order_of_the_fast_ones(model: CostModel, apart: float) -> float:
    """How well a model orders fast candidates, which take up to 2**`apart` times as long as the best; a few others
    take up to a thousand times as long."""
    x = np.random.default_rng(0).random((160, 6)).astype(np.float32)
    x[:, -1] = 0.0
    time = apart * x[:, 0] + np.where(x[:, 1] > 0.9, 10 * x[:, 2], 0.0)
    seen, unseen = slice(64), slice(64, None)
    model.update(x[seen], 1e-3 * 2.0 ** time[seen], np.zeros(64, bool))
    fast = x[unseen, 1] <= 0.9
    return correlation(model.predict(x[unseen])[fast], time[unseen][fast])


@needs_xgboost
def test_slow_candidates_do_not_hide_the_order_of_the_fast_ones() -> None:
    assert order_of_the_fast_ones(XGBoost(seed=0), 0.3) > 0.8
    assert order_of_the_fast_ones(XGBoost(seed=0, near=np.inf), 0.3) < 0.7, "squared errors of all"
    # Pairs have no scale: a few percent suffice.
    assert order_of_the_fast_ones(Pairwise(seed=0), 0.05) > 0.8


@needs_xgboost
def test_of_slow_candidates_only_that_they_are_slow_is_learned() -> None:
    """Candidates that take 8 and 64 times as long as the best are predicted alike, and as slow as is learned."""
    x = np.zeros((96, 3), np.float32)
    x[32:64, 0], x[64:, 0] = 1, 2
    model = XGBoost(seed=0)
    model.update(x, 1e-3 * 8.0 ** x[:, 0], np.zeros(96, bool))
    best, slow, slower = model.predict(x[[0, 32, 64]])
    assert best < 0.5 and slow > NEAR - 0.5 and slower == pytest.approx(slow, abs=0.1)


def test_labels_up_to_a_limit() -> None:
    labels = Labels(np.array([0.0, 1.0, 2.0, 9.0]), np.array([False, True, False, False]))
    found = limited(labels, 2.0)
    assert found.value.tolist() == [0, 1, 2, 2]
    assert found.bounded.tolist() == [False, True, False, True]
    assert limited(labels, np.inf).bounded.tolist() == labels.bounded.tolist()


@needs_xgboost
def test_of_many_candidates_a_sample_of_pairs_suffices() -> None:
    (x, cost), (unseen, times) = task(2 * OPPONENTS, 0), task(256, 1)
    model = Pairwise(seed=0, settings=msgspec.structs.replace(OF_PAIRS, trees=20))
    model.update(x, cost, np.zeros(len(x), bool))
    assert correlation(model.predict(unseen), times) > 0.95


@needs_xgboost
def test_pairs_leave_units_bounds_and_the_draft() -> None:
    x, cost = task(64, 0)
    model = Pairwise(seed=0)
    np.testing.assert_array_equal(model.predict(x), x[:, -1].astype(np.float64))
    model.update(x, cost, np.zeros(64, bool))
    assert np.abs(model.predict(x) - np.log2(cost / cost.min())).mean() < 0.5
    far = np.repeat(x[:1], 2, axis=0)
    far[:, -1] = (-100, -90)
    assert model.predict(far)[1] > model.predict(far)[0] + 1
    # Of two that were cut off nothing is known but that they are slower than the others.
    failed = x[:, 3] > 0.6
    model.update(x, np.where(failed, np.inf, cost), np.zeros(64, bool))
    assert model.predict(x)[failed].min() > np.median(model.predict(x)[~failed])


@needs_xgboost
def test_far_from_all_data_it_predicts_as_the_draft_does() -> None:
    x, cost = task(32, 0)
    model = XGBoost(seed=0)
    model.update(x, cost, np.zeros(32, bool))
    far = np.repeat(x[:1], 2, axis=0)
    far[:, -1] = (-100, -90)
    slower, faster = model.predict(far)[1], model.predict(far)[0]
    assert slower - faster == pytest.approx(10, abs=1e-3)


@needs_xgboost
@pytest.mark.parametrize("value", [np.inf, -np.inf, np.nan])
@pytest.mark.parametrize("column", [2, -1])
def test_features_that_are_no_numbers_end_no_search(value: float, column: int) -> None:
    x, cost = task(64, 0)
    odd = x.copy()
    odd[::7, column] = value
    model = XGBoost(seed=0)
    model.update(odd, cost, np.zeros(64, bool))
    found = model.predict(odd)
    assert np.isfinite(found).all()
    near = (np.arange(64) % 7 > 0) & (cost < 2**NEAR * cost.min())
    assert correlation(found[near], cost[near]) > 0.9


@needs_xgboost
def test_equal_data_give_equal_predictions_for_any_batch() -> None:
    x, cost = task(64, 0)
    one, other = XGBoost(seed=3), XGBoost(seed=3)
    one.update(x, cost, np.zeros(64, bool))
    other.update(x[:40], cost[:40], np.zeros(40, bool))
    other.update(x, cost, np.zeros(64, bool))
    unseen = task(3000, 1)[0]
    whole = one.predict(unseen)
    np.testing.assert_array_equal(whole, other.predict(unseen))
    np.testing.assert_array_equal(whole[2900:], one.predict(unseen[2900:]))


@needs_xgboost
def test_a_cost_that_is_a_bound_may_be_exceeded() -> None:
    # Half of the candidates take 8 times as long as the others; the search saw only that they take 1.1 times as long.
    x = np.zeros((64, 3), np.float32)
    x[32:, 0] = 1
    x[32:, -1] = 3
    cost = np.where(x[:, 0] > 0, 1.1e-3, 1e-3)
    plain, bounded = XGBoost(seed=0), XGBoost(seed=0)
    plain.update(x, cost, np.zeros(64, bool))
    bounded.update(x, cost, x[:, 0] > 0)
    assert plain.predict(x[-1:])[0] < 0.5
    assert bounded.predict(x[-1:])[0] > 1


@needs_xgboost
def test_failed_candidates_are_predicted_slow() -> None:
    x, cost = task(64, 0, draft=0.0)
    failed = x[:, 3] > 0.6
    cost[failed] = np.inf
    model = XGBoost(seed=0)
    model.update(x, cost, np.zeros(64, bool))
    found = model.predict(x)
    assert found[failed].min() > np.median(found[~failed])


def test_below_a_few_candidates_nothing_is_learned() -> None:
    x, cost = task(LEAST - 1, 0)
    model = XGBoost(seed=0)
    if is_installed():
        model.update(x, cost, np.zeros(len(x), bool))
    np.testing.assert_array_equal(model.predict(x), x[:, -1].astype(np.float64))


def test_random_predictions_depend_on_the_candidate_and_the_seed_alone() -> None:
    x = task(500, 0)[0]
    found = RandomModel(1).predict(x)
    np.testing.assert_array_equal(found[100:], RandomModel(1).predict(x[100:]))
    assert len(np.unique(found)) == 500
    assert 0.4 < found.mean() < 0.6
    assert (found != RandomModel(2).predict(x)).all()


@needs_xgboost
def test_what_one_program_teaches_helps_another() -> None:
    def program(seed: int, stores: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Each store takes as much longer than its draft as its first feature says."""
        x = np.random.default_rng(seed).random((200, stores, 4)).astype(np.float32)
        draft = np.random.default_rng(seed + 100).random(200) - seed
        return x, draft, 2.0 ** (draft + 2 * (x[:, :, 0] > 0.5).sum(1))

    tasks = [[Lesson(tuple("abcd"), *program(s, 2 + s), np.zeros(200, bool))] for s in range(3)]
    model = PackSum()
    stores, draft, cost = program(7, 3)
    assert model.predict(stores).tolist() == [0.0] * 200
    model.fit(tasks)
    assert correlation(draft + model.predict(stores), cost) > correlation(draft, cost) + 0.2


@needs_xgboost
def test_a_saved_model_predicts_the_same(tmp_path: Path) -> None:
    x, cost = task(64, 0)
    model = XGBoost(seed=0)
    with pytest.raises(MsError, match="MS526"):
        save(model, tmp_path / "none.json", "abcdef")
    model.update(x, cost, np.zeros(64, bool))
    save(model, tmp_path / "model.json", "abcdef")
    again = load(tmp_path / "model.json", "abcdef")
    assert isinstance(again, XGBoost)
    np.testing.assert_array_equal(model.predict(x), again.predict(x))


@needs_xgboost
def test_damaged_and_foreign_files_are_one_diagnostic(tmp_path: Path) -> None:
    path = tmp_path / "model.json"
    x, cost = task(64, 0)
    model = XGBoost(seed=0)
    model.update(x, cost, np.zeros(64, bool))
    save(model, path, "abcdef")
    good = path.read_bytes()
    for text, why in (
        (good[:1000], "not a cost model"),
        (b"\xff\xfe", "not a cost model"),
        (b'{"learner": {}}', "not a cost model"),
        (good.replace(b'"mslang_cost_model":1', b'"mslang_cost_model":99'), "version is 99"),
        (good.replace(b"tree_param", b"tree_parom", 1), "checksum"),
    ):
        path.write_bytes(text)
        with pytest.raises(MsError, match=why) as e:
            load(path)
        assert e.value.diagnostic.code == "MS526"
    path.write_bytes(good)
    with pytest.raises(MsError, match="other features"):
        load(path, "abc")
    with pytest.raises(MsError, match="No such file"):
        load(tmp_path / "absent.json")


@needs_xgboost
def test_a_search_begins_with_a_saved_model(tmp_path: Path) -> None:
    module = ms.parse("program p(A: f32[64, 64], out B: f32[64, 64]) { block b[i: 64, j: 64] { B[i, j] = A[j, i] } }")
    sketches = list(automatic_space(module.program(), AVX512).sketches())
    plain = features_of(sketches, AVX512)
    batch = sketches[0].batch().draw(64, seed=1)
    rows, stores = plain.rows(0, batch), plain.stores(0, batch)
    cost = 1e-3 * 2.0 ** (3.0 * (rows[:, 0] > np.median(rows[:, 0])))
    none = np.zeros(len(rows), bool)

    own = XGBoost()
    own.update(rows, cost, none)
    save(own, tmp_path / "task.json", plain.names)
    shared = PackSum()
    shared.fit([[Lesson(plain.store_names, stores, rows[:, -1].astype(np.float64), cost, none)]])
    save(shared, tmp_path / "stores.json", plain.store_names)

    expected = {"task": own.predict(rows), "stores": rows[:, -1] + shared.predict(stores)}
    for kind, prediction in expected.items():
        models = default_models(str(tmp_path / f"{kind}.json")).models
        assert models.taught and models.features is not None
        features = models.features(sketches, AVX512)
        assert features.names == plain.names
        np.testing.assert_allclose(features.rows(0, batch)[:, -1], prediction, rtol=1e-5)
        np.testing.assert_array_equal(features.rows(0, batch)[:, :-1], rows[:, :-1])

    for model, names in ((own, [f"x{k}" for k in range(len(plain.names))]), (shared, ["a", "b"])):
        save(model, tmp_path / "other.json", names)
        make = default_models(str(tmp_path / "other.json")).models.features
        assert make is not None
        with pytest.raises(MsError, match="trained on"):
            make(sketches, AVX512)
    with pytest.raises(MsError, match="MS526"):
        model_named(str(tmp_path / "absent.json"))


def test_models_by_name(monkeypatch: pytest.MonkeyPatch) -> None:
    assert isinstance(model_named("draft").make((), 0), DraftModel)
    assert isinstance(model_named("random").make((), 0), RandomModel)
    with pytest.raises(MsError, match="unknown cost model `xgbost`"):
        model_named("xgbost")
    monkeypatch.setattr(registry, "is_installed", lambda: False)
    chosen = default_models()
    assert chosen.note is not None
    assert (chosen.note.code, chosen.note.severity) == ("MS525", Severity.INFORMATION)
    assert chosen.models.model is not None
    assert isinstance(chosen.models.model((), 0), DraftModel)
    with pytest.raises(MsError, match="needs XGBoost"):
        model_named("xgboost")


def test_each_model_has_the_protocol() -> None:
    models: list[CostModel] = [DraftModel(), RandomModel(0), XGBoost(0), Pairwise(0)]
    x = task(5, 0)[0]
    assert [m.predict(x).shape for m in models] == [(5,)] * 4


@needs_xgboost
def test_a_model_learns_anew_where_new_structures_change_the_features() -> None:
    """An evolutionary search whose structures become known one after the other, with the default models."""
    module = ms.load(Path(__file__).parents[3] / "stdlib" / "workloads" / "gemm.ms")
    space = automatic_space(module.program("gemm"), AVX512)
    strategy = Evolutionary(
        Problem(space, AVX512, 0, 64, models=default_models().models),
        breeding=Breeding(fresh=512, children=256, growth=1),
    )
    for _ in range(3):
        proposals = strategy.propose(12)
        costs = [1e-3 * (1 + int(p.hash[:4], 16) / 65536) for p in proposals]
        strategy.observe(
            [
                Observed(p.hash, p.candidate.decisions, p.candidate.sketch.structure, c)
                for p, c in zip(proposals, costs, strict=True)
            ]
        )
        assert len({p.hash for p in proposals}) == 12
