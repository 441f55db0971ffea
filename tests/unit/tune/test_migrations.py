"""Stores of earlier versions, as those versions wrote them: all of it is there, under the hashes of today."""

import shutil
import sqlite3
from pathlib import Path

import pytest

from mslang.diagnostics import Diagnostic
from mslang.ir.equal import structural_hash, workload_hash
from mslang.schedule.replay import space_of_text
from mslang.sema.program import parse_program
from mslang.tune.database import Database
from mslang.tune.record import Outcome, Record
from mslang.tune.schema import SCHEMA_VERSION

OLD = Path(__file__).parents[2] / "fixtures" / "records"

RENAMED = """program other(X: f32[16, 16], Y: f32[16, 16], out Z: f32[16, 16]) {
    block product[a: 16, b: 16 | c: 16] { Z[a, b] += X[a, c] * Y[c, b] }
}"""


def written(version: int, path: Path) -> Path:
    """A store as a version left it: `mslang tune small.ms --trials 3`."""
    with sqlite3.connect(path) as raw:
        raw.executescript((OLD / f"version_{version}.sql").read_text())
    raw.close()
    return path


def records(db: Database) -> list[Record]:
    return [r for r in db.records() if isinstance(r, Record)]


def test_there_is_a_store_of_every_earlier_version() -> None:
    assert sorted(p.stem for p in OLD.glob("*.sql")) == [f"version_{v}" for v in range(1, SCHEMA_VERSION)]


@pytest.mark.parametrize("read_only", [True, False])
@pytest.mark.parametrize("version", range(1, SCHEMA_VERSION))
def test_everything_in_an_older_store_is_there(tmp_path: Path, version: int, read_only: bool) -> None:
    path = written(version, tmp_path / "r.db")
    before = path.read_bytes()
    with Database(path, read_only=read_only) as db:
        assert db.check() is None
        found = records(db)
        assert [r.id for r in found] == list(range(1, 8 if version == 3 else 7))
        assert {r.result.outcome for r in found} == {Outcome.MEASURED}
        assert {r.schema for r in found} == {version}
        (run,) = db.runs()
        (text,) = db.texts()
        assert run.source == text.source and {r.source for r in found} == {text.source}
        program = parse_program(text.text)
        assert text.hash == run.workload == workload_hash(program)
        # The machine of the first version is unknown.
        assert all(bool(r.machine) is (version > 1) for r in found)
        # What was recorded is still what the trace gives.
        for r in found:
            assert structural_hash(space_of_text(r.trace, program).sample(0, strict=True).program) == r.candidate
        # A program that differs in names alone finds the records of an older version, too.
        machine = found[0].machine
        last = {r.candidate: r for r in found}
        best = db.best(parse_program(RENAMED), machine=machine)
        assert best is not None and best.cost == min(r.cost or 1.0 for r in last.values())
    assert (path.read_bytes() == before) is read_only
    with Database(path, read_only=True) as db:
        assert records(db) == found


def test_what_was_damaged_before_stays_so(tmp_path: Path) -> None:
    path = written(2, tmp_path / "r.db")
    with sqlite3.connect(path) as raw:
        raw.execute("UPDATE record SET seed = 99 WHERE id = 2")
        raw.execute("UPDATE run SET seed = 99")
    raw.close()
    with Database(path) as db:
        warning = db.check()
        assert warning is not None and warning.why is not None
        assert "damaged: 2" in warning.why and "damaged runs, programs, machines or lessons: 1" in warning.why
        assert [r.id for r in records(db)] == [1, 3, 4, 5, 6]
        assert sum(isinstance(r, Diagnostic) for r in db.records()) == 1


def test_a_program_that_can_no_longer_be_read_keeps_its_records(tmp_path: Path) -> None:
    path = written(2, tmp_path / "r.db")
    with sqlite3.connect(path) as raw:
        raw.execute("UPDATE workload SET text = 'program of another language'")
    raw.close()
    with Database(path) as db:
        assert len(records(db)) == 6
        assert len({r.workload for r in records(db)}) == 1


def test_two_processes_that_migrate_at_once_do_it_once(tmp_path: Path) -> None:
    path = written(2, tmp_path / "r.db")
    shutil.copy(path, tmp_path / "copy.db")
    with Database(path) as first, Database(path) as second:
        assert records(first) == records(second)
    with Database(tmp_path / "copy.db") as db:
        assert [r.candidate for r in records(db)] == [r.candidate for r in records(Database(path, read_only=True))]
