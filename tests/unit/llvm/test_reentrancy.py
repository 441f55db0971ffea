"""One kernel called from several Python threads: each call has a workspace of its own, and the lock is released."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import numpy as np
import pytest

import mslang as ms
from mslang.runtime.kernel import LoadedKernel, load
from mslang.runtime.linker import Linker
from tests.unit.llvm.support import executable, printed_alone
from tests.unit.llvm.test_parallel import row_sums

SERIAL = """
program p(A: f32[128, 128], out C: f32[128, 128]) {
    alloc t: f32[128, 128]
    block a[i: 128, j: 128] { t[i, j] = A[i, j] + 1.0 }
    block b[i: 128, j: 128] { C[i, j] = t[i, j] * 2.0 }
}
"""


@contextmanager
def often_switching() -> Iterator[None]:
    """Python threads take turns as often as they can."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        yield
    finally:
        sys.setswitchinterval(before)


def wrong_results(threads: int, calls: int, call: Callable[[int], bool]) -> int:
    """How many of the calls of so many threads went wrong; `call` gets the number of its thread."""
    wrong = [0] * threads
    start = threading.Barrier(threads)

    def work(number: int) -> None:
        start.wait()
        for _ in range(calls):
            wrong[number] += not call(number)

    with often_switching():
        running = [threading.Thread(target=work, args=(n,)) for n in range(threads)]
        for t in running:
            t.start()
        for t in running:
            t.join()
    return sum(wrong)


def test_a_kernel_with_a_workspace_is_called_from_threads():
    kernel = ms.build(ms.parse_program(SERIAL))
    inputs = [np.full((128, 128), n, np.float32) for n in range(4)]
    assert wrong_results(4, 150, lambda n: bool((kernel(inputs[n]) == 2 * (n + 1)).all())) == 0


@pytest.mark.parametrize("workers", [2, 5])
def test_a_parallel_kernel_is_called_from_threads(workers: int):
    linker = Linker(workers=workers)
    made = executable(row_sums(48, 8))
    kernel = load(made.object, made.signature, linker)
    inputs = [np.full((48, 8), n, np.float32) for n in range(4)]
    assert wrong_results(4, 200, lambda n: bool((kernel(inputs[n]) == 16 * n + 1).all())) == 0
    linker.close()


def test_one_binding_run_from_threads_takes_turns():
    bound = ms.build(ms.parse_program(SERIAL)).bind(np.ones((128, 128), np.float32))

    def call(_: int) -> bool:
        bound.run()
        return bool((bound.arrays["C"] == 4).all())

    assert wrong_results(3, 50, call) == 0


def test_finished_calls_leave_their_workspace_to_later_ones():
    kernel: LoadedKernel = ms.build(ms.parse_program(SERIAL))
    spaces = kernel.workspace
    (first, kept), (second, other) = spaces.take(), spaces.take()
    assert first != second
    spaces.give((first, kept))
    spaces.give((second, other))
    assert {spaces.take()[0], spaces.take()[0]} == {first, second}


def test_the_lock_of_python_is_released_while_a_kernel_runs():
    kernel = ms.build(ms.parse_program("program p(A: f32[64], out C: f32[64]) { block a[i: 64] { C[i] = A[i] } }"))
    bound = kernel.bind(np.ones(64, np.float32))
    begun, done = threading.Event(), threading.Event()

    def work() -> None:
        with kernel.ready(bound._words) as enter:
            begun.set()
            enter(20_000_000)
        done.set()

    thread = threading.Thread(target=work)
    thread.start()
    begun.wait()
    ticks = 0
    while not done.is_set():
        ticks += 1
        time.sleep(0.001)
    thread.join()
    # A call that kept the lock would let this thread go on once, before it begins.
    assert ticks >= 5


@pytest.mark.skipif(not hasattr(__import__("os"), "fork"), reason="the system has no fork")
def test_a_forked_process_runs_parallel_loops():
    script = (
        "import os\n"
        "import numpy as np\n"
        "from tests.unit.llvm.test_parallel import Linker, executable, load, row_sums\n"
        "made = executable(row_sums(48, 8))\n"
        "linker = Linker(workers=3)\n"
        "kernel = load(made.object, made.signature, linker)\n"
        "x = np.ones((48, 8), np.float32)\n"
        "assert (kernel(x) == 17).all()\n"
        "before = linker.pool.state\n"
        "child = os.fork()\n"
        "if child == 0:\n"
        "    good = all((kernel(x) == 17).all() for _ in range(50)) and linker.pool.state != before\n"
        "    os._exit(0 if good else 1)\n"
        "assert (kernel(x) == 17).all() and linker.pool.state == before\n"
        "print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))\n"
    )
    assert printed_alone(script) == "0"


@pytest.mark.skipif(not hasattr(__import__("os"), "fork"), reason="the system has no fork")
def test_a_process_that_was_forked_while_others_compiled_and_ran_can_do_both():
    script = (
        "import os, signal, threading, time\n"
        "from mslang.runtime.llvm_lock import ONE_AT_A_TIME\n"
        "from tests.unit.llvm.test_parallel import Linker, executable, load, row_sums\n"
        "import numpy as np\n"
        "kernel = load((made := executable(row_sums(48, 8))).object, made.signature, Linker(workers=1))\n"
        "bound, busy, over = kernel.bind(np.ones((48, 8), np.float32)), threading.Barrier(3), threading.Event()\n"
        "def compiling():\n"
        "    with ONE_AT_A_TIME:\n"
        "        busy.wait()\n"
        "        time.sleep(0.2)\n"
        "def running():\n"
        "    with bound.prepared():\n"
        "        busy.wait()\n"
        "        over.wait()\n"
        "threads = [threading.Thread(target=t) for t in (compiling, running)]\n"
        "for t in threads: t.start()\n"
        "busy.wait()\n"
        "child = os.fork()\n"
        "if child == 0:\n"
        "    signal.alarm(20)\n"
        "    bound.run()\n"
        "    executable(row_sums(4, 8))\n"
        "    os._exit(0)\n"
        "print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))\n"
        "over.set()\n"
    )
    assert printed_alone(script) == "0"
