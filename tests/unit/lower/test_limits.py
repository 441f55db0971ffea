"""Limits of machines: what keeps them is compiled, what exceeds one is refused with its code and both numbers."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from mslang.backend.backend import BackEnd
from mslang.backend.cuda.backend import CUDA as CUDA_C
from mslang.diagnostics import TargetError
from mslang.ir.program import Program
from mslang.lower.summary import exceeded, limits, require_within_limits, summarize
from mslang.lower.symbolic import lower_symbolic
from mslang.schedule.strategies import space_of
from mslang.sema.modules import load
from mslang.sema.program import parse_program
from mslang.sema.targets import describe
from mslang.target.description import AVX512, CUDA, SM_80, Target

SMALL = Target(
    "small",
    "cuda",
    registers=255,
    extra=(("max_threads", 64), ("shared", 1024), ("max_vthreads", 2), ("max_local", 256), ("max_grid_y", 8)),
)


def copied(extents: str, index: str, size: int, scope: str = "global") -> Program:
    """A copy of `size` elements under loops, through a buffer of a scope."""
    return parse_program(
        f"""program p(A: f32[{size}], out B: f32[{size}]) {{
            alloc T: f32[{size}] @ {scope}
            for {extents} {{
                block put[i: {size} = {index}] {{ T[i] = A[i] }}
                block get[j: {size} = {index}] {{ B[j] = T[j] }}
            }}
        }}"""
    )


KEPT = [
    copied("b in 4 @ blockIdx.x, t in 64 @ threadIdx.x", "b * 64 + t", 256),
    copied("b in 4 @ blockIdx.x, t in 64 @ threadIdx.x, k in 4", "(b * 64 + t) * 4 + k", 1024, "shared"),
    copied("b in 4 @ blockIdx.x, t in 8 @ threadIdx.x, v in 2 @ vthread", "b * 16 + t * 2 + v", 64, "local"),
    copied("b in 8 @ blockIdx.y, t in 8 @ threadIdx.x", "b * 8 + t", 64),
    copied("b in 4 @ blockIdx.x, t in 4 @ threadIdx.x, v in 4 @ vectorized", "b * 16 + t * 4 + v", 64),
]
REFUSED = [
    ("MS460", copied("b in 4 @ blockIdx.x, t in 65 @ threadIdx.x", "b * 65 + t", 260), "65 threads a block", "64"),
    (
        "MS460",
        copied("x in 2 @ threadIdx.x, z in 33 @ threadIdx.z", "x * 33 + z", 66),
        "66 threads a block",
        "64",
    ),
    (
        "MS461",
        parse_program(
            """program p(A: f32[512], out B: f32[512]) {
                alloc T: f32[512] @ shared
                for b in 1 @ blockIdx.x {
                    for t in 64 @ threadIdx.x, k in 8 { block put[i: 512 = t * 8 + k] { T[i] = A[i] } }
                    for u in 64 @ threadIdx.x, l in 8 { block get[j: 512 = u * 8 + l] { B[j] = T[511 - j] } }
                }
            }"""
        ),
        "2048 bytes of shared memory",
        "1024",
    ),
    (
        "MS463",
        copied("b in 2 @ blockIdx.x, v in 4 @ vthread, t in 8 @ threadIdx.x", "b * 32 + v * 8 + t", 64),
        "4 virtual threads",
        "2",
    ),
    (
        "MS464",
        copied("b in 2 @ blockIdx.x, t in 4 @ threadIdx.x, v in 8 @ vectorized", "b * 32 + t * 8 + v", 64),
        "32 bytes of a vector access",
        "16",
    ),
    ("MS465", copied("b in 9 @ blockIdx.y, t in 8 @ threadIdx.x", "b * 8 + t", 72), "9 blocks along y", "8"),
    (
        "MS466",
        parse_program(
            """program p(A: f32[4, 128], out B: f32[4, 128]) {
                alloc T: f32[4, 128] @ local
                for b in 4 @ blockIdx.x {
                    for k in 128 { block put[i: 4 = b, j: 128 = k] { T[i, j] = A[i, j] } }
                    for l in 128 { block get[i: 4 = b, j: 128 = l] { B[i, j] = T[i, 127 - j] } }
                }
            }"""
        ),
        "512 bytes of local memory",
        "256",
    ),
]


@pytest.mark.parametrize("program", KEPT)
def test_what_keeps_the_limits_is_accepted(program: Program):
    require_within_limits(program, SMALL)


@pytest.mark.parametrize(("code", "program", "said", "most"), REFUSED)
def test_what_exceeds_a_limit_is_refused(code: str, program: Program, said: str, most: str):
    with pytest.raises(TargetError) as found:
        require_within_limits(program, SMALL)
    d = found.value.diagnostic
    assert d.code == code
    assert said in d.message
    assert f"has at most {most}" in (d.why or "")
    assert d.help


SUMMED = """program p(A: f32[2, SIZE], out B: f32[2], out C: f32[2, SIZE]) {
    alloc S: f32[2, SIZE] @ shared
    for b in 2 @ blockIdx.x {
        for t in 64 @ threadIdx.x, i in EACH { block put[y: 2 = b, x: SIZE = t * EACH + i] { S[y, x] = A[y, x] } }
        for u in 64 @ threadIdx.x, j in EACH {
            block get[y: 2 = b, x: SIZE = u * EACH + j] { C[y, x] = S[y, SIZE - 1 - x] }
        }
        for k in EACH, v in 64 @ threadIdx.x {
            block sum[y: 2 = b | x: SIZE = k * 64 + v] { init { B[y] = 0.0 } B[y] += S[y, x] }
        }
    }
}"""


def summed(each: int) -> Program:
    """A row in shared memory, whose sum 64 threads share out: each warp stores what it has for the other."""
    return parse_program(SUMMED.replace("SIZE", str(64 * each)).replace("EACH", str(each)))


def test_limits_see_the_memory_in_which_threads_combine_the_parts_of_reductions():
    require_within_limits(summed(3), SMALL)
    with pytest.raises(TargetError) as found:
        require_within_limits(summed(4), SMALL)
    assert "1032 bytes of shared memory" in found.value.diagnostic.message
    with pytest.raises(TargetError) as found:
        CUDA_C.lowered(summed(4), SMALL)
    assert found.value.diagnostic.code == "MS461"


def test_buffers_that_fit_only_unaligned_are_refused_when_their_places_are_known():
    """The summary counts bytes; the pass `shared` aligns each buffer."""
    tight = replace(SMALL, extra=(*SMALL.extra, ("shared", 776)))
    require_within_limits(summed(3), tight)
    with pytest.raises(TargetError) as found:
        CUDA_C.lowered(summed(3), tight)
    assert found.value.diagnostic.code == "MS461"
    assert "784 bytes of shared memory" in found.value.diagnostic.message
    CUDA_C.lowered(summed(3), replace(SMALL, extra=(*SMALL.extra, ("shared", 784))))


def test_a_back_end_refuses_before_it_lowers():
    compiled: list[object] = []
    back_end = BackEnd(
        "counting", ("cuda",), lambda m, t, o: compiled.append(m), load=lambda m: m, version=lambda: "counting 1"
    )
    with pytest.raises(TargetError) as found:
        back_end.built(REFUSED[0][1], SMALL)
    assert found.value.diagnostic.code == "MS460"
    assert not compiled


def test_a_target_of_any_kind_has_the_limits_of_its_fields_in_a_back_end_of_ones_own():
    """Limits are the target's: neither its kind nor the back end that compiles for it gives or takes them."""
    mine = BackEnd("mine", ("npu",), lambda m, t, o: m, load=lambda m: m, version=lambda: "mine 1")
    npu = replace(SMALL, name="npu", kind="npu")
    with pytest.raises(TargetError, match="65 threads a block") as found:
        mine.built(REFUSED[0][1], npu)
    assert found.value.diagnostic.code == "MS460"
    summary = summarize(lower_symbolic(REFUSED[0][1], npu), npu)
    assert {x.code for x in limits(summary, npu)} >= {"MS460", "MS461", "MS463", "MS465", "MS466"}


