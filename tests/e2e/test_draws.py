"""Property tests draw the same in every run, other things with `--fresh`, and those again with their seed."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
PROPERTY = """
from hypothesis import given, settings, strategies as st

@settings(max_examples=5)
@given(st.integers(0, 1 << 60))
def test_prints(drawn):
    print("drawn", drawn)

def test_seed(fresh_seed):
    print("fresh", fresh_seed)
"""


def run(folder: Path, *options: str) -> str:
    (folder / "test_it.py").write_text(PROPERTY)
    command = (
        sys.executable,
        "-m",
        "pytest",
        "-s",
        "-p",
        "tests.conftest",
        "-p",
        "no:cacheprovider",
        *options,
        "test_it.py",
    )
    found = subprocess.run(
        command, cwd=folder, env={"PYTHONPATH": str(ROOT)}, capture_output=True, text=True, timeout=120
    )
    assert found.returncode == 0, found.stdout + found.stderr
    return found.stdout


def drawn(text: str) -> list[str]:
    return re.findall(r"drawn \d+", text)


def test_the_default_run_draws_the_same_every_time(tmp_path: Path) -> None:
    first = run(tmp_path)
    assert len(drawn(first)) == 5
    assert drawn(run(tmp_path)) == drawn(first)
    assert "fresh None" in first
    assert not (tmp_path / ".hypothesis").exists()


def test_fresh_draws_are_others_and_can_be_repeated(tmp_path: Path) -> None:
    first = run(tmp_path, "--fresh")
    found = re.search(r"repeat them with (--fresh-seed=(\d+))", first)
    assert found is not None
    assert f"fresh {found[2]}" in first
    assert drawn(first) != drawn(run(tmp_path))
    assert drawn(first) == drawn(run(tmp_path, found[1]))


def test_a_checkout_in_a_folder_named_campaign_runs_its_tests(tmp_path: Path) -> None:
    folder = tmp_path / "campaign"
    folder.mkdir()
    assert len(drawn(run(folder))) == 5
