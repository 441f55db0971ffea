"""Sessions of several tasks with made-up measurements: turns, the shared budget, failures, interruption, resuming."""

import os
import signal
import threading
from collections.abc import Callable, Sized
from pathlib import Path

import chaos
import msgspec
import pytest
from test_search import TEXT, WELL

from mslang.diagnostics import MsError, problem
from mslang.report.gather import gather
from mslang.schedule.interpret import World
from mslang.schedule.strategies import space_of
from mslang.search import exhaustive
from mslang.search.leaves import Leaves
from mslang.search.registry import AUTO
from mslang.search.replay_trace import ReplayTrace
from mslang.search.strategy import Rejections
from mslang.sema.modules import load
from mslang.target.description import GENERIC
from mslang.tune import runs as runs_module
from mslang.tune import session as session_module
from mslang.tune import tune as tune_module
from mslang.tune.budget import Budget
from mslang.tune.connection import faults
from mslang.tune.database import Database
from mslang.tune.log_folder import LogFolder
from mslang.tune.progress import Ended, Event, Failed, Finished, Generation, Planned, Sketched, Started, Trial, Warned
from mslang.tune.record import Record
from mslang.tune.roofline import Roofline
from mslang.tune.search import Search
from mslang.tune.session import Item
from mslang.tune.task import Settings, Task
from mslang.tune.task_scheduler import RoundRobin, TaskScheduler
from mslang.tune.tune import tune_all
from mslang.tune.workers import Work

SIZES = {"first": 32, "second": 64, "third": 96}


@pytest.fixture(autouse=True)
def no_limits(monkeypatch: pytest.MonkeyPatch) -> None:
    """The made-up times are no business of this machine's peak."""
    monkeypatch.setattr(session_module, "roofline_of", lambda task: Roofline(task.program, lambda _: 1e15))
    monkeypatch.setattr(tune_module, "raise_peak", lambda rate: None)


@pytest.fixture
def few_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    """A session that goes on without end fails instead."""
    count = 0
    step = Search.step

    def counted(search: Search, left: int | None = None) -> str | None:
        nonlocal count
        count += 1
        assert count < 100
        return step(search, left)

    monkeypatch.setattr(Search, "step", counted)


def items(names: tuple[str, ...], weights: dict[str, float] | None = None) -> list[Item]:
    found = []
    for name in names:
        space = space_of(load("gemm.ms", TEXT), "tiled", world=World(machine=GENERIC), sizes={"M": SIZES[name]})
        found.append(Item(name, Task(space.program, space, GENERIC, "gemm.ms"), weight=(weights or {}).get(name, 1.0)))
    return found


def go(
    folder: Path,
    names: tuple[str, ...] = ("first", "second"),
    *,
    budget: Budget | None = None,
    scheduler: TaskScheduler | None = None,
    work: Work = WELL,
    resume: bool = False,
    listen: Callable[[Event], None] = lambda _: None,
    callbacks: tuple[tuple[str, Callable[[Event], None]], ...] = (),
    strategy: str = AUTO,
) -> tuple[Finished | MsError, ...]:
    return tune_all(
        items(names),
        Settings(3, budget or Budget(40), strategy=strategy, cost_model="draft"),
        database=folder / "r.db",
        scheduler=scheduler,
        workers=1,
        work=work,
        resume=resume,
        listen=listen,
        callbacks=callbacks,
    )


def of(events: list[Event], kind: type) -> list:
    return [e for e in events if isinstance(e, kind)]


def test_a_session_shares_its_trials_and_names_its_tasks(tmp_path: Path) -> None:
    told: list[Event] = []
    found = go(tmp_path, scheduler=RoundRobin(), listen=told.append)
    assert isinstance(told[0], Planned) and [t.name for t in told[0].tasks] == ["first", "second"]
    assert [g.task for g in of(told, Generation)] == ["first", "second", "first"]
    assert [g.trials for g in of(told, Generation)] == [16, 16, 8]
    assert len(of(told, Trial)) == 40
    assert all(e.task in ("first", "second") for e in told if not isinstance(e, (Planned, Ended)))
    assert [e.task for e in of(told, Finished)] == ["first", "second"] and isinstance(told[-1], Ended)
    assert [isinstance(f, Finished) and f.tally.trials for f in found] == [24, 16]
    assert {"prepare", "draw", "build", "measure", "commit", "confirm"} <= set(told[-1].scopes)


