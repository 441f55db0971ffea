"""A user's own strategy, mutator, cost model, features, builder and runner: all in one `mslang tune`."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable
from math import log2
from pathlib import Path
from typing import Any

import pytest
from conftest import command, json_lines
from test_own_primitive import install

from mslang.search.models.boosting import is_installed
from mslang.tune.database import Database
from mslang.tune.lessons import unpacked

EXAMPLES = Path(__file__).parents[2] / "examples"
PACKAGES = ("own-search", "own-cost-model", "own-workers")
RANKED = ("--strategy", "evolutionary", "--cost-model", "nearest", "--features", "shapes")
TEXT = """
program twice[N = 64](A: f32[N, N, N], out B: f32[N, N, N]) {
    block d[i: N, j: N, k: N] { B[i, j, k] = A[i, j, k] * 2.0 }
}
schedule tiled for twice {
    let ti ~ perfect_tile(d.i, n = 4)
    let tj ~ perfect_tile(d.j, n = 4, max_inner = 16)
    let tk ~ perfect_tile(d.k, n = 4, max_inner = 16)
    d.i.split(ti)
    let j0, j1, j2, unrolled = d.j.split(tj)
    let k0, k1, k2, lanes = d.k.split(tk)
    unrolled.unroll()
    lanes.vectorize()
}
"""
NOTING = """

class Noting(Rotate):
    def mutate(self, *arguments):
        open("rotated", "w").close()
        return super().mutate(*arguments)


ROTATE = Noting()
"""
WORKERS = ("--builder", "small", "--runner", "instructions")

Tune = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture
def tune(tmp_path: Path) -> Tune:
    """Run `mslang tune twice.ms` with the packages of the examples installed, some of which are allowed."""
    site = tmp_path / "site"
    site.mkdir()
    for package in PACKAGES:
        install(EXAMPLES / package.replace("-", "_"), site)
    # A mutator leaves no other trace than its candidates.
    rotate = site / "own_search" / "rotate.py"
    rotate.write_text(rotate.read_text() + NOTING)
    (tmp_path / "twice.ms").write_text(TEXT)
    path = os.pathsep.join([str(site), *filter(None, [os.environ.get("PYTHONPATH")])])

    def run(*words: str, allowed: tuple[str, ...] = PACKAGES) -> subprocess.CompletedProcess[str]:
        options = (word for package in allowed for word in ("--extension", package))
        line = command("tune", "twice.ms", "--json", "--workers", "1", *words, *options)
        environment = {**os.environ, "PYTHONPATH": path}
        return subprocess.run(line, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=240)

    return run


def trials_of(done: subprocess.CompletedProcess[str]) -> list[dict[str, Any]]:
    assert done.returncode == 0, done.stdout + done.stderr
    return [x for x in json_lines(done.stdout) if x["kind"] == "trial"]


def predicted_by_nearest(trials: list[dict[str, Any]], first: int = 0) -> list[float]:
    """What the model expected of trials from some on: of each that another one takes as long as the best, or longer."""
    costs = [x["cost"] for x in trials if x["cost"] is not None]
    known = [log2(cost / min(costs[: k + 1])) for k in range(len(costs)) for cost in costs[: k + 1]]
    found = [x["predicted"] for x in trials[first:] if x["predicted"] is not None]
    assert all(any(p == pytest.approx(k, abs=1e-6) for k in known) for p in found), (found, known)
    return found


def test_every_layer_of_a_search_is_the_users_own(tune: Tune, tmp_path: Path) -> None:
    done = tune("--trials", "20", *RANKED, *WORKERS)
    trials = trials_of(done)
    assert {x["outcome"] for x in trials} <= {"measured", "cut off", "compile error"}
    assert {x["reason"] for x in trials if x["outcome"] == "compile error"} <= {"too much text"}
    assert len(predicted_by_nearest(trials, 16)) > 0
    with Database(tmp_path / ".mslang" / "records.db", read_only=True) as store:
        [run], lessons = store.runs(), store.lessons()
        assert all(r.compiler.endswith(", small") and r.device.endswith(", instructions") for r in store.records())
    assert all(f'"{name}"' in run.arguments for name in ("evolutionary", "nearest", "shapes"))
    if is_installed():
        assert {name for x in lessons for y in unpacked(x) for name in y.names} == {"trips", "lanes"}
    assert (tmp_path / "rotated").exists()
    # The run goes on with what it began with, if that is allowed.
    refused = tune("--trials", "24", "--resume", *WORKERS, allowed=("own-workers",))
    assert refused.returncode == 1 and "MS272" in refused.stdout
    resumed = tune("--trials", "24", "--resume", *WORKERS)
    assert [x["resumed"] for x in json_lines(resumed.stdout) if x["kind"] == "started"] == [20]
    assert len(predicted_by_nearest([*trials, *trials_of(resumed)], len(trials))) > 0


def test_a_strategy_of_the_users_own_ranks_by_the_users_own_model(tune: Tune) -> None:
    ranked = ("--cost-model", "nearest", "--features", "shapes")
    done = tune("--trials", "20", "--strategy", "annealing", *ranked, *WORKERS)
    trials = trials_of(done)
    assert len(trials) == 20 and len(predicted_by_nearest(trials, 16)) > 0
    [started] = [x for x in json_lines(done.stdout) if x["kind"] == "started"]
    assert started["strategy"] == "simulated annealing: 1 structures"


@pytest.mark.parametrize(
    "words",
    [
        ("--strategy", "annealing"),
        ("--cost-model", "nearest"),
        ("--features", "shapes"),
        ("--builder", "small"),
        ("--runner", "instructions"),
    ],
    ids=lambda words: words[0].strip("-"),
)
def test_none_of_them_is_loaded_without_being_allowed(tune: Tune, words: tuple[str, str], tmp_path: Path) -> None:
    refused = tune(*words, allowed=())
    assert refused.returncode == 1 and "MS272" in refused.stdout and not (tmp_path / ".mslang").exists()
    unknown = tune(words[0], f"{words[1]}s")
    assert unknown.returncode == 1
    assert {x["code"] for x in json_lines(unknown.stdout)} <= {"MS271", "MS515", "MS525"}
