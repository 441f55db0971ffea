"""Where a block may be computed: what `compute_location` draws from."""

from __future__ import annotations

from enum import StrEnum

from mslang.diagnostics import MsError
from mslang.ir import arith
from mslang.ir.expr import ONE
from mslang.ir.find import path_to_block
from mslang.ir.program import Program
from mslang.transform.analysis.dependence import consumers
from mslang.transform.analysis.instances import loops_beyond_spatial
from mslang.transform.analysis.position import block_path, common_path, loops_above
from mslang.transform.outcome import BlockRef, LoopRef
from mslang.transform.primitives.compute_at import can_compute_at
from mslang.transform.primitives.compute_inline import compute_inline


class Place(StrEnum):
    """Places that are not loops: put into the consumers, or left where it is."""

    INLINE = "inline"
    ROOT = "root"


Location = LoopRef | Place


def legal_locations(program: Program, block: BlockRef) -> tuple[Location, ...]:
    """The places where a block may be computed: inlined, where it is, at a loop of its first consumer.

    The loops go from the outermost to the innermost that all consumers are under. Left out are loops that run once,
    loops over spatial axes of the consumer under one over its reduction axes, the innermost loops over reduction axes,
    and loops to which the block cannot be moved.

    Source: TVM sample_compute_location
    """
    path = block_path(program, block, "compute_location")
    found: list[Location] = [Place.INLINE] if _can_inline(program, block) else []
    found.append(Place.ROOT)
    users = [path_to_block(program, b.name) or () for b in consumers(program, path)]
    if not users:
        return tuple(found)
    shared = common_path(*(q[:-1] for q in users))
    reducing = loops_beyond_spatial(users[0])
    loops = [s for s in loops_above(users[0]) if any(s is x for x in shared)]
    while loops and loops[-1].var in reducing:
        loops.pop()
    reduced = False
    for loop in loops:
        reduced = reduced or loop.var in reducing
        if (reduced and loop.var not in reducing) or arith.equal(loop.extent, ONE):
            continue
        if can_compute_at(program, block, LoopRef(loop.var)):
            found.append(LoopRef(loop.var))
    return tuple(found)


def _can_inline(program: Program, block: BlockRef) -> bool:
    try:
        compute_inline(program, block)
    except MsError:
        return False
    return True
