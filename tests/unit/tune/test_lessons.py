"""What runs teach the searches of other programs: what is kept, what is learned from, and what a search makes of it."""

import sqlite3
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
from msgspec.structs import replace
from test_search import WELL
from test_session import items, no_limits, of

from mslang.lower.summary import Summary
from mslang.schedule.sketch import Sketch
from mslang.search.features.buffers import Named
from mslang.search.features.extractor import PerStore
from mslang.search.formulas import Formulas
from mslang.search.lessons import Lesson
from mslang.search.models.boosting import is_installed
from mslang.search.models.model import DraftModel
from mslang.target.description import Target
from mslang.tune.budget import Budget
from mslang.tune.database import Database
from mslang.tune.lessons import MOST, features_of, packed, taught, unpacked
from mslang.tune.progress import Event, Started, Trial
from mslang.tune.record import RunLesson
from mslang.tune.task import Settings
from mslang.tune.tune import tune_all

needs_xgboost = pytest.mark.skipif(not is_installed(), reason="XGBoost is not installed (the extra `learn`)")
__all__ = ["no_limits"]


def lesson(n: int = 16, seed: int = 0) -> Lesson:
    """Candidates that take four times as long as their draft where the first feature of a store is large."""
    x = np.random.default_rng(seed).random((n, 2, 3)).astype(np.float32)
    draft = np.random.default_rng(seed + 1).random(n)
    return Lesson(("a", "b", "c"), x, draft, 2.0 ** (draft + 2 * (x[:, :, 0] > 0.5).sum(1)), np.zeros(n, np.bool_))


def kept(run: str, workload: str, *, n: int = 16, machine: str = "zen", created: str = "2026") -> RunLesson:
    made = packed([lesson(n, len(run))], run, workload, machine)
    assert made is not None
    return replace(made, created=created)


def test_lessons_come_back_as_they_were() -> None:
    two = [lesson(), replace(lesson(8), stores=np.ones((8, 5, 3), np.float32))]
    made = packed(two, "1f", "gemm", "zen")
    assert made is not None
    for a, b in zip(two, unpacked(made), strict=True):
        assert a.names == b.names
        for name in ("stores", "draft", "cost", "censored"):
            np.testing.assert_array_equal(getattr(a, name), getattr(b, name))
            assert getattr(a, name).dtype == getattr(b, name).dtype
    assert packed([lesson(7)], "1f", "gemm", "zen") is None and packed([], "1f", "gemm", "zen") is None


def test_the_store_keeps_one_lesson_a_run(tmp_path: Path) -> None:
    path = tmp_path / "r.db"
    with Database(path) as db:
        for x in (kept("a", "gemm"), kept("b", "conv", created="2027"), kept("a", "gemm", n=32, created="2028")):
            db.add_lesson(x)
        assert [(x.run, x.created) for x in db.lessons()] == [("a", "2028"), ("b", "2027")]
        assert len(unpacked(db.lessons()[0])[0]) == 32 and db.check() is None
    with sqlite3.connect(path) as raw:
        raw.execute("UPDATE lesson SET data = x'00' WHERE run = 'b'")
    raw.close()
    with Database(path) as db:
        assert [x.run for x in db.lessons()] == ["a"]
        warning = db.check()
        assert warning is not None and "lessons: 1" in (warning.why or "")
        # Runs whose records were removed teach nothing any more.
        db.remove([])
        assert db.lessons() == []


