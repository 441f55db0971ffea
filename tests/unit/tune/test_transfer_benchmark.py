"""benchmarks/transfer.py: its figures from a store whose programs teach one another by construction."""

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from msgspec.structs import replace

from mslang.search.lessons import Lesson
from mslang.search.models.boosting import is_installed
from mslang.tune.database import Database
from mslang.tune.lessons import packed

FILE = Path(__file__).parents[3] / "benchmarks" / "transfer.py"
needs_xgboost = pytest.mark.skipif(not is_installed(), reason="XGBoost is not installed (the extra `learn`)")


def lesson(seed: int, n: int = 40) -> Lesson:
    """Candidates that take four times as long as their draft where the first feature of a store is large."""
    random = np.random.default_rng(seed)
    stores, draft = random.random((n, 2, 3)).astype(np.float32), random.random(n)
    cut = np.arange(n) % 8 == 0
    return Lesson(("a", "b", "c"), stores, draft, 2.0 ** (draft + 2 * (stores[:, :, 0] > 0.5).sum(1)), cut)


def run(*arguments: object) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, str(FILE), *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, timeout=120)


def store(path: Path, programs: int) -> Path:
    with Database(path) as db:
        for k in range(programs):
            made = packed([lesson(k), lesson(k + 100)], f"run{k}", f"program{k}", "zen")
            assert made is not None
            db.add_lesson(replace(made, created=f"2026-0{k + 1}"))
    return path


@needs_xgboost
def test_each_program_is_ranked_by_what_the_others_taught(tmp_path: Path) -> None:
    path = store(tmp_path / "r.db", 4)
    done = run(path, "--trees", 2, 50, "--json")
    assert done.returncode == 0, done.stderr
    rows = [json.loads(line) for line in done.stdout.splitlines()]
    assert sorted(r["program"] for r in rows) == [f"program{k}" for k in range(4)]
    for row in rows:
        assert list(row) == ["program", "draft", "2 trees", "50 trees"]
        assert row["50 trees"]["spearman"] > 0.8 > row["draft"]["spearman"]
        assert 1.0 <= row["50 trees"]["first"] <= row["draft"]["first"] + 1e-9
    # One other program teaches something else than three.
    alone = [json.loads(line) for line in run(path, "--others", 1, "--json").stdout.splitlines()]
    assert [r["draft"] for r in alone] == [r["draft"] for r in rows]
    assert all(a["50 trees"] != r["50 trees"] for a, r in zip(alone, rows, strict=True))
    table = run(path).stdout
    assert "| program | draft: Spearman |" in table and "| mean |" in table


@needs_xgboost
def test_what_cannot_be_compared_is_refused(tmp_path: Path) -> None:
    assert "two are needed" in run(store(tmp_path / "one.db", 1)).stderr
    missing = run(tmp_path / "none.db")
    assert missing.returncode == 1 and "there is no file" in missing.stderr and not (tmp_path / "none.db").exists()


@needs_xgboost
def test_a_program_of_which_all_were_cut_off_teaches_but_has_no_row(tmp_path: Path) -> None:
    path = store(tmp_path / "r.db", 3)
    cut = replace(lesson(7), censored=np.ones(40, np.bool_))
    made = packed([cut], "cut", "slow", "zen")
    assert made is not None
    with Database(path) as db:
        db.add_lesson(replace(made, created="2026-09"))
    done = run(path, "--json")
    rows = [json.loads(line) for line in done.stdout.splitlines()]
    assert sorted(r["program"] for r in rows) == ["program0", "program1", "program2"]
    assert "left out" in done.stderr and "1 programs" in done.stderr and "NaN" not in done.stdout


def test_ranks_of_equal_values_are_shared() -> None:
    code = "import numpy as np, transfer as t; print(t.ranks(np.array([3.0, 1.0, 3.0, 2.0])).tolist())"
    done = subprocess.run([sys.executable, "-c", code], cwd=FILE.parent, capture_output=True, text=True, timeout=60)
    assert done.stdout.strip() == "[3.5, 1.0, 3.5, 2.0]", done.stderr
