"""`apply`: which pass serves a program, that what it gives computes the same, and why a pass misses."""

import json
from pathlib import Path

import msgspec
import pytest
from msgspec.structs import replace

import mslang as ms
from mslang.apply.apply import apply
from mslang.apply.default import ByDefault
from mslang.apply.dispatch import dispatch, library_patterns
from mslang.apply.passes import Missed, Served
from mslang.apply.recorded import CONSIDERED, FromRecords
from mslang.apply.standard import Sources as PassSources
from mslang.apply.standard import standard_passes
from mslang.backend.cuda.backend import CUDA
from mslang.backend.cuda.default import default_schedule as cuda_default
from mslang.backend.llvm.backend import LLVM
from mslang.cli.main import main
from mslang.diagnostics import MsError
from mslang.ir.equal import structural_hash, workload_hash
from mslang.ir.expr import Const, DynamicRange, Symbol
from mslang.ir.print import print_program
from mslang.ir.program import For, Program
from mslang.ir.visit import walk
from mslang.runtime.timing import Timing
from mslang.schedule.replay import space_of_text
from mslang.schedule.rules.automatic import automatic_space
from mslang.schedule.rules.default_cpu import default_schedule
from mslang.schedule.schedule import Schedule
from mslang.schedule.space import Candidate
from mslang.sema.modules import load
from mslang.sema.program import parse_program
from mslang.target.description import AVX2, SM_80, Target
from mslang.tune.connection import MEMORY
from mslang.tune.database import Database
from mslang.tune.equivalence import difference
from mslang.tune.origin import complete
from mslang.tune.record import Outcome, Record, Result, Sources, Workload

PRODUCT = parse_program("""program product(A: f32[24, 32], B: f32[32, 40], out C: f32[24, 40]) {
    block mm[i: 24, j: 40 | k: 32] { C[i, j] += A[i, k] * B[k, j] }
}""")

RENAMED = parse_program("""program other(mm: f32[24, 32], i0: f32[32, 40], out C_local: f32[24, 40]) {
    block j[k: 24, i: 40 | j0: 32] { C_local[k, i] += mm[k, j0] * i0[j0, i] }
}""")

RELU = parse_program("""program relu(A: f32[24, 32], B: f32[32, 40], b: f32[40], out D: f32[24, 40]) {
    alloc t: f32[24, 40]
    alloc s: f32[24, 40]
    block mm[i: 24, j: 40 | k: 32] { t[i, j] += A[i, k] * B[k, j] }
    block bias[i: 24, j: 40] { s[i, j] = t[i, j] + b[j] }
    block relu[i: 24, j: 40] { D[i, j] = max(s[i, j], 0.0) }
}""")

BY_HAND = """schedule tiled for product {
    let i0, i1 = mm.i.split([_, 6])
    let j0, j1 = mm.j.split([_, 16])
    reorder(j0, i0, mm.k, i1, j1)
    let tile = mm.cache_write(C, scope = local)
    tile.reverse_compute_at(i0)
    j0.parallel()
    j1.vectorize()
    i1.unroll()
}"""


def same(program: Program, scheduled: Program) -> None:
    assert difference(program, scheduled, 1e-4, 0.0, seed=1) is None


def record(program: Program, candidate: Candidate, seconds: float, **changes: object) -> Record:
    workload = Workload(workload_hash(program), program.name, print_program(program))
    made = Record(
        workload.hash,
        program.name,
        "avx2",
        "zen × 2",
        "llvm 1",
        structural_hash(candidate.program),
        "",
        candidate.trace.as_ms("best"),
        "{}",
        Result(Outcome.MEASURED, timing=Timing((seconds,), 1)),
        "run",
        0,
        0,
        "0.1.0",
        machine="here",
        source=workload.source,
    )
    return msgspec.structs.replace(made, **changes)


@pytest.fixture
def store():
    with Database(MEMORY) as db:
        yield db


def keep(db: Database, program: Program, made: Record) -> Record:
    db.add_workload(Workload(made.workload, program.name, print_program(program)))
    return db.add(made)


def by_hand() -> Candidate:
    return space_of_text(BY_HAND, PRODUCT).sample(0)


def from_records(db: Database, **changes: object) -> FromRecords:
    return msgspec.structs.replace(FromRecords(db, "here", "llvm 1", anchors=LLVM), **changes)