@pytest.mark.parametrize(
    ("target", "has"),
    [
        (SMALL, True),
        (SM_80, True),
        (replace(SMALL, kind="npu"), True),
        (AVX512, False),
        (CUDA, False),
        (Target("npu", "npu", extra=(("shared", 1024),)), False),
    ],
    ids=lambda x: f"{x.name} of {x.kind}" if isinstance(x, Target) else str(x),
)
def test_a_target_has_threads_if_it_states_how_many_a_block_may_have(target: Target, has: bool):
    assert target.has_threads is has


def test_a_target_of_a_file_has_threads_if_it_states_them():
    module = load("t.ms", "target small = cuda { max_threads = 64 }\ntarget bare = cuda { shared = 1KiB }\n")
    assert [describe(module, n).has_threads for n in ("small", "bare")] == [True, False]


def test_a_target_without_threads_has_no_limits_of_them():
    require_within_limits(REFUSED[0][1], AVX512)
    summary = summarize(lower_symbolic(REFUSED[0][1], AVX512), AVX512)
    assert [x.code for x in limits(summary, AVX512)] == ["MS467"]


def test_estimates_are_soft():
    program = copied("b in 4 @ blockIdx.x, t in 4 @ threadIdx.x, k in 4 @ unrolled", "b * 16 + t * 4 + k", 64, "local")
    tight = replace(SMALL, registers=10, extra=(*SMALL.extra, ("max_code", 3)))
    require_within_limits(program, tight)
    summary = summarize(lower_symbolic(program, tight), tight)
    assert exceeded(summary, tight) is None
    found = exceeded(summary, tight, soft=True)
    assert found is not None
    assert found.code == "MS462"
    roomy = exceeded(summary, replace(tight, registers=255), soft=True)
    assert roomy is not None
    assert roomy.code == "MS467"


