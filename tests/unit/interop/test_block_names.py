"""Blocks are found by TVM's names for them, whatever they are called here."""

from __future__ import annotations

import pytest

from mslang.interop import tvmscript
from mslang.interop.block_names import ATTRIBUTE, guess, tvm_names, with_names
from mslang.interop.tvm import import_trace, programs, to_graph
from mslang.interop.tvm.trace_json import from_data
from mslang.interop.tvm.trace_out import export_trace
from mslang.ir.find import blocks_of
from mslang.ir.print import print_program
from mslang.ir.program import Program
from mslang.sema.program import parse_program

# As te and topi name stages: blocks and buffers alike, numbered apart from one another.
STAGES = """
from tvm.script import tirx as T

@T.prim_func(s_tir=True)
def main(A: T.Buffer((8, 8), "float32"), compute: T.Buffer((8, 8), "float32")):
    compute_1 = T.sblock_alloc_buffer((8, 8), "float32")
    compute_2 = T.sblock_alloc_buffer((8, 8), "float32")
    for i, j in T.grid(8, 8):
        with T.sblock("compute"):
            vi, vj = T.axis.remap("SS", [i, j])
            compute_1[vi, vj] = A[vi, vj] + T.float32(1)
    for i, j in T.grid(8, 8):
        with T.sblock("compute_1"):
            vi, vj = T.axis.remap("SS", [i, j])
            compute_2[vi, vj] = compute_1[vi, vj] * T.float32(2)
    for i, j in T.grid(8, 8):
        with T.sblock("compute_2"):
            vi, vj = T.axis.remap("SS", [i, j])
            compute[vi, vj] = compute_2[vi, vj] * T.float32(3)
"""

# A block whose name another one would get here.
BESIDE = """
from tvm.script import tirx as T

@T.prim_func(s_tir=True)
def main(A: T.Buffer((8, 8), "float32"), C: T.Buffer((8, 8), "float32"), D: T.Buffer((8, 8), "float32")):
    for i, j in T.grid(8, 8):
        with T.sblock("C"):
            vi, vj = T.axis.remap("SS", [i, j])
            C[vi, vj] = A[vi, vj] + T.float32(1)
    for i, j in T.grid(8, 8):
        with T.sblock("C_block"):
            vi, vj = T.axis.remap("SS", [i, j])
            D[vi, vj] = A[vi, vj] * T.float32(2)
"""

CASES = [(STAGES, k, n) for k, n in enumerate(("compute", "compute_1", "compute_2"))]
CASES += [(BESIDE, k, n) for k, n in enumerate(("C", "C_block"))]


def from_script(text: str) -> Program:
    return tvmscript.parse_one(text)


def from_graph(text: str) -> Program:
    """The program as TVM's graph has it, with TVM's names."""
    return programs(to_graph(from_script(text)))["main"]


def from_ms(text: str) -> Program:
    """The program after it was imported into a `.ms` file."""
    return parse_program(print_program(from_graph(text)))


@pytest.mark.parametrize("read", [from_script, from_graph, from_ms])
@pytest.mark.parametrize("text, stage, name", CASES)
def test_a_trace_finds_the_block_of_that_name(read, text, stage, name):
    program = read(text)
    assert name in to_graph(program)
    trace = from_data(
        [
            [
                ["GetSBlock", [], [name, "main"], ["b0"]],
                ["GetLoops", ["b0"], [], ["l1", "l2"]],
                ["Parallel", ["l1"], [], []],
            ],
            [],
        ]
    )
    done = import_trace(program, trace)
    kinds = [s.kind for s in done.program.body]
    assert kinds == ["parallel" if k == stage else "serial" for k in range(len(kinds))]
    exported = export_trace(program, done.trace).trace
    assert exported.insts[0].attrs[0] == name


@pytest.mark.parametrize("text", [STAGES, BESIDE])
def test_what_is_written_has_tvms_names_again(text):
    first = from_script(text)
    assert from_script(tvmscript.print(first)) == first
    again = from_graph(text)
    assert programs(to_graph(again)) == {"main": again}
    assert [tvm_names(again).get(b.name, b.name) for b in blocks_of(again.body)] == [
        tvm_names(first).get(b.name, b.name) for b in blocks_of(first.body)
    ]


def test_names_are_noted_where_they_differ():
    assert from_script(BESIDE.replace("C_block", "other")).annotations == ((ATTRIBUTE, (("C", "C_block"),)),)
    assert from_script(BESIDE).annotations == ((ATTRIBUTE, (("C", "C_block_1"),)),)


def test_what_several_names_could_mean_is_no_guess():
    assert guess("C", ["C_1", "C_2"], ["C"]) is None
    assert guess("C", ["C_1"], ["C"]) == "C_1"
    assert guess("C", ["C_1"], ["A"]) is None
    program = from_script(BESIDE.replace('"C"', '"first"').replace("C_block", "other"))
    assert with_names(program, {"first": "first", "other": "other"}) == program
