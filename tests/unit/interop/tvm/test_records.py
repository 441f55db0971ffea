"""TVM's tuning databases: read, written, brought into our record store and out of it; on the command line too."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path

import pytest
from msgspec.structs import replace

from mslang.cli.main import main
from mslang.diagnostics import MsError
from mslang.interop.tvm.bring import bring, kind_of
from mslang.interop.tvm.records import RECORDS, WORKLOADS, TvmRecord, read_database, write_database
from mslang.interop.tvm.store import ORIGIN, export_from, import_into
from mslang.interop.tvm.trace_in import import_trace
from mslang.interop.tvm.trace_json import to_json
from mslang.ir.equal import alpha_equal
from mslang.sema.modules import load
from mslang.sema.program import instantiate, parse_program
from mslang.tune.database import Database
from mslang.tune.record import Outcome, Record

DATA = Path(__file__).parents[3] / "data" / "tvm"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A copy of the database, to be damaged."""
    for name in (WORKLOADS, RECORDS):
        shutil.copy(DATA / name, tmp_path / name)
    return tmp_path


def test_a_database_of_tvm() -> None:
    found = read_database(DATA)
    assert found.diagnostics == ()
    module = load(str(DATA / "programs.ms"))
    for workload, name in zip(found.workloads, module.programs, strict=True):
        assert alpha_equal(replace(workload.program, name=name), instantiate(module, name, {}))
    assert [len(t.records) for t in found.tuned()] == [3, 3]
    for _, trials in found.tuned():
        times = [r.seconds for r in trials]
        assert times[-1] is None
        assert times[:-1] == sorted(t for t in times if t is not None)
        assert {r.kind for r in trials} == {"llvm"}


# ------------------------------------------------------------------ damage
def test_a_torn_line_costs_itself_only(folder: Path) -> None:
    file = folder / RECORDS
    lines = file.read_bytes().splitlines(keepends=True)
    file.write_bytes(b"".join(lines[:3]) + lines[3][:400] + b"\n" + b"".join(lines[4:5]) + lines[5][:77])
    found = read_database(folder)
    assert len(found.records) == 4
    assert [d.code for d in found.diagnostics] == ["MS748", "MS748"]
    assert "line 4 of" in found.diagnostics[0].message and "line 6 of" in found.diagnostics[1].message


@pytest.mark.parametrize("junk", ["[", "{}", '["1", "!!!"]', '["1", "AAAA"]', '["1", 2]', "\x00\xff", "null"])
def test_a_damaged_workload_takes_its_records_along(folder: Path, junk: str) -> None:
    file = folder / WORKLOADS
    lines = file.read_text().splitlines()
    file.write_text(f"{junk}\n{lines[1]}\n")
    found = read_database(folder)
    assert [w.line for w in found.workloads] == [1]
    assert len(found.records) == 3
    assert [d.code for d in found.diagnostics] == ["MS748", "MS748"]
    assert "3 records of workload 0 left out" in found.diagnostics[1].message


@pytest.mark.parametrize(
    "junk", ["[0]", "[0, []]", "[0, [[], 1]]", '[0, ["x", [1], {}, []]]', "[0, [[[], []], [1], {}, []], 3]", "\x00"]
)
def test_damaged_records(folder: Path, junk: str) -> None:
    (folder / RECORDS).write_text(junk + "\n")
    found = read_database(folder)
    assert found.records == ()
    assert [d.code for d in found.diagnostics] == ["MS748"]


@pytest.mark.parametrize("time", ["1" + "0" * 400, "-1.0", "0", "NaN", "1e10"])
def test_what_is_no_time_is_that_of_a_failed_trial(folder: Path, time: str) -> None:
    (folder / RECORDS).write_text(f"[0, [[[], []], [{time}], {{}}, []]]\n")
    (record,) = read_database(folder).records
    assert record.seconds is None


def test_a_record_that_does_not_fit_its_program_costs_itself_only(folder: Path, tmp_path: Path) -> None:
    file = folder / RECORDS
    rows = [json.loads(line) for line in file.read_text().splitlines()]
    workload, (_, *rest) = rows[0]
    insts = [["GetSBlock", [], ["root", "main"], ["b0"]], ["SampleCategorical", [], [[1, 2], [{}, {}]], ["v0"]]]
    file.write_text("".join(json.dumps(r) + "\n" for r in [[workload, [[insts, []], *rest]], *rows]))
    found = read_database(folder)
    with Database(":memory:") as store:
        moved = import_into(store, found, "damaged")
        assert (moved.left_out, len(moved.diagnostics)) == (1, 1) and moved.count > 0
        assert moved.diagnostics[0].code == "MS743"
    assert len(bring(file, file.read_text(), lambda: None).items) == 4


def test_files_that_are_missing(folder: Path) -> None:
    (folder / WORKLOADS).unlink()
    with pytest.raises(MsError) as caught:
        read_database(folder)
    assert caught.value.diagnostic.code == "MS747"


def test_a_program_whose_trials_all_failed_comes_alone_and_says_so(folder: Path) -> None:
    file = folder / RECORDS
    rows = [json.loads(line) for line in file.read_text().splitlines()]
    file.write_text("".join(json.dumps([w, [t, [1e10], *rest]]) + "\n" for w, (t, _, *rest) in rows))
    brought = bring(file, file.read_text(), lambda: None)
    assert len(brought.items) == 2
    assert [d.message for d in brought.diagnostics] == [f"there is no schedule for `{n}`" for n, _ in brought.items]


