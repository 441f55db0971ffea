"""Attention from the plain program in one kernel by default (`rules/gpu/online.py`): emulated and compiled."""

from __future__ import annotations

import re
import shutil

import numpy as np
import pytest

from mslang.backend.cuda.backend import CUDA
from mslang.backend.cuda.nvcc import Nvcc
from mslang.ir.program import Program
from mslang.schedule.rules.gpu import auto
from mslang.schedule.rules.gpu.attention import chain_of
from mslang.schedule.rules.gpu.nests import has_bound_loop
from mslang.schedule.rules.nests import leaf_blocks
from mslang.sema.program import parse_program
from mslang.target.description import SM_80
from tests.cuda.emulator import Emulated, why_not
from tests.cuda.modules import made, run

TEXT = """program attention[B = 2, L = 9, T = {keys}, D = {features}](
    Q: f32[B, L, D], K: f32[B, T, D], V: f32[B, T, D], M: f32[L, T], out O: f32[B, L, D]
) {{
    alloc score: f32[B, L, T]
    alloc scaled: f32[B, L, T]
    alloc largest: f32[B, L]
    alloc weight: f32[B, L, T]
    alloc total: f32[B, L]
    alloc mixed: f32[B, L, D]
    block scores[b: B, i: L, j: T | k: D] {{ score[b, i, j] += Q[b, i, k] * K[b, j, k] }}
    block scale[b: B, i: L, j: T] {{ scaled[b, i, j] = {scaled} }}
    block row_max[b: B, i: L | j: T] {{ largest[b, i] = max(largest[b, i], scaled[b, i, j]) }}
    block weights[b: B, i: L, j: T] {{ weight[b, i, j] = exp(scaled[b, i, j] - largest[b, i]) }}
    block row_sum[b: B, i: L | j: T] {{ total[b, i] += weight[b, i, j] }}
    block mix[b: B, i: L, d: D | j: T] {{ mixed[b, i, d] += weight[b, i, j] * V[b, j, d] }}
    block divide[b: B, i: L, d: D] {{ O[b, i, d] = mixed[b, i, d] / total[b, i] }}
}}"""
KEYS, FEATURES = 100, 12
"""Neither divides a tile; rows of features are vectors of four."""
SCALED = "select(j <= i + 70, score[b, i, j] * rsqrt(f32(D)) + M[i, j], -inf)"


def attention(scaled: str = SCALED, keys: int = KEYS, features: int = FEATURES) -> Program:
    return parse_program(TEXT.format(scaled=scaled, keys=keys, features=features))


def arrays() -> dict[str, np.ndarray]:
    random = np.random.default_rng(0)
    shapes = {"Q": (2, 9, FEATURES), "K": (2, KEYS, FEATURES), "V": (2, KEYS, FEATURES), "M": (9, KEYS)}
    return {n: random.standard_normal(s).astype(np.float32) for n, s in shapes.items()}


def expected() -> np.ndarray:
    """By NumPy, in f64."""
    q, k, v, m = (a.astype(np.float64) for a in arrays().values())
    s = q @ k.transpose(0, 2, 1) / np.sqrt(FEATURES) + m
    s = np.where(np.arange(KEYS) <= np.arange(9)[:, None] + 70, s, -np.inf)
    w = np.exp(s - s.max(axis=2, keepdims=True))
    mixed: np.ndarray = w @ v / w.sum(axis=2, keepdims=True)
    return mixed


@pytest.fixture
def _few(monkeypatch: pytest.MonkeyPatch) -> None:
    """Even the scores of these tests are many."""
    monkeypatch.setattr(auto, "SCORES", 1)


def test_few_scores_are_written_to_memory() -> None:
    few = CUDA.scheduled(attention("score[b, i, j]"), SM_80)
    assert {b.name: b.scope for b in few.allocs}["score"] == "global"
    assert made(few, SM_80).source.text.count("__global__") > 1


@pytest.mark.usefixtures("_few")
def test_a_maximum_over_two_axes_is_none_of_tiles_of_keys() -> None:
    program = parse_program("""program p(Q: f32[2, 8, 8], K: f32[4, 8, 8], V: f32[4, 8, 16], out O: f32[2, 8, 16]) {
        alloc s: f32[2, 8, 4, 8]
        alloc m: f32[2, 8]
        alloc w: f32[2, 8, 4, 8]
        block scores[b: 2, i: 8, j: 4, l: 8 | k: 8] { s[b, i, j, l] += Q[b, i, k] * K[j, l, k] }
        block largest[b: 2, i: 8 | j: 4, l: 8] { m[b, i] = max(m[b, i], s[b, i, j, l]) }
        block weights[b: 2, i: 8, j: 4, l: 8] { w[b, i, j, l] = exp(s[b, i, j, l] - m[b, i]) }
        block mix[b: 2, i: 8, d: 16 | j: 4, l: 8] { O[b, i, d] += w[b, i, j, l] * V[j, l, d] }
    }""")
    assert chain_of(program, [b.name for b in leaf_blocks(program)], "largest") is None
    assert has_bound_loop(CUDA.scheduled(program, SM_80))


@pytest.mark.usefixtures("_few")
@pytest.mark.skipif(why_not() is not None, reason=str(why_not()))
def test_the_emitted_source_computes_attention_in_one_kernel() -> None:
    kernel = made(CUDA.scheduled(attention(), SM_80), SM_80)
    assert kernel.source.text.count("__global__") == 1
    assert kernel.source.text.count("__syncthreads();") == 2  # For the tile of keys, and that of values.
    with Emulated(kernel.source.text) as file:
        found = run(kernel, {**arrays(), "O": np.full((2, 9, FEATURES), np.nan, np.float32)}, file)
    assert found.faults == ()
    np.testing.assert_allclose(found.results["O"], expected(), rtol=1e-4, atol=1e-5)


def test_no_memory_grows_with_the_number_of_keys() -> None:
    source = attention("score[b, i, j] * 0.125", keys=1 << 18, features=64)
    made_of = CUDA.scheduled(source, SM_80)
    text = made(made_of, SM_80).source.text
    assert "row_max_rf" in {b.name for b in leaf_blocks(made_of)}
    sizes = [int(n) for n in re.findall(r"__align__\(16\) float \w+\[(\d+)\];", text)]
    assert len(sizes) >= 8 and max(sizes) <= 64 * 65


@pytest.mark.nvcc
@pytest.mark.skipif(shutil.which("nvcc") is None, reason="nvcc is not installed")
def test_nvcc_compiles_it() -> None:
    path = shutil.which("nvcc")
    assert path is not None
    source = made(CUDA.scheduled(attention("score[b, i, j]", keys=1 << 18, features=64), SM_80), SM_80).source
    compiled = Nvcc(path)(source.text, "sm_80", "cubin")
    assert compiled.log.count("Compiling entry function") == 1
    assert " 0 bytes stack frame, 0 bytes spill stores" in compiled.log  # All that a thread has is in registers.