@needs_xgboost
def test_the_latest_runs_of_other_programs_on_this_machine_teach() -> None:
    own, elsewhere = kept("a", "mine"), kept("b", "gemm", machine="other")
    late, early = kept("c", "gemm", created="2027"), kept("d", "gemm", n=24, created="2026")
    foreign = replace(kept("e", "conv"), columns="others")
    found = taught([own, elsewhere, late, early, foreign], "mine", "zen")
    assert found is not None and (found.candidates, found.programs) == (16, 1)
    assert str(found) == "the draft is corrected by what 16 candidates of another program taught"
    # A search that is resumed learns what it began with.
    before = taught([late, early], "mine", "zen", before="2026-06")
    assert before is not None and before.candidates == 24
    assert taught([own, elsewhere], "mine", "zen") is None
    many = taught([kept(str(k), f"p{k}", n=MOST // 2) for k in range(3)], "mine", "zen")
    assert many is not None and (many.candidates, many.programs) == (MOST, 2)


@needs_xgboost
def test_times_with_warm_and_with_cold_caches_teach_apart() -> None:
    cold = packed([lesson(24)], "b", "conv", "zen", cold=True)
    assert cold is not None
    both = [kept("a", "gemm"), replace(cold, created="2027"), replace(cold, run="c", workload="gemm", created="2028")]
    warmed, chilled = (taught(both, "mine", "zen", cold=c) for c in (False, True))
    assert warmed is not None and (warmed.candidates, warmed.programs) == (16, 1)
    assert chilled is not None and (chilled.candidates, chilled.programs) == (48, 2)


@needs_xgboost
def test_only_runs_with_the_features_of_the_search_teach_it() -> None:
    own = packed([lesson(24)], "b", "conv", "zen", features="shapes")
    assert own is not None
    both = [replace(own, created="2027"), kept("a", "gemm")]
    found = {name: taught(both, "mine", "zen", features=name) for name in ("per-store", "shapes", "others")}
    assert [None if x is None else x.candidates for x in found.values()] == [16, 24, None]


class Renamed:
    """Features of the user's own."""

    name = "renamed"

    def rows(self, f: Formulas, sketch: Sketch, summary: Summary, target: Target) -> list[list[Named]]:
        return [[(f"my {name}", x) for name, x in row] for row in PerStore().rows(f, sketch, summary, target)]


@needs_xgboost
def test_a_cost_model_and_features_of_the_users_own_are_those_of_a_search(tmp_path: Path) -> None:
    seen: list[Sequence[str]] = []

    def draft_of(names: Sequence[str], seed: int) -> DraftModel:
        seen.append(names)
        return DraftModel()

    def go(task: str, settings: Settings) -> str:
        told: list[Event] = []
        chosen = replace(settings, strategy="evolutionary", budget=Budget(17))
        tune_all(items((task,)), chosen, database=tmp_path / "r.db", workers=1, work=WELL, listen=told.append)
        return str(of(told, Started)[0].strategy)

    go("first", Settings(cost_model=draft_of, features=Renamed()))
    assert seen and all(".my " in name for name in seen[-1][:-1]) and seen[-1][-1] == "draft"
    with Database(tmp_path / "r.db") as db:
        [kept] = db.lessons()
    assert features_of(kept) == f"python:{__name__}.Renamed" and unpacked(kept)[0].names[0].startswith("my ")
    # What it learned is of use to searches with these features alone.
    assert "taught" not in go("second", Settings())
    assert "taught" in go("second", Settings(features=Renamed()))


@needs_xgboost
def test_a_correction_says_what_was_learned_and_nothing_of_other_features() -> None:
    found = taught([kept("a", "gemm", n=200), kept("bb", "conv", n=200)], "mine", "zen")
    assert found is not None
    slow, fast = np.full((1, 2, 3), 0.9, np.float32), np.full((1, 2, 3), 0.1, np.float32)
    assert found.correction(slow)[0] > found.correction(fast)[0] + 2
    assert found.correction(np.ones((4, 2, 5), np.float32)).tolist() == [0.0] * 4
    assert found.correction(np.ones((4, 0, 3), np.float32)).tolist() == [0.0] * 4


@needs_xgboost
def test_a_search_learns_from_the_one_before(tmp_path: Path) -> None:
    def go(name: str, resume: bool = False, trials: int = 16) -> list[Event]:
        told: list[Event] = []
        settings = Settings(3, Budget(trials), strategy="evolutionary")
        database = tmp_path / "r.db"
        tune_all(items((name,)), settings, database=database, workers=1, work=WELL, listen=told.append, resume=resume)
        return told

    said = "candidates of another program taught"
    (first,) = of(go("first"), Started)
    assert "taught" not in first.strategy
    told = go("second")
    (second,) = of(told, Started)
    assert said in second.strategy and len(of(told, Trial)) == 16
    with Database(tmp_path / "r.db") as db:
        assert len(db.lessons()) == 2
    # What `third` teaches meanwhile is nothing that the resumed search began with.
    go("third")
    (resumed,) = of(go("second", resume=True, trials=32), Started)
    assert said in resumed.strategy
