"""Text that asks for too much ends in a diagnostic in good time, and nothing of it is executed."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

FOLDER = Path(__file__).parents[2] / "fixtures" / "hostile"
FILES = sorted(FOLDER.glob("*.ms"))

LIMIT = 240
"""Seconds for all of the files, on a machine that does other things; each takes about one."""

WANTED: dict[str, set[str]] = {
    "bigloop": {"MS140"},
    "bigpow": {"MS140"},
    "cyclic_rule": {"MS265"},
    "cyclic_schedule": {"MS265"},
    "cyclic_space": {"MS265"},
    "cyclic_use": {"MS122"},
    "doubled_list": {"MS140"},
    "doubled_text": {"MS140"},
    "exp_comp": {"MS113"},
    "exp_fn": {"MS140"},
    "exp_list": {"MS140", "MS201"},
    "huge_parts": {"MS203"},
    "hugebuf": {"MS141"},
    "hugesplit": {"MS140"},
    "hugeunroll": {"MS140"},
    "many_digits": {"MS140"},
    "many_parts": {"MS203"},
    "many_questions": {"MS140"},
    "many_splits": {"MS140"},
    "size_growth": {"MS140"},
    "symbolic_growth": {"MS140"},
    "while_test": {"MS126"},
}
"""What `mslang check` says of each; `evil*.ms` are about native code, which has tests of its own."""


@pytest.fixture(scope="module")
def found() -> dict[str, set[str]]:
    command = [sys.executable, "-m", "mslang", "check", "--json", *map(str, FILES)]
    done = subprocess.run(command, cwd=FOLDER, capture_output=True, text=True, timeout=LIMIT)
    assert "MS999" not in done.stderr + done.stdout
    codes: dict[str, set[str]] = {p.stem: set() for p in FILES}
    for line in done.stdout.splitlines():
        said = json.loads(line)
        codes[Path(said["path"]).stem].add(said["code"])
    return codes


@pytest.mark.parametrize("name", WANTED)
def test_hostile_text_ends_in_a_diagnostic(name: str, found: dict[str, set[str]]) -> None:
    assert found[name] == WANTED[name]


def test_every_file_is_looked_at_and_nothing_ran(found: dict[str, set[str]]) -> None:
    assert {p.stem for p in FILES} - WANTED.keys() == {"evil", "evil2", "evil3"}
    assert not list(FOLDER.glob("PWNED"))
