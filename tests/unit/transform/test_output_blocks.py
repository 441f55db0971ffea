"""The getter `output_blocks`: the blocks of a scope that write what the scope does not allocate."""

from __future__ import annotations

from mslang.sema.program import parse_program
from mslang.transform.getters import output_blocks
from tests.unit.transform.programs import block, chain


def test_only_the_last_of_a_chain() -> None:
    assert output_blocks(chain(), block("first")) == (block("second"),)
    assert output_blocks(chain(), block("second")) == (block("second"),)


def test_each_scope_has_its_own() -> None:
    p = parse_program("""program p(A: f32[8], out B: f32[8], out C: f32[8]) {
        alloc T: f32[8]
        for i in 2 {
            block o[v: 2 = i] {
                reads A[v * 4 .. v * 4 + 4]
                writes T[v * 4 .. v * 4 + 4]
                alloc S: f32[8]
                for j in 4 { block a[x: 8 = v * 4 + j] { S[x] = A[x] } }
                for k in 4 { block b[x: 8 = v * 4 + k] { T[x] = S[x] } }
            }
        }
        for l in 8 { block c[x: 8 = l] { B[x] = T[x] } }
        for m in 8 { block d[x: 8 = m] { C[x] = T[x] } }
    }""")
    assert output_blocks(p, block("o")) == (block("c"), block("d"))
    # For the inner scope, what is allocated around it is output too.
    assert output_blocks(p, block("a")) == (block("b"),)
