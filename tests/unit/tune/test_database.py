"""The record store: round trips, order, damage, versions, two writers."""

import random
import sqlite3
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import msgspec
import pytest

from mslang.diagnostics import Diagnostic, MsError
from mslang.runtime.timing import Timing
from mslang.target.machine import this_machine
from mslang.tune import connection
from mslang.tune.database import Database
from mslang.tune.record import Outcome, Record, Result, Run, Verification, Workload
from mslang.tune.stores import Union


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
        machine=this_machine().key,
        source=Workload("w", "matmul", "program …").source,
    )


def test_records_come_back_as_they_went_in(tmp_path: Path) -> None:
    with Database(tmp_path / "a" / "records.db") as db:
        kept = db.add(make(0, 0.5))
        assert db.record(kept.id or 0) == kept
        assert kept.seconds == 0.5
    with Database(tmp_path / "a" / "records.db", read_only=True) as db:
        assert db.best("w") == kept


def test_a_closed_store_says_so(tmp_path: Path) -> None:
    db = Database(tmp_path / "records.db")
    db.close()
    for use in (lambda: db.top("w"), lambda: list(db.records()), lambda: db.add(make(0, 0.5)), db.check):
        with pytest.raises(MsError) as caught:
            use()
        d = caught.value.diagnostic
        assert d.code == "MS603" and "records.db is closed" in d.message and "open it again" in (d.help or "")


@pytest.mark.parametrize("n", [-1, 1.5, True])
def test_the_number_of_the_fastest_is_a_number(n: Any) -> None:
    with Database(":memory:") as db:
        for store in (db, Union([db])):
            with pytest.raises(MsError, match=f"records to give, is {n}"):
                store.top("w", n)
        assert db.top("w", 0) == []


def test_top_orders_by_median_and_leaves_out_failures(tmp_path: Path) -> None:
    with Database(tmp_path / "r.db") as db:
        for trial, seconds in enumerate([3.0, None, 1.0, 2.0]):
            db.add(make(trial, seconds))
        assert [r.trial for r in db.top(n=2)] == [2, 3]
        assert [r.trial for r in db.records(outcome=Outcome.WRONG_RESULT) if isinstance(r, Record)] == [1]


def test_workloads_and_runs_are_listed(tmp_path: Path) -> None:
    with Database(tmp_path / "r.db") as db:
        db.add_workload(Workload("w", "matmul", "program …"))
        db.add_workload(Workload("w", "matmul", "program …"))
        db.add_run(Run("r1", "gemm.ms", "s", "w", "cpu", 1, "{}"))
        db.add(make(0, 0.25))
        assert db.workloads() == [(Workload("w", "matmul", "program …"), 1, 0.25)]
        assert [r.id for r in db.runs()] == ["r1"]


def test_a_file_name_that_is_no_text_is_kept_with_escapes(tmp_path: Path) -> None:
    with Database(tmp_path / "r.db") as db:
        db.add_run(Run("r1", "caf\udce9.ms", "s", "w", "cpu", 1, "{}"))
        assert [r.file for r in db.runs()] == ["caf\\udce9.ms"]
        assert db.check() is None and db.top("caf\udce9") == []


def test_an_unreadable_record_is_a_warning_and_the_rest_is_there(tmp_path: Path) -> None:
    with Database(tmp_path / "r.db") as db:
        for trial in range(3):
            db.add(make(trial, 1.0 + trial))
        with sqlite3.connect(tmp_path / "r.db") as raw:
            raw.execute("UPDATE record SET result = '{\"outcome\": ' WHERE trial = 1")
        found = list(db.records())
        assert [isinstance(r, Diagnostic) for r in found] == [False, True, False]
        assert isinstance(found[1], Diagnostic) and found[1].code == "MS605"


def test_a_damaged_fastest_record_hides_no_other(tmp_path: Path) -> None:
    with Database(tmp_path / "r.db") as db:
        for trial in range(3):
            db.add(make(trial, 1.0 + trial))
        with sqlite3.connect(tmp_path / "r.db") as raw:
            raw.execute("UPDATE record SET schedule = 'another' WHERE trial = 0")
        best = db.best("w")
        assert best is not None and best.trial == 1
        assert [r.trial for r in db.top("w", 2)] == [1, 2]


def test_flipped_bits_are_found(tmp_path: Path) -> None:
    path = tmp_path / "r.db"
    with Database(path) as db:
        db.add_workload(Workload("w", "matmul", "program …"))
        db.add_run(Run("r1", "gemm.ms", "s", "w", "cpu", 1, "{}"))
        for trial in range(12):
            db.add(make(trial, 1.0 + trial))
        whole = [*map(repr, db.records()), repr(db.workloads()), repr(db.runs())]
        assert db.check() is None
    with sqlite3.connect(path) as raw:
        raw.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        raw.execute("PRAGMA journal_mode = DELETE")
    raw.close()
    good, chance = path.read_bytes(), random.Random(5)
    found = 0
    for round in range(300):
        bad = bytearray(good)
        for _ in range(1 if round < 200 else chance.choice((4, 32, 256))):
            bad[chance.randrange(len(bad))] ^= 1 << chance.randrange(8)
        path.write_bytes(bad)
        for side in ("-wal", "-shm"):
            Path(f"{path}{side}").unlink(missing_ok=True)
        try:
            with Database(path, read_only=True) as db:
                warning = db.check()
                now = [*map(repr, db.records()), repr(db.workloads()), repr(db.runs())]
        except MsError as error:
            assert error.diagnostic.code in ("MS601", "MS602", "MS603")
            found += 1
            continue
        # What is given out is as it was, and what is not given out is reported.
        assert set(now[:-2]) <= set(whole) or warning is not None
        records = [r for r in now[:-2] if r.startswith("Record")]
        assert set(records) <= set(whole)
        assert warning is not None or now == whole
        found += warning is not None
    assert found > 10


