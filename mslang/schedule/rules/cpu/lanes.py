"""Vectors and threads for stages without reuse: elementwise stages and copies."""

from __future__ import annotations

from collections.abc import Sequence

from mslang.ir.arith.domain import is_dynamic
from mslang.ir.expr import Const
from mslang.ir.program import For
from mslang.ir.visit import free_vars
from mslang.schedule.handles import Handle
from mslang.schedule.rules.nests import attempt, block_of, do, do_if_legal, handle, loops_around
from mslang.schedule.session import Session
from mslang.transform.getters import extent
from mslang.transform.outcome import LoopRef

WIDE = 4
"""A vectorized loop has up to this many vectors."""


def vectorize_along(session: Session, block: Handle, lanes: int) -> None:
    """Vectorize the loop along which adjacent elements are written, whole or in vectors."""
    loop = innermost(session, block)
    if loop is None:
        return
    size = loop.extent
    name = handle(session, loop.var)
    if is_dynamic(size) or (isinstance(size, Const) and size.value > WIDE * lanes):
        _, name = do(session, "split", name, (None, lanes))
    do_if_legal(session, "vectorize", name)


def innermost(session: Session, block: Handle) -> For | None:
    """The serial loop of a block along which it writes adjacent elements, moved innermost."""
    source = block_of(session, block)
    last = source.writes[0].ranges[-1:] if source.writes else ()
    along = {v for r in last for v in free_vars(r.start)}
    bound = {v for a in source.axes if a.name in along for v in free_vars(a.binding)}
    loops = [s for s in loops_around(session.program, source) if s.kind == "serial"]
    if not loops or loops[-1].var not in bound:
        return None
    return loops[-1]


def spread_copy(session: Session, block: Handle, lanes: int) -> None:
    """Vectorize a stage under loops of its own and run its other loops in parallel."""
    vectorize_along(session, block, lanes)
    loops = [s for s in loops_around(session.program, block_of(session, block)) if s.kind == "serial"]
    if loops:
        run_in_parallel(session, [handle(session, s.var) for s in loops])


def _static(session: Session, loops: Sequence[Handle]) -> int:
    """How many loops there are before the first of dynamic extent."""
    dynamic = (is_dynamic(extent(session.program, LoopRef(session.handles.resolve(x).name))) for x in loops)
    return next((k for k, found in enumerate(dynamic) if found), len(loops))


def run_in_parallel(session: Session, loops: Sequence[Handle]) -> Handle:
    """Fuse as many of some nested loops, from the outermost on, as may run in parallel, and make them so.

    A loop of dynamic extent is not fused: which part of a fused loop were whole tiles would be known for no iteration.

    Returns the parallel loop; the outermost, unchanged, if it must not run in parallel.
    """
    refs = [session.handles.resolve(x) for x in loops]
    for n in range(_static(session, loops), 1, -1):
        made = attempt(session.program, "fuse", refs[:n])
        if made is not None and attempt(made.program, "parallel", made.handles[0]) is not None:
            (fused,) = do(session, "fuse", *loops[:n])
            do(session, "parallel", fused)
            return fused
    do_if_legal(session, "parallel", loops[0])
    return loops[0]
