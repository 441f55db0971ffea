"""Records out of a store and into another: exact round trips, no duplicates, what is pruned, compared and counted."""

import json
import sqlite3
import subprocess
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path

import msgspec
import pytest

from mslang.cli.main import main
from mslang.diagnostics import Diagnostic
from mslang.runtime.timing import Timing
from mslang.target.machine import this_machine
from mslang.tune.database import Database
from mslang.tune.record import Outcome, Record, Result, Run, Sources, Workload
from mslang.tune.transfer import bring, line_of, merge, read_lines, rows_of
from mslang.tune.upkeep import Pruning, differences, prunable, stats

TEXT = Workload("w", "matmul", "program …")
NOW = datetime(2030, 1, 1, tzinfo=UTC)


def record(trial: int, seconds: float | None, **changes: object) -> Record:
    timing = None if seconds is None else Timing((seconds, seconds * 1.25), 3)
    result = Result(
        Outcome.WRONG_RESULT if seconds is None else Outcome.MEASURED, timing=timing, stages={"compile": 0.1}
    )
    made = Record(
        "w",
        "matmul",
        "cpu",
        this_machine().name,
        "llvm",
        f"c{trial}",
        "schedule …",
        "trace …",
        '{"a":[1,2]}',
        result,
        "r1",
        trial,
        7,
        "0.1.0",
        sources=Sources(library="abc"),
        created=(NOW - timedelta(days=10 * trial)).isoformat(),
        machine=this_machine().key,
        source=TEXT.source,
    )
    return msgspec.structs.replace(made, **changes)


def filled(path: Path, seconds: list[float | None], **changes: object) -> Path:
    with Database(path) as db:
        db.add_workload(TEXT)
        db.add_machine(this_machine())
        db.add_run(Run("r1", "gemm.ms", "s", "w", "cpu", 1, "{}", source=TEXT.source))
        for trial, each in enumerate(seconds):
            db.add(record(trial, each, **changes))
    return path


def lines(path: Path) -> list[str]:
    with Database(path, read_only=True) as db:
        return [json.dumps(line_of(r)) for r in rows_of(db) if not isinstance(r, Diagnostic)]


def test_what_is_exported_comes_back_exactly(tmp_path: Path) -> None:
    out = lines(filled(tmp_path / "a.db", [3.0, None, 1.0]))
    assert [json.loads(x)["kind"] for x in out] == ["machine", "workload", "run", "record", "record", "record"]
    with Database(tmp_path / "b.db") as db:
        done = bring(db, read_lines(out, "a.jsonl"))
        assert (done.added, done.known, done.diagnostics) == (3, 0, ())
    assert lines(tmp_path / "b.db") == out
    with Database(tmp_path / "b.db") as db:
        done = bring(db, read_lines(out, "a.jsonl"))
        assert (done.added, done.known) == (0, 3)
    assert lines(tmp_path / "b.db") == out


@pytest.mark.parametrize(
    "bad",
    [
        "{",
        "[1, 2]",
        '{"kind": "song"}',
        '{"kind": "record", "workload": 3}',
        '{"kind": "workload", "hash": "x"}',
        "\udcff",
        "[" * 100_000,
    ],
)
def test_a_bad_line_is_one_warning_and_the_rest_comes_in(tmp_path: Path, bad: str) -> None:
    out = lines(filled(tmp_path / "a.db", [3.0, 1.0]))
    with Database(tmp_path / "b.db") as db:
        done = bring(db, read_lines([*out[:-1], bad, "", out[-1]], "a.jsonl"))
        assert done.added == 2
        (warning,) = done.diagnostics
        assert warning.code == "MS608" and f"line {len(out)} of a.jsonl" in warning.message


def broken(path: Path, *place: str, value: object) -> str:
    """The first record of a store as a line, with another value at a place."""
    row = json.loads(next(x for x in lines(path) if json.loads(x)["kind"] == "record"))
    at = row
    for name in place[:-1]:
        at = at[name]
    at[place[-1]] = value
    return json.dumps(row)


