"""Buffers that each iteration has of its own: neither threads nor lanes share them, whatever loops are around."""

from __future__ import annotations

import numpy as np
import pytest

import mslang as ms
from mslang.kernel.nodes import Allocate, For
from mslang.kernel.visit import walk
from mslang.lower.passes import LOOPS, lower
from mslang.target.detect import host

RUNNING = """program p(A: f32[4, 64, 8], inout B: f32[4, 64, 8]) {
    for t in 0..4, i in 0..64 {
        block s[w: 4 = t, z: 64 = i] {
            alloc T: f32[9]
            for k0 in 0..1 { block o[u: 1 = k0] { T[0] = 0.0 } }
            for k in 0..8 { block q[v: 8 @ opaque = k, w1: 4 = w, z1: 64 = z] { T[v + 1] = T[v] + A[w1, z1, v] } }
            for k2 in 0..8 { block r[v: 8 = k2, w1: 4 = w, z1: 64 = z] { B[w1, z1, v] = T[v + 1] } }
        }
    }
}"""
TWO = """program p(A: f32[4, 64], inout B: f32[4, 64]) {
    for t in 0..4, i in 0..64 {
        block s[w: 4 = t, z: 64 = i] {
            alloc T: f32[2]
            T[0] = A[w, z] * 2.0
            T[1] = T[0] + 1.0
            B[w, z] = T[1] + T[0]
        }
    }
}"""


@pytest.mark.parametrize("text", [RUNNING, TWO])
def test_threads_do_not_share_a_block_s_own_buffer(text: str) -> None:
    """The serial loop around was taken to carry it, so that it was allocated outside of the parallel one."""
    program = ms.parse(f"{text}\nschedule s for p {{ s.z.parallel() }}").space("s").attempt(0).program
    body = lower(program, host(), passes=LOOPS).body
    (loop,) = (s for s in walk(body) if isinstance(s, For) and s.kind == "parallel")
    assert any(isinstance(s, Allocate) for s in walk(loop.body))
    assert sum(isinstance(s, Allocate) for s in walk(body)) == 1


OVERLAPPING = """program p(A: f32[16, 8], inout B: f32[16, 8]) {
    for i in 0..16 {
        block s[z: 16 = i] {
            alloc T: f32[24]
            for k in 0..8 { T[k + z] = A[z, k] }
            for k2 in 0..8 { B[z, k2] = T[k2 + z] }
        }
    }
}"""
SHIFTED = """program p(A: f32[16, 8], inout B: f32[16, 8]) {
    for i in 0..16 {
        block s[z: 16 = i] {
            alloc T: f32[32]
            T[z] = A[z, 0]
            T[z + 1] = A[z, 1] * 2.0
            B[z, 0] = T[z] + T[z + 1]
        }
    }
}"""
PAIRS = SHIFTED.replace("T[z + 1]", "T[z * 2 + 1]").replace("T[z]", "T[z * 2]")
ROWS = OVERLAPPING.replace("T[k + z]", "T[k * 16 + z]").replace("T[k2 + z]", "T[k2 * 16 + z]").replace("24", "128")


@pytest.mark.parametrize(("text", "in_lanes"), [(OVERLAPPING, False), (SHIFTED, False), (PAIRS, True), (ROWS, True)])
def test_lanes_do_not_share_a_block_s_own_elements(text: str, in_lanes: bool) -> None:
    program = ms.parse(f"{text}\nschedule s for p {{ s.z.vectorize() }}").space("s").attempt(0).program
    lowered = lower(program, host())
    assert any(isinstance(s, For) and s.var == "i" for s in walk(lowered.body)) is not in_lanes
    a = np.random.default_rng(0).integers(-9, 9, (16, 8)).astype(np.float32)
    b = np.zeros_like(a)
    ms.build(program)(a, b)
    if "k2" in text:
        assert np.array_equal(b, a)
    else:
        assert np.array_equal(b[:, 0], a[:, 0] + a[:, 1] * 2)
