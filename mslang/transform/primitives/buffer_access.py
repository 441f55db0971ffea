"""Primitives that change what a block declares to access: annotate_buffer_access, unsafe_hide_buffer_access."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from msgspec.structs import replace

from mslang.ir import arith
from mslang.ir.expr import ONE, ZERO, Binary, Expr, Var
from mslang.ir.find import all_buffers
from mslang.ir.index_map import TO, IndexMap
from mslang.ir.program import Annotations, Block, Buffer, Program, Range, Region
from mslang.ir.region import HIDDEN, infer_regions
from mslang.ir.visit import Path
from mslang.transform.analysis.bounds_by_enumeration import inside
from mslang.transform.analysis.cover import consumed_box, covers
from mslang.transform.analysis.definite_writes import Box
from mslang.transform.analysis.position import (
    axis_ranges,
    block_at,
    block_path,
    buffer_named,
    scope_block,
    scope_path,
)
from mslang.transform.kinds import Access, RegionMap
from mslang.transform.outcome import BlockRef, BufferRef, Outcome, refuse
from mslang.transform.primitive import primitive
from mslang.transform.rewriting.rewrite import put

EXPLICIT = {"read": "explicit_read_region", "write": "explicit_write_region"}
"""The annotations that tell which of its regions a block was given: their numbers."""


@primitive(family="blocks")
def annotate_buffer_access(
    program: Program, block: BlockRef, buffer: BufferRef, access: Access, map: RegionMap
) -> Outcome:
    """Say which part of a buffer a block reads, or writes, in place of what its body tells.

    `map` takes the axes of the block and gives a range or an index for each dimension of the buffer. The block keeps in
    the annotation `explicit_read_region` (`explicit_write_region`) the numbers of the regions given so. What is
    declared must hold all that the body accesses. Where that cannot be derived from the form of the indices (they are
    rounded floats), it is tried for all values of the axes. It may hold more: what is provably written is derived from
    the body, not from the declaration.

    Before:
        block b[i: 62] { B[i] = A[i + 1] * 2.0 }

    After:
        # b.annotate_buffer_access(A, read, fn (i) -> [i .. i + 3])
        block b[i: 62] {
            attr "explicit_read_region" = [0]
            reads A[i .. i + 3]
            writes B[i]
            B[i] = A[i + 1] * 2.0
        }

    Rejects:
        - a block that does not access the buffer so
        - a map with another number of parameters than the block has axes, or of results than the buffer has
          dimensions, or with a range that is not provably 1 or longer
        - a region that does not provably hold all that the body accesses, as where indices are loaded
        - for a block inside of another: a region that may hold more than before

    Source: TVM annotate_buffer_access
    """
    primitive = "annotate_buffer_access"
    path = block_path(program, block, primitive)
    old = buffer_named(program, buffer, primitive)
    target = block_at(path)
    regions = target.writes if access == "write" else target.reads
    number = next((k for k, r in enumerate(regions) if r.buffer == old.name), None)
    if number is None:
        raise _untouched(target, old.name, access, regions, primitive)
    box = _box(target, old, map, primitive)
    _require_holding(program, path, old, access, box, primitive)
    kept = tuple(
        Region(old.name, box) if k == number else r
        for k, r in enumerate(regions)
        if k == number or r.buffer != old.name
    )
    notes = _noted(target.annotations, EXPLICIT[access], number)
    return Outcome(put(program, path, _declaring(replace(target, annotations=notes), access, kept)))


@primitive(family="blocks")
def unsafe_hide_buffer_access(
    program: Program, block: BlockRef, access: Access, buffers: Sequence[BufferRef]
) -> Outcome:
    """Take buffers from what a block declares to read, or to write, though it still does.

    Other primitives do not see these accesses any more: nobody checks what that does to their results. The block
    keeps the names in the annotation `hidden_reads` (`hidden_writes`), by which it stays well formed.

    Before:
        block b[i: 64] { B[i] = A[i] + C[i] }

    After:
        # b.unsafe_hide_buffer_access(read, [C])
        block b[i: 64] {
            attr "hidden_reads" = ["C"]
            reads A[i]
            writes B[i]
            B[i] = A[i] + C[i]
        }

    Rejects:
        - a block that does not declare to read, or write, one of the buffers

    Source: TVM unsafe_hide_buffer_access
    """
    primitive = "unsafe_hide_buffer_access"
    path = block_path(program, block, primitive)
    target = block_at(path)
    regions = target.writes if access == "write" else target.reads
    names = tuple(dict.fromkeys(b.name for b in buffers))
    for name in names:
        if all(r.buffer != name for r in regions):
            raise _untouched(target, name, access, regions, primitive)
    key = HIDDEN[access]
    before = dict(target.annotations).get(key, ())
    hidden = (*(before if isinstance(before, tuple) else ()), *names)
    notes = (*(n for n in target.annotations if n[0] != key), (key, hidden))
    left = tuple(r for r in regions if r.buffer not in names)
    return Outcome(put(program, path, _declaring(replace(target, annotations=notes), access, left)))


def _declaring(block: Block, access: str, regions: tuple[Region, ...]) -> Block:
    return replace(block, writes=regions) if access == "write" else replace(block, reads=regions)


def _untouched(block: Block, name: str, access: str, regions: Sequence[Region], primitive: str) -> Exception:
    names = ", ".join(f"`{b}`" for b in dict.fromkeys(r.buffer for r in regions))
    return refuse(
        "MS330",
        primitive,
        f"block `{block.name}` does not {access} `{name}`",
        help=f"it {access}s {names or 'nothing'}",
    )


# ------------------------------------------------------------------ regions
def _box(block: Block, old: Buffer, map: IndexMap, primitive: str) -> Box:
    if len(map.params) != len(block.axes) or len(map.results) != len(old.shape):
        raise refuse(
            "MS361",
            primitive,
            f"the map takes {len(map.params)} indices and gives {len(map.results)}",
            why=f"block `{block.name}` has {len(block.axes)} axes, `{old.name}` has {len(old.shape)} dimensions",
        )
    return tuple(_range(e, block, primitive) for e in map.at([Var(a.name) for a in block.axes]))


def _range(e: Expr, block: Block, primitive: str) -> Range:
    if not (isinstance(e, Binary) and e.op == TO):
        return Range(arith.simplify(e), ONE)
    extent = arith.simplify(arith.sub(e.right, e.left))
    if not arith.proved(Binary("<=", ONE, extent), axis_ranges(block)):
        raise refuse(
            "MS361", primitive, "a range of the map may be empty", why="its end is not provably after its start"
        )
    return Range(arith.simplify(e.left), extent)


def _require_holding(program: Program, path: Path, old: Buffer, access: str, box: Box, primitive: str) -> None:
    block = block_at(path)
    if not _holds(block, all_buffers(program), old, access, box):
        raise refuse(
            "MS365",
            primitive,
            f"the region does not provably hold all that block `{block.name}` accesses of `{old.name}`",
            why="other primitives would copy or compute too little",
            help="it is proved, or tried for all values of the axes, where the body computes indices from these alone",
        )
    if not _declared_outside(path, old, access, box):
        raise refuse(
            "MS365",
            primitive,
            f"the region may hold more of `{old.name}` than block `{block.name}` has declared",
            why=f"its enclosing block does not declare that it {access}s it",
        )


def _declared_outside(path: Path, old: Buffer, access: str, box: Box) -> bool:
    """Does the block around the end of a path provably declare a box? It holds what was declared before."""
    block, scope = block_at(path), scope_block(path)
    if scope is None or any(b.name == old.name for b in scope.allocs):
        return True
    before, around = (
        [r.ranges for r in (b.writes if access == "write" else b.reads) if r.buffer == old.name] for b in (block, scope)
    )
    if any(covers(b, box, old, axis_ranges(block)) for b in before):
        return True
    found = consumed_box(path, Region(old.name, box), scope_path(path), old)
    return any(covers(b, found, old, axis_ranges(scope)) for b in around)


def _holds(block: Block, buffers: Mapping[str, Buffer], old: Buffer, access: str, box: Box) -> bool:
    """Does a box hold all that the body of a block accesses of a buffer: joined, or access by access?"""
    ranges = axis_ranges(block)
    joined, apart = (
        [r.ranges for r in found[access == "write"] if r.buffer == old.name]
        for found in (infer_regions(block, buffers), infer_regions(block))
    )
    return all(covers(box, x, old, ranges) for x in joined) or all(
        covers(box, x, old, ranges) or all(_tried(own, one, ranges) for own, one in zip(box, x, strict=True))
        for x in apart
    )


def _tried(own: Range, touched: Range, ranges: Mapping[str, Range]) -> bool:
    if arith.covers((own,), (touched,), ranges) is arith.Verdict.PROVED:
        return True
    end, last = arith.add(own.start, own.extent), arith.sub(touched.extent, ONE)
    return inside(touched.start, own.start, end, ranges) and (
        arith.equal(last, ZERO) or inside(arith.add(touched.start, last), own.start, end, ranges)
    )


def _noted(notes: Annotations, key: str, number: int) -> Annotations:
    before = dict(notes).get(key, ())
    numbers = before if isinstance(before, tuple) else ()
    now = numbers if number in numbers else (*numbers, number)
    return (*(n for n in notes if n[0] != key), (key, now))


__all__ = ["annotate_buffer_access", "unsafe_hide_buffer_access"]
