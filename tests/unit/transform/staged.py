"""What the tests of primitives that stage buffers share."""

from mslang.ir.print import print_program
from mslang.ir.program import Program
from mslang.ir.verify import verify
from mslang.sema.program import parse_program
from mslang.transform.outcome import Outcome
from tests.property.block_programs import same_meaning


def program(params: str, body: str) -> Program:
    return parse_program(f"program p({params}) {{\n{body}\n}}\n")


def accepted(before: Program, outcome: Outcome) -> str:
    """The text of an outcome's program, which is well formed, prints and parses, and means the same."""
    assert verify(outcome.program) == ()
    text = print_program(outcome.program)
    assert parse_program(text) == outcome.program
    same_meaning(before, outcome.program, {}, 1)
    return text
