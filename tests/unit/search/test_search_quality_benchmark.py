"""benchmarks/search_quality.py: its table from made-up costs, and that its machines say the same in each process."""

import importlib
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

from mslang.search.models.boosting import is_installed

FOLDER = Path(__file__).parents[3] / "benchmarks"
needs_xgboost = pytest.mark.skipif(not is_installed(), reason="XGBoost is not installed (the extra `learn`)")


@pytest.fixture
def quality() -> Iterator[ModuleType]:
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(FOLDER))
        yield importlib.import_module("search_quality")


def test_the_table(quality: ModuleType) -> None:
    found = [
        quality.Found("smooth", "gemm", {quality.RANDOM: [4.0, 3.0, 8.0], "xgboost": [2.0, 2.0, 9.0]}),
        quality.Found("cliffs", "gemm", {quality.RANDOM: [2.0, 2.0, 2.0], "xgboost": [1.0, 1.0, 1.0]}),
    ]
    assert quality.summary(found).splitlines()[2:] == [
        "| smooth | gemm | 2.00 | 1.00 |",
        "| cliffs | gemm | 2.00 | 1.00 |",
        "| geometric mean |  | 2.00 | 1.00 |",
        "| better than random draws |  |  | 5 of 6 |",
    ]


def test_machines_repeat_and_differ(quality: ModuleType) -> None:
    first, again = (quality.compare("gemm", "gemm", "smooth", [], 16, 2).costs for _ in range(2))
    assert first == again
    assert first != quality.compare("gemm", "gemm", "cliffs", [], 16, 2).costs


@needs_xgboost
@pytest.mark.parametrize("name", ["squared", "weighted"])
def test_models_that_are_only_compared_with(quality: ModuleType, name: str) -> None:
    x = np.random.default_rng(0).random((64, 4)).astype(np.float32)
    model = quality.COMPARED[name]((), 0)
    np.testing.assert_array_equal(model.predict(x), x[:, -1].astype(np.float64))
    cost = 1e-3 * 2.0 ** (4 * x[:, 0])
    model.update(x, cost, np.zeros(64, bool))
    assert np.corrcoef(model.predict(x), np.log2(cost))[0, 1] > 0.95
