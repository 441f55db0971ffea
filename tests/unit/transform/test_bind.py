"""bind, and the primitives that are known but not part of this version."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from mslang.backend.reference.interpret import run
from mslang.diagnostics import ScheduleError, Severity
from mslang.ide.findings import findings
from mslang.ir.program import For, Program
from mslang.ir.visit import walk
from mslang.sema.modules import load
from mslang.sema.program import parse_program
from mslang.transform.outcome import LoopRef, Outcome
from mslang.transform.primitives.loop_kinds import bind
from mslang.transform.primitives.loops import reorder

SAMPLES = Path(__file__).parents[2] / "fixtures" / "samples"

COPY = """program p(A: f32[8, 4], out B: f32[8, 4]) {
    for i in 8, j in 4 { block b[x: 8 = i, y: 4 = j] { B[x, y] = A[x, y] } }
}"""
SUM = """program p(A: f32[8, 4], out S: f32[8]) {
    for i in 8, j in 4 { block s[x: 8 = i | y: 4 = j] { S[x] += A[x, y] } }
}"""


def bound(text: str, *axes: tuple[str, str]) -> Program:
    program = parse_program(text)
    for loop, axis in axes:
        program = bind(program, LoopRef(loop), axis).program
    return program


def test_loops_become_blocks_and_threads():
    program = bound(COPY, ("i", "blockIdx.x"), ("j", "threadIdx.x"))
    assert [s.kind for s in walk(program.body) if isinstance(s, For)] == ["blockIdx.x", "threadIdx.x"]
    a = np.arange(32, dtype=np.float32).reshape(8, 4)
    assert np.array_equal(run(program, {"A": a})["B"], a)


def test_the_same_again_changes_nothing():
    program = bound(COPY, ("i", "blockIdx.x"))
    assert bind(program, LoopRef("i"), "blockIdx.x") == Outcome(program)


def test_threads_share_out_a_reduction():
    program = bound(SUM, ("i", "blockIdx.x"), ("j", "threadIdx.x"))
    a = np.arange(32, dtype=np.float32).reshape(8, 4)
    assert np.array_equal(run(program, {"A": a})["S"], a.sum(axis=1))


@pytest.mark.parametrize(
    ("text", "axes", "code"),
    [
        (COPY, [("i", "threadIdx.w")], "MS316"),
        (COPY, [("i", "serial")], "MS316"),
        (COPY, [("i", "threadIdx.x"), ("j", "threadIdx.x")], "MS395"),
        (COPY, [("j", "threadIdx.x"), ("i", "threadIdx.x")], "MS395"),
        (COPY, [("i", "blockIdx.x"), ("j", "blockIdx.x")], "MS311"),
        (COPY, [("j", "vthread.x"), ("i", "vthread.x")], "MS311"),
        (COPY, [("i", "threadIdx.x"), ("j", "blockIdx.x")], "MS311"),
        (COPY, [("j", "blockIdx.x"), ("i", "threadIdx.x")], "MS311"),
        (SUM, [("j", "blockIdx.x")], "MS309"),
        (SUM, [("j", "vthread.x")], "MS309"),
        (
            "program p(A: f32[9], out B: f32[12]) { for i in 3, j in 4 { block b[x: 9 = i * 3 + j] "
            "{ where i * 3 + j < 9  B[x] = A[x] } } }",
            [("i", "blockIdx.x")],
            "MS310",
        ),
    ],
)
def test_refused(text: str, axes: list[tuple[str, str]], code: str):
    with pytest.raises(ScheduleError) as found:
        bound(text, *axes)
    assert found.value.diagnostic.code == code


def test_a_reduction_over_threads_may_be_reordered():
    program = bound(SUM, ("j", "threadIdx.x"))
    turned = reorder(program, [LoopRef("j"), LoopRef("i")]).program
    assert [s.kind for s in walk(turned.body) if isinstance(s, For)] == ["threadIdx.x", "serial"]


@pytest.mark.parametrize("name", ["matmul", "conv2d", "wmma"])
def test_the_samples_of_the_language_page_have_no_errors(name: str):
    module = load(str(SAMPLES / f"{name}.ms"))
    assert [d for d in findings(module) if d.severity is Severity.ERROR] == []
