"""Which vectorized loops become lanes."""

from __future__ import annotations

import pytest

from mslang.backend.llvm.vector import vectorizable
from mslang.kernel.nodes import For
from mslang.kernel.visit import walk
from mslang.lower import lower
from mslang.sema.program import parse_program
from mslang.target.description import GENERIC


def lanes(index: str) -> bool:
    """Whether an update at an index of the loop `j` and the loop `i` runs in lanes."""
    p = parse_program(f"""program p(A: f32[8], inout C: f32[512]) {{
        for i in 16, j in 8 @ vectorized {{
            block b[vi: 16 = i, vj: 8 = j] {{ C[{index}] = C[{index}] + A[vj] }}
        }}
    }}""")
    (loop,) = (s for s in walk(lower(p, GENERIC).body) if isinstance(s, For) and s.kind == "vectorized")
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
    (loop,) = (s for s in walk(lower(p, GENERIC).body) if isinstance(s, For) and s.kind == "vectorized")
    assert vectorizable(loop) is expected