def served(db: Database, program: Program, **changes: object) -> Served:
    found = from_records(db, **changes).serve(program, AVX2)
    assert isinstance(found, Served), found
    same(program, found.program)
    return found


def missed(db: Database, program: Program, **changes: object) -> str:
    found = from_records(db, **changes).serve(program, AVX2)
    assert isinstance(found, Missed), found
    return found.why


# ------------------------------------------------------------------ db
def test_a_record_may_name_an_instruction_of_the_library(store: Database) -> None:
    text = """program bytes(A: u8[6, 8], B: i8[8, 16], out C: i32[6, 16]) {
        block mm[i: 6, j: 16 | k: 8] { C[i, j] += i32(A[i, k]) * i32(B[k, j]) }
    }"""
    program = parse_program(text)
    candidate = automatic_space(program, AVX2).sample(0)
    assert "std.cpu.dot.u8s8_avx2" in candidate.trace.as_ms("best")
    best = keep(store, program, record(program, candidate, 1e-3))
    assert structural_hash(served(store, program).program) == best.candidate


def test_the_fastest_record_serves_its_program(store: Database) -> None:
    keep(store, PRODUCT, record(PRODUCT, automatic_space(PRODUCT, AVX2).sample(1), 2e-3))
    best = keep(store, PRODUCT, record(PRODUCT, by_hand(), 1e-3))
    found = served(store, PRODUCT)
    assert structural_hash(found.program) == best.candidate
    assert found.how == f"record {best.id}, 1 ms on zen × 2"


def test_a_record_serves_a_program_that_differs_in_names_alone(store: Database) -> None:
    best = keep(store, PRODUCT, record(PRODUCT, by_hand(), 1e-3))
    found = served(store, RENAMED)
    assert workload_hash(found.program) == workload_hash(by_hand().program)
    assert found.how == f"record {best.id} of `product`, 1 ms on zen × 2"
    assert found.trace is not None
    again = space_of_text(found.trace.as_ms("s"), RENAMED).sample(0, strict=True)
    assert structural_hash(again.program) == structural_hash(found.program)


def test_why_records_do_not_serve(store: Database) -> None:
    assert missed(store, PRODUCT) == "no record of this program"
    keep(store, PRODUCT, record(PRODUCT, by_hand(), 1.0, result=Result(Outcome.CRASH, "SIGSEGV")))
    assert missed(store, PRODUCT) == "none of its 1 records has a time"
    keep(store, PRODUCT, record(PRODUCT, by_hand(), 1.0, machine="there", device="m1 × 8"))
    assert missed(store, PRODUCT) == "no record of this machine; there are some of m1 × 8 (`--machine`)"
    keep(store, PRODUCT, record(PRODUCT, by_hand(), 1.0, target="avx512"))
    assert missed(store, PRODUCT) == "no record for the target avx2; there are some for avx512"
    assert "m1 × 8" in served(store, PRODUCT, machine="there").how
    keep(store, PRODUCT, record(PRODUCT, by_hand(), 1.0))
    keep(store, PRODUCT, record(PRODUCT, by_hand(), 1.0, result=Result(Outcome.CRASH, "SIGSEGV")))
    assert missed(store, PRODUCT) == "each candidate with a time for the target avx2 failed when it was last measured"


def test_before_the_default_a_record_must_have_been_faster_than_it(store: Database) -> None:
    keep(store, PRODUCT, record(PRODUCT, by_hand(), 2e-3))
    alternative = ByDefault(LLVM)
    assert "record 1 was never timed together with the default schedule" in missed(
        store, PRODUCT, alternative=alternative
    )
    default = default_schedule(PRODUCT, AVX2)
    keep(store, PRODUCT, record(PRODUCT, default, 1e-3))
    assert served(store, PRODUCT, alternative=alternative).how.startswith("record 2")
    keep(store, PRODUCT, record(PRODUCT, by_hand(), 5e-4, run="another"))
    assert served(store, RENAMED, alternative=alternative).how.startswith("record 3")


