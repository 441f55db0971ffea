"""The record store: round trips, order, damage, versions, two writers."""

import sqlite3
import subprocess
import sys
from pathlib import Path

import pytest

from mslang.diagnostics import Diagnostic, MsError
from mslang.runtime.timing import Timing
from mslang.tune.database import Database, Run, Workload
from mslang.tune.record import Outcome, Record, Result, Verification


def make(trial: int, seconds: float | None, run: str = "r1", workload: str = "w") -> Record:
    if seconds is None:
        result = Result(Outcome.WRONG_RESULT, "C differs at (0, 1)")
    else:
        result = Result(
            Outcome.MEASURED,
            timing=Timing((seconds, seconds * 1.5, seconds), 3),
            verified=(Verification("sparse integers", 0.0),),
        )
    return Record(
        workload,
        "matmul",
        "cpu",
        "this",
        "llvm 22",
        f"c{trial}",
        "schedule …",
        "[]",
        "{}",
        result,
        run,
        trial,
        7,
        "0.1.0",
    )


def test_records_come_back_as_they_went_in(tmp_path: Path) -> None:
    with Database(tmp_path / "a" / "records.db") as db:
        kept = db.add(make(0, 0.5))
        assert db.record(kept.id or 0) == kept
        assert kept.seconds == 0.5
    with Database(tmp_path / "a" / "records.db", read_only=True) as db:
        assert db.best("w") == kept


def test_top_orders_by_median_and_leaves_out_failures(tmp_path: Path) -> None:
    with Database(tmp_path / "r.db") as db:
        for trial, seconds in enumerate([3.0, None, 1.0, 2.0]):
            db.add(make(trial, seconds))
        assert [r.trial for r in db.top(k=2)] == [2, 3]
        assert db.counts() == {Outcome.MEASURED: 3, Outcome.WRONG_RESULT: 1}
        assert [r.trial for r in db.records(outcome=Outcome.WRONG_RESULT) if isinstance(r, Record)] == [1]


def test_workloads_and_runs_are_listed(tmp_path: Path) -> None:
    with Database(tmp_path / "r.db") as db:
        db.add_workload(Workload("w", "matmul", "program …"))
        db.add_workload(Workload("w", "matmul", "program …"))
        db.add_run(Run("r1", "gemm.ms", "s", "w", "cpu", 1, "{}"))
        db.add(make(0, 0.25))
        assert db.workloads() == [(Workload("w", "matmul", "program …"), 1, 0.25)]
        assert [r.id for r in db.runs()] == ["r1"]


def test_an_unreadable_record_is_a_warning_and_the_rest_is_there(tmp_path: Path) -> None:
    with Database(tmp_path / "r.db") as db:
        for trial in range(3):
            db.add(make(trial, 1.0 + trial))
        with sqlite3.connect(tmp_path / "r.db") as raw:
            raw.execute("UPDATE record SET result = '{\"outcome\": ' WHERE trial = 1")
        found = list(db.records())
        assert [isinstance(r, Diagnostic) for r in found] == [False, True, False]
        assert isinstance(found[1], Diagnostic) and found[1].code == "MS605"


def test_a_file_that_is_no_database_is_refused(tmp_path: Path) -> None:
    (tmp_path / "r.db").write_bytes(b"certainly not SQLite" * 100)
    with pytest.raises(MsError) as error:
        Database(tmp_path / "r.db")
    assert error.value.diagnostic.code == "MS601"


def test_a_newer_schema_is_refused(tmp_path: Path) -> None:
    with sqlite3.connect(tmp_path / "r.db") as raw:
        raw.execute("PRAGMA user_version = 99")
    with pytest.raises(MsError) as error:
        Database(tmp_path / "r.db")
    assert error.value.diagnostic.code == "MS602"
    assert "99" in (error.value.diagnostic.why or "")


def test_an_impossible_place_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(MsError) as error:
        Database(tmp_path / "file" / "r.db")
    assert error.value.diagnostic.code == "MS603"
    with pytest.raises(MsError) as error:
        Database(tmp_path / "absent.db", read_only=True)
    assert error.value.diagnostic.code == "MS603"


WRITER = """
import sys
sys.path.insert(0, sys.argv[3])
from test_database import make
from mslang.tune.database import Database
with Database(sys.argv[1]) as db:
    for trial in range(40):
        db.add(make(trial, 1.0, run=sys.argv[2]))
"""


def test_two_processes_write_at_once_and_nothing_is_lost(tmp_path: Path) -> None:
    here = str(Path(__file__).parent)
    write = [sys.executable, "-c", WRITER, str(tmp_path / "r.db")]
    writers = [subprocess.Popen([*write, run, here]) for run in ("a", "b")]
    assert [w.wait(60) for w in writers] == [0, 0]
    with Database(tmp_path / "r.db") as db:
        for run in ("a", "b"):
            assert [r.trial for r in db.records(run=run) if isinstance(r, Record)] == list(range(40))
