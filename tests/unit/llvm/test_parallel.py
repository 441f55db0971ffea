"""The fork-join pool: every iteration once, many launches, more workers than processors, nested and concurrent."""

from __future__ import annotations

import ctypes
import os
import subprocess
import sys
import threading
from collections.abc import Iterator

import numpy as np
import pytest

from mslang.ir.build import ProgramBuilder, reduce, spatial
from mslang.ir.program import Program
from mslang.runtime.kernel import LoadedKernel, load
from mslang.runtime.linker import Linker
from mslang.runtime.pool_ir import pool_ir
from tests.unit.llvm.support import executable


@pytest.fixture(scope="module", params=[1, 2, 5])
def linker(request: pytest.FixtureRequest) -> Iterator[Linker]:
    made = Linker(workers=request.param)
    yield made
    made.close()


def row_sums(rows: int, columns: int) -> Program:
    """Two parallel loops with a private buffer in the first, a shared one between them."""
    b = ProgramBuilder("sums")
    x, y = b.input("X", (rows, columns)), b.output("Y", (rows,))
    own, both = b.alloc("own", (rows, columns)), b.alloc("both", (rows,))
    with b.loop("i0", rows, kind="parallel") as i0:
        with b.loop("j0", columns, kind="vectorized") as j0:
            with b.block("double", spatial("i", rows, at=i0), spatial("j", columns, at=j0)) as (i, j):
                own[i, j] = x[i, j] * 2.0
        with b.loop("k0", columns) as k0:
            with b.block("sum", spatial("i", rows, at=i0), reduce("k", columns, at=k0)) as (i, k):
                both[i] += own[i, k]
    with b.loop("i1", rows, kind="parallel") as i1, b.block("last", spatial("i", rows, at=i1)) as (i,):
        y[i] = both[rows - 1 - i] + 1.0
    return b.finish()


def on(linker: Linker, program: Program) -> LoadedKernel:
    made = executable(program)
    return load(made.object, made.signature, linker)


def test_parallel_loops_give_the_serial_result(linker: Linker):
    for rows in (1, 2, 3, 7, 64, 1000):
        kernel = on(linker, row_sums(rows, 5))
        x = np.arange(rows * 5, dtype=np.float32).reshape(rows, 5) % 7
        wanted = (2 * x.sum(1))[::-1] + 1
        for _ in range(20):
            kernel.workspace.fill(0xFF)
            assert np.array_equal(kernel(x), wanted)


def test_many_launches_lose_no_iteration(linker: Linker):
    b = ProgramBuilder("count")
    counts = b.inout("N", (37,), "i64")
    with b.loop("i0", 37, kind="parallel") as i0, b.block("add", spatial("i", 37, at=i0)) as (i,):
        counts[i] = counts[i] + 1
    kernel = on(linker, b.finish())
    n = np.zeros(37, np.int64)
    bound = kernel.bind(n)
    bound.run(20_000)
    for _ in range(300):
        bound.run()
    assert (n == 20_300).all()


def test_workers_wake_from_sleep(linker: Linker):
    """Between launches far apart idle workers sleep; launches after that still finish."""
    kernel = on(linker, row_sums(16, 4))
    x = np.ones((16, 4), np.float32)
    pause = threading.Event()
    for _ in range(20):
        pause.wait(0.003)
        assert (kernel(x) == 9).all()


def test_threads_that_launch_at_once_all_finish(linker: Linker):
    x = np.ones((64, 8), np.float32)
    kernels = [on(linker, row_sums(64, 8)) for _ in range(4)]
    failures: list[int] = []

    def work(number: int) -> None:
        for _ in range(200):
            if not (kernels[number](x) == 17).all():
                failures.append(number)

    threads = [threading.Thread(target=work, args=(k,)) for k in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert not failures


def test_nested_parallel_loops(linker: Linker):
    b = ProgramBuilder("grid")
    y = b.output("Y", (9, 11), "i32")
    with b.loop("i0", 9, kind="parallel") as i0, b.loop("j0", 11, kind="parallel") as j0:
        with b.block("y", spatial("i", 9, at=i0), spatial("j", 11, at=j0)) as (i, j):
            y[i, j] = (i * 11 + j).cast("i32")
    assert np.array_equal(on(linker, b.finish())(), np.arange(99, dtype=np.int32).reshape(9, 11))


def test_each_part_runs_on_one_worker_at_a_time():
    """The launcher itself, with a task written in Python: worker numbers are in range, parts do not overlap."""
    linker = Linker(workers=4)
    pool = linker.pool
    seen: list[tuple[int, int, int]] = []
    kind = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64, ctypes.c_int64)
    task = kind(lambda closure, start, end, worker: seen.append((start, end, worker)))
    launch = ctypes.CFUNCTYPE(None, ctypes.c_void_p, kind, ctypes.c_void_p, ctypes.c_int64)(pool.launcher)
    for count in (0, 1, 2, 31, 64, 1000):
        seen.clear()
        launch(pool.team(), task, None, count)
        assert sorted(k for start, end, _ in seen for k in range(start, end)) == list(range(count))
        assert {worker for *_, worker in seen} <= set(range(4))
    linker.close()


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="threads are placed by hand on Linux only")
def test_a_thread_leaves_a_processor_and_may_return_to_it():
    from llvmlite.binding import JITLibraryBuilder

    ir = pool_ir().replace("define internal void @mslang.leave_processor", "define void @mslang.leave_processor")
    builder = JITLibraryBuilder().add_ir(ir).add_current_process()
    builder.export_symbol("mslang.leave_processor")
    code = builder.link(Linker().jit, "apart")
    leave = ctypes.CFUNCTYPE(None, ctypes.c_int32)(code["mslang.leave_processor"])
    here = ctypes.CDLL(None).sched_getcpu
    allowed = os.sched_getaffinity(0)
    try:
        for start in sorted(allowed):
            os.sched_setaffinity(0, {start})
            leave(start)
            assert here() == start, "the only processor it may run on"
            os.sched_setaffinity(0, allowed)
            # Meanwhile other load may have moved it.
            left = [p for p in (here() for _ in range(5)) if not leave(p) and here() != p]
            assert left or len(allowed) == 1
            assert os.sched_getaffinity(0) == allowed
    finally:
        os.sched_setaffinity(0, allowed)


@pytest.mark.parametrize(
    ("platform", "machine"),
    [
        ("linux", "x86_64"),
        ("linux", "aarch64"),
        ("darwin", "arm64"),
        ("linux", "riscv64"),
    ],
)
def test_the_pool_is_valid_for_other_machines(platform: str, machine: str):
    import llvmlite.binding as llvm

    llvm.parse_assembly(pool_ir(platform, machine)).verify()


def test_a_closed_pool_runs_serially_and_an_idle_one_lets_the_process_end():
    linker = Linker(workers=3)
    kernel = on(linker, row_sums(16, 4))
    x = np.ones((16, 4), np.float32)
    assert (kernel(x) == 9).all()
    linker.close()
    assert (kernel(x) == 9).all()
    script = (
        "import numpy as np\n"
        "from tests.unit.llvm.test_parallel import Linker, executable, load, row_sums\n"
        "made = executable(row_sums(16, 4))\n"
        "kernel = load(made.object, made.signature, Linker(workers=3))\n"
        "print((kernel(np.ones((16, 4), np.float32)) == 9).all())\n"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stdout.strip()) == (0, "True"), done.stderr
