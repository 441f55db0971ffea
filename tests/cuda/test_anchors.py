"""Records of a product serve programs that compute more around it: the schedule is completed for a GPU."""

from collections.abc import Iterator

import numpy as np
import pytest

from mslang.apply.passes import Missed, Served
from mslang.apply.recorded import FromRecords
from mslang.apply.standard import Sources, standard_passes
from mslang.backend.cuda.backend import CUDA
from mslang.ir.equal import structural_hash, workload_hash
from mslang.ir.print import print_program
from mslang.ir.program import Program
from mslang.lower.gpu import lower
from mslang.runtime.timing import Timing
from mslang.schedule.replay import space_of_text
from mslang.schedule.rules.gpu.auto_bind import unbound_blocks
from mslang.sema.program import parse_program
from mslang.target.description import SM_80
from mslang.tune.connection import MEMORY
from mslang.tune.database import Database
from mslang.tune.record import Outcome, Record, Result, Workload
from tests.cuda.emulator import why_not
from tests.cuda.modules import emulate

M, N, K = 24, 40, 18
PRODUCT = parse_program(f"""program product(A: f32[{M}, {K}], B: f32[{K}, {N}], out C: f32[{M}, {N}]) {{
    block mm[i: {M}, j: {N} | k: {K}] {{ C[i, j] += A[i, k] * B[k, j] }}
}}""")

RELU = parse_program(f"""program relu(X: f32[{M}, {K}], W: f32[{K}, {N}], b: f32[{N}], out Y: f32[{M}, {N}]) {{
    alloc t: f32[{M}, {N}]
    alloc s: f32[{M}, {N}]
    block dense[n: {M}, m: {N} | c: {K}] {{ t[n, m] += X[n, c] * W[c, m] }}
    block bias[n: {M}, m: {N}] {{ s[n, m] = t[n, m] + b[m] }}
    block relu[n: {M}, m: {N}] {{ Y[n, m] = max(s[n, m], 0.0) }}
}}""")

TILED = """schedule tiled for product {
    let i0, i1 = mm.i.split([_, 8])
    let j0, j1 = mm.j.split([_, 16])
    let k0, k1 = mm.k.split([_, 6])
    reorder(i0, j0, i1, j1, k0, k1)
    i0.bind(blockIdx.y)
    j0.bind(blockIdx.x)
    i1.bind(threadIdx.y)
    j1.bind(threadIdx.x)
    let sum = mm.cache_write(C, scope = local)
    sum.reverse_compute_at(j1)
    mm.decompose_reduction(k0)
}"""

STAGED = """schedule staged for product {
    let i0, i1 = mm.i.split([_, 8])
    let j0, j1 = mm.j.split([_, 16])
    reorder(i0, j0, i1, j1, mm.k)
    i0.bind(blockIdx.y)
    j0.bind(blockIdx.x)
    i1.bind(threadIdx.y)
    j1.bind(threadIdx.x)
    let tile = mm.cache_write(C, scope = shared)
    let sum = mm.cache_write(mm.writes()[0], scope = local)
    sum.reverse_compute_at(j1)
    tile.reverse_compute_at(j0)
    tile.ax0.bind(threadIdx.y)
    tile.ax1.bind(threadIdx.x)
}"""

ROWS = "schedule rows for product { mm.i.bind(blockIdx.x) }"
"""Its blocks have one thread each, and no copy takes the results."""

TOO_WIDE = """schedule wide for product {
    let loop = fuse(mm.i, mm.j)
    let blocks, threads = loop.split([_, 1920])
    blocks.bind(blockIdx.x)
    threads.bind(threadIdx.x)
}"""


@pytest.fixture
def store() -> Iterator[Database]:
    with Database(MEMORY) as db:
        yield db


def keep(db: Database, schedule: str) -> Record:
    """A record of the product on a GPU."""
    candidate = space_of_text(schedule, PRODUCT).sample(0)
    hash, text = workload_hash(PRODUCT), print_program(PRODUCT)
    workload = Workload(hash, PRODUCT.name, text)
    db.add_workload(workload)
    measured = Result(Outcome.MEASURED, timing=Timing((1e-3,), 1))
    trace, made = candidate.trace.as_ms("best"), structural_hash(candidate.program)
    names = (hash, PRODUCT.name, SM_80.name, "A100", CUDA.version(), made, "", trace, "{}")
    return db.add(Record(*names, measured, "run", 0, 0, "0.1.0", machine="here", source=workload.source))


def served(db: Database, program: Program) -> Served | Missed:
    (records,) = standard_passes(["db"], Sources(SM_80, db, machine="here"))
    assert isinstance(records, FromRecords)
    return records.serve(program, SM_80)


def computes_relu(program: Program) -> None:
    """The program in the emulation gives what NumPy gives."""
    if why_not() is not None:
        pytest.skip(str(why_not()))
    draw = np.random.default_rng(3)
    arrays = {
        name: draw.integers(-4, 5, shape).astype(np.float32)
        for name, shape in (("X", (M, K)), ("W", (K, N)), ("b", (N,)))
    }
    found = emulate(program, arrays, SM_80)
    assert found.faults == ()
    np.testing.assert_array_equal(found.results["Y"], np.maximum(arrays["X"] @ arrays["W"] + arrays["b"], 0))


def test_the_epilogue_is_computed_where_the_results_leave_the_registers(store: Database) -> None:
    best = keep(store, TILED)
    found = served(store, RELU)
    assert isinstance(found, Served), found
    assert found.how == f"record {best.id} of `product`, 1 ms on A100; by its anchor `dense`"
    assert len(lower(found.program, SM_80).functions) == 1
    assert "alloc s" not in print_program(found.program)
    assert found.trace is not None
    again = space_of_text(found.trace.as_ms("s"), RELU).sample(0, strict=True)
    assert structural_hash(again.program) == structural_hash(found.program)
    computes_relu(found.program)


def test_what_the_trace_leaves_is_bound(store: Database) -> None:
    keep(store, ROWS)
    found = served(store, RELU)
    assert isinstance(found, Served), found
    assert unbound_blocks(found.program) == ()
    assert len(lower(found.program, SM_80).functions) == 2
    # Rows of the product have threads now, and bias and activation are one nest.
    assert "alloc s" not in print_program(found.program)
    computes_relu(found.program)


def test_a_result_beyond_the_limits_is_refused(store: Database) -> None:
    best = keep(store, TOO_WIDE)
    found = served(store, RELU)
    assert isinstance(found, Missed)
    assert found.why == (
        f"no record of this program; record {best.id} of `product` has the same anchor: `blocks` needs 1920 threads a "
        "block (the target `sm_80` has at most 1024)"
    )


def test_of_two_copies_the_one_that_reads_the_other_takes_the_epilogue(store: Database) -> None:
    """The second copy is read by the first, which the trace goes on to schedule."""
    keep(store, STAGED)
    found = served(store, RELU)
    assert isinstance(found, Served), found
    assert len(lower(found.program, SM_80).functions) == 1
    computes_relu(found.program)
