"""Virtual threads: what they compute in turn, and what they may not."""

from __future__ import annotations

import pytest

from mslang.diagnostics import TargetError
from tests.unit.lower.gpu.support import lowered, same_meaning, scheduled

ANEW = """program p(A: f32[4, 2], out B: f32[2]) {{
    alloc T: f32[2]
    for l in 2 {{
        for i in 2, k in 4 {{
            block sum[x: 2 = i | k: 4 = k] {{ T[x] += A[k, x] }}
        }}
        block last[x: 2 = l] {{ B[x] = T[x] + 1.0 }}
    }}
}}
schedule s for p {{
    {step}
    let o, t, v = last.loops()[0].split([_, 16, 2])
    o.bind(blockIdx.x)
    t.bind(threadIdx.x)
    v.bind(vthread.x)
}}
"""
"""Each iteration computes all of `T` anew (pair 2787 of the campaign on GPUs, seed 37)."""


def test_elements_that_all_compute_anew_are_not_shared() -> None:
    with pytest.raises(TargetError) as caught:
        lowered(scheduled(ANEW.format(step="")))
    found = caught.value.diagnostic
    assert found.code == "MS439" and "same elements of `T`" in found.message and "`set_scope(T, local)`" in found.help


def test_each_has_its_own_where_their_memory_is_local() -> None:
    same_meaning(scheduled(ANEW.format(step="sum.set_scope(T, local)")))
