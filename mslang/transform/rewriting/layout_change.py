"""Sending the accesses of a buffer through an index map, and the regions that blocks declare of it."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec
from msgspec.structs import replace

from mslang.ir import arith
from mslang.ir.expr import ONE, ZERO, Expr, Var
from mslang.ir.index_map import IndexMap
from mslang.ir.program import Block, Buffer, Program, Range, Region
from mslang.ir.region import infer_regions
from mslang.ir.visit import fresh
from mslang.transform.analysis.position import axis_ranges
from mslang.transform.rewriting.access_rewriting import Scope, map_accesses
from mslang.transform.rewriting.rewrite import tidy


class Relayout(msgspec.Struct, frozen=True):
    """Element `x` of the buffer `buffer` becomes `index_map.at(x)`; `buffers` has its new shape."""

    buffer: str
    index_map: IndexMap
    buffers: Mapping[str, Buffer]
    taken: frozenset[str]
    """Names that stand for something in the program."""

    def program(self, program: Program) -> Program:
        """The program with all accesses rewritten (not the buffer itself)."""
        return replace(program, body=map_accesses(program.body, {}, self._access, self._declared))

    def _access(self, buffer: str, indices: tuple[Expr, ...], scope: Scope) -> tuple[Expr, ...]:
        return self._index(indices, scope) if buffer == self.buffer else indices

    def _index(self, indices: tuple[Expr, ...], scope: Scope) -> tuple[Expr, ...]:
        return tuple(tidy(e, scope) for e in self.index_map.at(indices))

    def _declared(self, block: Block) -> Block:
        mine = [r for r in (*block.reads, *block.writes) if r.buffer == self.buffer]
        if not mine:
            return block
        boxes = any(x.extent != ONE for r in mine for x in r.ranges)
        reads, writes = infer_regions(block, self.buffers) if boxes else ((), ())
        return replace(
            block,
            reads=tuple(self._moved(block, r, reads) for r in block.reads),
            writes=tuple(self._moved(block, r, writes) for r in block.writes),
        )

    def _moved(self, block: Block, region: Region, touched: tuple[Region, ...]) -> Region:
        """What is read or written: at least all that the block accesses, as far as it is known."""
        if region.buffer != self.buffer:
            return region
        if all(r.extent == ONE for r in region.ranges):
            return self._point(block, region)
        box = self._box(block, region)
        mine = [r for r in touched if r.buffer == self.buffer]
        if box is not None and all(_holds(box, r, block) for r in mine):
            return box
        shape = self.buffers[self.buffer].shape
        return mine[0] if len(mine) == 1 else Region(self.buffer, tuple(Range(ZERO, n) for n in shape))

    def _point(self, block: Block, region: Region) -> Region:
        starts = self._index(tuple(r.start for r in region.ranges), axis_ranges(block))
        return Region(self.buffer, tuple(Range(e, ONE) for e in starts))

    def _box(self, block: Block, region: Region) -> Region | None:
        """The box that a box becomes; None if it is not known to become one."""
        outer = axis_ranges(block)
        names: list[str] = []
        for _ in region.ranges:
            names.append(fresh("r", self.taken | set(names)))
        moved = {n: Range(ZERO, r.extent) for n, r in zip(names, region.ranges, strict=True)}
        indices = [arith.add(r.start, Var(n)) for n, r in zip(names, region.ranges, strict=True)]
        found = arith.detect([arith.simplify(e, {**outer, **moved}) for e in self.index_map.at(indices)], moved)
        if not isinstance(found, arith.IterMap) or found.level != "bijective":
            return None
        exact = zip(found.starts, found.extents, strict=True)
        return Region(self.buffer, tuple(Range(tidy(a, outer), arith.simplify(n, outer)) for a, n in exact))


def _holds(outer: Region, inner: Region, block: Block) -> bool:
    return arith.covers(outer.ranges, inner.ranges, axis_ranges(block)) is arith.Verdict.PROVED
