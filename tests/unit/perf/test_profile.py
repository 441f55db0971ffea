"""Timing parts of a kernel: which parts there are, what they do, and that the kernel still computes the same."""

import msgspec
import numpy as np
import pytest

import mslang as ms
from mslang.backend.backend import Options
from mslang.backend.llvm.backend import LLVM
from mslang.backend.llvm.clock import CLOCK
from mslang.ir.program import Program
from mslang.kernel.nodes import Module
from mslang.lower.summary import summarize
from mslang.lower.symbolic import lower_symbolic
from mslang.perf.counters import counting
from mslang.perf.measure import Measured, Overhead
from mslang.perf.parts import COUNTERS, Part, blocks_in, loops_of, timed
from mslang.perf.profile import profile_of
from mslang.perf.runs import runs
from mslang.perf.work import works_of
from mslang.tune.job import Prepared
from mslang.tune.workers import Workers
from mslang.workers.pool import Pool

TEXT = """
program two(A: f32[64, 256], B: f32[256], out C: f32[64, 256], out D: f32[64]) {
    block scaled[i: 64, j: 256] { C[i, j] = A[i, j] * B[j] }
    block summed[i: 64 | j: 256] { D[i] += C[i, j] }
}

schedule together for two {
    scaled.i.parallel()
    scaled.j.vectorize()
}
"""


@pytest.fixture(scope="module")
def source() -> ms.Source:
    return ms.parse(TEXT, "two.ms")


def lowered(program: Program) -> Module:
    module = LLVM.lowered(program, ms.host(), Options())
    assert isinstance(module, Module)
    return module


def test_outermost_loops_are_parts(source: ms.Source) -> None:
    _, parts = timed(lowered(source.program()), (), CLOCK)
    assert [(p.name, p.parent, p.shared) for p in parts if not p.loops] == [("i", 0, False), ("i_1", 0, False)]


def test_a_loop_in_a_parallel_loop_is_shared_by_threads(source: ms.Source) -> None:
    program = source.space("together").sample(0).program
    module = lowered(program)
    names = loops_of(["summed"], program, module)
    _, parts = timed(module, names, CLOCK)
    assert [p.name for p in parts if p.parallel] == ["i"]
    assert not any(p.shared for p in parts)


def test_the_timed_kernel_counts_entries_and_computes_the_same(source: ms.Source) -> None:
    program = source.program()
    module = lowered(program)
    made, parts = timed(module, ("j", "j_1"), CLOCK)
    a, b = np.random.default_rng(0).standard_normal((64, 256), np.float32), np.arange(256, dtype=np.float32)
    plain = LLVM.load(LLVM.compile(module, ms.host(), Options()))
    clocked = LLVM.load(LLVM.compile(made, ms.host(), Options(allow_native=True)))
    counters = np.zeros(2 * (1 + len(parts)), np.int64)
    expected = plain(a, b)
    found = clocked(a, b, **{COUNTERS: counters})
    assert all(np.array_equal(x, y) for x, y in zip(expected, found, strict=False))
    entries = {p.name: int(counters[2 * p.number + 1]) for p in parts}
    assert counters[1] == 1 and entries["i"] == entries["i_1"] == 1 and entries["j"] == entries["j_1"] == 64
    ticks = {p.name: int(counters[2 * p.number]) for p in parts}
    assert 0 < ticks["j"] <= ticks["i"] and ticks["i"] + ticks["i_1"] <= counters[0]


def test_operations_and_bytes_of_a_part(source: ms.Source) -> None:
    program = source.program()
    module = lower_symbolic(program, ms.host())
    parts = (Part(0, -1, "two", ()), Part(1, 0, "i", ()), Part(2, 1, "j", ("i",)))
    whole, first, inner = works_of(parts, summarize(module, ms.host()), runs(module))
    assert whole is not None and first is not None and inner is not None
    assert (whole.operations, first.operations, inner.operations) == (2 * 64 * 256, 64 * 256, 64 * 256)
    assert first.bytes == 4 * (64 * 256 + 256 + 64 * 256)
    assert inner.bytes == 4 * 64 * 3 * 256  # B is read anew by each entry


