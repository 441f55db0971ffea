"""Whole searches while workers are killed, the clock jumps, and the store is locked or full: right counts, no hang, and
nothing that was shown is lost."""

from __future__ import annotations

import os
import random
import signal
import sqlite3
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import chaos
import pytest
from test_search import GENERIC, SEED, Search, Settings, Task, kept, search, space

from mslang.diagnostics import MsError
from mslang.runtime.timing import Limits
from mslang.target.detect import host
from mslang.tune import connection as connection_module
from mslang.tune import job
from mslang.tune.budget import Budget
from mslang.tune.database import Database
from mslang.tune.progress import Event, Finished, Tally, Trial
from mslang.tune.record import TRIED, Outcome
from mslang.tune.roofline import Roofline
from mslang.tune.workers import Work, Workers

SLOWLY = Work(chaos.prepare, chaos.build_slowly, chaos.measure_slowly, chaos.compare_well)
WELL = Work(chaos.prepare, chaos.build_well, chaos.measure_well, chaos.compare_well)
KILLED = ("compiling: the process was ended by SIGKILL", "running: the process was ended by SIGKILL")


class Killer:
    """Kills workers of this process at random moments, busy or idle, until so many are killed."""

    def __init__(self, seed: int, kills: int) -> None:
        self.kills, self.left = 0, kills
        self._chance, self._over = random.Random(seed), threading.Event()
        self._thread = threading.Thread(target=self._go, daemon=True)

    def __enter__(self) -> Killer:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()

    def _go(self) -> None:
        while self.left and not self._over.wait(self._chance.uniform(0.0, 0.06)):
            workers = sorted(_children())
            if workers:
                os.kill(self._chance.choice(workers), signal.SIGKILL)
                self.kills += 1
                self.left -= 1


def _children() -> Iterator[int]:
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            state, parent = stat.read_text().rsplit(")", 1)[1].split()[:2]
        except OSError:
            continue
        if int(parent) == os.getpid() and state != "Z":
            yield int(stat.parent.name)


def assert_right(done: Finished, shown: list[Trial], folder: Path) -> None:
    """All that was shown is on record, once each but for finalists, and the counts are those of the records."""
    last = {r.candidate: r for r in kept(folder) if r.trial >= 0}
    assert {t.record.candidate for t in shown} == set(last)
    tally = Tally()
    for record in last.values():
        tally.add(record.result.outcome, record.result.reason)
    assert {o: n for o, n in done.tally.outcomes.items() if o in TRIED} == dict(tally.outcomes)


def survive(folder: Path, kills: int, seed: int) -> int:
    """One search under fire; returns how many workers were killed."""
    shown: list[Trial] = []
    with Killer(seed, kills) as killer:
        done = search(folder, SLOWLY, builders=2, listen=lambda e: shown.append(e) if isinstance(e, Trial) else None)
    assert len(shown) == 26 and not done.interrupted
    assert_right(done, shown, folder)
    outcomes = done.tally.outcomes
    assert set(outcomes) <= {Outcome.MEASURED, Outcome.CRASH, Outcome.DUPLICATE}
    # Whoever was killed while idle, or before it began, cost no candidate its outcome.
    assert outcomes[Outcome.CRASH] <= killer.kills
    assert all(r.result.reason in KILLED for r in kept(folder) if r.result.outcome is Outcome.CRASH)
    return killer.kills


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="finds workers by /proc")
def test_workers_killed_during_a_search_cost_their_candidates_alone(tmp_path: Path) -> None:
    assert survive(tmp_path, kills=10, seed=1) > 3


@pytest.mark.campaign
@pytest.mark.timeout(1800)
def test_two_hundred_killed_workers(tmp_path: Path) -> None:
    kills = 0
    for seed in range(100):
        folder = tmp_path / str(seed)
        folder.mkdir()
        kills += survive(folder, kills=20, seed=seed)
        if kills >= 200:
            break
    assert kills >= 200


def test_steps_of_the_clock_end_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real, steps = time.time, iter(range(1_000_000))
    monkeypatch.setattr(time, "time", lambda: real() + (7200.0 if next(steps) % 2 else -7200.0))
    done = search(tmp_path, trials=6)
    assert done.tally.outcomes[Outcome.MEASURED] == 6 and done.seconds < 60


