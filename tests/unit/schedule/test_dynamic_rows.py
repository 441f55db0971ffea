"""Stages that share rows, whose number is known only at the call: one nest over rows, in spaces and by default."""

from __future__ import annotations

import numpy as np
import pytest
from msgspec.structs import replace

import mslang as ms
from mslang.backend.reference import interpret
from mslang.ir.program import For, Program
from mslang.schedule.rules.automatic import automatic_space, space_named
from mslang.schedule.rules.cpu.groups import group_of
from mslang.schedule.rules.default_cpu import default_schedule
from mslang.schedule.rules.nests import leaf_blocks
from mslang.target.description import AVX2
from mslang.target.detect import host

SOFTMAX = """program softmax[M: dyn(1..40)](X: f32[M, {n}], out Y: f32[M, {n}]) {{
    alloc m: f32[M]
    alloc s: f32[M]
    block largest[i: M | k: {n}] {{ m[i] = max(m[i], X[i, k]) }}
    block total[i: M | k: {n}] {{ s[i] += exp(X[i, k] - m[i]) }}
    block divide[i: M, j: {n}] {{ Y[i, j] = exp(X[i, j] - m[i]) / s[i] }}
}}"""
LAYER_NORM = """program layer_norm[M: dyn(1..40)](X: f32[M, {n}], G: f32[{n}], out Y: f32[M, {n}]) {{
    alloc mean: f32[M]
    alloc variance: f32[M]
    block sums[i: M | k: {n}] {{ mean[i] += X[i, k] / {n}.0 }}
    block squares[i: M | k: {n}] {{ variance[i] += (X[i, k] - mean[i]) * (X[i, k] - mean[i]) / {n}.0 }}
    block scaled[i: M, j: {n}] {{ Y[i, j] = (X[i, j] - mean[i]) * rsqrt(variance[i] + 0.00001) * G[j] }}
}}"""
BATCHED = """program batched[M: dyn(1..40)](X: f32[3, M, {n}], out Y: f32[3, M, {n}]) {{
    alloc s: f32[3, M]
    block total[b: 3, i: M | k: {n}] {{ s[b, i] += X[b, i, k] * X[b, i, k] }}
    block divide[b: 3, i: M, j: {n}] {{ Y[b, i, j] = X[b, i, j] / (s[b, i] + 1.0) }}
}}"""
PROGRAMS = {"softmax": SOFTMAX, "layer_norm": LAYER_NORM, "batched": BATCHED}


def nests(program: Program) -> tuple[str, ...]:
    """The kinds of the outermost loops."""
    return tuple(s.kind for s in program.body if isinstance(s, For))


def same(program: Program, scheduled: Program, m: int) -> bool:
    """Whether a schedule changes nothing for a number of rows, up to rounding."""
    rng = np.random.default_rng(m)
    (size,) = program.dynamic
    inputs = {
        p.buffer.name: rng.random([m if e == size else int(e.value) for e in p.buffer.shape], np.float32)
        for p in program.params
        if p.direction == "in"
    }
    want = interpret.run(program, inputs, sizes={"M": m}, check=False)["Y"]
    return np.allclose(ms.build(scheduled)(**inputs), want, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("name", PROGRAMS)
@pytest.mark.parametrize("n", [64, 37])
def test_the_default_is_one_nest_over_rows(name: str, n: int):
    program = ms.parse_program(PROGRAMS[name].format(n=n))
    made = default_schedule(program, host()).program
    assert nests(made) == ("parallel",)
    assert all(same(program, made, m) for m in (1, 2, 7, 40))


@pytest.mark.parametrize("rules", ["quick", ""])
@pytest.mark.parametrize("name", PROGRAMS)
def test_spaces_contain_one_nest_over_rows(name: str, rules: str):
    program = ms.parse_program(PROGRAMS[name].format(n=64))
    fused = {} if rules == "quick" else {f"rows:{leaf_blocks(program)[-1].name}": "fused"}
    space = space_named(program, host(), rules) if rules else automatic_space(program, host())
    made = space.sample(0, pins=fused).program
    assert nests(made) == ("parallel",)
    assert all(same(program, made, m) for m in (1, 3, 40))


def test_with_few_rows_at_least_the_stages_may_stay_apart():
    few, many = (ms.parse_program(SOFTMAX.format(n=64).replace("1..40", r)) for r in ("1..4096", "64..4096"))
    target = replace(AVX2, cores=4)
    sketches = [list(automatic_space(p, target).sketches()) for p in (few, many)]
    labels = [{dict(s.structure).get("rows:divide") for s in found} for found in sketches]
    assert labels == [{"fused", "apart"}, {None}] and len(sketches[1]) == 1


LENGTH = SOFTMAX.format(n="N").replace("M: dyn(1..40)", "M = 40, N: dyn(1..64)")
PRODUCT = """program attention[M: dyn(1..40)](Q: f32[M, 64], K: f32[96, 64], out Y: f32[M, 96]) {
    alloc P: f32[M, 96]
    alloc s: f32[M]
    block scores[i: M, j: 96 | d: 64] { P[i, j] += Q[i, d] * K[j, d] }
    block total[i: M | j: 96] { s[i] += P[i, j] }
    block divide[i: M, j: 96] { Y[i, j] = P[i, j] / s[i] }
}"""


@pytest.mark.parametrize("text", [LENGTH, PRODUCT], ids=["length", "product"])
def test_rows_of_dynamic_length_and_those_of_products_are_left_to_other_rules(text: str):
    program = ms.parse_program(text)
    assert group_of(program, leaf_blocks(program)[-1]) is None
    constant = text.replace("N: dyn(1..64)", "N = 64").replace("M: dyn(1..40)", "M = 40")
    assert group_of(ms.parse_program(constant), leaf_blocks(ms.parse_program(constant))[-1]) is not None
