"""Intrinsics in schedules: named in text, kept in traces, mapped, tested by `implements`; sample 3 at every step."""

from pathlib import Path

import numpy as np
import pytest

from mslang.backend.reference.interpret import run
from mslang.diagnostics import MsError, ScheduleError
from mslang.ir.intrin import intrin_of
from mslang.ir.print import print_program
from mslang.ir.verify import verify
from mslang.ir.visit import blocks_of
from mslang.schedule.replay import replay, space_of_text
from mslang.schedule.rules.mapping import map_loops
from mslang.schedule.schedule import Schedule
from mslang.schedule.strategies import space_of
from mslang.schedule.testing import implementations, run_test
from mslang.schedule.trace_json import from_json
from mslang.sema.intrin import library_intrin, parse_intrin
from mslang.sema.modules import load
from mslang.sema.program import instantiate, parse_program
from mslang.tune.equivalence import difference

SAMPLES = Path(__file__).parents[2] / "fixtures" / "samples"
LIBRARY = Path(__file__).parents[3] / "stdlib"

TEXT = """
use std.cpu.{host}
use std.tensor.{tensorize_mapping}
use std.testing.{equiv, implements}

intrin tile4(a: f32[4, 4], b: f32[4, 4], inout c: f32[4, 4]) on cpu {
    desc {
        block mma[i: 4, j: 4 | k: 4] { c[i, j] += a[i, k] * b[k, j] }
    }
    impl {
        block mma[i: 4, j: 4 | k: 4] { c[i, j] += a[i, k] * b[k, j] }
    }
}

intrin wrong(a: f32[4], out c: f32[4]) on cpu {
    desc {
        block d[i: 4] { c[i] = a[i] }
    }
    impl {
        block d[i: 4] { c[i] = a[3 - i] }
    }
}

program product[M = 8, N = 8, K = 8](A: f32[M, K], B: f32[K, N], out C: f32[M, N]) {
    block mm[i: M, j: N | k: K] { C[i, j] += A[i, k] * B[k, j] }
}

program conv[H = 4, W = 8, CI = 4, CO = 8, R = 3](
    x: f32[H + R - 1, W + R - 1, CI], f: f32[R, R, CI, CO], out y: f32[H, W, CO]
) {
    block cv[h: H, w: W, co: CO | r: R, s: R, ci: CI] { y[h, w, co] += x[h + r, w + s, ci] * f[r, s, ci, co] }
}

schedule mapped for product on host {
    let t = tensorize_mapping(mm, tile4)
    t.tensorize(tile4)
}

schedule direct for product on host {
    mm.tensorize(tile4)
}

schedule convolved for conv on host {
    let t = cv.tensorize_mapping(tile4)
    t.tensorize(tile4)
}

test "mapped" {
    let whole = product[8, 12, 16]
    let ragged = product[7, 9, 6]
    let c = conv[4, 8, 4, 8, 3]
    check equiv(whole, sample(mapped, whole, seed = 0))
    check equiv(ragged, sample(mapped, ragged, seed = 0))
    check equiv(whole, sample(direct, whole, seed = 0))
    check equiv(c, sample(convolved, c, seed = 0))
    check implements(tile4)
}

test "wrong" {
    check implements(wrong)
}
"""


@pytest.fixture(scope="module")
def module():
    return load("intrinsics.ms", TEXT)


def sampled(module, name, sizes):
    program = instantiate(module, "product", sizes)
    return program, space_of(module, name, program).sample(0)


def test_nothing_is_wrong_with_the_text(module):
    assert module.diagnostics == ()


def test_the_tests_of_the_text(module):
    good, bad = (run_test(module, t, difference) for t in module.tests)
    assert good.passed and good.checks == 5 and not good.skipped, good.diagnostics
    assert not bad.passed and "the program: " in (bad.diagnostics[0].why or "")


def test_a_mapping_is_traced_as_what_it_applies(module):
    _, candidate = sampled(module, "mapped", {"M": 7, "N": 8, "K": 8})
    ops = [i.op for i in candidate.trace.instructions]
    assert ops == ["pad_einsum", "split", "split", "split", "reorder", "tensorize"]


