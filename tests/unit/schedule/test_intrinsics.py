"""Intrinsics in schedules: named in text, kept in traces, mapped, tested by `implements`; sample 3 at every step."""

from pathlib import Path

import numpy as np
import pytest

from mslang.backend.reference.interpret import run
from mslang.diagnostics import MsError, ScheduleError
from mslang.ir.find import blocks_of
from mslang.ir.intrin import intrin_of
from mslang.ir.print import print_program
from mslang.ir.verify import verify
from mslang.schedule.replay import replay, space_of_text
from mslang.schedule.rules.mapping import map_loops
from mslang.schedule.schedule import Schedule
from mslang.schedule.strategies import space_of
from mslang.schedule.testing import implementations, run_test
from mslang.schedule.trace import Trace
from mslang.sema.intrin import parse_intrin
from mslang.sema.modules import load
from mslang.sema.named_intrin import library_intrin
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
    read = Trace.from_json(candidate.trace.as_json())
    assert read == candidate.trace
    assert replay(program, read, strict=True).program == candidate.program


def _tile4():
    mma = "block mma[i: 4, j: 4 | k: 4] { c[i, j] += a[i, k] * b[k, j] }"
    return parse_intrin(
        f"intrin t(a: f32[4, 4], b: f32[4, 4], inout c: f32[4, 4]) {{ desc {{ {mma} }} impl {{ {mma} }} }}"
    )


NCHW = """program conv(x: f32[2, 3, 7, 9], f: f32[8, 3, 3, 3], out y: f32[2, 8, 5, 7]) {
    block cv[n: 2, co: 8, h: 5, w: 7 | ci: 3, r: 3, s: 3] { y[n, co, h, w] += x[n, ci, h + r, w + s] * f[co, ci, r, s] }
}"""

GROUPED = """program conv(x: f32[2, 3, 7], f: f32[2, 8, 3, 3], out y: f32[2, 8, 5]) {
    block cv[g: 2, co: 8, w: 5 | ci: 3, s: 3] { y[g, co, w] += x[g, ci, w + s] * f[g, co, ci, s] }
}"""

WHOLE = """program conv(x: f32[4, 6, 6], f: f32[4, 4, 3, 3], out y: f32[4, 4, 4]) {
    block cv[co: 4, h: 4, w: 4 | ci: 4, r: 3, s: 3] { y[co, h, w] += x[ci, h + r, w + s] * f[co, ci, r, s] }
}"""


@pytest.mark.parametrize(
    "text, axes, ops",
    [
        (NCHW, ["n_h_w_fused", "co", "ci_r_s_fused"], ["pad_einsum", "compute_inline", "compute_inline"]),
        (GROUPED, ["g", "w", "co", "ci_s_fused"], ["pad_einsum", "compute_inline", "compute_inline"]),
        (WHOLE, ["h_w_fused", "co", "ci_r_s_fused"], []),
    ],
)
def test_axes_that_occur_in_the_same_operands_are_fused(text, axes, ops):
    """Convolutions with the channels first: no axis alone has the place of one of the intrinsic's loops."""
    program = parse_program(text)
    s = Schedule(program)
    tile = _tile4()
    loop = s.tensorize_mapping(s.get("cv"), tile)
    assert [a.name for a in next(b for b in blocks_of(s.program.body) if b.name == "cv").axes] == axes
    s.apply("tensorize", loop, tile)
    done = [i.op for i in s.trace.instructions if i.op not in ("split", "reorder")]
    layouts = ["reindex", "transform_layout"] * 3
    assert done == [*layouts, "transform_block_layout", *ops, "tensorize"]
    assert verify(s.program) == ()
    assert difference(program, s.program, rtol=1e-5, atol=1e-5, seed=0) is None


@pytest.mark.parametrize(
    "text, why",
    [
        (
            "program p(a: f32[4], b: f32[4], out c: f32[4]) {\n    block cv[i: 4 | k: 4] { c[i] += a[k] * b[k] }\n}",
            "no axis occurs in the same operands as the description's loop `i`",
        ),
        (
            "program p(a: f32[4, 4], b: f32[4, 4], out c: f32[4, 4]) {\n"
            "    block cv[i: 4, j: 4 | k: 2, l: 2] { c[i, j] += a[i, k * 2 + l] * b[k, j] }\n}",
            "a reduction axis occurs in other operands than the description's loops",
        ),
    ],
)
def test_axes_that_no_intrinsic_takes(text, why):
    s = Schedule(parse_program(text))
    with pytest.raises(ScheduleError) as caught:
        s.tensorize_mapping(s.get("cv"), _tile4())
    assert caught.value.diagnostic.code == "MS382" and why in str(caught.value.diagnostic.why)
    assert not s.trace.instructions


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


@pytest.mark.parametrize("name", ["dot", "pack", "gemm_bytes", "gemm_bf16"])
def test_the_library_for_cpus(name):
    module = load(str(LIBRARY / "cpu" / f"{name}.ms"))
    assert module.diagnostics == ()
    for item in module.tests:
        result = run_test(module, item, difference)
        assert result.passed, result.diagnostics
