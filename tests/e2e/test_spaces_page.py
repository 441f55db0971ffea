"""docs/spaces.md: its file is checked, its commands run, and all it searches computes the same."""

import re
from pathlib import Path

import pytest
from conftest import Run

from mslang.schedule.interpret import World
from mslang.schedule.sketch import Sketch
from mslang.schedule.strategies import space_of
from mslang.sema.modules import load
from mslang.target.description import AVX512, SM_80, Target
from mslang.tune.equivalence import difference

PAGE = (Path(__file__).parents[2] / "docs" / "spaces.md").read_text()
FILE = "\n".join(re.findall(r"^```ms file=dense.ms\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL))
BOUND, NORM, *_ = re.findall(r"^```ms\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)
COMMANDS = re.findall(r"^mslang (.*)$", PAGE, re.MULTILINE)


@pytest.mark.parametrize(
    ("text", "name", "count", "machine"),
    [
        (FILE, "by_hand", 1, AVX512),
        (FILE, "template", 2, AVX512),
        (FILE, "mixed", 6, AVX512),
        (FILE, "finished", 1, AVX512),
        (BOUND, "bound", 1, SM_80),
        (NORM, "mine", 1, AVX512),
    ],
)
def test_every_sketch_of_the_page_is_legal_and_means_the_same(
    text: str, name: str, count: int, machine: Target
) -> None:
    space = space_of(load("page.ms", text), name, world=World(machine=machine))
    found = list(space.structures())
    assert all(isinstance(s, Sketch) for s in found) and len(found) >= count
    for k, s in enumerate(found):
        c = space.sample(k, dict(s.structure))
        assert difference(space.program, c.program, 1e-4, 1e-5, k) is None


def test_the_commands_of_the_page_run(run: Run, tmp_path: Path) -> None:
    (tmp_path / "dense.ms").write_text(FILE)
    assert len(COMMANDS) == 4
    for command in COMMANDS:
        done = run(*command.split())
        assert done.returncode == 0, (command, done.stderr)
        if "--space" in command:
            assert "schedule " in done.stdout and " ~ " in done.stdout
            (tmp_path / "again.ms").write_text(FILE + done.stdout)
            assert run("check", "again.ms").returncode == 0


def test_wrong_use_is_refused(run: Run, tmp_path: Path) -> None:
    (tmp_path / "dense.ms").write_text(FILE)
    for words in (
        ("dense.ms:dense", "--rules", "quick"),
        ("dense.ms:template", "--space", "--rules", "quick"),
        ("dense.ms:dense", "--space", "--steps"),
    ):
        done = run("show", *words)
        assert done.returncode == 2 and "MS701" in done.stderr
    assert "MS273" in run("show", "dense.ms:dense", "--space", "--rules", "quik").stderr
    for words in (
        ("show", "dense.ms:dense", "--space", "--rules", "cuda"),
        ("show", "dense.ms:dense", "--space", "--rules", "quick", "--target", "sm_80"),
        ("tune", "dense.ms:dense", "--rules", "cuda"),
    ):
        done = run(*words)
        assert done.returncode == 1 and "error[MS273]" in done.stderr and "does not serve" in done.stderr
    cut = run("show", "dense.ms:mixed", "--space", "--sketches", "1")
    assert cut.stdout.count("schedule ") == 1 and "there are more sketches" in cut.stderr
