"""A builder and a runner of a user's own: given from Python, or by name from an allowed package."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

import mslang as ms
from mslang import extensions
from mslang.diagnostics import MsError
from mslang.target.machine import this_machine
from mslang.tune.builder import StandardBuilder, builder_named
from mslang.tune.database import Database
from mslang.tune.record import Outcome, Record
from mslang.tune.runner import StandardRunner, runner_named
from tests.e2e.test_own_primitive import install

EXAMPLE = Path(__file__).parents[3] / "examples" / "own_workers"

BROKEN = """
class Broken:
    name = "broken"

    def build(self, job):
        raise ZeroDivisionError


broken, wrong = Broken(), object()
"""


@pytest.fixture
def packages(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The example as if it were installed, and a package with a builder that fails and one that is none."""
    install(EXAMPLE, tmp_path)
    info = tmp_path / "my_faults-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: my-faults\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[mslang.builders]\nbroken = my_faults:broken\nwrong = my_faults:wrong\n")
    (tmp_path / "my_faults.py").write_text(BROKEN)
    monkeypatch.syspath_prepend(tmp_path)
    extensions.declared.cache_clear()
    extensions.extension.cache_clear()
    yield tmp_path
    monkeypatch.undo()
    extensions.declared.cache_clear()
    extensions.extension.cache_clear()


def tuned(folder: Path, builder: str, runner: str | None = None, trials: int = 4) -> list[Record]:
    space = ms.load(EXAMPLE / "add.ms").space("tiled")
    path = folder / "r.db"
    ms.tune(space, trials=trials, workers=1, database=path, builder=builder, runner=runner, strategy="replay_trace")
    with Database(path) as database:
        return [r for r in database.records() if isinstance(r, Record)]


def test_a_runner_that_counts_instructions_and_a_builder_that_refuses(packages: Path) -> None:
    with ms.allowing("own-workers"):
        records = tuned(packages, "small", "instructions", trials=8)
    outcomes = {r.result.outcome for r in records}
    assert outcomes == {Outcome.MEASURED, Outcome.COMPILE_ERROR}
    assert {r.result.reason for r in records if r.result.outcome is Outcome.COMPILE_ERROR} == {"too much text"}
    # Counts are whole numbers, the same each time, and verified like any other result.
    counts = {(r.candidate, r.seconds) for r in records if r.seconds is not None}
    assert len(counts) == len({candidate for candidate, _ in counts})
    assert all(round(seconds * 1e9) == pytest.approx(seconds * 1e9) for _, seconds in counts)
    assert all(r.result.verified for r in records if r.seconds is not None)
    # They are records of another machine, and of another compiler, than wall times are.
    assert {r.machine for r in records} == {this_machine().with_runner("instructions").key}
    assert all(r.compiler.endswith(", small") for r in records)
    with Database(packages / "r.db") as database:
        assert database.top() == []


def test_what_a_builder_raises_is_the_outcome_of_its_candidates(packages: Path) -> None:
    with ms.allowing("my-faults"):
        records = tuned(packages, "broken")
    assert {r.result.outcome for r in records} == {Outcome.CRASH}
    assert {r.result.reason for r in records} == {"compiling: ZeroDivisionError: "}


@pytest.mark.usefixtures("packages")
def test_only_what_is_allowed_and_fits_is_taken() -> None:
    with pytest.raises(MsError) as refused:
        builder_named("small")
    assert refused.value.diagnostic.code == "MS272"
    with ms.allowing("my-faults"), pytest.raises(MsError) as refused:
        builder_named("wrong")
    assert refused.value.diagnostic.code == "MS212" and "Builder" in str(refused.value)
    assert builder_named("") == StandardBuilder() and runner_named("") == StandardRunner()