def test_the_comparison_with_the_default_is_that_of_the_records_run(store: Database) -> None:
    default, alternative = default_schedule(PRODUCT, AVX2), ByDefault(LLVM)
    # The default was faster alone, and by another compiler; together with the record it was slower.
    keep(store, PRODUCT, record(PRODUCT, default, 1e-4))
    keep(store, PRODUCT, record(PRODUCT, default, 2e-3))
    own = keep(store, PRODUCT, record(PRODUCT, by_hand(), 1e-3))
    keep(store, PRODUCT, record(PRODUCT, default, 1e-4, compiler="llvm 0"))
    assert served(store, PRODUCT, alternative=alternative).how.startswith(f"record {own.id},")
    # In the next run it was faster than the record; another run's time does not matter to that.
    keep(store, PRODUCT, record(PRODUCT, default, 8e-4, run="next"))
    keep(store, PRODUCT, record(PRODUCT, by_hand(), 9e-4, run="next"))
    last = keep(store, PRODUCT, record(PRODUCT, default, 2e-3, run="last"))
    assert served(store, PRODUCT, alternative=alternative).how.startswith(f"record {last.id},")


def test_the_default_of_an_earlier_run_counts_if_it_is_of_the_same_compiler(store: Database) -> None:
    default, alternative = default_schedule(PRODUCT, AVX2), ByDefault(LLVM)
    old = keep(store, PRODUCT, record(PRODUCT, default, 2e-3, run="first", compiler="llvm 0"))
    own = keep(store, PRODUCT, record(PRODUCT, by_hand(), 1e-3))
    assert served(store, PRODUCT, alternative=alternative).how.startswith(f"record {old.id},")
    keep(store, PRODUCT, record(PRODUCT, default, 2e-3, run="second"))
    assert served(store, PRODUCT, alternative=alternative).how.startswith(f"record {own.id},")


def test_a_default_with_cold_caches_is_no_comparison(store: Database) -> None:
    own = keep(store, PRODUCT, record(PRODUCT, by_hand(), 2e-3))
    cold = Result(Outcome.MEASURED, timing=Timing((9e-3,), 1, cold=True))
    default = keep(store, PRODUCT, record(PRODUCT, default_schedule(PRODUCT, AVX2), 1.0, result=cold))
    assert served(store, PRODUCT, alternative=ByDefault(LLVM)).how.startswith(f"record {default.id},")
    keep(store, PRODUCT, msgspec.structs.replace(own, id=None))
    assert f"record {own.id + 2} was never timed together" in missed(store, PRODUCT, alternative=ByDefault(LLVM))


def test_a_default_that_was_cut_off_was_slower(store: Database) -> None:
    own = keep(store, PRODUCT, record(PRODUCT, by_hand(), 1e-3))
    cut_off = Result(Outcome.CUT_OFF, timing=Timing((3e-3,), 1, censored=True))
    keep(store, PRODUCT, record(PRODUCT, default_schedule(PRODUCT, AVX2), 1.0, result=cut_off))
    assert served(store, PRODUCT, alternative=ByDefault(LLVM)).how.startswith(f"record {own.id},")


@pytest.mark.parametrize("outcome", [Outcome.CRASH, Outcome.TIME_OUT, Outcome.WRONG_RESULT, Outcome.COMPILE_ERROR])
def test_a_default_that_failed_is_slower_than_any_record(store: Database, outcome: Outcome) -> None:
    own = keep(store, PRODUCT, record(PRODUCT, by_hand(), 1e-3))
    keep(store, PRODUCT, record(PRODUCT, default_schedule(PRODUCT, AVX2), 1e-4))
    failed = keep(store, PRODUCT, record(PRODUCT, default_schedule(PRODUCT, AVX2), 1.0, result=Result(outcome, "why")))
    assert served(store, PRODUCT, alternative=ByDefault(LLVM)).how.startswith(f"record {own.id},")
    # What was never run says nothing of a time.
    keep(store, PRODUCT, msgspec.structs.replace(failed, id=None, run="other", result=Result(Outcome.ILLEGAL, "why")))
    keep(store, PRODUCT, msgspec.structs.replace(own, id=None, run="other"))
    assert served(store, PRODUCT, alternative=ByDefault(LLVM)).how.startswith("record 5,")


def test_a_record_of_a_space_that_a_person_wrote_needs_no_comparison(store: Database) -> None:
    keep(store, PRODUCT, record(PRODUCT, by_hand(), 2e-3, sources=Sources(space="0f07")))
    assert served(store, PRODUCT, alternative=ByDefault(LLVM)).how.startswith("record 1")


