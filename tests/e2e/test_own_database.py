"""The example of a user's own record store: tuned into, read, resumed; what it lacks or fails at is said."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from conftest import command, json_lines
from test_own_primitive import install

EXAMPLE = Path(__file__).parents[2] / "examples" / "own_database"
STORE = ("--db", "folder:records", "--extension", "own-database")

Run = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture
def mslang(tmp_path: Path) -> Run:
    """Run mslang with the example installed, in a folder with its program."""
    site = tmp_path / "site"
    site.mkdir()
    shutil.copy(EXAMPLE / "scale.ms", tmp_path)
    install(EXAMPLE, site)
    path = os.pathsep.join([str(site), *filter(None, [os.environ.get("PYTHONPATH")])])

    def run(*words: str) -> subprocess.CompletedProcess[str]:
        environment = {**os.environ, "PYTHONPATH": path}
        return subprocess.run(
            command(*words), cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=240
        )

    return run


def tuned(mslang: Run, *words: str) -> list[dict[str, object]]:
    done = mslang("tune", "scale.ms", "--json", "--workers", "1", *words, *STORE)
    assert done.returncode == 0, done.stdout + done.stderr
    return json_lines(done.stdout)


def test_it_is_tuned_into_resumed_and_read(mslang: Run, tmp_path: Path) -> None:
    trials = [x for x in tuned(mslang, "--trials", "2") if x["kind"] == "trial"]
    assert len(trials) == 2
    files = {int(p.stem) for p in (tmp_path / "records").glob("*/[0-9]*.json")}
    assert {x["id"] for x in trials} <= files
    assert not list(tmp_path.rglob("*.db"))

    listed = mslang("db", "ls", *STORE)
    assert listed.returncode == 0 and "scale" in listed.stdout
    assert len(list((tmp_path / "records").glob("run-*.json"))) == 1
    [run] = [x for x in json_lines(mslang("db", "ls", "--json", *STORE).stdout) if x["kind"] == "run"]

    resumed = tuned(mslang, "--trials", "3", "--resume")
    [started] = [x for x in resumed if x["kind"] == "started"]
    assert started["run"] == run["id"] and started["resumed"] == 2 and started["database"] == "folder:records"
    assert [x["trial"] for x in resumed if x["kind"] == "trial"] == [2]

    applied = mslang("apply", "scale.ms", "--passes", "db", "--explain", *STORE)
    assert applied.returncode == 0 and "scale: db: record " in applied.stdout, applied.stdout + applied.stderr
    again = [x for x in tuned(mslang, "--trials", "2") if x["kind"] == "trial"]
    assert any(x["known"] for x in again)


def test_what_only_files_do_is_refused(mslang: Run, tmp_path: Path) -> None:
    for words in (("prune", "--failed"), ("import", "lines.jsonl")):
        refused = mslang("db", *words, *STORE)
        assert refused.returncode == 1 and "MS609" in refused.stderr
    refused = mslang("tune", "scale.ms", "--trials", "1", "--db", "union:a.db,b.db")
    assert refused.returncode == 1 and "MS609" in refused.stderr
    barred = mslang("tune", "scale.ms", "--trials", "1", "--db", "folder:records")
    assert barred.returncode == 1 and "MS272" in barred.stderr
    assert not (tmp_path / "records").exists()


def test_a_store_without_runs_is_not_resumed(mslang: Run, tmp_path: Path) -> None:
    code = tmp_path / "site" / "own_database" / "folder.py"
    code.write_text(code.read_text().replace("def add_run", "def _add_run"))
    tuned(mslang, "--trials", "1")
    refused = mslang("tune", "scale.ms", "--trials", "2", "--resume", *STORE)
    assert refused.returncode == 1
    assert "MS503" in refused.stderr and "folder:records keeps no runs" in refused.stderr


def test_a_store_that_fails_ends_the_session_as_its_error(mslang: Run, tmp_path: Path) -> None:
    code = tmp_path / "site" / "own_database" / "folder.py"
    text = code.read_text().replace("        number = 1 +", "        self.fail()\n        number = 1 +")
    code.write_text(text + '\n    def fail(self):\n        raise OSError("no space")\n')
    line = next(k for k, x in enumerate(code.read_text().splitlines(), 1) if "no space" in x)
    failed = mslang("tune", "scale.ms", "--trials", "1", *STORE)
    assert failed.returncode == 1
    assert "the record store `own_database.folder.FolderStore` failed in `add`" in failed.stderr
    assert f"OSError: no space ({code}:{line})" in failed.stderr