@pytest.mark.parametrize(
    ("place", "value", "why"),
    [
        (("result", "timing", "samples"), [], "`samples` is empty"),
        (("result", "timing", "samples"), [-1.0, 0.0], "`samples` has -1, which is not positive"),
        (("result", "timing", "samples"), [1.0, 0.0], "`samples` has 0, which is not positive"),
        (("result", "timing", "samples"), [10**400], "samples"),
        (("result", "timing", "runs"), 0, "`runs` has 0"),
        (("result", "timing", "disturbed"), 2**70, "`disturbed` is a number beyond 64 bits"),
        (("result", "timing", "yardstick"), -1e11, "`yardstick` has -1e+11"),
        (("result", "timing", "yardstick"), 0.0, "`yardstick` has 0"),
        (("trial",), -(10**20) + 1, "`trial` is a number beyond 64 bits"),
        (("seed",), 2**63, "`seed` is a number beyond 64 bits"),
        (("seed",), 10**400, ""),
        (("id",), 2**62, "`id` is"),
        (("id",), 0, "`id` is 0"),
        (("decisions",), "[", "`decisions` is not the text of a JSON object"),
        (("decisions",), "[]", "`decisions` is not the text of a JSON object"),
    ],
)
def test_a_row_that_would_damage_the_store_or_its_order_is_left_out(
    tmp_path: Path, place: tuple[str, ...], value: object, why: str, capsys: pytest.CaptureFixture[str]
) -> None:
    path = filled(tmp_path / "a.db", [3.0, 1.0])
    out = [*lines(path), broken(path, *place, value=value)]
    (tmp_path / "a.jsonl").write_text("\n".join(out))
    status, shown, errors = run(capsys, "import", str(tmp_path / "a.jsonl"), "--db", str(tmp_path / "b.db"))
    assert status == 1 and "2 records added" in shown and "1 left out" in shown
    assert errors.count("[MS") == 1 and f"[MS608]: line {len(out)} of" in errors and why in errors
    with Database(tmp_path / "b.db", read_only=True) as db:
        assert [r.trial for r in db.top("w")] == [1, 0] and db.check() is None


def test_merging_adds_what_is_new(tmp_path: Path) -> None:
    filled(tmp_path / "a.db", [3.0, 1.0])
    filled(tmp_path / "b.db", [3.0, 1.0, 0.5])
    filled(tmp_path / "c.db", [9.0], run="r9")
    with (
        Database(tmp_path / "a.db") as a,
        Database(tmp_path / "b.db", read_only=True) as b,
        Database(tmp_path / "c.db", read_only=True) as c,
    ):
        done = merge(a, [b, c])
        assert (done.added, done.known) == (2, 2)
        assert [
            (r.id, r.run, r.result.timing.min) for r in a.records() if isinstance(r, Record) and r.result.timing
        ] == [
            (1, "r1", 3.0),
            (2, "r1", 1.0),
            (3, "r1", 0.5),
            (4, "r9", 9.0),
        ]
        assert a.check() is None


def test_an_interrupted_import_adds_nothing(tmp_path: Path) -> None:
    out = lines(filled(tmp_path / "a.db", [3.0, 1.0]))

    def cut_short():
        yield from read_lines(out[:-1], "a.jsonl")
        raise KeyboardInterrupt

    with Database(tmp_path / "b.db") as db:
        with pytest.raises(KeyboardInterrupt):
            bring(db, cut_short())
        assert list(db.records()) == [] and db.texts() == []


