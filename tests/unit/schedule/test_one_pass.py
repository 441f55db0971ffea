"""One pass over tiles of keys (online softmax) in automatic spaces for CPUs, and what it is refused for."""

from __future__ import annotations

import numpy as np
import pytest
from msgspec.structs import replace

from mslang.ir.find import all_buffers
from mslang.ir.print import print_program
from mslang.ir.program import Program
from mslang.schedule.rules.automatic import automatic_space
from mslang.schedule.rules.nests import leaf_blocks, loops_around
from mslang.schedule.sketch import Sketch
from mslang.sema.program import parse_program
from mslang.target.description import AVX2, AVX512, Target
from mslang.tune.equivalence import difference

HEAD = """program attention[B = 2, L = 6, T = 128, D = 9](
    Q: f32[B, L, D], K: f32[B, T, D], V: f32[B, T, D], M: f32[L, T], out O: f32[B, L, D]
) {
    alloc score: f32[B, L, T]
    alloc scaled: f32[B, L, T]
    alloc largest: f32[B, L]
    alloc weight: f32[B, L, T]
    alloc total: f32[B, L]
    alloc mixed: f32[B, L, D]
    block scores[b: B, i: L, j: T | k: D] { score[b, i, j] += Q[b, i, k] * K[b, j, k] }
    SCALE
    block row_max[b: B, i: L | j: T] { largest[b, i] = max(largest[b, i], scaled[b, i, j]) }
    block weights[b: B, i: L, j: T] { weight[b, i, j] = exp(scaled[b, i, j] - largest[b, i]) }
"""
TAIL = """
    block row_sum[b: B, i: L | j: T] { total[b, i] += weight[b, i, j] }
    block mix[b: B, i: L, d: D | j: T] { mixed[b, i, d] += weight[b, i, j] * V[b, j, d] }
    block divide[b: B, i: L, d: D] { O[b, i, d] = mixed[b, i, d] / total[b, i] }
}"""
SCALED = {
    "plain": "score[b, i, j] * rsqrt(f32(D))",
    "masked": "score[b, i, j] * rsqrt(f32(D)) + M[i, j]",
    "causal": "select(j <= i + 40, score[b, i, j], -inf)",
}


def attention(scaled: str = SCALED["plain"], tail: str = TAIL) -> Program:
    text = HEAD.replace("SCALE", f"block scale[b: B, i: L, j: T] {{ scaled[b, i, j] = {scaled} }}")
    return parse_program(text + tail)


def sketches(program: Program, target: Target, l2: int = 4 * 1024) -> dict[str, Sketch]:
    """The sketches by what the rule does, on a machine for whose caches even the keys of these tests are many."""
    found = list(automatic_space(program, replace(target, l2=l2)).structures())
    assert all(isinstance(s, Sketch) for s in found)
    return {str(dict(s.structure).get("rows:divide")): s for s in found if isinstance(s, Sketch)}


@pytest.mark.parametrize(("kind", "target"), [("plain", AVX512), ("masked", AVX2), ("causal", AVX2)])
def test_attention_in_one_pass_means_the_same(kind: str, target: Target) -> None:
    program = attention(SCALED[kind])
    sketch = sketches(program, target)["one_pass"]
    batch = sketch.batch()
    drawn = batch.draw(40, seed=1)
    valid = [drawn.row(int(k)) for k in np.flatnonzero(batch.valid(drawn))]
    assert len(valid) >= 38
    assert difference(program, sketch.instantiate(valid[0]), 1e-4, 1e-4, 0) is None


def test_scores_and_results_are_in_registers_and_tiles_of_queries_in_parallel() -> None:
    program = sketches(attention(), AVX512)["one_pass"].program
    kinds = {b.name: [s.kind for s in loops_around(program, b)] for b in leaf_blocks(program)}
    assert {kinds[n][0] for n in ("scores_update", "row_max", "weights", "row_sum", "mix_rf_update", "divide")} == {
        "parallel"
    }
    for name in ("scores_update", "mix_rf_update"):
        assert kinds[name][-2:] == ["unrolled", "vectorized"]
        (block,) = (b for b in leaf_blocks(program) if b.name == name)
        assert all_buffers(program)[block.writes[0].buffer].scope == "local"
    vectors = {n for n, k in kinds.items() if k[-1] == "vectorized"}
    assert {"row_max_rf", "row_max", "weights", "row_sum_rf", "row_sum", "mix", "divide"} <= vectors


FIRST = """
    alloc share: f32[B, L, T]
    block row_sum[b: B, i: L | j: T] { total[b, i] += weight[b, i, j] }
    block normalize[b: B, i: L, j: T] { share[b, i, j] = weight[b, i, j] / total[b, i] }
    block mix[b: B, i: L, d: D | j: T] { O[b, i, d] += share[b, i, j] * V[b, j, d] }
}"""


def test_where_one_pass_is_not_in_the_space() -> None:
    assert "one_pass" not in sketches(attention(), AVX512, l2=64 * 1024)  # Keys and values stay in the cache.
    assert "one_pass" not in sketches(parse_program(print_program(attention()).replace("128", "120")), AVX512)
    assert "one_pass" not in sketches(attention(tail=FIRST), AVX512)  # Weights are divided before they are summed.
