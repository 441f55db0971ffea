"""`threads = n` of a call: teams of the pool, with concurrent and nested calls, and after a fork; workers
that sleep, and that do not."""

from __future__ import annotations

import ctypes
import threading
import time

import numpy as np
import pytest

import mslang as ms
from mslang.diagnostics import MsError
from mslang.runtime.kernel import load
from mslang.runtime.linker import Linker, process_linker
from mslang.runtime.pool import Pool
from mslang.runtime.pool_ir import AWAKE, SLEEPERS, WORD, WORKERS
from mslang.sema.program import parse_program
from tests.unit.llvm.support import executable, printed_alone
from tests.unit.llvm.test_parallel import row_sums


def test_a_team_is_the_first_workers_of_the_pool():
    linker = Linker(workers=4)
    pool = linker.pool
    seen: set[int] = set()
    done: list[int] = []
    kind = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64, ctypes.c_int64)

    def part(_: object, start: int, end: int, worker: int) -> None:
        seen.add(worker)
        done.extend(range(start, end))

    task = kind(part)
    launch = ctypes.CFUNCTYPE(None, ctypes.c_void_p, kind, ctypes.c_void_p, ctypes.c_int64)(pool.launcher)
    for threads in (1, 2, 3, 4, 9, None):
        for _ in range(20):
            seen.clear()
            done.clear()
            launch(pool.team(threads), task, None, 200)
            assert sorted(done) == list(range(200))
            assert seen <= set(range(min(threads or 4, 4)))
    linker.close()


