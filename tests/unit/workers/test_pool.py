"""Worker processes that crash, hang, exhaust memory or are killed: each task has one outcome, nothing hangs."""

import asyncio
import gc
import os
import random
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import jobs
import pytest

from mslang.diagnostics import MsError
from mslang.workers.outcome import (
    Cancelled,
    Crashed,
    Done,
    Failed,
    OutOfMemory,
    TimedOut,
    Unsuccessful,
    explanation,
)
from mslang.workers.pool import Pool

GIB = 1 << 30
PATIENCE = 120.0


@pytest.fixture
def pool() -> Iterator[Pool]:
    with Pool(2, memory=GIB) as made:
        yield made


def pid_of(pool: Pool) -> int:
    found = pool.submit(os.getpid).outcome(PATIENCE)
    assert isinstance(found, Done)
    return found.value


def wait_for(folder: Path) -> int:
    """The process that wrote its number into a folder."""
    while not (found := list(folder.glob("*.pid"))):
        time.sleep(0.01)
    return int(found[0].stem)


def is_running(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except OSError:
        return False


@pytest.mark.parametrize(
    ("task", "outcome"),
    [
        ((jobs.square, (3,)), Done(9)),
        ((jobs.crash, ()), Crashed(-signal.SIGSEGV)),
        ((os.abort, ()), Crashed(-signal.SIGABRT)),
        ((jobs.end, (7,)), Crashed(7)),
        ((jobs.end, (0,)), Crashed(0)),
        ((jobs.allocate, (8 * GIB,)), OutOfMemory(GIB)),
        ((jobs.count_to, (10**9,)), OutOfMemory(GIB)),
    ],
)
def test_each_end_is_one_outcome(pool: Pool, task: tuple, outcome: object) -> None:
    assert pool.submit(*task).outcome(PATIENCE) == outcome
    assert pool.submit(jobs.square, (4,)).outcome(PATIENCE) == Done(16)


@pytest.mark.parametrize("hang", [jobs.sleep, jobs.sleep_deaf, jobs.sleep_in_native_code])
def test_a_task_past_its_time_is_killed(pool: Pool, hang: object) -> None:
    assert pool.submit(hang, (600,), seconds=0.2).outcome(PATIENCE) == TimedOut(0.2)
    assert pool.submit(jobs.square, (4,), seconds=PATIENCE).outcome(PATIENCE) == Done(16)


def test_exceptions_come_back(pool: Pool) -> None:
    refused = pool.submit(jobs.refuse).outcome(PATIENCE)
    assert isinstance(refused, Failed) and isinstance(refused.error, MsError)
    assert refused.error.diagnostic.code == "MS401"
    failed = pool.submit(jobs.fail).outcome(PATIENCE)
    assert isinstance(failed, Failed) and isinstance(failed.error, ZeroDivisionError) and "in fail" in failed.traceback
    for odd, text in ((jobs.fail_unfit, "Unfit: 1 and 2"), (jobs.unpicklable, "pickle")):
        found = pool.submit(odd).outcome(PATIENCE)
        assert isinstance(found, Failed) and text in str(found.error)


def test_arguments_that_do_not_fit_are_out_of_memory() -> None:
    with Pool(1, memory=GIB // 4) as pool:
        found = pool.submit(len, (bytes(GIB // 2),)).outcome(PATIENCE)
        assert isinstance(found, OutOfMemory) and "arguments" in found.why
        assert pool.submit(jobs.square, (4,)).outcome(PATIENCE) == Done(16)


def test_what_a_task_prints_does_not_disturb_its_answer(pool: Pool) -> None:
    assert pool.submit(jobs.speak, ("hello",)).outcome(PATIENCE) == Done("hello")


def test_a_worker_killed_while_idle_is_replaced() -> None:
    with Pool(1) as pool:
        seen = set()
        for _ in range(4):
            pid = pid_of(pool)
            assert pid not in seen
            seen.add(pid)
            os.kill(pid, signal.SIGKILL)


def test_a_worker_killed_while_busy_is_a_crash_of_its_task_alone(tmp_path: Path) -> None:
    with Pool(2) as pool:
        victim = pool.submit(jobs.sleep_and_name_process, (str(tmp_path), 600.0))
        os.kill(wait_for(tmp_path), signal.SIGKILL)
        assert victim.outcome(PATIENCE) == Crashed(-signal.SIGKILL)
        assert pool.submit(jobs.square, (4,)).outcome(PATIENCE) == Done(16)


def test_kills_at_any_moment_lose_no_answer(pool: Pool) -> None:
    tasks = [pool.submit(jobs.square_slowly, (n,), seconds=PATIENCE) for n in range(300)]
    chance, killed = random.Random(1), 0
    while not all(t.done for t in tasks) and killed < 25:
        time.sleep(chance.uniform(0.0, 0.05))
        alive = sorted(p._process.pid for p in list(pool._processes) if p.alive)
        if alive:
            os.kill(chance.choice(alive), signal.SIGKILL)
            killed += 1
    found = [t.outcome(PATIENCE) for t in tasks]
    assert killed > 5 and all(o in (Done(n * n), Crashed(-signal.SIGKILL)) for n, o in enumerate(found))
    assert sum(isinstance(o, Crashed) for o in found) <= killed


def test_what_a_task_forked_is_killed_with_it(tmp_path: Path) -> None:
    with Pool(1) as pool:
        # The fork holds the pipe open, so that the end of the worker shows only at the deadline.
        task = pool.submit(jobs.leave_a_child, (str(tmp_path),), seconds=2.0)
        forked = wait_for(tmp_path)
        assert isinstance(task.outcome(PATIENCE), TimedOut | Crashed)
        assert pool.submit(jobs.square, (4,)).outcome(PATIENCE) == Done(16)
        assert not is_running(forked)


def test_cancelling(pool: Pool, tmp_path: Path) -> None:
    running = pool.submit(jobs.sleep_and_name_process, (str(tmp_path), 600.0))
    other = pool.submit(jobs.sleep, (600.0,))
    waiting = pool.submit(jobs.square, (3,))
    pid = wait_for(tmp_path)
    waiting.cancel()
    running.cancel()
    assert other.future.cancel()
    assert [t.outcome(PATIENCE) for t in (running, waiting, other)] == [Cancelled()] * 3
    assert pool.submit(jobs.square, (5,)).outcome(PATIENCE) == Done(25)
    assert not is_running(pid)
    done = pool.submit(jobs.square, (6,))
    assert done.outcome(PATIENCE) == Done(36)
    done.cancel()
    assert done.outcome(PATIENCE) == Done(36)


def test_cancelling_an_await_kills_the_task(pool: Pool, tmp_path: Path) -> None:
    async def run() -> int:
        task = pool.submit(jobs.sleep_and_name_process, (str(tmp_path), 600.0))
        waiting = asyncio.ensure_future(asyncio.wrap_future(task.future))
        pid = await asyncio.to_thread(wait_for, tmp_path)
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting
        return pid

    pid = asyncio.run(run())
    deadline = time.monotonic() + PATIENCE
    while is_running(pid) and time.monotonic() < deadline:
        time.sleep(0.01)
    assert not is_running(pid)


def test_stopping_ends_everything(tmp_path: Path) -> None:
    pool = Pool(2)
    tasks = [pool.submit(jobs.sleep_and_name_process, (str(tmp_path), 600.0)) for _ in range(5)]
    pid = wait_for(tmp_path)
    pool.stop()
    assert [t.outcome(PATIENCE) for t in tasks] == [Cancelled()] * 5
    assert not is_running(pid)
    with pytest.raises(ValueError, match="stopped"):
        pool.submit(jobs.square, (1,))
    assert not [t for t in threading.enumerate() if t in pool._threads]


def test_workers_are_renewed() -> None:
    with Pool(1, tasks_per_worker=2) as pool:
        pids = [pid_of(pool) for _ in range(4)]
    assert pids[0] == pids[1] != pids[2] == pids[3]


def test_a_worker_collects_garbage_as_seldom_as_its_parent(pool: Pool) -> None:
    before = gc.get_threshold()
    assert pool.submit(gc.get_threshold).outcome(PATIENCE) == Done(before)
    gc.set_threshold(12_345, 6, 7)
    try:
        with Pool(1, memory=GIB) as other:
            assert other.submit(gc.get_threshold).outcome(PATIENCE) == Done((12_345, 6, 7))
    finally:
        gc.set_threshold(*before)


def test_a_change_of_the_date_ends_no_task(pool: Pool, monkeypatch: pytest.MonkeyPatch) -> None:
    task = pool.submit(jobs.sleep, (0.3,), seconds=PATIENCE)
    real = time.time
    monkeypatch.setattr(time, "time", lambda: real() + 7200.0)
    assert task.outcome(PATIENCE) == Done(0.3)


def test_a_function_of_main_is_refused(pool: Pool) -> None:
    def main_function() -> None: ...

    main_function.__module__ = "__main__"
    with pytest.raises(ValueError, match="__main__"):
        pool.submit(main_function)


SCRIPT = """
import os, sys, time
from mslang.workers.pool import Pool
pool = Pool(2)
print(pool.submit(os.getpid).outcome(120).value, flush=True)
busy = pool.submit(time.sleep, (600,))
{end}
"""


@pytest.mark.parametrize("end", ["pass", "os._exit(0)", "time.sleep(600)"])
def test_workers_end_with_a_script_that_has_no_main_guard(end: str, tmp_path: Path) -> None:
    path = tmp_path / "script.py"
    path.write_text(SCRIPT.format(end=end))
    process = subprocess.Popen([sys.executable, str(path)], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    pid = int(process.stdout.readline())
    if "sleep" in end:
        process.kill()
    assert process.wait(PATIENCE) in (0, -signal.SIGKILL)
    assert process.stdout.read() == ""
    deadline = time.monotonic() + PATIENCE
    while is_running(pid) and time.monotonic() < deadline:
        time.sleep(0.01)
    assert not is_running(pid)


@pytest.mark.parametrize(
    ("outcome", "code", "words"),
    [
        (Failed(MsError()), None, ""),
        (Failed(ZeroDivisionError("by zero")), "MS510", "ZeroDivisionError: by zero"),
        (Crashed(-signal.SIGSEGV), "MS507", "SIGSEGV"),
        (Crashed(3), "MS507", "status 3"),
        (TimedOut(1.5), "MS508", "1.5 s"),
        (OutOfMemory(GIB), "MS509", "1024 MiB"),
        (Cancelled(), "MS511", "cancelled"),
    ],
)
def test_explanations(outcome: Unsuccessful, code: str | None, words: str) -> None:
    found = explanation(outcome, "running gemm")
    assert [d.code for d in found] == ([code] if code else [])
    assert all(words in f"{d.message} {d.why}" and "running gemm" in d.message for d in found)


def test_a_process_that_cannot_be_started(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise OSError(11, "Resource temporarily unavailable")

    monkeypatch.setattr(subprocess, "Popen", refuse)
    with Pool(1) as pool:
        found = pool.submit(jobs.square, (1,)).outcome(PATIENCE)
    assert isinstance(found, Failed) and isinstance(found.error, MsError)
    assert found.error.diagnostic.code == "MS512"


def test_a_deadline_for_which_there_is_no_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    def start(timer: threading.Timer) -> None:
        raise RuntimeError("can't start new thread")

    with Pool(1) as pool:
        assert pool.submit(jobs.square, (2,)).outcome(PATIENCE) == Done(4)
        with monkeypatch.context() as m:
            m.setattr(threading.Timer, "start", start)
            failed = pool.submit(jobs.square, (3,), seconds=PATIENCE).outcome(PATIENCE)
        assert isinstance(failed, Failed) and isinstance(failed.error, RuntimeError)
        assert pool.submit(jobs.square, (4,), seconds=PATIENCE).outcome(PATIENCE) == Done(16)
