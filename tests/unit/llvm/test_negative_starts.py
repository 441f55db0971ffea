"""Loops that start below 0, which LLVM may take for endless ones if their step is said never to wrap."""

from __future__ import annotations

import numpy as np
import pytest

import mslang as ms
from mslang.backend.reference.interpret import run

PROGRAMS = {
    "map": """program p(A: i32[64], out B: i32[64]) {
        for i in -32..32 { block a[x: 64 = i + 32] { B[x] = A[x] * 3 } } }""",
    "scan": """program p(A: i32[64], inout B: i32[65]) {
        for i in -32..32 { block a[x: 64 @ scan = i + 32] { B[x + 1] = B[x] + A[x] } } }""",
    "reduced": """program p(A: i32[7, 8], out B: i32[7]) {
        for i in 0..7, k in -5..3 {
            block a[x: 7 = i | y: 8 = k + 5] { init { B[x] = 0 } B[x] = B[x] + A[x, y] } } }""",
    "outside": """program p(A: i32[7, 8], out B: i32[7]) {
        for i in -2..5, k in 0..8 {
            block a[x: 7 = i + 2 | y: 8 = k] { init { B[x] = 0 } B[x] = B[x] + A[x, y] } } }""",
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_loop_from_below_0_ends(name: str):
    space = ms.parse(f"{PROGRAMS[name]}\nschedule s for p {{}}").space("s")
    rng = np.random.default_rng(0)
    arrays = {
        q.buffer.name: rng.integers(-9, 9, [int(n.value) for n in q.buffer.shape]).astype(np.int32)
        for q in space.program.params
    }
    wanted = run(space.program, {n: a.copy() for n, a in arrays.items()})
    ms.build(space.program)(*arrays.values())
    assert np.array_equal(arrays["B"], wanted["B"])
