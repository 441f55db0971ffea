"""Operands that all rows of a group share, as the scale of a normalisation: rows computed together load them once."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from mslang.ir.expr import Expr
from mslang.ir.program import Block
from mslang.ir.visit import free_vars
from mslang.schedule.handles import Handle
from mslang.schedule.rules.cpu.contraction import extents
from mslang.schedule.rules.cpu.groups import Group
from mslang.schedule.rules.nests import block_handle, block_of, do, do_if_legal, draw, handle, loops_around
from mslang.schedule.session import Session
from mslang.target.description import Target

TOGETHER: Mapping[int, float] = MappingProxyType({1: 2.0, 2: 1.0, 4: 1.0})
"""How many rows are computed together, with weights: more than one pays where a core's caches hold the arrays."""
BUSY = 4
"""So many times as many groups of rows as cores are left at least."""


def draw_together(session: Session, group: Group, machine: Target, prefix: str) -> Expr | None:
    """Draw how many rows are computed together, where their last stage reads the same vectors for each of them.

    Args:
        session: the running schedule.
        group: the stages, no product among them.
        machine: what they run on.
        prefix: of the address `PREFIX/together`.

    Returns None where the rows share no operand, or their number is open or too small.
    """
    last = block_of(session, block_handle(session, group.last))
    rows = extents(last).get(group.rows[-1], 1)
    most = min(rows // (BUSY * machine.cores), registers_for(last, group, machine))
    counts = {n: w for n, w in TOGETHER.items() if rows % n == 0 and n <= most}
    if len(counts) < 2:
        return None
    found = draw(session, "choose", tuple(counts), weights=tuple(counts.values()), address=f"{prefix}/together")
    assert isinstance(found, Expr)
    return found


def registers_for(last: Block, group: Group, machine: Target) -> int:
    """Of how many rows the registers hold what their last stage needs at a time; 0 if the rows share no operand.

    These are an operand that is shared, and of each row its own values, a vector that it reads and one that it makes.
    """
    along = free_vars(last.writes[0].ranges[-1].start)
    indices = [{v for r in read.ranges for v in free_vars(r.start)} for read in last.reads]
    if not any(along & found and found.isdisjoint(group.rows) for found in indices):
        return 0
    own = sum(along.isdisjoint(found) for found in indices)
    return (machine.registers - 1) // (own + 2)


def interleave_rows(session: Session, last: Handle, rows: Handle) -> None:
    """Compute each vector of a stage for all rows of a loop before the next one.

    Args:
        session: the running schedule, the stage vectorized.
        last: the stage.
        rows: the loop over the rows that are computed together.
    """
    loops = [s.var for s in loops_around(session.program, block_of(session, last))]
    inside = loops[loops.index(session.handles.resolve(rows).name) + 1 :]
    if len(inside) > 1:
        *between, lanes = (handle(session, var) for var in inside)
        do_if_legal(session, "reorder", *between, rows, lanes)
    do(session, "unroll", rows)
