"""Stages that are computed row by row may fetch the next row while they compute one."""

from __future__ import annotations

from mslang.ir.expr import Binary, Const, Expr
from mslang.ir.program import For
from mslang.schedule.rules.cpu.groups import Group
from mslang.schedule.rules.cpu.large import bytes_of
from mslang.schedule.rules.nests import block_handle, block_of, do, draw, handle, loops_around
from mslang.schedule.session import Session
from mslang.target.description import Target
from mslang.transform.analysis.dependence import buffers_read
from mslang.transform.outcome import BufferRef

ROWS = (0, 1)
"""How many rows ahead."""


def fetch_next_row(session: Session, group: Group, machine: Target, prefix: str, together: Expr | None = None) -> None:
    """Draw whether the first stage that goes along a row of a parameter in vectors fetches the next row of it; not of
    parameters that the L1 cache holds.

    The first stages of a row wait for memory, the later ones compute: what these fetch arrives in the meantime.

    Args:
        session: the running schedule, the stages of the group vectorized.
        group: the stages.
        machine: what it runs on.
        prefix: of the address `PREFIX/prefetch`.
        together: how many rows the last stage computes vector by vector, each of which then fetches so many rows ahead.
    """
    inputs = (p.buffer for p in session.program.params if p.direction == "in")
    large = {b.name for b in inputs if bytes_of(b) >= machine.l1}
    for name in (*group.stages, group.last):
        block = block_of(session, block_handle(session, name))
        read = [b for b in buffers_read(block) if b in large]
        match loops_around(session.program, block)[-2:]:
            case (For(kind="serial", extent=Const(value=n)) as along, For(kind="vectorized")) if read and n > 1:
                rows = draw(session, "choose", ROWS, address=f"{prefix}/prefetch")
                assert isinstance(rows, Expr)
                for b in read:
                    ahead = Binary("*", rows, Const(int(n)))
                    if together is not None and name == group.last:
                        ahead = Binary("*", ahead, together)
                    do(session, "prefetch", handle(session, along.var), session.handles.handle(BufferRef(b)), ahead)
                return