def test_steps_of_the_clock_in_a_worker_change_no_time(tmp_path: Path) -> None:
    program, code = space().program, space().sample(SEED).program
    limits = Limits(repeats=3, max_repeats=5, min_repeat=1e-4, max_total=0.05)
    steps = Work(job.prepare, *map(chaos.InSteps, (job.build, job.measure, job.compare)))
    with Workers(1, work=steps) as workers:
        workers.prepare(job.PrepareJob(program, host(), str(tmp_path), SEED))
        built = workers.built(workers.build(job.BuildJob(code, host())))
        result = workers.measure(job.MeasureJob(program, built, str(tmp_path), limits))
        compared = workers.compare(job.CompareJob(((program, built),) * 2, str(tmp_path), limits))
    assert result.outcome is Outcome.MEASURED and result.timing is not None and compared is not None
    times = [*result.timing.samples, *(c.result.timing.median for c in compared if c.result.timing is not None)]
    assert len(times) == len(result.timing.samples) + 2 and all(0 < t < 60 for t in times)
    assert all(0 <= t < 60 for t in (*built.stages.values(), *result.stages.values()))


@contextmanager
def locked(path: Path, seconds: float) -> Iterator[None]:
    """The store's lock is held by another connection for a while."""
    other = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
    other.execute("BEGIN IMMEDIATE")
    timer = threading.Timer(seconds, lambda: other.execute("ROLLBACK"))
    timer.start()
    try:
        yield
    finally:
        timer.join()
        other.close()


def test_a_store_that_is_locked_for_a_while_delays_and_loses_nothing(tmp_path: Path) -> None:
    Database(tmp_path / "r.db").close()
    shown: list[Trial] = []
    began = time.monotonic()
    with locked(tmp_path / "r.db", 0.7):
        done = search(tmp_path, trials=5, listen=lambda e: shown.append(e) if isinstance(e, Trial) else None)
    assert time.monotonic() - began > 0.5 and len(shown) == 5
    assert_right(done, shown, tmp_path)


def test_a_store_that_stays_locked_is_one_diagnostic(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    connect = sqlite3.connect
    monkeypatch.setattr(
        connection_module.sqlite3, "connect", lambda *args, **given: connect(*args, **{**given, "timeout": 0.05})
    )
    shown: list[Trial] = []
    with ending_with_a_fault(tmp_path, shown) as (store, listen):
        other = connect(tmp_path / "r.db", isolation_level=None)

        def lock(event: Event) -> None:
            listen(event)
            if len(shown) == 3 and not other.in_transaction:
                other.execute("BEGIN IMMEDIATE")

        fault = fails(store, tmp_path, lock)
        other.close()
    assert fault.diagnostic.code == "MS603" and "locked" in (fault.diagnostic.why or "")
    assert [r.candidate for r in kept(tmp_path)] == [t.record.candidate for t in shown] and len(shown) == 3


def test_a_full_disk_is_one_diagnostic(tmp_path: Path) -> None:
    shown: list[Trial] = []
    with ending_with_a_fault(tmp_path, shown) as (store, listen):

        def fill(event: Event) -> None:
            listen(event)
            if len(shown) == 2:
                # What SQLite says where a page cannot be had is what it says on a full disk.
                (pages,) = store._connection.execute("PRAGMA page_count").fetchone()
                store._connection.execute(f"PRAGMA max_page_count = {pages}")

        fault = fails(store, tmp_path, fill)
    assert fault.diagnostic.code == "MS603" and "full" in (fault.diagnostic.why or "")
    assert 2 <= len(shown) < 26
    assert [r.candidate for r in kept(tmp_path)] == [t.record.candidate for t in shown]


@contextmanager
def ending_with_a_fault(folder: Path, shown: list[Trial]):
    with Database(folder / "r.db") as store:
        yield store, lambda e: shown.append(e) if isinstance(e, Trial) else None


def fails(store: Database, folder: Path, listen) -> MsError:
    """The error that a search ends with."""
    found = space()
    with Workers(1, work=WELL, memory=1 << 32) as workers:
        searching = Search(
            Task(found.program, found, GENERIC, "gemm.ms"),
            Settings(SEED, Budget(26), strategy="replay_trace"),
            store,
            workers,
            str(folder),
            "r",
            Roofline(found.program, lambda _: 1e15),
            listen,
        )
        with pytest.raises(MsError) as error:
            searching.run()
    return error.value
