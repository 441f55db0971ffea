"""Accesses of a block's instances: reads and writes of its init and of its body, each apart, and of its predicate.

A block with an init declares no read of the elements that its body updates. Whether an instance reads what another
instance or another block wrote depends on the init: on what it overwrites, and on the iterations at which it runs (see
`initialization`). The footprints here leave nothing out: updates are reads and writes.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache

import msgspec
from msgspec.structs import replace

from mslang.diagnostics import MsError
from mslang.ir import arith
from mslang.ir.by_identity import by_identity
from mslang.ir.expr import ONE, ZERO, Load
from mslang.ir.program import Block, For, Range, Region, Stmt
from mslang.ir.region import infer_regions
from mslang.ir.visit import CACHED, Path, loads_of, map_bodies, map_region, substitute
from mslang.transform.analysis.definite_writes import covered_by, init_runs, provably_initialised
from mslang.transform.analysis.position import axis_ranges, block_at, memory_at, predicate_outside


class Footprint(msgspec.Struct, frozen=True):
    """The regions that statements of a block may read and may write, by the axes of the block."""

    reads: tuple[Region, ...]
    writes: tuple[Region, ...]


@lru_cache(maxsize=4096)
def body_footprint(block: Block) -> Footprint:
    """What the body of a block may access; elements that it updates are read and written."""
    return _footprint(replace(block, init=None))


@lru_cache(maxsize=4096)
def init_footprint(block: Block) -> Footprint:
    """What the init of a block may access."""
    return _footprint(replace(block, init=None, body=block.init or ()))


def _footprint(block: Block) -> Footprint:
    """What the body of a block without init may access: what it declares, where data decide how far a loop runs."""
    try:
        return Footprint(*infer_regions(replace(block, body=_with_updates(block.body, (block,)))))
    except MsError:
        updated = tuple(r for r in block.writes if r not in block.reads)
        return Footprint((*block.reads, *updated), block.writes)


def _with_updates(body: tuple[Stmt, ...], above: Path) -> tuple[Stmt, ...]:
    """Statements in which blocks declare to read what they update, where their init may not start it."""
    return tuple(_declaring(s, above) for s in body)


def _declaring(s: Stmt, above: Path) -> Stmt:
    if not isinstance(s, Block):
        return map_bodies(s, lambda body: _with_updates(body, (*above, s)))
    if s.init is None:
        return s
    updated = {r.buffer for r in updated_regions(s)}
    if init_runs((*above, s), above[:1]) and all(_starts(s, b) for b in updated):
        return s
    return replace(s, reads=(*s.reads, *(r for r in s.writes if r.buffer in updated and r not in s.reads)))


def _starts(block: Block, buffer: str) -> bool:
    """Does the init of a block store, unconditionally and without reading it, all that its body reads of a buffer?"""
    made = [box for name, box in provably_initialised(block) if name == buffer]
    read = [r.ranges for r in body_footprint(block).reads if r.buffer == buffer]
    before = any(r.buffer == buffer for r in init_footprint(block).reads)
    return not before and all(covered_by(made, box, axis_ranges(block)) for box in read)


def _settled(block: Block, region: Region) -> Region:
    """A region in which axes of extent 1 have their only value."""
    values = {a.name: ZERO for a in block.axes if a.extent == ONE}
    return map_region(region, lambda e: arith.simplify(substitute(e, values))) if values else region


@by_identity(size=CACHED)
def written_by(block: Block) -> frozenset[str]:
    """The buffers that a block writes, in its init or in its body."""
    several = (block.writes, body_footprint(block).writes, init_footprint(block).writes)
    return frozenset(r.buffer for regions in several for r in regions)


@by_identity(size=CACHED)
def updated_regions(block: Block) -> tuple[Region, ...]:
    """The regions of buffers that a block writes and that it reads in its body or init, declared or not."""
    written = written_by(block)
    found = (*block.reads, *body_footprint(block).reads, *init_footprint(block).reads)
    return tuple(dict.fromkeys(r for r in found if r.buffer in written))


@by_identity(size=CACHED)
def guard_loads(block: Block) -> tuple[Load, ...]:
    """The loads in the predicate and in the bindings of a block, indexed by the variables around the block."""
    outside = (predicate_outside(block), *(a.binding for a in block.axes))
    return tuple(dict.fromkeys(x for e in outside for x in loads_of(e)))


def guard_regions(block: Block) -> tuple[Region, ...]:
    """The elements that the predicate and the bindings of a block load, by the variables around the block."""
    return _elements(guard_loads(block))


def bound_loads(loops: Iterable[For]) -> tuple[Load, ...]:
    """The loads in the bounds of some loops, each indexed by the variables around its loop."""
    return tuple(dict.fromkeys(x for s in loops for e in (s.start, s.extent) for x in loads_of(e)))


def bound_regions(loops: Iterable[For]) -> tuple[Region, ...]:
    """The elements that the bounds of some loops load, by the variables around each."""
    return _elements(bound_loads(loops))


def _elements(loads: Iterable[Load]) -> tuple[Region, ...]:
    return tuple(Region(x.buffer, tuple(Range(i, ONE) for i in x.indices)) for x in loads)


# ------------------------------------------------------------------ elements of its own
def why_several_names(path: Path) -> str | None:
    """None if the block at the end of a path accesses each memory that it writes by one name: what is asked of the
    buffers of a block is asked by their names, and a view of a block around is another name."""
    block, around = block_at(path), path[:-1]
    if not any(isinstance(s, Block) and s.views for s in around):
        return None
    written = written_by(block)
    read = {r.buffer for r in (*block.reads, *body_footprint(block).reads, *init_footprint(block).reads)}
    names = sorted(written | read | {x.buffer for x in guard_loads(block)})
    for name in sorted(written):
        memory = memory_at(around, (name,))
        other = next((n for n in names if n != name and memory_at(around, (n,)) == memory), None)
        if other is not None:
            return f"block `{block.name}` accesses `{name}`, which it writes, as `{other}`, too"
    return None


def why_not_own_elements(block: Block) -> str | None:
    """None if an instance of a block reads of the buffers that it writes only the elements that it writes itself.

    Instances that differ in a spatial axis write different elements, so then no instance reads what another one with
    other spatial axes wrote.
    """
    writes = [_settled(block, w) for w in (*block.writes, *body_footprint(block).writes)]
    for r in dict.fromkeys(_settled(block, r) for r in updated_regions(block)):
        own = [w for w in dict.fromkeys(writes) if w.buffer == r.buffer]
        if r not in own:
            return f"block `{block.name}` reads other elements of `{r.buffer}` than it writes"
        if len(own) > 1:
            return f"block `{block.name}` reads and writes several parts of `{r.buffer}`"
    for x in guard_loads(block):
        if x.buffer in written_by(block):
            return f"the predicate of block `{block.name}` reads `{x.buffer}`, which the block writes"
    return None


__all__ = [
    "Footprint",
    "body_footprint",
    "bound_loads",
    "bound_regions",
    "guard_loads",
    "guard_regions",
    "init_footprint",
    "updated_regions",
    "why_not_own_elements",
    "why_several_names",
    "written_by",
]
