"""Sending the accesses of a buffer through an index map, and the regions that blocks declare of it."""

from __future__ import annotations

import msgspec
from msgspec.structs import replace

from mslang.ir import arith
from mslang.ir.expr import ONE, ZERO, Expr, Var
from mslang.ir.index_map import IndexMap
from mslang.ir.program import Block, Program, Range, Region
from mslang.ir.visit import fresh
from mslang.transform.outcome import refuse
from mslang.transform.position import axis_ranges
from mslang.transform.rewrite import tidy
from mslang.transform.scoped import Scope, map_accesses


class Relayout(msgspec.Struct, frozen=True):
    """Buffer `buffer` gets the shape `shape`: element `x` becomes `index_map.at(x)`."""

    primitive: str
    buffer: str
    index_map: IndexMap
    shape: tuple[Expr, ...]
    taken: frozenset[str]
    """Names that stand for something in the program."""

    def program(self, program: Program) -> Program:
        """The program with all accesses rewritten (not the buffer itself).

        Raises:
            ScheduleError: MS388, what a block writes would be no box.
        """
        return replace(program, body=map_accesses(program.body, {}, self._access, self._declared))

    def _access(self, buffer: str, indices: tuple[Expr, ...], scope: Scope) -> tuple[Expr, ...]:
        return self._index(indices, scope) if buffer == self.buffer else indices

    def _index(self, indices: tuple[Expr, ...], scope: Scope) -> tuple[Expr, ...]:
        return tuple(tidy(e, scope) for e in self.index_map.at(indices))

    def _declared(self, block: Block) -> Block:
        return replace(
            block,
            reads=tuple(self._region(block, r, written=False) for r in block.reads),
            writes=tuple(self._region(block, r, written=True) for r in block.writes),
        )

    def _region(self, block: Block, region: Region, *, written: bool) -> Region:
        if region.buffer != self.buffer:
            return region
        outer = axis_ranges(block)
        if all(r.extent == ONE for r in region.ranges):
            starts = self._index(tuple(r.start for r in region.ranges), outer)
            return Region(region.buffer, tuple(Range(e, ONE) for e in starts))
        names: list[str] = []
        for _ in region.ranges:
            names.append(fresh("r", self.taken | set(names)))
        moved = {n: Range(ZERO, r.extent) for n, r in zip(names, region.ranges, strict=True)}
        indices = [arith.add(r.start, Var(n)) for n, r in zip(names, region.ranges, strict=True)]
        exprs = tuple(arith.simplify(e, {**outer, **moved}) for e in self.index_map.at(indices))
        found = arith.detect(exprs, moved)
        if isinstance(found, arith.IterMap) and found.level == "bijective":
            exact = zip(found.starts, found.extents, strict=True)
            return Region(region.buffer, tuple(Range(tidy(a, outer), arith.simplify(n, outer)) for a, n in exact))
        if written:
            raise refuse(
                "MS388",
                self.primitive,
                f"what block `{block.name}` writes of `{region.buffer}` at a time would be no box",
                why="a block says what it writes as a box of the buffer",
                help=f"use {self.primitive} before the block is made, or a map that keeps its pieces whole",
            )
        whole = tuple(Range(ZERO, n) for n in self.shape)
        return Region(region.buffer, arith.relax(exprs, moved, whole))
