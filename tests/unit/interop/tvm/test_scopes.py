"""Producers and consumers stand in TVM's order."""

from __future__ import annotations

import pytest

from mslang.interop.tvm import import_trace, scopes
from mslang.interop.tvm.trace_json import from_data
from mslang.ir.find import blocks_of
from mslang.sema.program import parse_program

# `c` reads q, p, r in this order; p, q, r are written in the order r, p, q.
PROGRAM = """program main(A: f32[8], out C: f32[8], out D: f32[8]) {
    alloc P: f32[8]
    alloc Q: f32[8]
    alloc R: f32[8]
    block r[i: 8] { R[i] = A[i] + 1.0 }
    block p[i: 8] { P[i] = A[i] + 2.0 }
    block q[i: 8] { Q[i] = A[i] + 3.0 }
    block c[i: 8] { C[i] = Q[i] * P[i] + R[i] }
    block d[i: 8] { D[i] = P[i] - C[i] }
}"""


def test_producers_follow_the_reads_and_consumers_the_program():
    program = parse_program(PROGRAM)
    assert scopes.producers(program, "c") == ("q", "p", "r")
    assert scopes.producers(program, "d") == ("p", "c")
    assert scopes.consumers(program, "p") == ("c", "d")
    assert scopes.producers(program, "r") == ()


def test_an_earlier_writer_is_a_producer_and_a_later_one_a_consumer():
    program = parse_program("""program main(A: f32[8], out C: f32[8]) {
        block first[i: 8] { C[i] = A[i] }
        block second[i: 8] { C[i] = 2.0 }
    }""")
    assert scopes.producers(program, "second") == ("first",)
    assert scopes.consumers(program, "first") == ("second",)


@pytest.mark.parametrize("getter, block, names", [("GetProducers", "c", "qpr"), ("GetConsumers", "p", "cd")])
def test_a_handle_of_a_trace_means_the_block_it_means_in_tvm(getter, block, names):
    for k, name in enumerate(names):
        found = [f"x{n}" for n in range(len(names))]
        steps = [["GetSBlock", [], [block, "main"], ["b0"]], [getter, ["b0"], [], found]]
        steps += [["GetLoops", [found[k]], [], ["l0"]], ["Parallel", ["l0"], [], []]]
        done = import_trace(parse_program(PROGRAM), from_data([steps, []])).program
        parallel = [b.name for s in done.body if s.kind == "parallel" for b in blocks_of((s,))]
        assert parallel == [name]
