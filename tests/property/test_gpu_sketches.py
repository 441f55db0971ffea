"""Sketches for GPUs: arrays equal single values, and numbers may be put in before or after lowering."""

from __future__ import annotations

from pathlib import Path

import pytest

from mslang.ir.arith import evaluate
from mslang.lower.summary import limits, summarize
from mslang.lower.symbolic import lower_symbolic
from mslang.schedule import distribution
from mslang.schedule.rules.automatic import automatic_space
from mslang.schedule.sketch import Sketch
from mslang.schedule.strategies import space_of
from mslang.search.leaves import Leaf
from mslang.search.strategy import Rejections
from mslang.sema.modules import load
from mslang.sema.program import parse_program
from mslang.target.description import SM_80
from tests.cuda import test_rules as rules
from tests.property import forms
from tests.property.test_schedules import sampled

PROGRAMS = {
    "product": "program p(A: f32[64, 96], B: f32[96, 64], out C: f32[64, 64]) {"
    " block mm[i: 64, j: 64 | k: 96] { C[i, j] += A[i, k] * B[k, j] } }",
    "tensor cores": "program p(A: f16[64, 96], B: f16[96, 64], out C: f32[64, 64]) {"
    " block mm[i: 64, j: 64 | k: 96] { C[i, j] += f32(A[i, k]) * f32(B[k, j]) } }",
    "window": """program p(X: f32[1, 18, 14, 8], F: f32[3, 3, 8, 32], out Y: f32[1, 16, 12, 32]) {
        block conv[n: 1, h: 16, w: 12, o: 32 | r: 3, s: 3, c: 8] {
            Y[n, h, w, o] += X[n, h + r, w + s, c] * F[r, s, c, o]
        }
    }""",
}
ATTENTION = """program p(Q: f32[2, 40, 12], K: f32[2, 128, 12], V: f32[2, 128, 12], out O: f32[2, 40, 12]) {
    alloc s: f32[2, 40, 128]
    alloc m: f32[2, 40]
    alloc w: f32[2, 40, 128]
    alloc t: f32[2, 40]
    alloc x: f32[2, 40, 12]
    block scores[b: 2, i: 40, j: 128 | k: 12] { s[b, i, j] += Q[b, i, k] * K[b, j, k] }
    block largest[b: 2, i: 40 | j: 128] { m[b, i] = max(m[b, i], s[b, i, j]) }
    block weights[b: 2, i: 40, j: 128] { w[b, i, j] = exp(s[b, i, j] - m[b, i]) }
    block total[b: 2, i: 40 | j: 128] { t[b, i] += w[b, i, j] }
    block mix[b: 2, i: 40, d: 12 | j: 128] { x[b, i, d] += w[b, i, j] * V[b, j, d] }
    block divide[b: 2, i: 40, d: 12] { O[b, i, d] = x[b, i, d] / t[b, i] }
}"""
DRAWS, LONG = 8, 1000
REDUCTIONS = ("sum", "softmax.softmax", "layer_norm.layer_norm", "reduce.row_sum", "reduce.argmax")
"""Programs with reductions that threads may share out."""
ALIKE = ("gemm", "conv", "f16")
"""Programs of the rules' tests that those above are like."""
LIBRARY = sorted((Path(__file__).parents[2] / "stdlib" / "cuda").glob("*.ms"))
DRAWN = [pytest.param(str(p), n, id=f"{p.stem}.{n}") for f in LIBRARY for p, n in sampled(f)]


def agrees(sketch: Sketch, draws: int, lowered: int = forms.LOWERED) -> None:
    """Compare all forms of a sketch that leaves something open."""
    if sketch.decisions:
        forms.agrees(sketch, SM_80, draws, lowered)


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_sketch_for_gpus_means_the_same_in_all_forms(name: str) -> None:
    agrees(list(automatic_space(parse_program(PROGRAMS[name]), SM_80).sketches())[-1], DRAWS)


@pytest.mark.parametrize("name", [n for n in rules.NAMES if n not in (*REDUCTIONS, *ALIKE)])
@pytest.mark.one_in(2)
def test_the_first_sketch_of_a_program_means_the_same_in_all_forms(name: str) -> None:
    agrees(next(automatic_space(rules.program(name), SM_80).sketches()), DRAWS)


@pytest.mark.parametrize("name", REDUCTIONS)
def test_reductions_over_threads_mean_the_same_in_all_forms(name: str) -> None:
    for sketch in rules.sketches(name):
        agrees(sketch, 4 * DRAWS)


@pytest.mark.parametrize(("path", "name"), DRAWN)
def test_drawn_schedules_of_the_library_mean_the_same_in_all_forms(path: str, name: str) -> None:
    for sketch in space_of(load(path), name).sketches():
        agrees(sketch, DRAWS)


def attention_in_one_pass(keys: int) -> Sketch:
    """The first sketch of attention; tiles divide the number of keys, or there is a remainder."""
    return next(automatic_space(parse_program(ATTENTION.replace("128", f"{keys}")), SM_80).sketches())


@pytest.mark.parametrize("keys", [128, 100])
def test_attention_in_one_pass_means_the_same_in_all_forms(keys: int) -> None:
    sketch = attention_in_one_pass(keys)
    assert sketch.structure == (("online_attention:largest", "one_pass"),)
    agrees(sketch, DRAWS)


def test_the_copies_of_a_thread_are_known_and_vectors_are_limited() -> None:
    sketch = list(automatic_space(parse_program(PROGRAMS["product"]), SM_80).sketches())[-1]
    summary = summarize(lower_symbolic(sketch.program, SM_80), SM_80)
    (vectors,) = (x for x in limits(summary, SM_80) if x.code == "MS464")
    leaf = Leaf(0, sketch, SM_80, 3, Rejections())
    batch = leaf.draw(DRAWS)
    (copied,) = summary.statements[0].accesses[1].elements[-2:-1]
    for k in range(DRAWS):
        plain = distribution.plain(batch.row(k))
        lanes = [int(v) for n, v in plain.items() if n in ("gpu_tiling:mm/A", "gpu_tiling:mm/B")]  # type: ignore[call-overload]
        assert evaluate(vectors.value, {}, plain) == 4 * max(lanes)
        assert evaluate(copied, {}, plain) == lanes[0]


@pytest.mark.campaign
@pytest.mark.timeout(7200)
@pytest.mark.parametrize("name", [*PROGRAMS, *rules.NAMES])
def test_all_sketches_for_gpus_mean_the_same_in_all_forms(name: str) -> None:
    program = parse_program(PROGRAMS[name]) if name in PROGRAMS else rules.program(name)
    for sketch in automatic_space(program, SM_80).sketches():
        agrees(sketch, LONG, lowered=1)


@pytest.mark.campaign
@pytest.mark.timeout(7200)
@pytest.mark.parametrize(("path", "name"), DRAWN)
def test_drawn_schedules_of_the_library_mean_the_same_at_length(path: str, name: str) -> None:
    for sketch in space_of(load(path), name).sketches():
        agrees(sketch, LONG, lowered=1)


@pytest.mark.campaign
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("keys", [128, 100])
def test_attention_in_one_pass_means_the_same_for_many_draws(keys: int) -> None:
    agrees(attention_in_one_pass(keys), LONG, lowered=1)