def test_each_task_is_what_it_would_be_alone(tmp_path: Path) -> None:
    """The first trials of a task are the same whatever runs beside it."""
    together: list[Event] = []
    go(tmp_path / "a", scheduler=RoundRobin(), listen=together.append)
    alone: list[Event] = []
    go(tmp_path / "b", ("second",), budget=Budget(16), listen=alone.append)
    second = [t.record.candidate for t in of(together, Trial) if t.task == "second"]
    assert second == [t.record.candidate for t in of(alone, Trial)]


def test_a_task_that_cannot_be_tuned_does_not_harm_the_others(tmp_path: Path) -> None:
    told: list[Event] = []
    work = Work(chaos.refuse_one, chaos.build_well, chaos.measure_well)
    found = go(tmp_path, work=work, budget=Budget(16), listen=told.append)
    assert isinstance(found[0], MsError) and isinstance(found[1], Finished)
    assert [e.task for e in of(told, Failed)] == ["first"] and found[1].tally.trials == 16


def test_a_task_that_a_strategy_cannot_search_does_not_harm_the_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    large, small = (Leaves(i.task.space, GENERIC, 0, Rejections()).points or 0 for i in items(("third", "first")))
    assert 16 <= small < large
    monkeypatch.setattr(exhaustive, "POINTS", small)
    told: list[Event] = []
    found = go(tmp_path, ("third", "first"), strategy="exhaustive", budget=Budget(16), listen=told.append)
    assert isinstance(found[0], MsError) and found[0].diagnostic.code == "MS516"
    assert [(e.task, e.diagnostic.code) for e in of(told, Failed)] == [("third", "MS516")]
    assert isinstance(found[1], Finished) and found[1].tally.trials == 16 and found[1].confirmed


@pytest.mark.parametrize("part", ["begin", "step", "finish"])
def test_whatever_fails_in_a_task_is_its_own_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, part: str) -> None:
    done = getattr(Search, part)

    def failing(search: Search, *args: object, **more: object) -> object:
        if search.trials >= (0 if part == "begin" else 4) and search._task.program == first.task.program:
            raise MsError(problem("MS999", "no more"))
        return done(search, *args, **more)

    [first] = items(("first",))
    monkeypatch.setattr(Search, part, failing)
    told: list[Event] = []
    found = go(tmp_path, budget=Budget(40), scheduler=RoundRobin(), listen=told.append)
    assert isinstance(found[0], MsError) and [e.task for e in of(told, Failed)] == ["first"]
    assert isinstance(found[1], Finished) and found[1].confirmed and isinstance(told[-1], Ended)


