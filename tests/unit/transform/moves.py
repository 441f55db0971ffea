"""What the tests of primitives that move and inline blocks share."""

from mslang.ir.find import blocks_of, path_to_block
from mslang.ir.program import Program
from mslang.ir.verify import verify
from mslang.transform.analysis.position import block_at
from mslang.transform.outcome import Outcome
from tests.property.block_programs import same_meaning
from tests.unit.transform.programs import outline, text

# A formula `t` and its consumer `u`, which has a predicate.
PREDICATE = """program p(A: f32[8], inout O: f32[8], inout P: f32[8]) {{
    alloc S: f32[8]
    alloc T: f32[8]
    {before}
    block t[i: 8] {{ T[i] = {formula} }}
    block u[i: 8] {{ reads T[i] where {where} O[i] = T[i] }}
    {after}
}}"""

# Two blocks with views of their own.
VIEWS = """program p(A: f32[8], B: f32[8], out O: f32[8]) {{
    alloc T: f32[8]
    for i in 8 {{
        block t[x: 8 = i] {{
            view V: f32[1] = A[x .. x + 1]
            reads A[x]
            writes T[x]
            T[x] = {made}
        }}
    }}
    for i in 8 {{
        block u[x: 8 = i] {{
            {views}
            reads T[x], B[x]
            writes O[x]
            {used}
        }}
    }}
}}"""


def accepted(before: Program, outcome: Outcome) -> Program:
    """The program of an outcome, which is well formed and means the same."""
    assert verify(outcome.program) == ()
    same_meaning(before, outcome.program, {}, 1)
    return outcome.program


def part(program: Program, name: str) -> list[str]:
    """The lines of an outline from the first with a name on."""
    lines = outline(program).splitlines()
    return lines[next(k for k, line in enumerate(lines) if line.strip().startswith(name)) :]


def names(program: Program) -> list[str]:
    """The names of all blocks."""
    return [b.name for b in blocks_of(program.body)]


def regions(program: Program, name: str) -> list[str]:
    """What a block reads, and from where on."""
    path = path_to_block(program, name)
    assert path is not None
    found = block_at(path)
    return [f"{r.buffer}[{', '.join(text(d.start) for d in r.ranges)}]" for r in found.reads]
