"""A rule for reductions along rows: whole, or in partial results that are the lanes of a vector."""

import mslang as ms
from mslang.ir.program import Program
from mslang.schedule.space import Space
from mslang.target.description import Target


def reduces_rows(s: ms.Schedule, block: ms.Handle) -> bool:
    """Whether a block reduces, and has two loops."""
    return bool(s.is_reduction(block)) and len(s.loops(block)) == 2


@ms.rule(alternatives=("whole", "lanes"), when=reduces_rows)
def in_lanes(s: ms.Schedule, block: ms.Handle, alternative: str) -> None:
    """Run rows in parallel; take each row apart into lanes, whose number is drawn."""
    _, columns = s.loops(block)
    if alternative == "lanes":
        lanes = s.choose([8, 16, 32], name="lanes")
        _, lane = s.split(columns, [None, lanes])
        partial = s.rfactor(lane, axis=1)
        rows, _, own = s.loops(partial)
        s.parallel(rows)
        s.vectorize(own)
    s.parallel(s.loops(block)[0])


def rows_only(program: Program, target: Target) -> Space:
    """A space generator: this rule alone."""
    return ms.automatic_space(program, target, [in_lanes])