# ------------------------------------------------------------------ out and back
def test_a_database_written_is_read_again(tmp_path: Path) -> None:
    found = read_database(DATA)
    write_database(tmp_path, [(w.program, rs) for w, rs in found.tuned()])
    again = read_database(tmp_path)
    assert again.diagnostics == ()
    assert [w.program for w in again.workloads] == [w.program for w in found.workloads]
    assert {(r.workload, to_json(r.trace), r.times) for r in again.records} == {
        (r.workload, to_json(r.trace), r.times) for r in found.records
    }
    arguments = json.loads((tmp_path / RECORDS).read_text().splitlines()[0])[1][3]
    assert arguments == json.loads((DATA / RECORDS).read_text().splitlines()[0])[1][3]


def test_into_our_store_and_out_of_it(tmp_path: Path) -> None:
    source = read_database(DATA)
    with Database(tmp_path / "r.db") as store:
        assert import_into(store, source, "there").count == 6
        assert import_into(store, source, "there").count == 0
        kept = [r for r in store.records() if isinstance(r, Record)]
        assert {(r.device, r.compiler, r.run[:3], r.target) for r in kept} == {(ORIGIN, ORIGIN, ORIGIN, "tvm.llvm")}
        assert {r.result.outcome for r in kept} == {Outcome.ELSEWHERE}
        assert all(r.seconds is None for r in kept) and store.top() == []
        assert sorted(r.result.timing.median for r in kept if r.result.timing) == sorted(
            r.seconds for r in source.records if r.seconds is not None
        )
        assert export_from(store, tmp_path / "out", [None], {"kind": "llvm"}).count == 4
    back = read_database(tmp_path / "out")
    assert back.diagnostics == ()
    for workload, trials in back.tuned():
        original = next(t for t in source.tuned() if len(t.workload.program.params) == len(workload.program.params))
        for trial in trials:
            ours = import_trace(workload.program, trial.trace).program
            there = [import_trace(original.workload.program, r.trace).program for r in original.records]
            assert any(ours.body == p.body for p in there)


def test_a_record_that_does_not_fit_is_left_out(tmp_path: Path) -> None:
    program = parse_program("program p(A: f32[4], out C: f32[4]) { block other[i: 4] { C[i] = A[i] } }")
    trace = read_database(DATA).records[0].trace
    write_database(tmp_path, [(program, [TvmRecord(0, trace, (1e-5,), {"kind": "llvm"})])])
    with Database(tmp_path / "r.db") as store:
        done = import_into(store, read_database(tmp_path), "there")
    assert done.count == 0
    assert [d.code for d in done.diagnostics] == ["MS743"]


# ------------------------------------------------------------------ the command line
@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("[[], []]", "trace"),
        ('["1", "AA"]\n["2", "BB"]', "workloads"),
        ("[0, [[[], []], [1.0], {}, []]]", "records"),
        ('{"root_index": 0, "nodes": []}', "graph"),
    ],
)
def test_files_are_told_by_what_they_hold(text: str, kind: str) -> None:
    assert kind_of(text) == kind


def test_other_files_are_refused() -> None:
    for text in ("", "3", '{"a": 1}', "[[", "[" * 100_000):
        with pytest.raises(MsError) as caught:
            kind_of(text)
        assert caught.value.diagnostic.code == "MS749"


def test_import_of_records_gives_programs_with_their_best_schedules(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "out.ms"
    assert main(["import", str(DATA / RECORDS), "-o", str(out)]) in (0, 1)
    text = out.read_text()
    assert "schedule main_best for main {" in text and "µs when TVM measured it" in text
    assert list(load(str(out)).programs) == ["main", "main_1"]
    assert main(["check", str(out)]) == 0


def test_import_of_workloads_and_of_one_program(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["import", str(DATA / WORKLOADS)]) == 0
    assert "program main_1(A: f32[4, 512], out S: f32[4])" in capsys.readouterr().out
    assert main(["import", str(DATA / "program_0.25.json")]) == 0
    assert "program main(A: f32[8, 16], out C: f32[8])" in capsys.readouterr().out


def test_import_of_a_trace(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "fast.json"
    file.write_text(to_json(read_database(DATA).records[0].trace))
    assert main(["import", str(file)]) == 1
    assert "MS749" in capsys.readouterr().err
    assert main(["import", str(file), "--for", f"{DATA / 'programs.ms'}:gemm_relu"]) == 0
    assert "schedule fast for gemm_relu {" in capsys.readouterr().out
    out = tmp_path / "fast.ms"
    assert main(["import", str(file), "--for", f"{DATA / 'programs.ms'}:gemm_relu", "-o", str(out)]) == 0
    assert main(["check", str(out)]) == 0
    assert main(["import", str(file), "--for", f"{DATA / 'programs.ms'}:row_sum"]) == 1
    assert "MS743" in capsys.readouterr().err


def test_db_import_and_export(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    store = str(tmp_path / "r.db")
    assert main(["db", "import", str(DATA), "--db", store]) in (0, 1)
    assert "6 records brought into" in (said := capsys.readouterr().err) and "duplicate" not in said
    assert main(["db", "import", str(DATA), "--db", store]) in (0, 1)
    assert re.search(r"0 records brought into .*, 6 duplicates dropped$", capsys.readouterr().err, re.MULTILINE)
    assert main(["db", "import", str(DATA), "--db", store, "--json"]) in (0, 1)
    moved = json.loads(capsys.readouterr().out.splitlines()[-1])
    assert (moved["records"], moved["duplicates"]) == (0, 6)
    assert main(["db", "top", "--db", store]) == 1
    capsys.readouterr()
    assert main(["db", "export", "--outcome", "measured elsewhere", "--db", store]) == 0
    assert sum('"kind": "record"' in line for line in capsys.readouterr().out.splitlines()) == 6
    assert main(["db", "export", "--format", "tvm", str(tmp_path / "out"), "--db", store]) == 0
    assert len(read_database(tmp_path / "out").records) == 4
    assert main(["db", "export", "--format", "tvm", "--db", store]) == 2
