"""What primitives gave is kept by what makes a difference."""

from mslang.ir.program import Program
from mslang.schedule.memo import outcome
from mslang.sema.program import parse_program
from mslang.transform.outcome import LoopRef, Outcome
from mslang.transform.primitives.annotate import annotate
from mslang.transform.primitives.loops import split
from tests.unit.transform.programs import sizes

TEXT = "program p(A: f32[8], out B: f32[8]) { for i in 0..8 { block b[x: 8 = i] { B[x] = A[x] } } }"


def noted(p: Program, value: object) -> Outcome:
    return outcome(annotate, p, {"target": LoopRef("i"), "key": "note", "value": value})


def test_numbers_of_several_types_are_told_apart():
    p = parse_program(TEXT)
    values = (1, True, 1.0, 0.0, -0.0, (1,), (True,))
    for value in values:
        note = dict(noted(p, value).program.body[0].annotations)["note"]
        assert repr(note) == repr(value)


def test_the_same_call_is_made_once():
    p = parse_program(TEXT)
    assert noted(p, 3) is noted(p, 3)
    assert noted(p, 3) is not noted(p, 4)


def test_other_programs_and_other_sizes():
    p = parse_program(TEXT)
    by = [outcome(split, p, {"loop": LoopRef("i"), "factors": sizes(None, n)}) for n in (2, 4, 2)]
    assert by[0] is by[2] and by[0].program != by[1].program
    inner = by[0].program
    again = outcome(split, inner, {"loop": by[0].handles[1], "factors": sizes(None, 2)})
    assert again.program != by[0].program