@pytest.mark.parametrize("how", ["remove", "rename", "replace"])
def test_a_store_that_is_removed_while_open_loses_nothing(tmp_path: Path, how: str) -> None:
    path = tmp_path / "r.db"
    with Database(path) as db:
        db.add_workload(Workload("w", "matmul", "program …"))
        db.add_run(Run("r1", "gemm.ms", "s", "w", "cpu", 1, "{}"))
        db.add(make(0, 1.0))
        for file in (path, Path(f"{path}-wal"), Path(f"{path}-shm")):
            file.unlink() if how == "remove" else file.rename(tmp_path / f"moved{file.name}")
        if how == "replace":
            with Database(path) as other:
                other.add(make(7, 7.0, run="other"))
        kept = db.add(make(1, 2.0))
        assert db.moved is not None and db.moved.code == "MS606"
        assert db.record(kept.id or 0) == kept
        db.add(make(2, 3.0))
    with Database(path, read_only=True) as db:
        trials = [r.trial for r in db.records() if isinstance(r, Record)]
        assert trials == ([7, 0, 1, 2] if how == "replace" else [0, 1, 2])
        assert [r.id for r in db.runs()] == ["r1"] and len(db.workloads()) == 1


def test_times_of_other_machines_are_not_compared(tmp_path: Path) -> None:
    with Database(tmp_path / "r.db") as db:
        db.add(make(0, 2.0))
        db.add(msgspec.structs.replace(make(1, 1.0), machine="other", device="zen × 96"))
        assert [r.trial for r in db.top("w")] == [0]
        assert db.best("w", machine="other") is not None
        own = Workload("w", "matmul", "program …")
        assert set(db.known(own, "cpu", "llvm 22", "0.1.0")) == {"c0"}
        assert db.known(own, "cpu", "llvm 23", "0.1.0") == {}
        assert db.known(Workload("w", "renamed", "another text"), "cpu", "llvm 22", "0.1.0") == {}
        assert db.machines() == {this_machine().key: "this", "other": "zen × 96"}


def test_candidates_are_ordered_by_time_at_the_nominal_speed(tmp_path: Path) -> None:
    with Database(tmp_path / "r.db") as db:
        for trial, (seconds, rate) in enumerate([(1.0, 2e11), (1.5, 1e11), (1.9, None)]):
            result = Result(Outcome.MEASURED, timing=Timing((seconds,), 1, yardstick=rate))
            db.add(msgspec.structs.replace(make(trial, None), result=result))
        assert [r.trial for r in db.top("w")] == [1, 2, 0]


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


def test_a_store_in_a_folder_without_write_permission_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "r.db"
    opened: list[str] = []
    connect = sqlite3.connect

    def noted(place: str, **options: Any) -> sqlite3.Connection:
        opened.append(place.partition("?")[2])
        return connect(place, **options)

    with Database(path) as db:
        kept = db.add(make(0, 1.0))
        monkeypatch.setattr(connection.os, "access", lambda *_: False)
        monkeypatch.setattr(connection.sqlite3, "connect", noted)
        # While the file is written to, its log is there.
        with Database(path, read_only=True) as reader:
            assert reader.best("w") == kept
    with Database(path, read_only=True) as reader:
        assert reader.best("w") == kept
    assert opened == ["mode=ro", "mode=ro&immutable=1"]
    # Permissions do not bind everyone.
    tmp_path.chmod(0o500)
    try:
        with Database(path, read_only=True) as reader:
            assert reader.best("w") == kept and not Path(f"{path}-shm").exists()
    finally:
        tmp_path.chmod(0o700)


WRITER = """
import sys
sys.path.insert(0, sys.argv[3])
from test_database import make
from mslang.tune.database import Database
with Database(sys.argv[1]) as db:
    for trial in range(40):
        db.add(make(trial, 1.0, run=sys.argv[2]))
"""


def test_opening_waits_for_one_that_holds_the_file(tmp_path: Path) -> None:
    path = tmp_path / "r.db"
    holder = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
    holder.execute("BEGIN EXCLUSIVE")
    holder.execute("CREATE TABLE other (x)")
    done = threading.Timer(0.2, lambda: holder.execute("ROLLBACK"))
    done.start()
    with Database(path) as db:
        assert list(db.records()) == []
    done.join()
    holder.close()


def test_two_processes_write_at_once_and_nothing_is_lost(tmp_path: Path) -> None:
    here = str(Path(__file__).parent)
    write = [sys.executable, "-c", WRITER, str(tmp_path / "r.db")]
    writers = [subprocess.Popen([*write, run, here]) for run in ("a", "b")]
    assert [w.wait(60) for w in writers] == [0, 0]
    with Database(tmp_path / "r.db") as db:
        for run in ("a", "b"):
            assert [r.trial for r in db.records(run=run) if isinstance(r, Record)] == list(range(40))
