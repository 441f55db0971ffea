"""The example of a strategy and a mutator of one's own, as an installed package."""

from __future__ import annotations

import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from msgspec.structs import replace
from numpy.typing import NDArray

import mslang as ms
from mslang import extensions
from mslang.diagnostics import MsError
from mslang.schedule.batch.random_words import Stream
from mslang.search.estimates import Models
from mslang.search.leaves import Leaves
from mslang.search.mutators import MUTATORS, all_mutators, mutate
from mslang.search.registry import strategy_named
from mslang.search.strategy import Problem, Rejections, uses
from mslang.target.description import GENERIC
from tests.unit.search.guarded import space
from tests.unit.search.test_strategies import Columns, Draft, Linear, best, cost_of, searched

EXAMPLE = Path(__file__).parents[3] / "examples" / "own_search"


@pytest.fixture(autouse=True)
def installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The example as pip would install it."""
    project = tomllib.loads((EXAMPLE / "pyproject.toml").read_text())["project"]
    info = tmp_path / "own_search-0.1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: own-search\nVersion: 0.1.0\n")
    lines = [f"[{g}]\n" + "".join(f"{k} = {v}\n" for k, v in p.items()) for g, p in project["entry-points"].items()]
    (info / "entry_points.txt").write_text("\n".join(lines))
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.syspath_prepend(EXAMPLE)
    extensions.declared.cache_clear()
    extensions.extension.cache_clear()
    yield
    monkeypatch.undo()
    extensions.declared.cache_clear()
    extensions.extension.cache_clear()


def test_a_strategy_of_ones_own_searches() -> None:
    problem = Problem(space("large"), GENERIC, seed=1, trials=60)
    with pytest.raises(MsError) as refused:
        strategy_named("annealing")
    assert refused.value.diagnostic.code == "MS272"
    with ms.allowing("own-search"):
        made = strategy_named("annealing")
    found = searched(made(problem), 60)
    assert len({p.hash for p in found}) == 60
    assert [p.hash for p in searched(made(problem), 60)] == [p.hash for p in found]
    assert best(found) < best(found[:8])


def test_a_strategy_of_ones_own_ranks_by_the_models_it_is_given() -> None:
    """With a model that learns the costs it measures faster candidates than without."""
    given: list[int] = []

    class Knowing(Linear):
        """The model of the tests, which counts what it is given."""

        def update(self, features: NDArray[np.float32], cost: Any, censored: Any) -> None:
            given.append(len(cost))
            super().update(features, cost, censored)

    problem = Problem(space("large"), GENERIC, seed=1, trials=64)
    with ms.allowing("own-search"):
        make = strategy_named("annealing")
    assert uses(make, "models") and not uses(make, "mutators")
    ranked = searched(make(replace(problem, models=Models(Draft, Columns, Knowing))), 64)
    plain = searched(make(problem), 64)
    assert given == list(range(8, 65, 8))
    assert all(p.predicted is None for p in plain) and any(p.predicted is not None for p in ranked)
    assert np.median([cost_of(p) for p in ranked[16:]]) < np.median([cost_of(p) for p in plain[16:]])


def test_a_mutator_of_ones_own_is_used_where_it_is_allowed() -> None:
    assert all_mutators() == MUTATORS
    with ms.allowing("own-search"):
        *_, rotate = all_mutators()
    assert rotate.name == "rotate"
    leaves = Leaves(space("large"), GENERIC, 0, Rejections())
    batch = leaves[0].draw(100)
    stream = Stream(1, "test", np.arange(len(batch), dtype=np.uint64))
    ((leaf, mutants),) = mutate([rotate], leaves[0], leaves, batch, stream)
    assert leaf.sketch.batch().members(mutants).all()
    rotated = [k for k in range(len(batch)) if mutants.row(k)["tk"] == tuple(reversed(batch.row(k)["tk"]))]  # type: ignore[arg-type]
    assert len(rotated) > 20