def whole_work(schedule: str) -> int | None:
    text = f"{PRODUCT}schedule s for p {{ {schedule} }}"
    program = ms.parse(text, "p.ms").space("s").sample(0).program
    module = lower_symbolic(program, ms.host())
    _, parts = timed(lowered(program), (), CLOCK)
    whole = works_of((Part(0, -1, "p", ()), *parts), summarize(module, ms.host()), runs(module))[0]
    return None if whole is None else whole.operations


PRODUCT = """
program p(A: f32[30, 20], B: f32[20, 50], out C: f32[30, 50]) {
    block mm[i: 30, j: 50 | k: 20] { C[i, j] += A[i, k] * B[k, j] }
}
"""


@pytest.mark.parametrize(
    "schedule",
    [
        "",
        "mm.i.split(factors = [_, 8])",
        "mm.i.split(factors = [_, 8])\nmm.j.split(factors = [_, 16])",
        "let a, b = mm.i.split(factors = [_, 7])\nlet f = fuse(b, mm.j)\nf.split(factors = [_, 9])",
        "let a, b = mm.j.split(factors = [_, 16])\nb.vectorize()",
        "let a, b = mm.i.split(factors = [_, 7])\nb.unroll()",
        "let a, b = mm.k.split(factors = [_, 6])\nreorder(a, mm.j)",
    ],
)
def test_what_tiles_hold_beyond_the_extent_is_no_work(schedule: str) -> None:
    assert whole_work(schedule) == 2 * 30 * 20 * 50


def test_parts_that_share_statements_have_no_work_of_their_own(source: ms.Source) -> None:
    module = lower_symbolic(source.program(), ms.host())
    main, tail = Part(1, 0, "i", ()), Part(2, 0, "i", ())
    found = works_of((Part(0, -1, "two", ()), main, tail), summarize(module, ms.host()), runs(module))
    assert found[0] is not None and found[1:] == (None, None)


def test_how_often_data_lets_a_statement_run_is_not_known() -> None:
    text = "program p(A: f32[8], out C: f32[8]) { block b[i: 8] { C[i] = 0.0\n if A[i] > 0.0 { C[i] = A[i] } } }"
    assert runs(lower_symbolic(ms.parse_program(text), ms.host())) == (8, None)


def test_blocks_stand_for_the_outermost_loop_that_has_them_alone(source: ms.Source) -> None:
    program = source.program()
    assert loops_of(["summed", "j"], program, lowered(program)) == ("i_1", "j")
    assert blocks_in(program)["i"] == ("scaled",)


def test_a_name_that_is_no_loop_is_refused_with_the_loops(source: ms.Source) -> None:
    program = source.space("together").sample(0).program
    with pytest.raises(ms.MsError) as caught:
        loops_of(["j"], program, lowered(program))
    assert caught.value.diagnostic.code == "MS710"
    assert "vectorized" in (caught.value.diagnostic.why or "")


def test_the_cost_of_the_clock_is_taken_off(source: ms.Source) -> None:
    parts = (Part(1, 0, "i", ()), Part(2, 1, "j", ("i",)), Part(3, 0, "i_1", ()))
    cost = Overhead(inside=10.0, around=20.0)
    ticks = (10_000.0, 5_000.0, 3_640.0, 3_000.0)
    found = Measured(parts, ticks, (1, 1, 64, 1), 1e-5, 1.1e-5, 1e9, cost, cost, 1, {}, None)
    whole, i, j, other = profile_of(found, source.program(), ms.host(), {"scaled": "two.ms:3"}).rows
    assert j.seconds == pytest.approx(3e-6)  # 3,640 less 64 times 10
    assert i.seconds == pytest.approx((5_000 - 10 - 64 * 30) * 1e-9)
    assert other.seconds == pytest.approx(2_990e-9)
    assert whole.seconds == pytest.approx((10_000 - 66 * 30) * 1e-9)
    assert i.own == pytest.approx(i.seconds - j.seconds) and i.line == "two.ms:3" and other.line is None
    assert not j.uncertain and i.uncertain


