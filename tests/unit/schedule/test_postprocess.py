"""Postprocessors: they rewrite, state conditions that arrays check, or refuse a structure."""

from __future__ import annotations

import msgspec

from mslang.diagnostics import ScheduleError, problem
from mslang.ir.expr import Binary, Const, Symbol
from mslang.ir.find import blocks_of
from mslang.lower.gpu import lower
from mslang.schedule.interpret import Interpreter
from mslang.schedule.rules.automatic import automatic_space
from mslang.schedule.rules.gpu.auto_bind import AutoBind
from mslang.schedule.rules.gpu.finish import UnboundBlocks
from mslang.schedule.rules.postprocess import ReductionBlocks
from mslang.schedule.space import Illegal
from mslang.sema.program import parse_program
from mslang.target.description import SM_80

SCALED = "program scaled(A: f32[4096], out B: f32[4096]) { block b[i: 4096] { B[i] = A[i] * 2.0 } }"
DYNAMIC = "program sums[M: dyn(1..4096)](A: f32[M, 64], out B: f32[M]) { block b[i: M | j: 64] { B[i] += A[i, j] } }"


class FewThreads(msgspec.Struct, frozen=True):
    """States a condition on the number of threads that was drawn."""

    name: str = "few_threads"

    def apply(self, it: Interpreter) -> None:
        threads = it.session.draws.drawn("auto_bind:b/threads")
        assert isinstance(threads, Symbol)
        it.session.require(Binary("<=", threads, Const(128)), "more threads than wanted")


class Never(msgspec.Struct, frozen=True):
    """Refuses every program."""

    name: str = "never"

    def apply(self, it: Interpreter) -> None:
        raise ScheduleError(problem("MS260", "not this one"))


def test_a_condition_of_ones_own_is_checked_on_arrays() -> None:
    (sketch,) = automatic_space(parse_program(SCALED), SM_80, (AutoBind(),), (FewThreads(),)).sketches()
    many = sketch.batch()
    drawn = many.draw(256, 1)
    kept = {drawn.row(int(k))["auto_bind:b/threads"] for k in many.valid(drawn).nonzero()[0]}
    assert kept == {32, 64, 128}
    assert set(many.violations(drawn)) == {"more threads than wanted"}


def test_a_refusal_rejects_the_structure_with_its_reason() -> None:
    (found,) = automatic_space(parse_program(SCALED), SM_80, (AutoBind(),), (Never(),)).structures()
    assert isinstance(found, Illegal)
    assert found.diagnostic.message == "not this one"


def test_what_no_rule_binds_is_bound_without_drawing() -> None:
    (sketch,) = automatic_space(parse_program(SCALED), SM_80, (), (UnboundBlocks(),)).sketches()
    assert sketch.decisions == ()
    assert len(lower(sketch.program, SM_80).functions) == 1


def test_inits_become_blocks_of_their_own() -> None:
    (sketch,) = automatic_space(parse_program(DYNAMIC), SM_80, (), (ReductionBlocks(),)).sketches()
    assert len(blocks_of(sketch.program.body)) == 2


def test_sizes_known_only_at_the_call_reject_nothing() -> None:
    structures = list(automatic_space(parse_program(DYNAMIC), SM_80).structures())
    assert structures
    assert not [s for s in structures if isinstance(s, Illegal)]
    for s in structures:
        assert not isinstance(s, Illegal)
        lower(s.instantiate(s.batch().draw(1, 1).row(0)) if s.decisions else s.program, SM_80)
