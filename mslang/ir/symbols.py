"""The symbols of a program: its dynamic sizes and the decisions that it is parametric in."""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from typing import TYPE_CHECKING

from mslang.ir.expr import Domain, Expr, FreeTile, PartitionedTile, PerfectTile, Symbol
from mslang.ir.nodes import Annotations, AttrValue, Block, Buffer, For, Stmt
from mslang.ir.visit import CACHED, bodies, stmt_exprs, walk_expr

if TYPE_CHECKING:
    from mslang.ir.program import Program


def symbols_of(p: Program) -> tuple[Symbol, ...]:
    """One symbol for each name: dynamic sizes first, then in the order of use, but after those in its domain."""
    found: dict[str, Symbol] = {}
    buffers = (*(q.buffer for q in p.params), *p.allocs)
    packed = (e for q in p.params if q.packing is not None for e in (*q.packing.shape, *q.packing.results))
    within = (e for q in p.params if q.within is not None for e in (q.within.low, q.within.high))
    declared = (e for b in buffers for e in buffer_exprs(b))
    for e in (*p.dynamic, *declared, *packed, *within, *annotation_exprs(p.annotations)):
        _collect(e, found)
    for s in p.body:
        for x in _symbols_in(s):
            found.setdefault(x.name, x)
    return tuple(found.values())


@lru_cache(maxsize=CACHED)
def _symbols_in(s: Stmt) -> tuple[Symbol, ...]:
    found: dict[str, Symbol] = {}
    for e in all_exprs(s):
        _collect(e, found)
    for b in bodies(s):
        for inner in b:
            for x in _symbols_in(inner):
                found.setdefault(x.name, x)
    return tuple(found.values())


def _collect(e: Expr, found: dict[str, Symbol]) -> None:
    for x in walk_expr(e):
        if isinstance(x, Symbol) and x.name not in found:
            extent = extent_of(x.domain)
            if extent is not None:
                _collect(extent, found)
            found[x.name] = x


def extent_of(d: Domain) -> Expr | None:
    """What a tile divides; None for other domains."""
    match d:
        case PerfectTile(extent=e) | FreeTile(extent=e) | PartitionedTile(extent=e):
            return e
    return None


def all_exprs(s: Stmt) -> Iterator[Expr]:
    """The expressions written in a statement itself: what `stmt_exprs` gives, allocations, views and annotations."""
    yield from stmt_exprs(s)
    match s:
        case For(annotations=notes):
            yield from annotation_exprs(notes)
        case Block(allocs=allocs, views=views, annotations=notes):
            for b in allocs:
                yield from buffer_exprs(b)
            for v in views:
                yield from buffer_exprs(v.buffer)
                for r in v.source.ranges:
                    yield from (r.start, r.extent)
            yield from annotation_exprs(notes)


def buffer_exprs(b: Buffer) -> Iterator[Expr]:
    """The expressions of a buffer's shape, strides and offset."""
    yield from b.shape
    yield from b.strides or ()
    if b.offset is not None:
        yield b.offset


def annotation_exprs(notes: Annotations) -> Iterator[Expr]:
    """The expressions that annotations hold."""

    def inside(v: AttrValue) -> Iterator[Expr]:
        if isinstance(v, Expr):
            yield v
        elif isinstance(v, tuple):
            for x in v:
                yield from inside(x)

    for _, value in notes:
        yield from inside(value)
