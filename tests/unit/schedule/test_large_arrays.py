"""What automatic spaces do with arrays that the caches do not hold: results stored past them, the next row fetched."""

from __future__ import annotations

import numpy as np
import pytest
from msgspec.structs import replace

import mslang as ms
from mslang.api.kernels import build
from mslang.kernel.print import print_module
from mslang.lower.passes import lower
from mslang.schedule.instruction import Value
from mslang.schedule.rules.automatic import automatic_space
from mslang.schedule.rules.cpu.streamed import StreamedResults
from mslang.schedule.rules.default_cpu import default_schedule
from mslang.schedule.rules.parallelize_vectorize_unroll import ParallelizeVectorizeUnroll
from mslang.schedule.space import Candidate, Space
from mslang.sema.program import parse_program
from mslang.target.description import AVX512, Target
from mslang.tune.equivalence import difference

SMALL = replace(AVX512, l1=2048, l2=8191, cores=2)
"""A machine for which two arrays of 4 KiB are large."""

SOFTMAX = parse_program("""program softmax(X: f32[16, 128], out Y: f32[16, 128]) {
    alloc largest: f32[16]
    alloc shifted: f32[16, 128]
    alloc total: f32[16]
    block row_max[i: 16 | j: 128] { largest[i] = max(largest[i], X[i, j]) }
    block exponent[i: 16, j: 128] { shifted[i, j] = exp(X[i, j] - largest[i]) }
    block row_sum[i: 16 | j: 128] { total[i] += shifted[i, j] }
    block divide[i: 16, j: 128] { Y[i, j] = shifted[i, j] / total[i] }
}""")
SCALE = "program p(A: f32[{m}, {n}], out B: f32[{m}, {n}]) {{ block b[i: {m}, j: {n}] {{ B[i, j] = A[i, j] * 2.0 }} }}"


def addresses(space: Space) -> set[str]:
    found = [space.attempt(0, k) for k in range(8)]
    return {d for c in found if isinstance(c, Candidate) for d in c.decisions}


def streamed(text: str, machine: Target = SMALL, least: int | None = None) -> set[str]:
    """The decisions of the rule in a space of loops in vectors."""
    rules = (ParallelizeVectorizeUnroll(), StreamedResults(least))
    return {d for d in addresses(automatic_space(parse_program(text), machine, rules)) if d.startswith("stream:")}


def test_large_results_may_bypass_the_caches():
    assert streamed(SCALE.format(m=16, n=64)) == {"stream:b/streamed"}
    assert not streamed(SCALE.format(m=15, n=64)), "the L2 cache holds both arrays"
    assert streamed(SCALE.format(m=15, n=64), least=64)
    assert not streamed(SCALE.format(m=16, n=64), AVX512)


@pytest.mark.parametrize(
    "text",
    [
        pytest.param(
            """program p(A: f32[16, 64, 9], out B: f32[16, 64]) {
                block b[i: 16, j: 64 | k: 9] { B[i, j] += A[i, j, k] }
            }""",
            id="updated in memory",
        ),
        pytest.param(
            """program p(A: f32[16, 64], out B: f32[16, 64], out C: f32[16]) {
                block b[i: 16, j: 64] { B[i, j] = A[i, j] * 2.0 }
                block c[i: 16 | j: 64] { C[i] += B[i, j] }
            }""",
            id="read later",
        ),
        pytest.param(
            "program p(inout A: f32[16, 64]) { block b[i: 16, j: 64] { A[i, j] = A[i, j] * 2.0 } }", id="in place"
        ),
        pytest.param(
            "program p(A: f32[64, 16], out B: f32[16, 64]) { block b[i: 16 | j: 1] { B[i, 0] = A[j, i] } }",
            id="no vectors",
        ),
    ],
)
def test_what_is_read_again_or_is_not_stored_in_vectors_does_not(text: str):
    assert not streamed(text)


def test_f16_does_not():
    assert not streamed(SCALE.format(m=32, n=64).replace("f32", "f16"))


def test_a_size_known_only_at_the_call_counts_with_its_largest():
    text = SCALE.format(m="M", n=64).replace("program p(", "program p[M: dyn(1..{most})](")
    assert streamed(text.replace("{most}", "16")) == {"stream:b/streamed"}
    assert not streamed(text.replace("{most}", "15"))


def test_a_rule_of_the_library_has_the_same_name():
    text = SCALE.format(m=16, n=64) + "\nspace s for p = std.rules.parallelize_vectorize_unroll >> std.rules.stream"
    made = ms.parse(text + "(least_bytes = 100)").space("s", target=AVX512)
    assert "stream:b/streamed" in addresses(made)


def test_softmax_draws_streams_and_the_next_row():
    space = automatic_space(SOFTMAX, SMALL)
    assert addresses(space) >= {"stream:divide/streamed", "rows:divide/prefetch"}
    assert not addresses(automatic_space(SOFTMAX, AVX512))
    x = np.random.default_rng(0).standard_normal((16, 128)).astype(np.float32)
    y = np.exp(x - x.max(1, keepdims=True))
    for rows in (0, 1):
        for on in (0, 1):
            chosen: dict[str, Value] = {"stream:divide/streamed": on, "rows:divide/prefetch": rows}
            c = space.sample(0, chosen)
            text = print_module(lower(c.program, SMALL))
            assert ("stream Y[" in text) == bool(on)
            assert text.count("prefetch X[") == rows
            assert difference(SOFTMAX, c.program, 1e-5, 1e-5, 0) is None
            np.testing.assert_allclose(build(c)(x), y / y.sum(1, keepdims=True), rtol=1e-5)


def test_the_next_row_is_fetched_where_the_stages_compute():
    c = automatic_space(SOFTMAX, SMALL).sample(0, {"rows:divide/prefetch": 1, "stream:divide/streamed": 0})
    (line,) = (x for x in print_module(lower(c.program, SMALL)).splitlines() if "prefetch" in x)
    assert line.strip() == "prefetch X[i_3, j_2_0 * 16 + 128]"


def test_the_default_schedule_fetches_the_next_row_of_large_arrays():
    assert "prefetch" in default_schedule(SOFTMAX, SMALL).trace.as_ms("s")
    assert "prefetch" not in default_schedule(SOFTMAX, AVX512).trace.as_ms("s")


def test_the_default_schedule_streams_what_outgrows_the_last_cache():
    size = 16 * 128 * 4
    assert "divide.stream(Y)" in default_schedule(SOFTMAX, replace(SMALL, l3=size)).trace.as_ms("s")
    assert "stream" not in default_schedule(SOFTMAX, replace(SMALL, l3=size + 1)).trace.as_ms("s")


def test_the_default_schedule_leaves_open_sizes_as_they_are():
    text = SCALE.format(m="M", n=64).replace("program p(", "program p[M: dyn(1..4096)](")
    assert "stream" not in default_schedule(parse_program(text), replace(SMALL, l3=64)).trace.as_ms("s")
    assert "stream" in default_schedule(parse_program(SCALE.format(m=16, n=64)), replace(SMALL, l3=64)).trace.as_ms("s")