def test_records_compete_with_the_default_only_before_it() -> None:
    first, _ = standard_passes(["db", "default"], PassSources(AVX2))
    _, last = standard_passes(["default", "db"], PassSources(AVX2))
    assert isinstance(first, FromRecords) and first.alternative is not None
    assert isinstance(last, FromRecords) and last.alternative is None


def test_records_for_gpus_compete_with_the_default_of_the_back_end(store: Database) -> None:
    first, _ = standard_passes(["db", "default"], PassSources(SM_80, store, machine="here"))
    candidate, gpu = automatic_space(PRODUCT, SM_80).sample(0), {"target": "sm_80", "compiler": CUDA.version()}
    keep(store, PRODUCT, record(PRODUCT, candidate, 2e-3, **gpu))
    found = first.serve(PRODUCT, SM_80)
    assert isinstance(found, Missed) and "record 1 was never timed together with the default schedule" in found.why
    default = cuda_default(PRODUCT, SM_80)
    keep(store, PRODUCT, record(PRODUCT, default, 1e-3, **gpu))
    found = first.serve(PRODUCT, SM_80)
    assert isinstance(found, Served) and found.program == default.program
    keep(store, PRODUCT, record(PRODUCT, candidate, 5e-4, run="another", **gpu))
    found = first.serve(PRODUCT, SM_80)
    assert isinstance(found, Served) and found.program == candidate.program


def test_the_default_is_asked_for_once_however_many_records_there_are(store: Database) -> None:
    asked: list[Program] = []

    class Alternative:
        name = "default"

        def serve(self, program: Program, target: Target) -> Served | Missed:
            asked.append(program)
            return ByDefault(LLVM).serve(program, target)

    for seed in range(5):
        keep(store, PRODUCT, record(PRODUCT, automatic_space(PRODUCT, AVX2).sample(seed), 1e-3))
    assert "never timed together" in missed(store, PRODUCT, alternative=Alternative(), anchors=None)
    assert asked == [PRODUCT]


def test_records_of_another_compiler_come_last_and_are_said(store: Database) -> None:
    keep(store, PRODUCT, record(PRODUCT, automatic_space(PRODUCT, AVX2).sample(1), 1e-3, compiler="llvm 0"))
    assert served(store, PRODUCT).how.endswith(", compiled by llvm 0")
    own = keep(store, PRODUCT, record(PRODUCT, by_hand(), 2e-3))
    assert served(store, PRODUCT).how == f"record {own.id}, 2 ms on zen × 2"


def test_fast_records_of_another_compiler_do_not_hide_those_of_this_one(store: Database) -> None:
    for seed in range(CONSIDERED):
        keep(store, PRODUCT, replace(record(PRODUCT, by_hand(), 1e-4, compiler="llvm 0"), candidate=f"c{seed}"))
    own = keep(store, PRODUCT, record(PRODUCT, by_hand(), 2e-3))
    assert served(store, PRODUCT).how == f"record {own.id}, 2 ms on zen × 2"


def test_a_stale_record_is_passed_over_and_its_step_named(store: Database) -> None:
    good = record(PRODUCT, by_hand(), 2e-3)
    broken = msgspec.structs.replace(
        record(PRODUCT, by_hand(), 1e-3), trace=good.trace.replace("vectorize()", "bind(threadIdx.x)", 1)
    )
    changed = msgspec.structs.replace(record(PRODUCT, by_hand(), 1e-3), trace=good.trace.replace("16]", "8]"))
    gone = msgspec.structs.replace(
        record(PRODUCT, by_hand(), 1e-3), trace=good.trace.replace("reorder(j0", "reorder(nowhere")
    )
    for number, each in enumerate((broken, changed, gone)):
        keep(store, PRODUCT, msgspec.structs.replace(each, candidate=f"c{number}"))
    why = missed(store, PRODUCT)
    assert "record 2: record 2 is stale (its trace makes another program than the one that was measured" in why
    assert "record 3: the step `reorder(nowhere, i0, mm.k, i1, j1)` fails" in why
    last = keep(store, PRODUCT, good)
    assert served(store, PRODUCT).how == f"record {last.id}, 2 ms on zen × 2"


