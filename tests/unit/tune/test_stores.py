"""Stores by protocol: memory, files, unions, and a user's own, which is an example."""

import os
import subprocess
import sys
from pathlib import Path

import msgspec
import pytest

import mslang as ms
from mslang.diagnostics import MsError
from mslang.runtime.timing import Timing
from mslang.target.machine import this_machine
from mslang.tune.connection import MEMORY
from mslang.tune.database import Database
from mslang.tune.instances import Instance
from mslang.tune.mirrored import opened_to_tune
from mslang.tune.record import Outcome, Record, Result, Workload
from mslang.tune.stores import OrderedUnion, Store, Union, fastest, open_store, open_to_add, text_of
from mslang.tune.transfer import merge
from mslang.tune.upkeep import Pruning, differences, prunable
from tests.e2e.test_own_primitive import install
from tests.unit.tune.test_transfer import filled, record

EXAMPLE = Path(__file__).parents[3] / "examples" / "own_database"


def store_of(kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Store:
    match kind:
        case "memory":
            return open_store("memory:")
        case "sqlite":
            return Database(tmp_path / "own.db")
        case "union":
            return Union([Database(MEMORY), Database(MEMORY)])
        case "ordered":
            return OrderedUnion([Database(MEMORY), Database(MEMORY)])
    monkeypatch.syspath_prepend(str(EXAMPLE))
    from own_database.folder import FolderStore

    own: Store = FolderStore(str(tmp_path / "folder"))
    return own


@pytest.mark.parametrize("kind", ["memory", "sqlite", "union", "ordered", "folder"])
def test_every_store_keeps_and_finds_records(kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = store_of(kind, tmp_path, monkeypatch)
    assert list(store.records()) == [] and store.top("w") == [] and store.texts() == []
    text = Workload("w", "matmul", "program …")
    store.add_workload(text)
    store.add_workload(text)
    kept = [store.add(record(trial, seconds)) for trial, seconds in enumerate([3.0, None, 1.0, 2.0])]
    store.add(record(4, 0.1, machine="another"))
    store.add(record(5, 0.1, workload="v", target="avx2"))
    # The first candidate is measured again: the last time counts.
    again = store.add(record(0, 0.5))
    assert [r.id for r in store.top("w", 2)] == [again.id, kept[2].id]
    assert [r.trial for r in store.top(None, 9, machine="another")] == [4]
    assert [r.trial for r in store.top(target="avx2")] == [5]
    assert [r.trial for r in store.records("w") if isinstance(r, Record)] == [0, 1, 2, 3, 4, 0]
    assert store.texts("w") == [text] and store.texts("v") == []
    assert text_of(store, again) == text and text_of(store, store.top("v")[0]) is None
    store.close()


def test_any_store_is_a_database_to_tune_into(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    own = store_of("folder", tmp_path, monkeypatch)
    before = own.add(record(0, 2.0))
    with opened_to_tune(own) as database:
        database.add_workload(Workload("w", "matmul", "program …"))
        kept = database.add(record(1, 1.0))
        assert database.name == "FolderStore" and kept.id == 2 and kept.created
        assert [r.id for r in database.top("w")] == [r.id for r in own.top("w")] == [kept.id, before.id]
    with opened_to_tune(own) as again:
        assert len(list(again.records(run=kept.run))) == 2 and len(again.texts("w")) == 1
    with Database(MEMORY) as given, opened_to_tune(given) as same:
        assert same is given


def test_the_fastest_of_records_is_what_the_database_finds(tmp_path: Path) -> None:
    with Database(filled(tmp_path / "a.db", [3.0, None, 1.0, 2.0])) as db:
        db.add(record(2, None))
        db.add(msgspec.structs.replace(record(3, 0.5), result=Result(Outcome.CRASH)))
        found = [r for r in db.records() if isinstance(r, Record)]
        for n in (1, 2, 10):
            assert fastest(found, n, target="cpu", machine=None) == db.top("w", n, target="cpu")


def test_of_a_candidate_that_several_runs_tried_the_last_outcome_counts_everywhere(tmp_path: Path) -> None:
    with Database(filled(tmp_path / "a.db", [1.0, 2.0])) as db, Database(MEMORY) as empty:
        db.add(record(0, 3.0, run="r2"))
        found = [r for r in db.records() if isinstance(r, Record)]
        assert [r.id for r in db.top("w")] == [r.id for r in fastest(found, 9, target=None, machine=None)] == [2, 3]
        assert prunable(found, Pruning(keep=1)) == [1, 3]
        assert [d.ours for d in differences(db, empty)] == [found[1].cost]
        assert [r.id for r in db.top("w", run="r1")] == [1, 2]


def test_numbers_beyond_all_records_and_dates_find_nothing(tmp_path: Path) -> None:
    with Database(filled(tmp_path / "a.db", [1.0])) as db:
        found = [r for r in db.records() if isinstance(r, Record)]
        assert prunable(found, Pruning(days=800_000)) == prunable(found, Pruning(days=10**12)) == []
        for number in (2**63, 10**30, -1):
            with pytest.raises(MsError, match=f"no record {number} in"):
                db.record(number)


def test_times_with_warm_and_with_cold_caches_are_not_compared(tmp_path: Path) -> None:
    def with_cold(trial: int, seconds: float) -> Record:
        return record(trial, None, result=Result(Outcome.MEASURED, timing=Timing((seconds,), 1, cold=True)))

    with Database(filled(tmp_path / "a.db", [1.0, 2.0])) as db, Database(tmp_path / "b.db") as other:
        db.add(with_cold(0, 9.0))
        found = [r for r in db.records() if isinstance(r, Record)]
        # The last time was with cold caches: so are those that count.
        assert [r.id for r in db.top("w")] == [r.id for r in fastest(found, 9, target=None, machine=None)] == [3]
        # What failed has failed with either.
        other.add(with_cold(0, 8.0))
        other.add(msgspec.structs.replace(record(1, 1.5), created="2031"))
        other.add(record(0, None))
        assert [r.id for r in other.top("w")] == [2]
        assert [r.seconds for r in Union([db, other]).top("w")] == [1.5 * 1.125]
        assert prunable(found, Pruning(keep=1)) == [2]
        assert [(d.ours, d.theirs) for d in differences(db, other)] == [(None, found[0].cost * 1.5), (9.0, None)]


@pytest.mark.parametrize("kind", ["memory", "sqlite", "union", "folder"])
def test_times_at_different_sizes_are_not_compared(kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def at(size: int, trial: int, seconds: float | None, outcome: Outcome = Outcome.MEASURED) -> Record:
        timing = None if seconds is None else Timing((seconds,), 1)
        cold = False if outcome is Outcome.TIME_OUT else None
        result = Result(outcome, timing=timing, cold=cold, instances=(Instance({"M": size}),))
        return store.add(record(trial, None, result=result))

    store = store_of(kind, tmp_path, monkeypatch)
    store.add(record(0, 0.1))
    small = [at(5, trial, seconds) for trial, seconds in enumerate([1.0, 2.0])]
    large = [at(16, trial, seconds) for trial, seconds in enumerate([9.0, 8.0])]
    # The last time was at 16: so are those that count, not those of an older store that does not say at which.
    assert [r.id for r in store.top("w")] == [large[1].id, large[0].id]
    # What takes too long at 5 need not at 16; what is wrong at 5 is wrong.
    at(5, 1, None, Outcome.TIME_OUT)
    assert [r.id for r in store.top("w")] == [large[1].id, large[0].id]
    at(5, 1, None, Outcome.WRONG_RESULT)
    assert [r.id for r in store.top("w")] == [large[0].id]
    found = [r for r in store.records() if isinstance(r, Record)]
    assert small[0].id not in prunable(found, Pruning(keep=1))
    store.close()


@pytest.mark.parametrize("kind", ["memory", "sqlite", "union", "folder"])
def test_a_time_by_one_compiler_takes_none_by_another_away(
    kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = store_of(kind, tmp_path, monkeypatch)
    llvm = [store.add(record(trial, seconds)) for trial, seconds in enumerate([1.0, 2.0])]
    cold = Result(Outcome.MEASURED, timing=Timing((50.0,), 1, cold=True))
    slow = store.add(record(0, None, result=cold, compiler="reference"))
    store.add(record(1, None, compiler="reference"))
    assert [r.id for r in store.top("w")] == [*(r.id for r in llvm), slow.id]
    assert [r.id for r in store.top("w", compiler="llvm")] == [r.id for r in llvm]
    # What is kept of a store is, too.
    found = [r for r in store.records() if isinstance(r, Record)]
    assert prunable(found, Pruning(keep=1)) == [llvm[1].id, slow.id + 1]
    store.close()


@pytest.mark.parametrize("kind", ["memory", "sqlite", "union", "folder"])
def test_a_time_out_with_cold_caches_takes_no_warm_time_away(
    kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = store_of(kind, tmp_path, monkeypatch)
    warm = [store.add(record(trial, seconds)) for trial, seconds in enumerate([1.0, 2.0])]
    # A trial with cold caches was timed; measured again, its candidate timed out, and so did another one.
    cold = Timing((9.0,), 1, cold=True)
    store.add(record(0, None, result=Result(Outcome.MEASURED, timing=cold)))
    for trial in (0, 1):
        store.add(record(trial, None, result=Result(Outcome.TIME_OUT, "running took more than 4 s", cold=True)))
    assert [r.id for r in store.top("w")] == [r.id for r in warm]
    # A time-out with warm caches takes it away; so does a wrong result, whatever the caches were.
    store.add(record(0, None, result=Result(Outcome.TIME_OUT, "running took more than 4 s", cold=False)))
    assert [r.id for r in store.top("w")] == [warm[1].id]
    store.add(record(1, None))
    assert store.top("w") == []
    store.close()


def test_a_union_takes_the_fastest_and_an_ordered_one_the_first(tmp_path: Path) -> None:
    filled(tmp_path / "mine.db", [3.0])
    filled(tmp_path / "team.db", [2.0, 1.0])
    filled(tmp_path / "empty.db", [])
    names = [str(tmp_path / f"{n}.db") for n in ("empty", "mine", "team")]

    def times(kind: str) -> list[float]:
        store = open_store(f"{kind}:{','.join(names)}")
        try:
            return [r.result.timing.min for r in store.top("w") if r.result.timing is not None]
        finally:
            store.close()

    assert times("union") == [1.0, 2.0, 3.0]
    assert times("ordered") == [3.0]


@pytest.mark.parametrize("kind", ["sqlite", "folder"])
def test_records_of_files_are_merged_into_every_store_once(
    kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = store_of(kind, tmp_path, monkeypatch)
    with Database(filled(tmp_path / "a.db", [3.0, None, 1.0])) as db, Database(tmp_path / "b.db") as other:
        db.add_machine(this_machine())
        other.add(record(7, 2.0))
        done = merge(store, [db, other])
        assert (done.added, done.known, done.diagnostics) == (4, 0, ())
        assert store.texts() == db.texts() and len(store.texts()) > 0
        assert [r.candidate for r in store.top("w")] == [r.candidate for r in Union([db, other]).top("w")]
        again = merge(store, [db])
        assert (again.added, again.known) == (0, 3)
    store.close()


@pytest.mark.parametrize("name", ["union:a.db,b.db", "ordered:a.db", "memory:", "unoin:a.db"])
def test_records_are_added_to_one_store_that_lasts(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(MsError, match="MS609") as error:
        open_to_add(name)
    assert "./" in str(error.value) or "did you mean" in str(error.value)
    assert list(tmp_path.iterdir()) == []
    for file in ("sqlite:c.db", "d.db"):
        open_to_add(file).close()
    assert sorted(p.name for p in tmp_path.glob("*.db")) == ["c.db", "d.db"]


def test_an_unknown_kind_is_one_diagnostic() -> None:
    with pytest.raises(MsError) as error:
        open_store("unoin:a,b")
    assert error.value.diagnostic.code == "MS609" and "union" in (error.value.diagnostic.help or "")


FILL = """
import sys
import mslang as ms
from mslang.ir.equal import structural_hash, workload_hash
from mslang.tune.record import Outcome, Record, Result, Workload
from mslang.runtime.timing import Timing
from mslang.target.machine import this_machine
from own_database.folder import FolderStore

source = ms.load("scale.ms")
program, best = source.program(), source.space("rows").sample(0)
store = FolderStore("records")
text = Workload(workload_hash(program), program.name, ms.print_program(program))
store.add_workload(text)
here = this_machine()
store.add(Record(
    text.hash, program.name, "host", here.name, "llvm", structural_hash(best.program), "", best.trace.as_ms("best"),
    "{}",
    Result(Outcome.MEASURED, timing=Timing((1e-6,), 1)), "run", 0, 0, "0.1.0", machine=here.key, source=text.source,
))
"""


def test_a_users_own_kind_serves_once_its_package_is_allowed(tmp_path: Path) -> None:
    site = tmp_path / "site"
    site.mkdir()
    install(EXAMPLE, site)
    (tmp_path / "scale.ms").write_text((EXAMPLE / "scale.ms").read_text())
    path = os.pathsep.join([str(site), *filter(None, [os.environ.get("PYTHONPATH")])])
    environment = {**os.environ, "PYTHONPATH": path}

    def run(*words: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, *words], cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=120
        )

    made = run("-c", FILL)
    assert made.returncode == 0, made.stderr
    words = ["-m", "mslang", "apply", "scale.ms", "--passes", "db", "--db", "folder:records", "--explain"]
    refused = run(*words)
    assert refused.returncode == 1 and "MS272" in refused.stderr
    allowed = run(*words, "--extension", "own-database")
    assert allowed.returncode == 0, allowed.stderr
    assert allowed.stdout.startswith("scale: db: record 1, 1 µs on ")
    filled(tmp_path / "more.db", [1.0, 2.0])
    merging = ["-m", "mslang", "db", "merge", "more.db", "--db", "folder:records"]
    refused = run(*merging)
    assert refused.returncode == 1 and "MS272" in refused.stderr
    for said in ("2 records added to folder:records\n", "0 records added to folder:records, 2 known already\n"):
        assert run(*merging, "--extension", "own-database").stdout == said
    assert run(*words, "--extension", "own-database").stdout == allowed.stdout
    assert ms.load(tmp_path / "scale.ms").programs == ("scale",)
