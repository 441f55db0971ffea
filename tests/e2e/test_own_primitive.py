"""The example of a user's own primitive: once its package is installed, every verb knows it."""

import os
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

EXAMPLE = Path(__file__).parents[2] / "examples" / "own_primitive"


def install(example: Path, folder: Path) -> None:
    """What an installer does with a package that has only Python files."""
    project = tomllib.loads((example / "pyproject.toml").read_text())["project"]
    module = project["name"].replace("-", "_")
    shutil.copytree(example / module, folder / module)
    metadata = folder / f"{module}-{project['version']}.dist-info"
    metadata.mkdir()
    (metadata / "METADATA").write_text(
        f"Metadata-Version: 2.1\nName: {project['name']}\nVersion: {project['version']}\n"
    )
    lines = []
    for group, points in project["entry-points"].items():
        lines += [f"[{group}]", *(f"{name} = {value}" for name, value in points.items())]
    (metadata / "entry_points.txt").write_text("\n".join(lines) + "\n")


@pytest.fixture
def mslang(tmp_path):
    site = tmp_path / "site"
    site.mkdir()
    shutil.copy(EXAMPLE / "axpy.ms", tmp_path)

    def run(*words: str, installed: bool = True) -> subprocess.CompletedProcess[str]:
        path = [str(site)] if installed else []
        before = os.environ.get("PYTHONPATH")
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join([*path, *([before] if before else [])])}
        command = [sys.executable, "-m", "mslang", *words]
        return subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=120)

    install(EXAMPLE, site)
    return run


def test_every_verb_knows_it(mslang, tmp_path):
    checked = mslang("check", "axpy.ms")
    assert checked.returncode == 0, checked.stdout
    explained = mslang("explain", "interleave")
    assert "loop.interleave(ways) -> loop, loop" in explained.stdout
    assert "Deal a loop's iterations out" in explained.stdout
    steps = mslang("show", "axpy.ms:dealt", "--steps", "--pin", "ways=8").stdout
    assert "for way in 8, turn in 512 {" in steps
    assert "for way in 8 @ parallel, turn in 512 {" in steps
    flat = mslang("show", "axpy.ms:dealt", "--stage", "trace", "--pin", "ways=8").stdout
    assert "let way, turn = add.i.interleave(ways)" in flat
    text = (tmp_path / "axpy.ms").read_text()
    (tmp_path / "flat.ms").write_text(text.partition("schedule")[0] + flat)
    again = mslang("show", "flat.ms:traced")
    assert "for way in 8 @ parallel, turn in 512 {" in again.stdout, again.stderr


def test_it_is_tuned_and_its_record_replays(mslang):
    tuned = mslang("tune", "axpy.ms", "--trials", "4", "--workers", "1", "--db", "r.db")
    assert tuned.returncode == 0, tuned.stderr
    assert "verified" in tuned.stdout
    top = mslang("db", "show", "1", "--db", "r.db")
    assert "dealt with" in top.stdout
    replayed = mslang("run", "axpy.ms:dealt", "--record", "1", "--db", "r.db")
    assert replayed.returncode == 0, replayed.stdout + replayed.stderr


def test_without_its_package_the_name_is_unknown(mslang):
    checked = mslang("check", "axpy.ms", installed=False)
    assert checked.returncode == 1
    assert "MS202" in checked.stdout
    assert mslang("explain", "interleave", installed=False).returncode == 1


def test_a_broken_package_is_one_diagnostic(mslang, tmp_path):
    (tmp_path / "site" / "own_primitive" / "interleave.py").write_text("raise RuntimeError('half written')\n")
    checked = mslang("check", "axpy.ms")
    assert checked.returncode == 1
    assert checked.stdout.count("error[") == 1
    assert "error[MS212]" in checked.stdout and "RuntimeError: half written" in checked.stdout
    assert mslang("explain", "split").returncode == 0