TUNED = """
program scale(A: f32[1024], out B: f32[1024]) { block b[i: 1024] { B[i] = A[i] * 2.0 } }
schedule s for scale {
    let t ~ perfect_tile(b.i, 2)
    let outer, inner = b.i.split(t)
    outer.bind(blockIdx.x)
    inner.bind(threadIdx.x)
}
"""


REDUCED = """
program sums(A: f32[4, 3072], out B: f32[4]) { block b[i: 4 | k: 3072] { B[i] += A[i, k] } }
schedule s for sums {
    let t ~ perfect_tile(b.k, 2, max_inner = 1024)
    let outer, inner = b.k.split(t)
    b.i.bind(blockIdx.x)
    inner.bind(threadIdx.x)
}
"""


def test_limits_of_open_reductions_count_the_exchange():
    """By decision: lanes of a warp shuffle, warps exchange an element each, other numbers of threads one a thread."""
    tight = replace(SMALL, extra=(("max_threads", 1024), ("shared", 24)))
    (sketch,) = space_of(load("limits.ms", REDUCED), "s").sketches()
    (shared,) = (x for x in limits(summarize(lower_symbolic(sketch.program, tight), tight), tight) if x.code == "MS461")
    points = list(sketch.points())
    many = sketch.batch()
    (used,) = many.evaluate([shared.value], many.of(points))
    found = {v["t"][1]: int(n) for v, n in zip(points, used, strict=True)}  # type: ignore[index]
    assert [found[n] for n in (1, 2, 3, 32, 48, 64, 96, 1024)] == [0, 0, 12, 0, 192, 8, 12, 128]


def test_limits_of_many_candidates_are_conditions_on_arrays():
    space = space_of(load("limits.ms", TUNED), "s")
    (sketch,) = space.sketches()
    summary = summarize(lower_symbolic(sketch.program, SMALL), SMALL)
    conditions = [x.condition for x in limits(summary, SMALL) if x.hard]
    points = list(sketch.points())
    many = sketch.batch()
    kept = many.evaluate(conditions, many.of(points))
    for k, values in enumerate(points):
        alone = exceeded(summarize(lower_symbolic(sketch.instantiate(values), SMALL), SMALL), SMALL)
        assert all(bool(c[k]) for c in kept) == (alone is None)
    accepted = {v["t"][1] for k, v in enumerate(points) if all(bool(c[k]) for c in kept)}  # type: ignore[index]
    assert accepted == {1, 2, 4, 8, 16, 32, 64}