def test_threads_share_the_time_of_a_part_in_a_parallel_loop(source: ms.Source) -> None:
    free = Overhead(0.0, 0.0)
    parts = (Part(1, 0, "i", (), parallel=True), Part(2, 1, "j", ("i",), shared=True))
    found = Measured(parts, (4e3, 4e3, 6e3), (1, 1, 64), 1e-6, 1e-6, 1e9, free, free, 2, {}, None)
    profile = profile_of(found, source.program(), ms.host(), {})
    assert profile.rows[2].seconds == pytest.approx(3e-6)
    assert "(rest, waiting)" in str(profile)


def test_threads_share_the_cost_of_clocks_in_a_parallel_loop(source: ms.Source) -> None:
    cost = Overhead(inside=10.0, around=20.0)
    parts = (Part(1, 0, "i", (), parallel=True), Part(2, 1, "j", ("i",), shared=True))
    # Four threads enter `j` 16 times each: 480 ticks of their clocks in the time of the loop.
    found = Measured(parts, (1_030.0, 1_010.0, 3_840.0), (1, 1, 64), 1e-6, 1e-6, 1e9, cost, cost, 4, {}, None)
    whole, i, j = profile_of(found, source.program(), ms.host(), {}).rows
    assert j.seconds == pytest.approx((960 - 160) * 1e-9)
    # Less than `j` takes is no time of what is around it.
    assert i.seconds == whole.seconds == j.seconds and j.share == 1.0
    found = msgspec.structs.replace(found, ticks=(5_030.0, 5_010.0, 3_840.0))
    whole, i, j = profile_of(found, source.program(), ms.host(), {}).rows
    assert i.seconds == pytest.approx((5_000 - 480) * 1e-9) and whole.seconds == pytest.approx((5_000 - 480) * 1e-9)


def test_a_part_takes_no_less_than_the_parts_in_it(source: ms.Source) -> None:
    parts = (Part(1, 0, "i", ()), Part(2, 0, "i_1", ()))
    # The clocks of `i_1` cost less here than in an empty loop.
    cost = Overhead(inside=10.0, around=20.0)
    found = Measured(parts, (720.0, 400.0, 290.0), (1, 1, 12), 5e-7, 7e-7, 1e9, cost, cost, 1, {}, None)
    whole, i, other = profile_of(found, source.program(), ms.host(), {}).rows
    assert whole.seconds == pytest.approx(i.seconds + other.seconds)
    assert i.share + other.share == pytest.approx(1.0) and whole.own == 0.0 and whole.uncertain


def test_python_profiles_a_schedule(source: ms.Source) -> None:
    found = ms.profile_kernel(source.space("together"), seconds=0.05, parts=["summed"])
    assert [r.name for r in found.rows][:2] == ["two", "i"] and found.rows[0].entries == 1
    assert found.rows[0].operations == 2 * 64 * 256 and found.seconds > 0
    assert found.events or found.refused


def test_a_slow_program_has_time_for_the_calls_that_are_made_in_any_case(
    source: ms.Source, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Asked(Exception):
        """Ends the profile where the limit is known."""

    def asked(_pool: Pool, _function: object, _arguments: object, *, seconds: float) -> None:
        raise Asked(seconds)

    monkeypatch.setattr(Workers, "prepare", lambda *_: Prepared(seconds=100.0))
    monkeypatch.setattr(Pool, "submit", asked)
    with pytest.raises(Asked) as found:
        ms.profile_kernel(source.space("together"), seconds=1.0)
    assert found.value.args[0] >= 17 * 100.0


def test_a_back_end_without_a_clock_says_so(source: ms.Source) -> None:
    from mslang.backend.reference.backend import REFERENCE
    from mslang.perf.profile import profile_kernel

    with pytest.raises(ms.MsError, match="cannot time parts"):
        profile_kernel(source.program(), source.program(), ms.host(), backend=REFERENCE)


def test_counters_are_counted_or_refused_in_a_line() -> None:
    with counting() as found:
        sum(range(1000))
    assert all(count >= 0 for count in found.events.values())
    assert found.refused is None or "\n" not in found.refused
    assert found.refused is not None or found.events["instructions"] > 1000