@pytest.mark.parametrize(
    ("changed", "since"),
    [
        ((), ""),
        (("rules",), "; the rules changed since"),
        (("library",), "; the library changed since"),
        (("rules", "library"), "; the rules and the library changed since"),
    ],
)
def test_a_stale_record_says_what_has_changed_since_it_was_made(
    store: Database, changed: tuple[str, ...], since: str
) -> None:
    sources = replace(complete(Sources()), **dict.fromkeys(changed, "0" * 16))
    made = keep(store, PRODUCT, msgspec.structs.replace(record(PRODUCT, by_hand(), 1e-3), sources=sources))
    assert served(store, PRODUCT).how.startswith("record 1,")  # What its trace makes depends on neither.
    store.remove([1])
    keep(store, PRODUCT, msgspec.structs.replace(made, trace=made.trace.replace("16]", "8]")))
    why = "its trace makes another program than the one that was measured; mslang 0.1.0 made it"
    assert f"is stale ({why}{since})" in missed(store, PRODUCT)


# ------------------------------------------------------------------ anchors
def test_a_record_of_the_same_anchor_serves_a_program_with_an_epilogue(store: Database) -> None:
    best = keep(store, PRODUCT, record(PRODUCT, by_hand(), 1e-3))
    assert missed(store, RELU, anchors=None) == "no record of this program"
    found = served(store, RELU)
    assert found.how == f"record {best.id} of `product`, 1 ms on zen × 2; by its anchor `mm`"
    text = print_program(found.program)
    # The epilogue is computed where the tile leaves the registers: no other buffer of the full size is left.
    assert "alloc s" not in text and "max(" in text and "@ local" in text


def test_before_the_default_a_record_of_the_same_anchor_must_have_been_faster_than_it(store: Database) -> None:
    default = default_schedule(PRODUCT, AVX2)
    keep(store, PRODUCT, record(PRODUCT, by_hand(), 2e-3))
    why = missed(store, RELU, alternative=ByDefault(LLVM))
    assert "record 1 of `product` has the same anchor: it was never timed together with the default schedule" in why
    keep(store, PRODUCT, record(PRODUCT, default, 3e-3))
    assert served(store, RELU, alternative=ByDefault(LLVM)).how.startswith("record 1 of `product`")


def test_a_stale_record_of_the_same_anchor_is_passed_over(store: Database) -> None:
    changed = record(PRODUCT, by_hand(), 1e-3).trace.replace("16]", "8]")
    keep(store, PRODUCT, replace(record(PRODUCT, by_hand(), 1e-3), trace=changed, candidate="c0"))
    assert "record 1 is stale (its trace makes another program than the one that was measured" in missed(store, RELU)
    own = keep(store, PRODUCT, record(PRODUCT, by_hand(), 2e-3))
    assert served(store, RELU).how.startswith(f"record {own.id} of `product`, 2 ms")


@pytest.mark.parametrize("alternative", [None, ByDefault(LLVM)])
def test_a_record_whose_program_cannot_be_read_is_passed_over(store: Database, alternative: ByDefault | None) -> None:
    # As of a version whose language was another one.
    old = Workload(workload_hash(PRODUCT), "product", "program product(")
    store.add_workload(old)
    store.add(replace(record(PRODUCT, by_hand(), 1e-3), source=old.source, candidate="c0"))
    why = missed(store, PRODUCT, alternative=alternative)
    assert "record 1 is stale (the text of its program cannot be read" in why and "the step" not in why
    assert missed(store, RELU, alternative=alternative).startswith("no record of this program")
    own = keep(store, PRODUCT, record(PRODUCT, by_hand(), 2e-3, sources=Sources(space="0f07")))
    for program in (PRODUCT, RELU):
        assert served(store, program, alternative=alternative).how.startswith(f"record {own.id}")


def test_fast_records_of_the_same_anchor_by_another_compiler_do_not_hide_those_of_this_one(store: Database) -> None:
    for seed in range(3):
        keep(store, PRODUCT, replace(record(PRODUCT, by_hand(), 1e-4, compiler="llvm 0"), candidate=f"c{seed}"))
    own = keep(store, PRODUCT, record(PRODUCT, by_hand(), 2e-3, compiler=LLVM.version()))
    assert served(store, RELU, compiler=LLVM.version()).how.startswith(f"record {own.id} of `product`, 2 ms")