def test_flat_text_names_the_intrinsic(module):
    program, candidate = sampled(module, "direct", {"M": 8, "N": 8, "K": 8})
    text = candidate.trace.as_ms("again")
    assert "mm.tensorize(tile4)" in text
    again = space_of_text(text, program, module=module).sample(0)
    assert again.program == candidate.program and again.trace.instructions == candidate.trace.instructions


def test_json_holds_all_of_the_intrinsic(module):
    program, candidate = sampled(module, "direct", {"M": 8, "N": 8, "K": 8})
    read = from_json(candidate.trace.as_json())
    assert read == candidate.trace
    assert replay(program, read, strict=True).program == candidate.program


def test_in_python():
    tile = parse_intrin(
        "intrin t(a: f32[4, 4], b: f32[4, 4], inout c: f32[4, 4]) {\n"
        "    desc { block mma[i: 4, j: 4 | k: 4] { c[i, j] += a[i, k] * b[k, j] } }\n"
        '    impl llvm "; nothing"\n}\n'
    )
    program = instantiate(load("intrinsics.ms", TEXT), "product", {"M": 8, "N": 8, "K": 8})
    s = Schedule(program)
    loop = s.tensorize_mapping(s.get("mm"), tile)
    s.apply("tensorize", loop, tile)
    assert [intrin_of(b) for b in blocks_of(s.program.body, into_blocks=False)] == ["t"]
    names: dict = {}
    exec(s.trace.as_python("again"), names)
    other = Schedule(program)
    names["again"](other)
    assert other.program == s.program and other.trace.instructions == s.trace.instructions
    flat = space_of_text(s.trace.as_ms("again"), program).sample(0)
    assert flat.program == s.program
    with pytest.raises(ScheduleError, match="takes a block and an intrinsic"):
        map_loops(s.session, loop, 3)


def test_intrinsics_of_the_library_by_name():
    assert library_intrin("std.cuda.wmma.load_a").address == "std.cuda.wmma.load_a"
    for name in ("std.cuda.wmma.nothing", "std.nowhere.x", "load_a"):
        with pytest.raises(MsError, match="no intrinsic"):
            library_intrin(name)


def test_what_cannot_run_here_is_skipped_not_passed():
    module = load(str(SAMPLES / "wmma.ms"))
    (meaning,) = (t for t in module.tests if "emulation" in t.item.title.value)
    result = run_test(module, meaning, difference)
    assert result.passed and result.checks == 0
    assert result.skipped == ("wmma_16x16x16, the cuda text: it is for `cuda`; the target is a cpu",)


def test_implementations_are_programs():
    kinds = [how for how, _ in implementations(library_intrin("std.cuda.wmma.fill_f32"))]
    assert kinds == ["the cuda text"]


def test_sample_3_at_every_step():
    module = load(str(SAMPLES / "wmma.ms"))
    program = instantiate(module, "matmul_f16", {"M": 64, "N": 32, "K": 64})
    space = space_of(module, "wmma_shared", program)
    rng = np.random.default_rng(0)
    a = rng.integers(-2, 3, (64, 64)).astype(np.float16)
    b = rng.integers(-2, 3, (64, 32)).astype(np.float16)
    for seed, pipeline in ((0, "off"), (1, "double")):
        candidate = space.sample(seed, {"pipeline": pipeline})
        assert not verify(candidate.program)
        assert parse_program(print_program(candidate.program)) == candidate.program
        found = {x for blk in blocks_of(candidate.program.body) if (x := intrin_of(blk)) is not None}
        assert found == {"wmma_16x16x16", "load_a", "load_b", "fill_f32", "store_f32"}
        if pipeline == "off":
            out = run(candidate.program, {"A": a, "B": b})
            assert np.array_equal(out["C"], a.astype(np.float32) @ b.astype(np.float32))


@pytest.mark.parametrize("name", ["dot", "pack", "gemm_bytes"])
def test_the_library_for_cpus(name):
    module = load(str(LIBRARY / "cpu" / f"{name}.ms"))
    assert module.diagnostics == ()
    for item in module.tests:
        result = run_test(module, item, difference)
        assert result.passed, result.diagnostics
