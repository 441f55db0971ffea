"""Groups of stages along rows: the stages that can be computed for one row of the last of them."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from mslang.ir.expr import Const, Var
from mslang.ir.program import Block, Program
from mslang.ir.visit import free_vars
from mslang.schedule.rules.cpu.contraction import adjacent_reduction, is_dot_of_rows
from mslang.schedule.rules.multi_level import needs_tiling
from mslang.schedule.rules.nests import leaf_blocks, loops_around, own_loop
from mslang.transform.getters import consumers, is_output
from mslang.transform.outcome import BlockRef


class Group(msgspec.Struct, frozen=True):
    """Stages that share rows.

    `last` is the stage that gives the result; `stages` are those before it in program order; `rows` are the leading
    axes of the last stage for whose values the others can be computed one by one. `axes` has for each stage its axes
    that stand for axes of the last one. `products` are the stages with reuse across results of one row.
    """

    last: str
    stages: tuple[str, ...]
    rows: tuple[str, ...]
    axes: Mapping[str, Mapping[str, str]]
    products: tuple[str, ...]


def group_of(program: Program, last: Block) -> Group | None:
    """The group that ends with a block; None if fusing its stages along rows saves nothing.

    It saves something where a reduction along adjacent elements, which is not a product, is among the stages. How many
    rows there are may be known only at the call, if no product is among the stages; how long they are may not.
    """
    spatial = [a.name for a in last.axes if a.kind == "spatial"]
    if not spatial or not _plain(program, last):
        return None
    named = {b.name: b for b in leaf_blocks(program)}
    if last.name not in named:  # a block around others
        return None
    shared: dict[str, Mapping[str, str]] = {last.name: {a: a for a in spatial}}
    for name in reversed(named):
        if name != last.name and (found := _axes_shared(program, named, shared, name)):
            shared[name] = found
    rows: list[str] = []
    for axis in spatial:
        if not all(axis in m.values() for m in shared.values()):
            break
        rows.append(axis)
    stages = tuple(n for n in named if n in shared and n != last.name)
    members = [named[n] for n in (*stages, last.name)]
    reusing = [b for b in members if needs_tiling(program, b, dynamic=True) and not is_dot_of_rows(program, b)]
    if not rows or (reusing and len(rows) == len(spatial)):
        return None
    products = tuple(b.name for b in reusing if not _in_rows(b, shared[b.name], frozenset(rows)))
    dynamic = [(b, a) for b in members for a in b.axes if not isinstance(a.extent, Const)]
    if dynamic and (products or any(shared[b.name].get(a.name) not in rows for b, a in dynamic)):
        return None
    if not any(adjacent_reduction(b) for b in members if b.name not in products):
        return None
    return Group(last.name, stages, tuple(rows), shared, products)


def _in_rows(block: Block, axes: Mapping[str, str], rows: frozenset[str]) -> bool:
    """Whether a block computes one result for each row: a masked maximum reuses its mask, but is no product."""
    return all(axes.get(a.name) in rows for a in block.axes if a.kind == "spatial")


def _plain(program: Program, block: Block) -> bool:
    """Whether each axis of a block has one loop of its own, all of them serial, and nothing else is in these loops; the
    extents are sizes."""
    loops = loops_around(program, block)
    own = [own_loop(program, block, a.name, dynamic=True) for a in block.axes]
    return (
        bool(loops)
        and None not in own
        and {s.var for s in own if s} == {s.var for s in loops}
        and all(s.kind == "serial" for s in loops)
        and len(block.writes) == 1
        and all(a.kind in ("spatial", "reduce") and not free_vars(a.extent) for a in block.axes)
    )


def _axes_shared(
    program: Program, named: Mapping[str, Block], shared: Mapping[str, Mapping[str, str]], name: str
) -> Mapping[str, str]:
    """For each axis of a stage the axis of the last stage that it has the values of, if all users are in the group."""
    block, ref = named[name], BlockRef(name)
    users = [u.name for u in consumers(program, ref)]
    if not users or any(u not in shared for u in users) or is_output(program, ref) or not _plain(program, block):
        return {}
    out: dict[str, str] = {}
    for k, r in enumerate(block.writes[0].ranges):
        if not isinstance(r.start, Var):
            continue
        indices = [
            (shared[u], read.ranges[k].start)
            for u in users
            for read in named[u].reads
            if read.buffer == block.writes[0].buffer
        ]
        targets = {axes.get(e.name) if isinstance(e, Var) else None for axes, e in indices}
        target = targets.pop() if len(targets) == 1 else None
        if target is not None:
            out[r.start.name] = target
    return out
