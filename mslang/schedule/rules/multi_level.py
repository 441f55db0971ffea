"""Multi-level tiling: each axis of a block with reuse is split into one loop per letter of its kind in the structure.

`"SSRSRS"` is for CPUs: the outer spatial loops are parallel, the next are tiles for a cache, then an outer part of
the reduction, a tile, the inner part of the reduction, and the register tile.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import msgspec

from mslang.diagnostics import ScheduleError, problem
from mslang.ir.expr import Const
from mslang.ir.program import Block, Program
from mslang.ir.visit import free_vars
from mslang.schedule.handles import Handle
from mslang.schedule.rules.instruction import divides, looped_axes, put_in, split_off
from mslang.schedule.rules.nests import block_handle, block_of, do, draw, handle, loops_around, own_loop
from mslang.schedule.rules.rule import apply_rule, apply_rules, blocks_given, legal
from mslang.schedule.session import Session
from mslang.schedule.values import describe
from mslang.transform.getters import consumers, is_injective
from mslang.transform.outcome import BlockRef, BufferRef

if TYPE_CHECKING:
    from mslang.schedule.interpret import Interpreter

INNERMOST = 64
"""The maximal number of iterations of an innermost tile."""


class MultiLevelTiling(msgspec.Struct, frozen=True):
    """Tiles the blocks that profit from it: reductions that reuse the elements they read.

    `structure` has a letter for each level, S for the spatial and R for the reduction loops. Where results leave the
    tile is structure: `apart`, or at the first or second level, computed on by the next block or copied out. The tile
    of an axis has the address `multi_level:block/axis`. With `intrin`, the name of an intrinsic of the library, only
    blocks whose loops are whole tiles of it are tiled, and it computes their innermost tiles.

    Source: MetaSchedule, `MultiLevelTiling` and `MultiLevelTilingWithIntrin`.
    """

    structure: str
    intrin: str = ""
    name: str = "multi_level"

    def applies(self, it: Interpreter, block: Block) -> bool:
        """Whether the block is a reduction with reuse, and the intrinsic serves it."""
        if not needs_tiling(it.session.program, block):
            return False
        return not self.intrin or divides(it.session, block, self.intrin)

    def alternatives(self, it: Interpreter, block: Block) -> tuple[str, ...]:
        """Where results may leave the tile; they are complete only before a reduction is split."""
        whole = len(self.structure) - len(self.structure.lstrip("S"))
        return legal(it, self, block, (APART, *(f"level_{k}" for k in range(1, whole + 1))))

    def apply(self, it: Interpreter, block: Block, alternative: str) -> None:
        """Split and reorder the loops, then place the results."""
        session, prefix = it.session, f"{self.name}:{block.name}"
        if not self.intrin:
            _tile(session, block, prefix, self.structure, alternative)
            return
        tile = split_off(session, block, self.intrin)
        _tile(session, block_of(session, tile), prefix, self.structure, alternative)
        put_in(session, tile, self.intrin)


APART = "apart"
"""Results are written where they are computed."""


def multi_level(it: Interpreter, args: Sequence[object], kwargs: Mapping[str, object]) -> object:
    """`std.tiling.multi_level(structure)`: tile the blocks that profit from it, or those given.

    Raises:
        ScheduleError: MS203, the structure does not consist of the letters `S` and `R`, or an argument is no block;
            MS101, there is no such intrinsic.
    """
    intrin = str(kwargs.get("intrin", ""))
    *blocks, structure = (*args, *(x for name, x in kwargs.items() if name != "intrin")) or (None,)
    if not isinstance(structure, str) or not structure or set(structure) - {"S", "R"} or structure[0] != "S":
        raise ScheduleError(
            problem(
                "MS203",
                f"`multi_level` takes a structure, not {describe(structure)}",
                why="it is a word of S for spatial and R for reduction loops, and begins with S",
                help='for CPUs: `multi_level("SSRSRS")`',
            )
        )
    rule = MultiLevelTiling(structure, intrin)
    named = blocks_given("multi_level", blocks)
    if not named:
        apply_rules(it, (rule,))
    for b in named:
        apply_rule(it, rule, block_of(it.session, b))
    return None


def needs_tiling(program: Program, block: Block, dynamic: bool = False) -> bool:
    """Whether a block is a reduction over loops of its own with reuse across iterations in some read.

    Their extents are numbers, or may be `dynamic` sizes.
    """
    if not dynamic and not all(isinstance(a.extent, Const) for a in block.axes):
        return False
    kinds = {a.kind for a in block.axes}
    if block.init is None or kinds != {"spatial", "reduce"} or len(block.writes) != 1:
        return False
    own = {a.name: own_loop(program, block, a.name, dynamic) for a in block.axes}
    if None in own.values() or {s.var for s in own.values() if s} != {s.var for s in loops_around(program, block)}:
        return False
    wide = {a.name for a in block.axes if a.kind == "spatial" and a.extent != Const(1)}
    written = block.writes[0].buffer
    return any(wide - {v for x in r.ranges for v in free_vars(x.start)} for r in block.reads if r.buffer != written)


def _tile(session: Session, block: Block, prefix: str, structure: str, results: str) -> None:
    levels: dict[str, list[list[Handle]]] = {k: [[] for _ in range(structure.count(k))] for k in "SR"}
    looped = looped_axes(session, block)
    for axis in block.axes:
        if axis.name not in looped:  # The tile of an instruction covers it.
            continue
        kind = "S" if axis.kind == "spatial" else "R"
        loop = session.axis(block_handle(session, block.name), axis.name)
        n = structure.count(kind)
        if n == 0:
            continue
        if n == 1:
            levels[kind][0].append(loop)
            continue
        tile = draw(session, "perfect_tile", loop, n, INNERMOST, address=f"{prefix}/{axis.name}")
        parts = do(session, "split", loop, tile, names=[f"{axis.name}{k}" for k in range(n)])
        for level, part in zip(levels[kind], parts, strict=True):
            level.append(part)
    left = {k: iter(v) for k, v in levels.items()}
    order = [next(left[letter]) for letter in structure]
    do(session, "reorder", *(h for level in order for h in level))
    if results != APART:
        _results(session, block, levels["S"][int(results.removeprefix("level_")) - 1][-1])


def _results(session: Session, block: Block, place: Handle) -> None:
    """Compute on the tile's results in a loop, in their only consumer block, or in a copy."""
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
