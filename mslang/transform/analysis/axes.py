"""`mm.i`: the loop of a block's axis, found again after any rewrite."""

from __future__ import annotations

from mslang.ir.find import path_to_block, path_to_loop
from mslang.ir.program import For, Program
from mslang.ir.visit import Path, free_vars
from mslang.transform.analysis.position import block_at, block_path, leaves, loops_above
from mslang.transform.outcome import BlockRef, LoopRef, refuse


def axis_loops(path: Path, axis: str) -> tuple[For, ...]:
    """The loops that only the block at the end of a path is under and whose variable occurs in the binding of that
    axis alone, outermost first."""
    block = block_at(path)
    mine = frozenset().union(*(free_vars(a.binding) for a in block.axes if a.name == axis))
    others = frozenset().union(*(free_vars(a.binding) for a in block.axes if a.name != axis))
    return tuple(s for s in loops_above(path) if s.var in mine - others and leaves(s) == (block,))


def called(program: Program, loop: LoopRef) -> str:
    """A loop as messages name it: by its name, and as the axis of a block where text can say so."""
    path = path_to_loop(program, loop.name) or ()
    under = leaves(path[-1]) if path else ()
    if len(under) != 1:
        return f"`{loop.name}`"
    block = under[0]
    down = path_to_block(program, block.name) or ()
    axis = next((a.name for a in block.axes if [s.var for s in axis_loops(down, a.name)] == [loop.name]), None)
    return f"`{loop.name}`" if axis in (None, loop.name) else f"`{loop.name}` (`{block.name}.{axis}`)"


def axis_loop(program: Program, block: BlockRef, axis: str) -> LoopRef:
    """The one loop of `block.axis`.

    Raises:
        ScheduleError: MS302, the block has no such axis, or none or several loops serve it alone (they are listed).
    """
    path = block_path(program, block, f"{block.name}.{axis}")
    found = block_at(path)
    where = f"{block.name}.{axis}"
    if axis not in {a.name for a in found.axes}:
        names = ", ".join(a.name for a in found.axes)
        raise refuse(
            "MS302", where, f"block `{found.name}` has no axis `{axis}`", help=f"its axes are: {names or 'none'}"
        )
    loops = axis_loops(path, axis)
    if len(loops) == 1:
        return LoopRef(loops[0].var)
    if loops:
        names = ", ".join(f"`{s.var}`" for s in loops)
        raise refuse(
            "MS302",
            where,
            f"several loops run over axis `{axis}`: {names}",
            why="an axis names a loop only while one loop alone serves it",
            help="name the loops by `let` when you split, and use those names",
        )
    reasons = tuple(_why_not(s, path, axis) for s in loops_above(path) if s.var in _used(path, axis))
    raise refuse(
        "MS302",
        where,
        f"no loop runs over axis `{axis}` alone",
        why="; ".join(reasons) or "no loop occurs in its binding",
        help="use the handle that made the loop (`let …`), or `block.loops()`",
    )


def _used(path: Path, axis: str) -> frozenset[str]:
    return frozenset().union(*(free_vars(a.binding) for a in block_at(path).axes if a.name == axis))


def _why_not(loop: For, path: Path, axis: str) -> str:
    block = block_at(path)
    shared = [a.name for a in block.axes if a.name != axis and loop.var in free_vars(a.binding)]
    if shared:
        return f"loop `{loop.var}` also serves axis {', '.join(f'`{a}`' for a in shared)}"
    others = ", ".join(f"`{b.name}`" for b in leaves(loop) if b is not block)
    return f"loop `{loop.var}` is also around block {others}"