def test_records_that_were_not_exported_are_not_missing_and_lost_ones_are(tmp_path: Path) -> None:
    path = filled(tmp_path / "a.db", [None, 3.0, None, 1.0, None])
    with Database(path, read_only=True) as a, Database(tmp_path / "b.db") as b:
        bring(b, [*rows_of(a, outcome=Outcome.MEASURED)][::-1])
        assert [r.id for r in b.records() if isinstance(r, Record)] == [2, 4] and b.check() is None
    with Database(path) as a, Database(tmp_path / "c.db") as c:
        a.remove([1, 2])
        merge(c, [a])
        assert c.check() is None
    with sqlite3.connect(tmp_path / "c.db") as raw:
        raw.execute("DELETE FROM record WHERE id = 4")
    filled(tmp_path / "d.db", [*[None] * 8, 9.0])
    with Database(tmp_path / "c.db") as c, Database(tmp_path / "d.db") as d:
        bring(c, rows_of(d, outcome=Outcome.MEASURED))
        assert [r.id for r in c.records() if isinstance(r, Record)] == [3, 5, 9]
        damage = c.check()
    assert damage is not None and damage.why == "missing: 4"


@pytest.mark.parametrize(
    ("wanted", "gone"),
    [
        (Pruning(days=15), [3, 4, 5]),
        (Pruning(keep=1), [1, 2, 4, 5]),
        (Pruning(keep=0), [1, 2, 3, 4, 5]),
        (Pruning(failed=True), [2, 5]),
        (Pruning(days=15, failed=True), [5]),
        (Pruning(days=15, keep=1), [4, 5]),
        (Pruning(machine="another"), []),
        (Pruning(machine=this_machine().key), [1, 2, 3, 4, 5]),
    ],
)
def test_what_is_pruned(tmp_path: Path, wanted: Pruning, gone: list[int]) -> None:
    path = filled(tmp_path / "a.db", [3.0, None, 1.0, 2.0, None])
    with Database(path) as db:
        ids = prunable((r for r in db.records() if isinstance(r, Record)), wanted, NOW)
        assert ids == gone
        db.remove(ids)
        left = [r.id for r in db.records() if isinstance(r, Record)]
        assert left == [i for i in range(1, 6) if i not in gone]
        # What a user deleted is not missing, and no number is given twice.
        assert db.check() is None
        assert db.add(record(9, 1.0)).id == 6


def test_what_the_kept_records_were_timed_together_with_is_spared(tmp_path: Path) -> None:
    path = filled(tmp_path / "a.db", [3.0, 1.0])
    with Database(path) as db:
        # The incumbent is measured alone and then in turn with the best; that of another program has no such best.
        db.add(record(-1, 4.0))
        db.add(record(-1, 4.1))
        db.add(record(-1, 4.0, workload="v", result=Result(Outcome.CRASH)))
        found = [r for r in db.records() if isinstance(r, Record)]
    assert prunable(found, Pruning(keep=1)) == [1, 5]
    assert prunable(found, Pruning(keep=0)) == [1, 2, 3, 4, 5]


def test_times_are_compared_by_workload_target_and_machine(tmp_path: Path) -> None:
    filled(tmp_path / "a.db", [3.0, 1.0])
    filled(tmp_path / "b.db", [2.0, None])
    filled(tmp_path / "b.db", [0.25], machine="another")
    with Database(tmp_path / "a.db") as a, Database(tmp_path / "b.db") as b:
        found = {d.machine: d for d in differences(a, b)}
        mine = found[this_machine().key]
        # Means of two samples: the medians are 1.125 and 2.25 times the shorter one.
        assert mine.ours is not None and mine.theirs is not None and mine.ratio == pytest.approx(2.0)
        assert found["another"].ours is None and found["another"].ratio is None


def test_counts_and_rates(tmp_path: Path) -> None:
    path = filled(tmp_path / "a.db", [3.0, None, 1.0])
    with Database(path) as db:
        db.add(record(-1, None, created=""))
        found = stats(r for r in db.records() if isinstance(r, Record))
    assert found.records == 4 and found.outcomes == {"measured": 2, "wrong result": 2}
    (program,), (run,) = found.programs, found.runs
    assert program.outcomes == found.outcomes and program.program == "matmul"
    assert run.trials == 3 and run.seconds == timedelta(days=20).total_seconds()
    assert run.rate == pytest.approx(60 * 2 / run.seconds) and run.stages == pytest.approx({"compile": 0.1})


