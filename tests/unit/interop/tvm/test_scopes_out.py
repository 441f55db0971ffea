"""Names that a block binds end with it, in what is written for TVM."""

from __future__ import annotations

from mslang.interop.tvm import programs, to_graph
from mslang.ir.equal import alpha_equal
from mslang.sema.program import parse_program


def test_an_axis_hides_a_loop_only_within_its_block() -> None:
    p = parse_program("""program two(A: f32[4], out B: f32[4], out C: f32[4]) {
    for i in 4 {
        block b[i: 4 = 3 - i] { B[i] = A[i] }
        block c[i: 4 = i] { C[i] = A[i] }
    }
}""")
    assert alpha_equal(programs(to_graph(p))["main"], p)
