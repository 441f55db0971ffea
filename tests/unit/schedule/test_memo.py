"""What primitives gave is kept by what makes a difference."""

from msgspec.structs import replace

from mslang.ir.expr import Const
from mslang.ir.program import Program
from mslang.schedule.memo import outcome
from mslang.sema.program import parse_program
from mslang.transform.outcome import LoopRef, Outcome
from mslang.transform.primitives.annotate import annotate
from mslang.transform.primitives.loops import split
from tests.unit.transform.programs import refused, sizes

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


NESTED = """program p(A: f32[8], inout B: f32[8]) {{
    for i in 0..1 {{
        block o[x: 1 = i] {{
            view a: f32[4] = A[x * 4 .. x * 4 + 4]
            reads A[x * 4 .. x * 4 + 4]
            writes B[x * 4 .. x * 4 + 4]
            for j in 0..4 {{
                block b[o: 1 = x, y: 4 = j] {{ reads {} writes B[o * 4 + y] B[o * 4 + y] = a[y] }} }} }} }} }}"""


def other_reads(p: Program, reads: str) -> Outcome:
    """The program with another region declared inside."""
    return Outcome(parse_program(NESTED.format(reads)))


def widened(p: Program) -> Outcome:
    """The program with a block around that reads less than what is inside."""
    block = p.body[0].body[0]
    less = (replace(block.reads[0], ranges=(replace(block.reads[0].ranges[0], extent=Const(3)),)),)
    return Outcome(replace(p, body=(replace(p.body[0], body=(replace(block, reads=less),)),)))


def test_what_blocks_around_do_not_cover_is_refused():
    p = parse_program(NESTED.format("a[y]"))
    assert outcome(other_reads, p, {"reads": "a[y - 1 .. y + 2]"}).program != p
    with refused("MS398", "cannot prove that the enclosing blocks' declared regions cover", "`A`"):
        outcome(widened, p, {})