@pytest.mark.parametrize("on", ["1", "t"])
def test_a_record_that_streams_its_results_serves_with_an_epilogue(store: Database, on: str) -> None:
    drawn = "    let t ~ choose([1])\n" if on == "t" else ""
    schedule = BY_HAND.replace(
        "    i1.unroll()", f"{drawn}    i1.unroll()\n    vectorize(tile.loops()[-1])\n    tile.stream(C, on = {on})"
    )
    keep(store, PRODUCT, record(PRODUCT, space_of_text(schedule, PRODUCT).sample(0), 1e-3))
    text = print_program(served(store, RELU).program)
    assert "alloc s" not in text and "max(" in text, "the epilogue is still computed on the tile"
    assert 'attr "stream.D"' in text and "stream.C" not in text, "what is stored there now bypasses the caches"


def test_steps_on_what_is_not_there_are_left_out(store: Database) -> None:
    schedule = (
        BY_HAND.replace("product", "relu")
        .replace("(C,", "(t,")
        .replace(
            "    j0.parallel()",
            "    bias.compute_inline()\n    relu.j.vectorize()\n    relu.i.parallel()\n    j0.parallel()",
        )
    )
    keep(store, RELU, record(RELU, space_of_text(schedule, RELU).sample(0), 1e-3))
    assert served(store, PRODUCT).how.endswith("by its anchor `mm`, without 3 of its steps")


CONV = """program conv(x: f32[1, 12, 12, 8], f: f32[3, 3, 8, 16], out y: f32[1, 12, 12, 16]) {{
    alloc p: f32[1, 14, 14, 8]
    {}
    block pad[n: 1, h: 14, w: 14, c: 8] {{
        p[n, h, w, c] = select(1 <= h and h < 13 and 1 <= w and w < 13, x[n, h - 1, w - 1, c], 0.0)
    }}
    block conv[n: 1, h: 12, w: 12, o: 16 | r: 3, s: 3, i: 8] {{
        {}[n, h, w, o] += p[n, h + r, w + s, i] * f[r, s, i, o]
    }}
    {}
}}"""


def test_a_convolution_brings_its_padding_along(store: Database) -> None:
    plain = parse_program(CONV.format("", "y", ""))
    epilogue = "block clip[n: 1, h: 12, w: 12, o: 16] { y[n, h, w, o] = min(max(t[n, h, w, o], 0.0), 6.0) }"
    clipped = parse_program(CONV.format("alloc t: f32[1, 12, 12, 16]", "t", epilogue))
    schedule = """schedule s for conv {
        let h = conv.h
        let w0, w1 = conv.w.split([_, 4])
        reorder(h, w0, conv.r, conv.s, conv.i, w1, conv.o)
        let tile = conv.cache_write(y, scope = local)
        tile.reverse_compute_at(w0)
        pad.compute_at(h)
        pad.c.vectorize()
    }"""
    keep(store, plain, record(plain, space_of_text(schedule, plain).sample(0), 1e-3))
    assert served(store, clipped).how.endswith("by its anchor `conv`")


def test_another_anchor_does_not_serve(store: Database) -> None:
    keep(store, PRODUCT, record(PRODUCT, by_hand(), 1e-3))
    smaller = parse_program(print_program(RELU).replace("32", "16"))
    assert missed(store, smaller) == "no record of this program"


# ------------------------------------------------------------------ dispatch
def test_a_program_that_matches_a_pattern_takes_its_schedule() -> None:
    found = dispatch().serve(RENAMED, AVX2)
    assert isinstance(found, Served) and found.how == "`packed` of `gemm` (gemm.ms)"
    same(RENAMED, found.program)


def test_sizes_that_no_shape_says_are_found() -> None:
    strided = ms.load(str(next(p.module.path for p in library_patterns() if p.program == "conv2d_nhwc"))).program(
        "conv2d_nhwc", N=1, H=13, W=13, CI=4, CO=16, STRIDE=2, PAD=1
    )
    found = dispatch().serve(strided, AVX2)
    assert isinstance(found, Missed), "three sizes are open: only their defaults are tried"
    plain = ms.load(str(next(p.module.path for p in library_patterns() if p.program == "conv2d_nhwc"))).program(
        "conv2d_nhwc", N=1, H=12, W=12, CI=4, CO=16
    )
    found = dispatch().serve(plain, AVX2)
    assert isinstance(found, Served)
    same(plain, found.program)