@pytest.mark.parametrize("count", [2, 3, 40, 67])
def test_a_worker_begins_with_its_own_iterations_and_then_takes_what_others_left(count: int):
    """The caches of its core may have what it used of them in the last launch."""
    linker = Linker(workers=2)
    kind = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64, ctypes.c_int64)
    launch = ctypes.CFUNCTYPE(None, ctypes.c_void_p, kind, ctypes.c_void_p, ctypes.c_int64)(linker.pool.launcher)
    taken: dict[int, list[range]] = {0: [], 1: []}
    others_done = threading.Event()

    def part(_: object, start: int, end: int, worker: int) -> None:
        taken[worker].append(range(start, end))
        # The launcher keeps its first part until the other one has done all the rest.
        if sum(map(len, (*taken[0], *taken[1]))) == count:
            others_done.set()
        if worker == 0 and len(taken[0]) == 1:
            assert others_done.wait(60)

    with linker.pool.kept_awake():
        launch(linker.pool.team(2), kind(part), None, count)
    linker.close()
    own = -(-count // 2)
    (first,) = taken[0]
    assert first.start == 0 and [x for r in taken[1] for x in r] == [*range(own, count), *range(first.stop, own)]


def test_any_number_of_threads_gives_the_same_result():
    linker = Linker(workers=3)
    made = executable(row_sums(64, 8))
    kernel = load(made.object, made.signature, linker)
    x = np.arange(512, dtype=np.float32).reshape(64, 8) % 5
    wanted = (2 * x.sum(1))[::-1] + 1
    for threads in (1, 2, 3, 100, None):
        assert (kernel(x, threads=threads) == wanted).all()
        assert kernel.time(x, threads=threads).min > 0
    linker.close()


@pytest.mark.parametrize("backend", ["llvm", "reference"])
def test_a_number_of_threads_is_a_whole_number_from_1_on(backend: str):
    kernel = ms.build(ms.parse_program("program p(out C: f32[4]) { block a[i: 4] { C[i] = 1.0 } }"), backend=backend)
    assert kernel(threads=2).tolist() == kernel(threads=np.int64(2)).tolist() == [1, 1, 1, 1]
    for wrong in (0, -1, True, "2", 1.5):
        with pytest.raises(MsError, match=r"MS410.*`threads` is"):
            kernel(threads=wrong)


def test_a_parameter_called_threads_is_an_array():
    text = "program p(threads: f32[4], out C: f32[4]) { block a[i: 4] { C[i] = threads[i] } }"
    assert ms.build(ms.parse_program(text))(threads=np.ones(4, np.float32)).tolist() == [1, 1, 1, 1]


def test_concurrent_calls_take_teams_of_their_own_size():
    """Calls from more threads than workers, with nested parallel loops: all finish, all are right."""
    linker = Linker(workers=3)
    made = executable(row_sums(48, 8))
    kernel = load(made.object, made.signature, linker)
    wrong: list[int] = []

    def work(number: int) -> None:
        x = np.full((48, 8), number, np.float32)
        for k in range(150):
            if not (kernel(x, threads=1 + (number + k) % 4) == 16 * number + 1).all():
                wrong.append(number)

    calls = [threading.Thread(target=work, args=(n,)) for n in range(5)]
    for t in calls:
        t.start()
    for t in calls:
        t.join(60)
        assert not t.is_alive()
    assert not wrong
    linker.close()


@pytest.mark.skipif(not hasattr(__import__("os"), "fork"), reason="the system has no fork")
def test_a_fork_during_a_call_leaves_no_lock_behind():
    script = (
        "import os, threading, time\n"
        "import numpy as np\n"
        "from tests.unit.llvm.test_parallel import Linker, executable, load, row_sums\n"
        "made = executable(row_sums(48, 8))\n"
        "linker = Linker(workers=3)\n"
        "kernel = load(made.object, made.signature, linker)\n"
        "x = np.ones((48, 8), np.float32)\n"
        "stop = threading.Event()\n"
        "def work():\n"
        "    while not stop.is_set(): kernel(x)\n"
        "kernel(x)\n"
        "running = [threading.Thread(target=f) for f in (work, work)]\n"
        "for t in running: t.start()\n"
        "time.sleep(0.02)\n"
        "codes = []\n"
        "for _ in range(3):\n"
        "    child = os.fork()\n"
        "    if child == 0:\n"
        "        os._exit(0 if all((kernel(x) == 17).all() for _ in range(20)) else 1)\n"
        "    codes.append(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))\n"
        "stop.set()\n"
        "for t in running: t.join()\n"
        "print(codes)\n"
    )
    assert printed_alone(script) == "[0, 0, 0]"


def _word(pool: Pool, number: int) -> int:
    return ctypes.c_int64.from_address(pool.state + number * WORD).value


def _settled(pool: Pool, sleepers: int) -> bool:
    """Whether so many workers sleep within ten seconds."""
    end = time.monotonic() + 10
    while _word(pool, SLEEPERS) != sleepers and time.monotonic() < end:
        time.sleep(0.001)
    return _word(pool, SLEEPERS) == sleepers


def test_workers_sleep_unless_they_are_kept_awake():
    linker = Linker(workers=3)
    pool = linker.pool
    assert _settled(pool, 2)
    with pool.kept_awake():
        assert _settled(pool, 0)
        with pool.kept_awake():
            pass
        # A hundred times as long as idle workers usually spin.
        time.sleep(0.01)
        assert _word(pool, SLEEPERS) == 0 and _word(pool, AWAKE) == 1
    assert _settled(pool, 2) and _word(pool, AWAKE) == 0
    with pool.kept_awake():
        linker.close()
    assert _word(pool, WORKERS) == 1


def test_kernels_run_while_workers_are_kept_awake():
    program = parse_program("""program p(A: f32[64], out B: f32[64]) {
        for i in 64 @ parallel { block b[v: 64 = i] { B[v] = A[v] + 1.0 } }
    }""")
    a = np.arange(64, dtype=np.float32)
    kernel = ms.build(program)
    with pytest.raises(KeyError), ms.keep_awake():
        assert np.array_equal(kernel(a), a + 1)
        time.sleep(0.002)
        assert np.array_equal(kernel(a), a + 1)
        raise KeyError
    assert _word(process_linker().pool, AWAKE) == 0
    assert np.array_equal(kernel(a), a + 1)