KILLED = """
import sys, itertools
sys.path.insert(0, sys.argv[2])
from test_transfer import record
from mslang.tune.database import Database
with Database(sys.argv[1]) as db:
    for trial in itertools.count():
        kept = db.add(record(trial % 1000, 1.0, run=str(trial)))
        print(kept.id, flush=True)
"""


def test_what_was_shown_survives_kill_9(tmp_path: Path) -> None:
    command = [sys.executable, "-c", KILLED, str(tmp_path / "r.db"), str(Path(__file__).parent)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as writer:
        assert writer.stdout is not None
        shown = [int(writer.stdout.readline()) for _ in range(20)]
        writer.kill()
    with Database(tmp_path / "r.db", read_only=True) as db:
        assert db.check() is None
        assert set(shown) <= {r.id for r in db.records() if isinstance(r, Record)}


# ---------------------------------------------------------------- the command line
def run(capsys: pytest.CaptureFixture[str], *words: str) -> tuple[int, str, str]:
    status = main(["db", *words])
    out = capsys.readouterr()
    return status, out.out, out.err


ALL = {
    "ls": [],
    "show": ["1"],
    "top": [],
    "export": [],
    "stats": [],
    "diff": ["b.db"],
    "merge": ["b.db"],
    "import": ["a.jsonl"],
    "prune": ["--failed", "--dry-run"],
}


@pytest.mark.parametrize("verb", ALL)
def test_every_verb_has_help_text_and_json(
    verb: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    filled(tmp_path / "a.db", [3.0, None, 1.0])
    filled(tmp_path / "b.db", [2.0, 5.0])
    Path("a.jsonl").write_text("\n".join(lines(tmp_path / "b.db")))
    status, text, errors = run(capsys, verb, *ALL[verb], "--db", "a.db")
    assert status == 0 and text and not errors
    status, text, errors = run(capsys, verb, *ALL[verb], "--db", "a.db", "--json")
    assert status == 0 and not errors
    assert all(json.loads(line)["kind"] for line in text.splitlines()) and text
    with pytest.raises(SystemExit) as stop:
        main(["db", verb, "--help"])
    assert stop.value.code == 0 and "--db STORE" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("words", "code"),
    [
        (["show", "99"], "MS604"),
        (["top", "--program", "nothing"], "MS703"),
        (["top", "--machine", "nothing"], "MS703"),
        (["export", "--program", "nothing"], "MS703"),
        (["export", "folder"], "MS701"),
        (["import", "absent.jsonl"], "MS702"),
        (["import", "text.jsonl"], "MS608"),
        (["merge", "absent.db"], "MS603"),
        (["merge", "text.jsonl"], "MS601"),
        (["diff", "absent.db"], "MS603"),
        (["prune"], "MS701"),
        (["prune", "--machine", "nothing"], "MS703"),
        (["prune", "--machine", "twin"], "MS704"),
        (["top", "--machine", "key"], "MS704"),
        (["prune", "--machine", ""], "MS701"),
        (["prune", "--machine", " "], "MS701"),
        (["top", "--machine", ""], "MS701"),
        (["top", "--program", ""], "MS701"),
        (["export", "--program", ""], "MS701"),
    ],
)
def test_bad_input_is_one_diagnostic(
    words: list[str], code: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    filled(tmp_path / "a.db", [3.0, None, 1.0])
    for key in ("key 1", "key 2"):
        filled(tmp_path / "a.db", [1.0], machine=key, device="twin")
    Path("text.jsonl").write_text("neither a row nor a database, but long enough for a header" * 9)
    status, _, errors = run(capsys, *words, "--db", "a.db")
    assert status in (1, 2)
    assert errors.count("[MS") == 1 and f"[{code}]" in errors


def test_an_empty_name_of_a_machine_deletes_nothing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = filled(tmp_path / "a.db", [3.0, 1.0])
    status, _, errors = run(capsys, "prune", "--machine", "", "--db", str(path))
    assert status == 2 and "--machine: the text is empty" in errors
    with Database(path, read_only=True) as db:
        assert len(list(db.records())) == 2


@pytest.mark.parametrize(("text", "status"), [("", 0), ("neither a row\n\nnor another\n", 1)])
def test_an_import_without_a_row_makes_no_store(
    tmp_path: Path, text: str, status: int, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "a.jsonl").write_text(text)
    store = tmp_path / "new" / "b.db"
    found, shown, errors = run(capsys, "import", str(tmp_path / "a.jsonl"), "--db", str(store))
    assert found == status and "0 records added" in shown and errors.count("[MS608]") == 2 * status
    assert not store.parent.exists()
    # Lines before the first row are counted where there is one.
    row = json.dumps({"kind": "workload", "hash": "w", "name": "p", "text": "program …"})
    (tmp_path / "a.jsonl").write_text(f"{text}{row}\n")
    found, shown, errors = run(capsys, "import", str(tmp_path / "a.jsonl"), "--db", str(store))
    assert found == status and errors.count("[MS608]") == 2 * status
    with Database(store, read_only=True) as db:
        assert [w.name for w in db.texts()] == ["p"]


def test_what_was_timed_with_the_best_is_shown_as_no_trial(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = filled(tmp_path / "a.db", [1.0])
    with Database(path) as db:
        db.add(record(-1, 2.0))
    assert "matmul, trial 0 of run r1" in run(capsys, "show", "1", "--db", str(path))[1]
    assert "matmul, timed with the best of run r1" in run(capsys, "show", "2", "--db", str(path))[1]


def test_times_by_several_compilers_are_shown_with_theirs(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = filled(tmp_path / "a.db", [1.0])
    filled(path, [50.0], compiler="reference 0.1.0")
    _, shown, _ = run(capsys, "top", "--db", str(path))
    head, _, first, second = shown.splitlines()
    assert "compiler" in head and "llvm" in first and "reference 0.1.0" in second
    assert "1.125 s" in run(capsys, "ls", "--db", str(path))[1]


def test_why_no_record_is_a_top_one(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = filled(tmp_path / "a.db", [1.0], machine="there", device="m1 × 8")
    status, _, errors = run(capsys, "top", "--db", str(path))
    assert status == 1 and "no record has a time of this machine" in errors and "takes m1 × 8" in errors
    for seconds in ([1.0], [None]):
        filled(path, seconds)
    for words in ([], ["--program", "matmul"]):
        status, _, errors = run(capsys, "top", *words, "--db", str(path))
        assert status == 1 and "each candidate with a time failed when it was last measured" in errors
    filled(path, [None], machine="there", device="m1 × 8")
    filled(path, [None], machine="elsewhere", device="m9 × 2")
    assert "each candidate with a time failed" in run(capsys, "top", "--machine", "there", "--db", str(path))[2]
    assert "no record has a time of m9 × 2" in run(capsys, "top", "--machine", "elsewhere", "--db", str(path))[2]


def test_names_come_before_prefixes_of_hashes_and_keys(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = filled(tmp_path / "a.db", [])
    with Database(path) as db:
        for number, (name, hash) in enumerate((("f", "a7"), ("g", "f0"))):
            db.add_workload(Workload(hash, name, "program …"))
            db.add(record(number, 1.0, workload=hash, program=name, machine=hash, device=name))

    def programs(*words: str) -> list[str]:
        _, out, _ = run(capsys, *words, "--db", str(path), "--json")
        return [row["program"] for row in map(json.loads, out.splitlines()) if row["kind"] == "record"]

    assert programs("export", "--program", "f") == ["f"] and programs("export", "--program", "f0") == ["g"]
    assert programs("top", "--machine", "f") == ["f"] and programs("top", "--machine", "f0") == ["g"]
