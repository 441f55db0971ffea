"""Multi-level tiling: each axis of a block with reuse is split into one loop per letter of its kind in the structure.

`"SSRSRS"` is for CPUs: the outer spatial loops are parallel, the next are tiles for a cache, then an outer part of
the reduction, a tile, the inner part of the reduction, and the register tile.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from mslang.diagnostics import ScheduleError, problem
from mslang.ir.expr import Const
from mslang.ir.program import Block, Program
from mslang.ir.visit import free_vars
from mslang.schedule.decisions import Alternatives
from mslang.schedule.handles import Handle
from mslang.schedule.rules.nests import block_handle, block_of, do, draw, handle, leaf_blocks, loops_around, own_loop
from mslang.schedule.session import Session
from mslang.schedule.values import describe
from mslang.transform.getters import consumers, is_injective
from mslang.transform.outcome import BlockRef, BufferRef

if TYPE_CHECKING:
    from mslang.schedule.interpret import Interpreter

INNERMOST = 64
"""The maximal number of iterations of an innermost tile."""


def multi_level(it: Interpreter, args: Sequence[object], kwargs: Mapping[str, object]) -> object:
    """Tile the blocks that profit from it: reductions that reuse the elements they read.

    Decisions have the addresses `multi_level:block/axis` (the tile of an axis) and `multi_level:block/results` (where
    results leave the tile: `apart`, or computed on by the next block or copied out at the first or second level).

    Raises:
        ScheduleError: MS203, the structure does not consist of the letters `S` and `R`.
    """
    *blocks, structure = (*args, *kwargs.values())
    if not isinstance(structure, str) or not structure or set(structure) - {"S", "R"} or structure[0] != "S":
        raise ScheduleError(
            problem(
                "MS203",
                f"`multi_level` takes a structure, not {describe(structure)}",
                why="it is a word of S for spatial and R for reduction loops, and begins with S",
                help='for CPUs: `multi_level("SSRSRS")`',
            )
        )
    session = it.session
    named = [b for b in blocks if isinstance(b, Handle)]
    for b in named or [block_handle(session, x.name) for x in leaf_blocks(session.program)]:
        block = block_of(session, b)
        if needs_tiling(session.program, block):
            _tile(session, block, structure)
    return None


def needs_tiling(program: Program, block: Block) -> bool:
    """Whether a block is a reduction over constant loops of its own with reuse across iterations in some read."""
    kinds = {a.kind for a in block.axes}
    if block.init is None or kinds != {"spatial", "reduce"} or len(block.writes) != 1:
        return False
    own = {a.name: own_loop(program, block, a.name) for a in block.axes}
    if None in own.values() or {s.var for s in own.values() if s} != {s.var for s in loops_around(program, block)}:
        return False
    wide = {a.name for a in block.axes if a.kind == "spatial" and a.extent != Const(1)}
    written = block.writes[0].buffer
    return any(wide - {v for x in r.ranges for v in free_vars(x.start)} for r in block.reads if r.buffer != written)


def _tile(session: Session, block: Block, structure: str) -> None:
    prefix = f"multi_level:{block.name}"
    levels: dict[str, list[list[Handle]]] = {k: [[] for _ in range(structure.count(k))] for k in "SR"}
    for axis in block.axes:
        kind = "S" if axis.kind == "spatial" else "R"
        loop = session.axis(block_handle(session, block.name), axis.name)
        n = structure.count(kind)
        if n == 0:
            continue
        tile = draw(session, "perfect_tile", loop, n, INNERMOST, address=f"{prefix}/{axis.name}")
        parts = do(session, "split", loop, tile, names=[f"{axis.name}{k}" for k in range(n)])
        for level, part in zip(levels[kind], parts, strict=True):
            level.append(part)
    left = {k: iter(v) for k, v in levels.items()}
    order = [next(left[letter]) for letter in structure]
    do(session, "reorder", *(h for level in order for h in level))
    whole = len(structure) - len(structure.lstrip("S"))  # results are complete only before a reduction is split
    _results(session, block, prefix, [level[-1] for level in levels["S"][:whole]])


def _results(session: Session, block: Block, prefix: str, places: Sequence[Handle]) -> None:
    """Place the tile's results as decided: in their only consumer block, or in a copy."""
    address = f"{prefix}/results"
    session.draws.claim(address)
    cases = ("apart", *(f"level_{k}" for k in range(1, len(places) + 1)))
    case = session.draws.choose(address, Alternatives(cases))
    if case == "apart":
        return
    place = places[cases.index(str(case)) - 1]
    user = _only_user(session.program, BlockRef(block.name))
    if user is not None:
        do(session, "reverse_compute_at", handle(session, user), place)
        return
    written = session.handles.handle(BufferRef(block.writes[0].buffer))
    (copy,) = do(session, "cache_write", block_handle(session, block.name), written, "local")
    do(session, "reverse_compute_at", copy, place)


def _only_user(program: Program, block: BlockRef) -> BlockRef | None:
    users = consumers(program, block)
    return users[0] if len(users) == 1 and is_injective(program, users[0]) else None
