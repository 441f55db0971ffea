"""Which loops the pass `unroll` marks to be written out."""

from __future__ import annotations

import pytest

from mslang.ir.annotations import MAX_STEPS
from mslang.ir.expr import Const, Load, Var
from mslang.kernel import Allocate, Body, For, Invoke, Store
from mslang.kernel.visit import walk
from mslang.lower.gpu.unroll import IN_REGISTERS, unrolled
from mslang.lower.summary import summarize
from mslang.target.description import CUDA
from tests.unit.cuda.kernels import TX, buffer, launch, module, n, plus

OUT = buffer("out", "f32", 1 << 20)


def kinds(*body: For) -> dict[str, str]:
    """The kinds of loops after the pass, by their variables."""
    made = unrolled(module("k", in_scope(body), (OUT,), launch((1,), (32,))), CUDA)
    return {s.var: s.kind for s in walk(made.body) if isinstance(s, For)}


def in_scope(body: Body) -> Body:
    return (Allocate(buffer("acc", "f32", 4096, scope="local"), body),)


def storing(var: str, trips: int, kind: str = "serial", times: int = 1, to: str = "out", steps: int = 0) -> For:
    notes = ((MAX_STEPS, steps),) if steps else ()
    return For(var, n(trips), (Store(to, (Var(var),), Const(0.0, "f32")),) * times, kind, annotations=notes)


def test_a_loop_that_the_schedule_unrolls_is_written_out_within_limits() -> None:
    assert kinds(storing("i", 8, "unrolled")) == {"i": "unrolled"}
    assert kinds(storing("i", 8, "unrolled", steps=8)) == {"i": "unrolled"}
    assert kinds(storing("i", 8, "unrolled", steps=7)) == {"i": "serial"}
    assert kinds(storing("i", 256, "unrolled", times=4)) == {"i": "unrolled"}
    assert kinds(storing("i", 256, "unrolled", times=5)) == {"i": "serial"}


@pytest.mark.parametrize(("trips", "times", "steps"), [(8, 1, 0), (8, 1, 8), (8, 1, 7), (256, 4, 0), (256, 5, 0)])
def test_the_summary_predicts_it(trips: int, times: int, steps: int) -> None:
    loop = storing("i", trips, "unrolled", times, steps=steps)
    found = summarize(module("k", (loop,), (OUT,), launch((1,), (32,))), CUDA).statements[0].loops[-1]
    assert found.copies == Const(trips if kinds(loop) == {"i": "unrolled"} else 1)


def test_a_loop_of_unknown_length_stays() -> None:
    inner = For("j", plus(Var("i"), 1), (Store("out", (Var("j"),), Const(0.0, "f32")),), "unrolled")
    assert kinds(For("i", n(2), (inner,))) == {"i": "serial", "j": "serial"}


def test_loops_over_registers_are_written_out_and_no_others() -> None:
    assert kinds(storing("i", 64, to="acc")) == {"i": "unrolled"}
    assert kinds(storing("i", 64)) == {"i": "serial"}
    assert kinds(storing("i", IN_REGISTERS, to="acc")) == {"i": "unrolled"}
    assert kinds(storing("i", IN_REGISTERS + 1, to="acc")) == {"i": "serial"}


def test_loops_over_registers_count_together() -> None:
    both = For("i", n(64), (storing("j", 16, to="acc"),))
    assert kinds(both) == {"i": "serial", "j": "unrolled"}
    index = plus(Var("i"), Var("j"))
    inner = For("j", n(16), (Store("acc", (index,), Const(0.0, "f32")),))
    assert kinds(For("i", n(64), (inner,))) == {"i": "serial", "j": "unrolled"}
    assert kinds(For("i", n(32), (inner,))) == {"i": "unrolled", "j": "unrolled"}


def test_the_description_of_an_instruction_is_left_alone() -> None:
    call = Invoke("fill", "fill();", (), (), (Load("acc", (TX,), "f32"),), (storing("i", 8, to="acc"),))
    made = unrolled(module("k", in_scope((call,)), (OUT,), launch((1,), (32,))), CUDA)
    assert call in tuple(walk(made.body))
