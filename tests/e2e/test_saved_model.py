"""`mslang tune --cost-model FILE.json`: a search begins with a saved model."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from conftest import command, json_lines

import mslang as ms
from mslang.search.models.boosting import is_installed
from mslang.search.models.saved import save
from mslang.search.models.transfer import PackSum
from mslang.tune.lessons import unpacked

TEXT = """
program twice[N = 16](A: f32[N, N, N], out B: f32[N, N, N]) {
    block d[i: N, j: N, k: N] { B[i, j, k] = A[i, j, k] * 2.0 }
}
schedule tiled for twice {
    let ti ~ perfect_tile(d.i, n = 3)
    let tj ~ perfect_tile(d.j, n = 3)
    d.i.split(ti)
    d.j.split(tj)
    d.k.vectorize()
}
"""


def tune(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    line = command("tune", "twice.ms", "--strategy", "evolutionary", "--workers", "1", "--json", *words)
    return subprocess.run(line, cwd=folder, capture_output=True, text=True, timeout=240)


@pytest.mark.skipif(not is_installed(), reason="XGBoost is not installed (the extra `learn`)")
def test_a_search_begins_with_a_saved_model(tmp_path: Path) -> None:
    (tmp_path / "twice.ms").write_text(TEXT)
    assert tune(tmp_path, "--trials", "16", "--db", "a.db").returncode == 0
    with ms.Database(tmp_path / "a.db") as store:
        [lesson] = store.lessons()
    model = PackSum()
    model.fit([unpacked(lesson)])
    save(model, tmp_path / "team.json", unpacked(lesson)[0].names)
    done = tune(tmp_path, "--trials", "4", "--db", "b.db", "--cost-model", "team.json")
    assert done.returncode == 0, done.stdout + done.stderr
    [started] = [x for x in json_lines(done.stdout) if x["kind"] == "started"]
    assert started["strategy"].endswith("the draft is corrected by team.json")

    (tmp_path / "team.json").write_text("{}")
    refused = tune(tmp_path, "--trials", "4", "--db", "c.db", "--cost-model", "team.json")
    assert refused.returncode == 1 and "MS526" in refused.stdout + refused.stderr
    assert not (tmp_path / "c.db").exists()
