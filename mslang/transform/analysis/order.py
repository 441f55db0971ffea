"""Two bodies of one loop, run in turn or one after the other: does it come to the same?

Iteration `v` of the second body comes before a later iteration `w` of the first where one loop runs both in turn, and
after it where each has a loop of its own. That makes a difference only if the two touch the same element, and one of
them writes it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import msgspec

from mslang.diagnostics import MsError
from mslang.ir import arith
from mslang.ir.expr import ONE, Binary, Expr, Var
from mslang.ir.program import For, Program, Range, Region
from mslang.ir.visit import Path, free_vars, fresh, substitute
from mslang.transform.analysis.carried import storages_of
from mslang.transform.analysis.cover import Box, consumed_box
from mslang.transform.analysis.dependence import storage_of
from mslang.transform.analysis.position import block_at, loop_range, ranges_above

Pair = tuple[Path, Path]


class Under(msgspec.Struct, frozen=True):
    """Leaf blocks, and the loops above them that are meant, at the ends of paths, outermost first."""

    blocks: tuple[Path, ...]
    loops: tuple[Path, ...]


def why_order_matters(program: Program, first: Under, second: Under) -> str | None:
    """None if no iteration of the second touches what a later iteration of the first touches, where either writes.

    The loops of the two have equal ranges, pair by pair; "later" is meant in the order in which they are nested.
    """
    written = {*storages_of(program, first.blocks), *storages_of(program, second.blocks)}
    for a in first.blocks:
        for b in second.blocks:
            for x, y in _meeting(program, a, b, written):
                if x.buffer != y.buffer or storage_of(program, x.buffer) != x.buffer:
                    return f"`{storage_of(program, x.buffer)}` is touched through a view"
                if not _apart(_Side(a, x, first), _Side(b, y, second)):
                    return (
                        f"block `{block_at(b).name}` may touch elements of `{x.buffer}` that block "
                        f"`{block_at(a).name}` touches in a later iteration"
                    )
    return None


def _meeting(program: Program, a: Path, b: Path, written: set[str]) -> Iterator[tuple[Region, Region]]:
    """The pairs of regions of two blocks that may meet in memory, one of them written."""
    one, other = block_at(a), block_at(b)
    for x, x_writes in (*((r, False) for r in one.reads), *((r, True) for r in one.writes)):
        for y, y_writes in (*((r, False) for r in other.reads), *((r, True) for r in other.writes)):
            storage = storage_of(program, x.buffer)
            if storage in written and (x_writes or y_writes) and storage == storage_of(program, y.buffer):
                yield x, y


class _Side(msgspec.Struct, frozen=True):
    path: Path
    region: Region
    under: Under


def _apart(first: _Side, second: _Side) -> bool:
    """Do the boxes differ for each later iteration of the first, whichever loop it is that is further?"""
    loops = [path[-1] for path in second.under.loops]
    others = [path[-1] for path in first.under.loops]
    try:
        one = consumed_box(first.path, first.region, first.under.loops[-1])
        two = consumed_box(second.path, second.region, second.under.loops[-1])
    except MsError:  # where they are has no bounds
        return False
    for level, loop in enumerate(loops):
        ranges: dict[str, Range] = {**ranges_above(second.under.loops[0])}
        ranges |= {s.var: loop_range(s) for s in loops if isinstance(s, For)}
        later: dict[str, Expr] = {}
        for k, (mine, its) in enumerate(zip(others, loops, strict=True)):
            assert isinstance(mine, For) and isinstance(its, For) and isinstance(loop, For)
            if k < level:
                later[mine.var] = Var(its.var)
                continue
            name = fresh(f"{its.var}_more", set(ranges) | free_vars_of(one, two))
            if k == level:
                # from 1 to the extent - 1 iterations further
                ranges[name] = Range(ONE, arith.sub(its.extent, ONE))
                later[mine.var] = arith.add(Var(its.var), Var(name))
            else:
                ranges[name] = loop_range(its)
                later[mine.var] = Var(name)
        moved = tuple(Range(substitute(r.start, later), substitute(r.extent, later)) for r in one)
        if not any(_disjoint(p, q, ranges) for p, q in zip(moved, two, strict=True)):
            return False
    return True


def free_vars_of(*boxes: Box) -> set[str]:
    """The variables in some boxes."""
    return {v for box in boxes for r in box for v in free_vars(r.start) | free_vars(r.extent)}


def _disjoint(a: Range, b: Range, ranges: Mapping[str, Range]) -> bool:
    return any(arith.proved(Binary("<=", arith.add(p.start, p.extent), q.start), ranges) for p, q in ((a, b), (b, a)))


def under(blocks: Sequence[Path], *loops: Path) -> Under:
    """Some leaf blocks under loops, outermost first."""
    return Under(tuple(blocks), loops)
