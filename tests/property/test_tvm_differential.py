"""Primitives beside TVM's, on a few programs; `benchmarks/tvm_differential.py` asks about many."""

from __future__ import annotations

import pytest

from mslang.ir.program import Program
from mslang.sema.program import parse_program
from mslang.transform.outcome import BlockRef, LoopRef
from tests.property.stages import WEIGHTS
from tests.property.steps import Step
from tests.property.tvm_calls import CALLS
from tests.property.tvm_decided import DECIDED, decided
from tests.property.tvm_differential import Tally, broken, check_pair, ours, theirs

pytestmark = pytest.mark.peer
tvm = pytest.importorskip("tvm")
pytest.importorskip("tvm.s_tir")
pytest.importorskip("tvm.script")

PAIRS = 16


@pytest.fixture(scope="module")
def tally() -> Tally:
    found = Tally()
    for number in range(PAIRS):
        check_pair(tvm, 1, number, found, WEIGHTS)
    return found


def test_no_result_of_ours_differs(tally: Tally) -> None:
    """Where both take a step, ours gives what the program gave before."""
    assert sum(tally.compared.values()) > PAIRS
    assert not tally.ours_wrong, tally.ours_wrong[0]


def test_what_tvm_makes_is_read(tally: Tally) -> None:
    """What TVM prints after a step is read back."""
    assert sum(tally.unread.values()) <= sum(tally.both.values()) // 20, tally.unread


def test_the_two_agree(tally: Tally) -> None:
    """They take the same steps, but for classes that are decided."""
    tried = sum(tally.tried(op) for op in CALLS)
    open_ = {key: n for key, n in tally.classes.items() if decided(*key) is None}
    assert sum(open_.values()) <= tried // 20, open_


GEMM = parse_program("""program gemm(A: f32[8, 6], B: f32[6, 4], out C: f32[8, 4]) {
    block mm[i: 8, j: 4 | k: 6] { C[i, j] += A[i, k] * B[k, j] }
}""")


@pytest.mark.parametrize(
    "step, both",
    [
        (("reorder", ([LoopRef("k"), LoopRef("i"), LoopRef("j")],), {}), True),
        (("decompose_reduction", (BlockRef("mm"), LoopRef("k")), {}), True),
        (("parallel", (LoopRef("k"),), {}), False),
        (("compute_inline", (BlockRef("mm"),), {}), False),
        (("fuse", ([LoopRef("i"), LoopRef("k")],), {}), False),
    ],
)
def test_steps_that_are_known(step: Step, both: bool) -> None:
    """The two are really asked, and say what is known."""
    assert _answers(GEMM, step) == (both, both)


BLOCKIZED = """program main(x: i64[3, 3], out y: i64[3]) {
    alloc t: i64[3]
    block tile[io: 1 = 0 | ko: 1 = 0] {
        reads x[io * 3 .. io * 3 + 3, ko * 3 .. ko * 3 + 3]
        writes t[io * 3 .. io * 3 + 3]
        init { for i in 3 { block start[v: 3 = io * 3 + i] { t[v] = -9223372036854775808 } } }
        for LOOPS, k in 3 {
            block largest[v: 3 = io * 3 + AXIS | r: 3 = ko * 3 + k] {
                where AXIS < 3
                init {}
                t[v] = max(t[v], x[v, r])
            }
        }
    }
    for i in 3 { block add[v: 3 = i] { y[v] = t[v] + i64(v) } }
}"""


@pytest.mark.parametrize("loops, axis", [("i in 3", "i"), ("i0 in 2, i1 in 2", "i0 * 2 + i1")])
def test_an_epilogue_of_a_blockized_reduction_is_wrong_in_tvm(loops: str, axis: str) -> None:
    """TVM takes it, and what it makes gives another result."""
    program = parse_program(BLOCKIZED.replace("LOOPS", loops).replace("AXIS", axis))
    step: Step = ("fuse_reduction_epilogue", (BlockRef("tile"), BlockRef("add")), {})
    taken, script = theirs(tvm, program, step)
    assert taken and broken(program, script, 0)
    assert decided(step[0], "TVM", ours(program, step).reason) == "reductions of other shapes"


def _answers(program: Program, step: Step) -> tuple[bool, bool]:
    return ours(program, step).program is not None, theirs(tvm, program, step)[0]


def test_every_class_says_why() -> None:
    """A class that is decided has a reason."""
    assert all(len(c.why) > 20 for c in DECIDED.values())