def test_what_matches_nothing_is_missed() -> None:
    found = dispatch().serve(parse_program(print_program(RELU).replace("max(", "min(")), AVX2)
    assert isinstance(found, Missed) and found.why.startswith("it matches none of")


def test_a_users_patterns_come_first() -> None:
    own = ms.parse("""program mine[M = 4, N = 4, K = 4](A: f32[M, K], B: f32[K, N], out C: f32[M, N]) {
        block mm[i: M, j: N | k: K] { C[i, j] += A[i, k] * B[k, j] }
    }
    schedule rows for mine { mm.i.parallel() }""")
    (done,) = ms.apply(RENAMED, ["dispatch"], target=AVX2, patterns=[own])
    assert done.served is not None and done.served.how == "`rows` of `mine` (text.ms)"
    same(RENAMED, done.program)


def test_a_schedule_of_another_modules_program_is_none_of_the_own_one_of_that_name(tmp_path: Path) -> None:
    doubled = "program p[N = 4](A: f32[N], out B: f32[N]) { block b[i: N] { B[i] = A[i] * 2.0 } }\n"
    squared = "program p[N = 4](A: f32[N], out B: f32[N]) { block c[i: N] { B[i] = A[i] * A[i] } }\n"
    (tmp_path / "lib.ms").write_text(doubled)
    own = tmp_path / "own.ms"
    own.write_text(f'use "./lib.ms" as lib\n{squared}schedule other for lib.p {{ b.i.vectorize() }}\n')
    (done,) = ms.apply(parse_program(squared), ["dispatch"], target=AVX2, patterns=[ms.load(own)])
    assert done.served is None
    own.write_text(f"{own.read_text()}schedule mine for p {{ c.i.vectorize() }}\n")
    (done,) = ms.apply(parse_program(squared), ["dispatch"], target=AVX2, patterns=[ms.load(own)])
    assert done.served is not None and done.served.how == "`mine` of `p` (own.ms)"


def test_a_pattern_whose_target_is_broken_leaves_the_others() -> None:
    text = """target broken = nothing_of_this_name { cores = 4 }
    program mine[M = 4, N = 4, K = 4](A: f32[M, K], B: f32[K, N], out C: f32[M, N]) {
        block mm[i: M, j: N | k: K] { C[i, j] += A[i, k] * B[k, j] }
    }
    schedule rows for mine on broken { mm.i.parallel() }"""
    own = load("text.ms", text)
    found = dispatch([own]).serve(RENAMED, AVX2)
    assert isinstance(found, Served) and found.how == "`packed` of `gemm` (gemm.ms)"
    found = dispatch([own], library=False).serve(RENAMED, AVX2)
    assert isinstance(found, Missed) and "`rows` of `mine` (text.ms) does not apply: " in found.why, found


# ------------------------------------------------------------------ passes
class Mine:
    name = "mine"

    def serve(self, program: Program, target: object) -> Served | Missed:
        return Served(program, "as it is") if program.name == "product" else Missed("not mine")


def test_passes_are_tried_in_the_users_order(store: Database) -> None:
    keep(store, PRODUCT, record(PRODUCT, by_hand(), 1e-3))
    done = apply([PRODUCT, RELU], [Mine(), from_records(store)], AVX2)
    assert [d.by for d in done] == ["mine", "db"]
    assert done[1].missed == (("mine", "not mine"),)
    done = apply([PRODUCT], [from_records(store), Mine()], AVX2)
    assert [d.by for d in done] == ["db"] and done[0].missed == ()
    (nothing,) = apply([RELU], [Mine()], AVX2)
    assert nothing.by is None and nothing.program == RELU
    assert nothing.explanation() == "relu: no pass serves it\n  mine missed: not mine"


class BySize:
    """A pass that splits by 2 where the size is at most 8, else by 32; without traces or with them."""

    name = "by_size"

    def __init__(self, traced: bool) -> None:
        self._traced = traced

    def serve(self, program: Program, target: Target) -> Served | Missed:
        s = Schedule(program)
        (size,) = (d.domain for d in program.dynamic if isinstance(d, Symbol))
        small = isinstance(size, DynamicRange) and size.hi <= 8
        s.split(s.axis("b", "i"), [None, 2 if small else 32])
        return Served(s.program, "a split", s.trace if self._traced else None)


