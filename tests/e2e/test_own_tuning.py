"""The example of a user's own task scheduler and callback: allowed by name, they are used; else not loaded."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from conftest import json_lines
from test_own_primitive import install

EXAMPLE = Path(__file__).parents[2] / "examples" / "own_tuning"


@pytest.fixture
def mslang(tmp_path):
    site = tmp_path / "site"
    site.mkdir()
    shutil.copy(EXAMPLE / "two.ms", tmp_path)
    install(EXAMPLE, site)

    def run(*words: str) -> subprocess.CompletedProcess[str]:
        before = os.environ.get("PYTHONPATH")
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(site), *([before] if before else [])])}
        return subprocess.run(
            [sys.executable, *words], cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=120
        )

    return run


def test_the_task_scheduler_and_the_callback_are_used(mslang, tmp_path):
    words = ("tune", "two.ms", "--trials", "6", "--task-scheduler", "slowest", "--json", "--extension", "own-tuning")
    done = mslang("-m", "mslang", *words)
    assert done.returncode == 0, done.stderr
    lines = json_lines(done.stdout)
    assert next(x["scheduler"] for x in lines if x["kind"] == "planned") == "Slowest"
    better = [x for x in lines if x["kind"] == "trial" and x["better"]]
    written = (tmp_path / "improvements.txt").read_text().splitlines()
    assert [w.split()[:2] for w in written] == [[x["task"], str(x["trial"])] for x in better]


def test_without_being_allowed_neither_is_loaded(mslang, tmp_path):
    done = mslang("-m", "mslang", "tune", "two.ms", "--trials", "2", "--task-scheduler", "slowest")
    assert done.returncode == 1 and "MS272" in done.stderr
    assert mslang("-m", "mslang", "tune", "two.ms", "--trials", "2", "--quiet").returncode == 0
    assert not (tmp_path / "improvements.txt").exists()


def test_from_python_as_the_readme_says(mslang, tmp_path):
    readme = (EXAMPLE / "README.md").read_text()
    code = readme.partition("```python\n")[2].partition("```")[0]
    script = tmp_path / "script.py"
    guarded = "\n".join(f"    {line}" for line in code.splitlines())
    script.write_text(f"def main():\n{guarded}\n    print(sorted(found), found['small'].seconds > 0)\n\n\n")
    with script.open("a") as file:
        file.write("if __name__ == '__main__':\n    main()\n")
    done = mslang(str(script))
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == "['large', 'small'] True" and (tmp_path / "improvements.txt").exists()
