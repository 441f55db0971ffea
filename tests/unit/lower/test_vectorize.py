"""Which vectorized loops become lanes, how many, and what is masked."""

from __future__ import annotations

import hypothesis.strategies as st
import pytest
from hypothesis import given

from mslang.kernel.nodes import For
from mslang.kernel.visit import walk
from mslang.lower.lanes import chunks, vectorizable
from mslang.lower.passes import LOOPS, lower
from mslang.sema.program import parse_program
from mslang.target.description import GENERIC


def lanes(index: str) -> bool:
    """Whether an update at an index of the loop `j` and the loop `i` runs in lanes."""
    p = parse_program(f"""program p(A: f32[8], inout C: f32[512]) {{
        for i in 16, j in 8 @ vectorized {{
            block b[vi: 16 = i, vj: 8 = j] {{ C[{index}] = C[{index}] + A[vj] }}
        }}
    }}""")
    (loop,) = (s for s in walk(lower(p, GENERIC, passes=LOOPS).body) if isinstance(s, For) and s.kind == "vectorized")
    return vectorizable(loop)


@pytest.mark.parametrize(
    "index, expected",
    [
        ("vi * 8 + vj", True),
        # As fused loops leave it: what all lanes share may have any form.
        ("vi // 4 * 128 + vi % 4 * 8 + vj", True),
        ("(vi // 4 + vj) * 2 - vi % 4", True),
        ("vi // 4 * 8 + vj - vj", False),
        ("vi // 4 * 8 + vj // 2", False),
        ("vi * 8", False),
    ],
)
def test_an_update_runs_in_lanes_where_each_has_an_element_of_its_own(index, expected):
    assert lanes(index) is expected


@pytest.mark.parametrize(("extent", "expected"), [("4", True), ("counts[0]", False)])
def test_a_loop_under_a_condition_runs_in_lanes_if_nothing_loads_its_length(extent: str, expected: bool) -> None:
    p = parse_program(f"""program p(counts: i64[1] in 0..5, A: f32[8], inout C: f32[4, 8]) {{
        for j in 8 @ vectorized {{
            block b[vj: 8 = j] {{
                where A[vj] > 0.0
                for l in {extent} {{ C[l, vj] = C[l, vj] + A[vj] }}
            }}
        }}
    }}""")
    (loop,) = (s for s in walk(lower(p, GENERIC, passes=LOOPS).body) if isinstance(s, For) and s.kind == "vectorized")
    assert vectorizable(loop) is expected


@given(trips=st.integers(1, 200), native=st.sampled_from([1, 2, 4, 8, 16, 64]), wide=st.booleans(), masks=st.booleans())
def test_chunks_run_each_iteration_once(trips: int, native: int, wide: bool, masks: bool) -> None:
    pieces = chunks(trips, native, wide=wide, masks=masks)
    assert [k for p in pieces for k in range(p.start, p.start + p.active)] == list(range(trips))
    for p in pieces:
        assert p.lanes & (p.lanes - 1) == 0
        assert p.active == p.lanes or masks