@pytest.mark.parametrize(("traced", "own"), [(True, ["N = 1..8"]), (False, ["N = 1..8", "N = 9..16"])])
def test_a_bucket_with_another_schedule_of_as_many_steps_has_code_of_its_own(traced: bool, own: list[str]) -> None:
    """Without traces programs are compared; of at most 16 elements there is one part of 32."""
    text = "program p[N: dyn(1..64, buckets = [8, 16])](out B: f32[N]) { block b[i: N] { B[i] = 1.0 } }"
    (done,) = apply([parse_program(text)], [BySize(traced)], AVX2)
    assert [c.bucket.text for c in done.cases] == own
    assert done.at({"N": 17}) is done
    (inner,) = (s for s in walk(done.at({"N": 8}).program.body) if isinstance(s, For) and s.var == "i_1")
    assert inner.extent == Const(2)


def test_an_unknown_pass_is_one_diagnostic() -> None:
    with pytest.raises(MsError) as error:
        ms.apply(PRODUCT, ["defualt"])
    assert error.value.diagnostic.code == "MS611" and "default" in (error.value.diagnostic.help or "")
    with pytest.raises(MsError) as error:
        ms.apply(["product"], ["default"])  # type: ignore[list-item]
    assert error.value.diagnostic.code == "MS706"


# ------------------------------------------------------------------ the command line
def test_the_verb_explains_prints_and_writes(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "p.ms"
    path.write_text(f"{print_program(PRODUCT)}\n{print_program(RELU)}")
    words = ["apply", str(path), "--target", "avx2", "--passes", "db,default"]
    assert main([*words, "--explain"]) == 0
    out = capsys.readouterr().out
    assert "product: default: fixed choices for avx2" in out and "  db missed: no record of this program" in out
    assert main([*words, "--json"]) == 0
    rows = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [(r["program"], r["by"], r["missed"][0]["pass"]) for r in rows] == [
        ("product", "default", "db"),
        ("relu", "default", "db"),
    ]
    assert main(words) == 0
    text = capsys.readouterr().out
    assert "schedule product_best for product" in text and "schedule relu_best for relu" in text
    assert main([*words, "--write"]) == 0
    assert path.read_text() == text
    source = ms.load(path)
    same(RELU, source.space("relu_best").sample(0).program)


@pytest.mark.parametrize(
    ("words", "code"),
    [
        (["--passes", "dv"], "MS611"),
        (["--db", "absent.db"], "MS603"),
        (["--db", "unoin:a,b"], "MS609"),
        (["--set", "M=3"], "MS701"),
        (["--target", "nothing"], "MS"),
    ],
)
def test_bad_input_is_one_diagnostic(
    words: list[str], code: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "p.ms"
    path.write_text(print_program(PRODUCT))
    assert main(["apply", str(path), *words]) in (1, 2, 3)
    errors = capsys.readouterr().err
    assert errors.count("[MS") == 1 and f"[{code}" in errors


def test_a_library_is_built_of_what_the_passes_give(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "p.ms"
    path.write_text(f"{print_program(PRODUCT)}\nschedule mine for product {{ mm.i.parallel() }}\n")

    def build(*words: str) -> tuple[int, str]:
        status = main(["build", *words, "-o", str(tmp_path / "p.ll"), "--target", "avx2"])
        return status, capsys.readouterr().err

    assert build(f"{path}:product")[0] == 0
    plain = (tmp_path / "p.ll").read_text()
    status, said = build(f"{path}:product", "--apply", "db,default")
    assert status == 0 and "product: default: fixed choices for avx2" in said
    assert "fork" not in plain and "<8 x float>" in (tmp_path / "p.ll").read_text()
    # Without a name the program is meant, whatever schedules stand beside it.
    status, said = build(str(path), "--apply", "db,default")
    assert status == 0 and "product: default: fixed choices for avx2" in said
    for words in ([f"{path}:mine", "--apply", "default"], [f"{path}:product", "--apply", "default", "--seed", "1"]):
        status, said = build(*words)
        assert status == 2 and said.count("[MS701]") == 1
