"""The example of a user's own cost model and features: loaded where its package is allowed, and searched with."""

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

import mslang as ms
from mslang import extensions
from mslang.diagnostics import MsError
from mslang.search.models.registry import default_models, model_named
from mslang.search.registry import strategy_named
from mslang.search.strategy import Observed, Problem
from mslang.target.description import AVX512

ROOT = Path(__file__).parents[3]
EXAMPLE = ROOT / "examples" / "own_cost_model"
SCALE = """
program scale(A: f32[65536], out B: f32[65536]) { block b[i: 65536] { B[i] = A[i] * 2.0 } }
schedule tiled for scale {
    let t ~ perfect_tile(b.i, 4)
    let first, second, third, lanes = b.i.split(t)
    lanes.vectorize()
}
"""


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The example as if it were installed."""
    info = tmp_path / "own_cost_model-0.1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: own-cost-model\nVersion: 0.1.0\n")
    declared = (EXAMPLE / "pyproject.toml").read_text().split("[project.entry-points.")[1:]
    (info / "entry_points.txt").write_text("\n".join(x.replace('"', "").join(["[", ""]) for x in declared))
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.syspath_prepend(EXAMPLE)
    extensions.declared.cache_clear()
    extensions.extension.cache_clear()
    yield
    monkeypatch.undo()
    extensions.declared.cache_clear()
    extensions.extension.cache_clear()


@pytest.mark.usefixtures("package")
def test_they_are_loaded_only_where_allowed() -> None:
    with pytest.raises(MsError, match="MS272"):
        model_named("nearest")
    with ms.allowing("own-cost-model"):
        assert type(model_named("nearest").make(("a",), 0)).__name__ == "Nearest"
        with pytest.raises(MsError, match="unknown cost model `nearst`"):
            model_named("nearst")


@pytest.mark.usefixtures("package")
def test_a_search_ranks_by_them() -> None:
    with ms.allowing("own-cost-model"):
        models = default_models("nearest", "shapes").models
    space = ms.parse(SCALE).space("tiled", target=AVX512)
    strategy = strategy_named("evolutionary")(Problem(space, AVX512, 0, 200, models=models))
    sizes: list[float] = []
    for _ in range(3):
        proposals = strategy.propose(16)
        # Here candidates are fast whose vectors are short, against what the draft says.
        lanes = [float(p.candidate.decisions["t"][3]) for p in proposals]  # type: ignore[index]
        sizes.append(float(np.median(lanes)))
        strategy.observe(
            [
                Observed(p.hash, p.candidate.decisions, p.candidate.sketch.structure, 1e-3 * x)
                for p, x in zip(proposals, lanes, strict=True)
            ]
        )
    assert sizes[-1] < sizes[0]