def test_a_store_that_cannot_be_written_ends_the_session(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(store: Database, record: Record) -> Record:
        with faults(store.path):
            raise OSError("No space left on device")

    monkeypatch.setattr(Database, "add", full)
    told: list[Event] = []
    with pytest.raises(MsError) as error:
        go(tmp_path, listen=told.append)
    assert error.value.diagnostic.code == "MS603" and not of(told, Failed)


def test_patience_ends_a_task_and_the_others_go_on(tmp_path: Path) -> None:
    found = go(tmp_path, budget=Budget(trials=None, patience=5))
    assert all(isinstance(f, Finished) and "without a better one" in f.reason for f in found)


def test_one_ctrl_c_ends_all_in_good_order(tmp_path: Path) -> None:
    seen: list[Event] = []

    def hear(event: Event) -> None:
        seen.append(event)
        if isinstance(event, Trial) and len(of(seen, Trial)) == 20:
            os.kill(os.getpid(), signal.SIGINT)

    found = go(tmp_path, ("first", "second", "third"), budget=Budget(500), scheduler=RoundRobin(), listen=hear)
    assert len(of(seen, Trial)) == 20
    assert [isinstance(f, Finished) and f.interrupted for f in found] == [True] * 3
    assert isinstance(found[2], Finished) and found[2].reason == "interrupted, before the first trial"
    assert isinstance(found[0], Finished) and found[0].best is not None and found[0].confirmed
    ended = seen[-1]
    assert isinstance(ended, Ended) and ended.interrupted
    with Database(tmp_path / "r.db") as db:
        kept = {r.id for r in db.records() if isinstance(r, Record)}
    assert {t.record.id for t in of(seen, Trial)} <= kept


def test_resuming_goes_on_as_the_uninterrupted_session_would_have(tmp_path: Path) -> None:
    whole: list[Event] = []
    go(tmp_path / "whole", budget=Budget(80), listen=whole.append)
    parts: list[Event] = []
    go(tmp_path / "parts", budget=Budget(40), listen=parts.append)
    go(tmp_path / "parts", budget=Budget(80), resume=True, listen=parts.append)
    again = of(parts, Started)[2:]
    assert sum(s.resumed for s in again) == 40
    assert [(t.task, t.record.candidate) for t in of(parts, Trial)] == [
        (t.task, t.record.candidate) for t in of(whole, Trial)
    ]


def test_a_resumed_session_that_proposes_others_than_before_ends(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As where a rule or a model has changed meanwhile: it went on without end when the trials were used up."""
    go(tmp_path, budget=Budget(20), strategy="replay_trace")
    monkeypatch.setattr(runs_module, "_as_begun", lambda settings, run: msgspec.structs.replace(settings, seed=9))
    told: list[Event] = []

    def hear(event: Event) -> None:
        told.append(event)
        assert len(told) < 1000

    found = go(tmp_path, budget=Budget(20), strategy="replay_trace", resume=True, listen=hear)
    assert not of(told, Trial)
    assert [isinstance(f, Finished) and (f.tally.trials, f.best is not None) for f in found] == [(10, True)] * 2


@pytest.mark.usefixtures("few_steps")
@pytest.mark.parametrize("trials", [3, 5])
def test_a_resumed_run_that_took_records_over_ends_with_no_more_trials_than_it_has(tmp_path: Path, trials: int) -> None:
    """It went on without end: what it takes over again counted as new trials, and the generation as unfinished."""
    for resume, budget in ((False, 4), (False, 10), (True, trials)):
        [done] = go(tmp_path, ("second",), budget=Budget(budget), strategy="replay_trace", resume=resume)
    assert isinstance(done, Finished) and done.confirmed and done.tally.trials == 10


@pytest.mark.usefixtures("few_steps")
def test_a_task_whose_patience_ends_with_its_share_of_the_trials_is_over(tmp_path: Path) -> None:
    told: list[Event] = []
    # The other cannot be tuned, and leaves its share.
    work = Work(chaos.refuse_one, chaos.build_well, chaos.measure_alike)
    done, _ = go(tmp_path, ("second", "first"), work=work, budget=Budget(6, patience=2), listen=told.append)
    assert isinstance(done, Finished) and done.reason == "2 trials without a better one" and done.tally.trials == 3
    assert [g.trials for g in of(told, Generation)] == [3]


def test_a_resumed_session_measures_no_candidate_twice(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where it goes on otherwise than before, it proposes some again that it did not reach when it caught up."""
    go(tmp_path, ("second",), budget=Budget(16), strategy="replay_trace")
    propose = ReplayTrace.propose
    monkeypatch.setattr(ReplayTrace, "propose", lambda self, n: propose(self, 2 * n)[::-1])
    told: list[Event] = []
    [done] = go(tmp_path, ("second",), budget=Budget(40), strategy="replay_trace", resume=True, listen=told.append)
    assert isinstance(done, Finished) and done.tally.trials == 40
    trials = of(told, Trial)
    assert [t.record.trial for t in trials] == list(range(16, 40))
    with Database(tmp_path / "r.db") as db:
        old = {r.candidate for r in db.records() if isinstance(r, Record) and (r.id or 0) <= 16}
    assert len(old) == 16 and not old & {t.record.candidate for t in trials}


def test_a_file_whose_name_is_no_text_is_tuned(tmp_path: Path) -> None:
    [item] = items(("first",))
    named = msgspec.structs.replace(item, task=msgspec.structs.replace(item.task, file="caf\udce9.ms"))
    told: list[Event] = []
    settings = Settings(3, Budget(2), strategy="replay_trace")
    logs = ("log folder", LogFolder(tmp_path / "logs"))
    tune_all([named], settings, database=tmp_path / "r.db", workers=1, work=WELL, listen=told.append, callbacks=[logs])
    assert not of(told, Warned)
    with Database(tmp_path / "r.db") as db:
        assert [r.file for r in db.runs()] == ["caf\\udce9.ms"] and db.check() is None


def test_a_callback_that_fails_is_one_warning_and_no_record_is_lost(tmp_path: Path) -> None:
    calls = 0

    def failing(event: Event) -> None:
        nonlocal calls
        calls += 1
        if isinstance(event, Trial):
            raise RuntimeError("too late")

    told: list[Event] = []
    counted: list[Event] = []
    go(tmp_path, listen=told.append, callbacks=(("failing", failing), ("counting", counted.append)))
    [warning] = of(told, Warned)
    assert warning.diagnostic.code == "MS545" and "too late" in str(warning.diagnostic.why)
    assert len(of(counted, Trial)) == 40 and calls < len(counted)


def test_the_log_folder_says_what_happened(tmp_path: Path) -> None:
    import msgspec

    told: list[Event] = []
    go(tmp_path, listen=told.append, callbacks=(("log folder", LogFolder(tmp_path / "logs")),))
    for started in of(told, Started):
        folder = tmp_path / "logs" / started.run
        task = msgspec.json.decode((folder / "task.json").read_bytes())
        assert task["name"] == started.task and task["run"] == started.run and task["space"] == "tiled"
        assert (folder / "program.ms").read_text().startswith("program gemm")
        trials = [msgspec.json.decode(line) for line in (folder / "trials.jsonl").read_bytes().splitlines()]
        mine = [t for t in of(told, Trial) if t.task == started.task]
        assert [t["candidate"] for t in trials] == [t.record.candidate for t in mine]
        assert {"decisions", "outcome", "seconds"} <= set(trials[0])
        generations = [msgspec.json.decode(line) for line in (folder / "generations.jsonl").read_bytes().splitlines()]
        assert sum(g["trials"] for g in generations) == len(mine)
        sketches = [s for s in of(told, Sketched) if s.task == started.task]
        assert [(folder / "sketches" / f"{s.number}.ms").read_text() for s in sketches] == [s.text for s in sketches]
        assert "~ perfect_tile(mm.i, n = 2, max_inner = 32)\n" in sketches[0].text
        assert "draw" in msgspec.json.decode((folder / "profile.json").read_bytes())
        events = (folder / "events.jsonl").read_text()
        assert '"kind":"finished"' in events and '"kind":"preparing"' in events


def test_the_report_of_a_resumed_session_is_that_of_an_uninterrupted_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def reported(name: str, *budgets: int) -> tuple[Sized, ...]:
        folder = tmp_path / name
        for k, budget in enumerate(budgets):
            log = ("log folder", LogFolder(folder / "logs"))
            go(folder, ("second",), budget=Budget(budget), strategy="auto", resume=k > 0, callbacks=(log,))
        with Database(folder / "r.db") as store:
            [f] = gather(store)
            # Those of the other run that are among the finalists are measured again whenever the run ends.
            others = {r.cost for r in store.records() if isinstance(r, Record) and r.run != f.run.id}
            return f.rejected, f.quality, f.predicted, [p.cost for p in f.points if p.cost not in others]

    monkeypatch.setitem(globals(), "TEXT", TEXT.replace("    reorder", '    require tj[1] > 2, "narrow"\n    reorder'))
    # Trials that another run has on record are reported again when they are proposed again.
    go(tmp_path / "whole", ("second",), budget=Budget(10), strategy="replay_trace")
    go(tmp_path / "parts", ("second",), budget=Budget(10), strategy="replay_trace")
    whole = reported("whole", 40)
    assert reported("parts", 20, 40) == whole
    assert whole[0] and whole[2] and len(whole[3]) < 40


def test_a_log_folder_that_cannot_be_written_is_one_warning(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    told: list[Event] = []
    found = go(tmp_path, listen=told.append, callbacks=(("log folder", LogFolder(tmp_path / "file" / "logs")),))
    assert len(of(told, Warned)) == 1 and all(isinstance(f, Finished) and f.confirmed for f in found)


def test_logging_goes_by_the_name_of_the_package(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level("INFO", "mslang"):
        go(tmp_path, budget=Budget(4))
    assert {r.name for r in caplog.records} == {"mslang.tune"}
    assert any("generation 0" in r.message for r in caplog.records)


def test_sessions_in_other_threads_leave_signals_alone(tmp_path: Path) -> None:
    before = signal.getsignal(signal.SIGINT)
    done: list[object] = []
    thread = threading.Thread(target=lambda: done.extend(go(tmp_path, budget=Budget(4))))
    thread.start()
    thread.join(60)
    assert len(done) == 2 and signal.getsignal(signal.SIGINT) is before


def test_few_trials_are_shared_by_all(tmp_path: Path) -> None:
    told: list[Event] = []
    found = go(tmp_path, ("first", "second", "third"), budget=Budget(7), listen=told.append)
    assert [isinstance(f, Finished) and f.tally.trials for f in found] == [3, 2, 2]


def test_a_generation_that_was_cut_is_continued(tmp_path: Path) -> None:
    """What the first round leaves goes to the others, whose candidates are those of an uninterrupted run."""
    told: list[Event] = []
    work = Work(chaos.refuse_one, chaos.build_well, chaos.measure_well)
    go(tmp_path / "a", ("second", "first"), work=work, budget=Budget(10), listen=told.append, strategy="replay_trace")
    alone: list[Event] = []
    go(tmp_path / "b", ("second",), budget=Budget(10), listen=alone.append, strategy="replay_trace")
    assert [(g.task, g.number, g.trials) for g in of(told, Generation)] == [("second", 0, 10)]
    assert [t.record.candidate for t in of(told, Trial)] == [t.record.candidate for t in of(alone, Trial)]
