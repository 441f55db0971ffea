"""Primitives that stage a buffer in one iteration of a loop: read_at, write_at."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec.structs import replace

from mslang.ir import arith
from mslang.ir.find import blocks_of, path_to_block, path_to_loop
from mslang.ir.program import Block, Buffer, For, Program, Range, Stmt
from mslang.ir.region import hidden
from mslang.ir.visit import Path
from mslang.transform.analysis.cover import Box, image, produced_box, why_not_covered
from mslang.transform.analysis.dependence import (
    buffers_read,
    buffers_written,
    storage_of,
    storages_read,
    storages_written,
)
from mslang.transform.analysis.initialization import regions_read
from mslang.transform.analysis.instances import loops_beyond_spatial
from mslang.transform.analysis.legality import why_not_stage_pipeline
from mslang.transform.analysis.loop_kinds import require_joined, require_shared_apart
from mslang.transform.analysis.outer_accesses import require_in_blocks
from mslang.transform.analysis.position import block_at, is_under, leaves, loop_at, loop_path, scope_body
from mslang.transform.kinds import Scope
from mslang.transform.outcome import BlockRef, BufferRef, LoopRef, Outcome, refuse
from mslang.transform.primitive import primitive
from mslang.transform.rewriting.block_moving import loops_to, ranges_inside
from mslang.transform.rewriting.buffer_replacement import work_on
from mslang.transform.rewriting.rewrite import put
from mslang.transform.rewriting.staging import (
    Copy,
    copy_between,
    read_box,
    readable,
    require_apart,
    require_filled,
    require_plain,
    subject,
    with_alloc,
    with_settled_axes,
)

AUTO_COPY = "auto_copy"
"""The annotation of a block that copies what one iteration of a loop accesses."""


@primitive(family="caching", gives=(BlockRef,))
def read_at(program: Program, block: BlockRef, loop: LoopRef, buffer: BufferRef, scope: Scope = "global") -> Outcome:
    """Copy what one iteration of a loop reads of a buffer into a new buffer.

    All blocks under the loop that read the old one read that. The copy is a block `A_shared` under loops of its own,
    before the first statement of the loop that reads the buffer; it has the annotation `auto_copy = 1` and is returned.
    It copies the box of all that blocks under the loop read in one iteration. Blocks elsewhere read the old buffer.

    Before:
        for i0 in 0..8, i1 in 0..8 {
            block b[i: 64 = i0 * 8 + i1] { B[i] = A[i] * 2.0 }
        }

    After:
        # b.read_at(i0, A, shared)
        for i0 in 0..8 {
            for ax0 in 0..8 {
                block A_shared[ax0: 64 = i0 * 8 + ax0] {
                    attr "auto_copy" = 1
                    A_shared_1[ax0] = A[ax0]
                }
            }
            for i1 in 0..8 {
                block b[i: 64 = i0 * 8 + i1] { B[i] = A_shared_1[i] * 2.0 }
            }
        }

    Rejects:
        - an unknown storage scope
        - a block that does not read the buffer, or a loop that is not above it or is vectorized
        - a scope that is not a stage pipeline for the buffer, or a block under the loop that writes it after it is read
          there
        - a buffer that is accessed by another name, by a block under the loop that hides it, or outside of blocks
        - elements that are not provably written before

    Source: TVM read_at
    """
    primitive = "read_at"
    path, old = subject(program, block, buffer, scope, primitive)
    target = _place(program, path, loop, old, buffers_read(block_at(path)), "read", primitive)
    reading, writing = _positions(program, loop_at(target), old)
    at = reading[0]
    if writing and writing[-1] >= at:
        raise refuse(
            "MS362",
            primitive,
            f"`{old.name}` is written under loop `{loop.name}` after it is read there first",
            why="the copy would hold what was there before",
        )
    users = _users(program, loop_at(target).body[at:], old)
    for user in users:
        require_plain(program, block_at(user), old, primitive)
    limits, ranges = readable(path, old), ranges_inside(target)
    box = read_box(users, old, target, limits, ranges)
    copy = copy_between(program, old, scope, box, limits, ranges, into=True)
    done = _replaced(program, path, target, old, copy, at, at, len(loop_at(target).body))
    require_filled(done, copy.block, old, primitive)
    _require_covered(done, loop, copy.buffer, primitive)
    require_joined(done, primitive)
    require_shared_apart(program, done, primitive)
    require_apart(done, copy.block, primitive)
    return Outcome(with_settled_axes(done, copy.block), (BlockRef(copy.block),))


@primitive(family="caching", gives=(BlockRef,))
def write_at(program: Program, block: BlockRef, loop: LoopRef, buffer: BufferRef, scope: Scope = "global") -> Outcome:
    """Let all blocks under a loop compute into a new buffer, and copy to the old one what one iteration has written.

    The copy is a block `C_local` under loops of its own, after the last statement of the loop that writes the buffer;
    it has the annotation `auto_copy = 1` and is returned. Blocks under the loop that read the buffer before then read
    the new one.

    Before:
        for i0 in 0..8, i1 in 0..8 {
            block b[i: 64 = i0 * 8 + i1] { B[i] = A[i] * 2.0 }
        }

    After:
        # b.write_at(i0, B, local)
        for i0 in 0..8 {
            for i1 in 0..8 {
                block b[i: 64 = i0 * 8 + i1] { B_local_1[i] = A[i] * 2.0 }
            }
            for ax0 in 0..8 {
                block B_local[ax0: 64 = i0 * 8 + ax0] {
                    attr "auto_copy" = 1
                    B[ax0] = B_local_1[ax0]
                }
            }
        }

    Rejects:
        - an unknown storage scope
        - a block that does not write the buffer, or a loop that is not above it or is vectorized
        - a scope that is not a stage pipeline for the buffer, or a block under the loop that reads it after it is
          written there last
        - a buffer that is accessed by another name, by a block under the loop that hides it, or outside of blocks
        - a loop over which a writer still reduces, or a writer of which it is not known exactly what it writes in one
          iteration; several that write different parts
        - a block that reads what the same iteration has not provably written before

    Source: TVM write_at
    """
    primitive = "write_at"
    path, old = subject(program, block, buffer, scope, primitive)
    target = _place(program, path, loop, old, buffers_written(block_at(path)), "write", primitive)
    body = loop_at(target).body
    reading, writing = _positions(program, loop_at(target), old)
    at = writing[-1] + 1
    if reading and reading[-1] >= at:
        raise refuse(
            "MS362",
            primitive,
            f"`{old.name}` is read under loop `{loop.name}` after it is written there last",
            why="the copy stands after the last of them",
            help="write_at at a loop that holds the writers alone, or cache_write",
        )
    users = _users(program, body[:at], old)
    for user in users:
        require_plain(program, block_at(user), old, primitive)
    makers = [q for q in users if old.name in buffers_written(block_at(q))]
    box, limits = _exactly_written(makers, old, target, primitive)
    copy = copy_between(program, old, scope, box, limits, ranges_inside(target), into=False)
    done = _replaced(program, path, target, old, copy, at, 0, at)
    _require_covered(done, loop, copy.buffer, primitive)
    require_joined(done, primitive)
    require_shared_apart(program, done, primitive)
    require_apart(done, copy.block, primitive)
    return Outcome(with_settled_axes(done, copy.block), (BlockRef(copy.block),))


# ------------------------------------------------------------------ what is asked for
def _place(
    program: Program, path: Path, loop: LoopRef, old: Buffer, touched: Sequence[str], verb: str, primitive: str
) -> Path:
    """The path to the loop at which the block at the end of `path` is to have the buffer staged."""
    block = block_at(path)
    if old.name not in touched:
        raise refuse(
            "MS330",
            primitive,
            f"block `{block.name}` does not {verb} `{old.name}`",
            help=f"it {verb}s {', '.join(f'`{b}`' for b in touched) or 'nothing'}",
        )
    target = loop_path(program, loop, primitive)
    if not is_under(path, target[-1]) or leaves(target[-1]) == () or block not in leaves(target[-1]):
        raise refuse(
            "MS340",
            primitive,
            f"loop `{loop.name}` is not above block `{block.name}` in its scope",
            why="what one iteration of the loop accesses is staged",
        )
    vector = next((s.var for s in loops_to(target) if s.kind == "vectorized"), None)
    if vector is not None:
        raise refuse(
            "MS346",
            primitive,
            f"loop `{vector}` is vectorized",
            why="a vectorized loop holds one block, in lanes",
            help="vectorize after staging",
        )
    hiding = next((b for b in blocks_of(target[-1:]) if old.name in hidden(b, "read") | hidden(b, "write")), None)
    if hiding is not None:
        raise refuse(
            "MS352",
            primitive,
            f"block `{hiding.name}` hides that it accesses `{old.name}`",
            why="it is not known which part of it is to be staged",
        )
    names = (old.name,)
    require_in_blocks(program, scope_body(program, path), primitive, read=names, written=names)
    reason = why_not_stage_pipeline(program, path, {old.name})
    if reason is not None:
        raise refuse(
            "MS362",
            primitive,
            f"block `{block.name}` stands in a scope that is not a stage pipeline for `{old.name}`",
            why=reason,
        )
    return target


def _positions(program: Program, loop: For, old: Buffer) -> tuple[list[int], list[int]]:
    """The numbers of the statements of a loop that read a buffer, and of those that write it."""
    storage = storage_of(program, old.name)
    parts = [leaves(s) for s in loop.body]
    return (
        [k for k, found in enumerate(parts) if any(storage in storages_read(program, b) for b in found)],
        [k for k, found in enumerate(parts) if any(storage in storages_written(program, b) for b in found)],
    )


def _users(program: Program, body: Sequence[Stmt], old: Buffer) -> list[Path]:
    """The paths of the blocks of some statements that access a buffer."""
    storage = storage_of(program, old.name)
    return [
        path_to_block(program, b.name) or ()
        for b in leaves(*body)
        if storage in storages_read(program, b) | storages_written(program, b)
    ]


def _exactly_written(makers: Sequence[Path], old: Buffer, target: Path, primitive: str) -> tuple[Box, Box]:
    """The box that each of some blocks provably writes in one iteration of a loop, and the least of what bounds it."""
    found: list[tuple[Box, Box]] = []
    for path in makers:
        block = block_at(path)
        reduced = [s.var for s in loops_to(target) if s.var in loops_beyond_spatial(path)]
        if reduced:
            raise refuse(
                "MS346",
                primitive,
                f"loop `{reduced[0]}` still reduces in block `{block.name}`",
                why="the copy would be of partial results: one instance of it would store several values",
                help="write_at at a loop around those that reduce",
            )
        for region in block.writes:
            if region.buffer == old.name:
                box = produced_box(path, region, target)
                if box is None:
                    raise refuse(
                        "MS332",
                        primitive,
                        f"it is not known which part of `{old.name}` block `{block.name}` writes",
                        why="a copy must not access what is not written",
                    )
                found.append((box, image(block, region)))
    first, ranges = found[0], ranges_inside(target)
    for box, reached in found[1:]:
        if not _same(box, first[0], ranges) or not _same(reached, first[1], ranges):
            raise refuse(
                "MS332",
                primitive,
                f"blocks under the loop write different parts of `{old.name}`",
                why="a copy must not access what is not written",
            )
    return first


def _same(a: Box, b: Box, ranges: dict[str, Range]) -> bool:
    return all(
        arith.equal(x.start, y.start, ranges) and arith.equal(x.extent, y.extent, ranges)
        for x, y in zip(a, b, strict=True)
    )


def _require_covered(program: Program, loop: LoopRef, buffer: Buffer, primitive: str) -> None:
    """Each block under the loop that reads the new buffer reads what the same iteration has provably written."""
    above = path_to_loop(program, loop.name) or ()
    inside = leaves(*loop_at(above).body)
    for k, block in enumerate(inside):
        read = regions_read(path_to_block(program, block.name) or (), above)
        asked = tuple(r for r in read if r.buffer == buffer.name)
        if not asked:
            continue
        made = any(buffer.name in buffers_written(b) for b in inside[:k])
        reason = (
            why_not_covered(program, path_to_block(program, block.name) or (), asked)
            if made
            else f"no block under the loop writes `{buffer.name}` before it"
        )
        if reason is not None:
            raise refuse(
                "MS332",
                primitive,
                f"block `{block.name}` would read elements that the same iteration has not provably written",
                why=reason,
            )


# ------------------------------------------------------------------ rewriting
def _replaced(
    program: Program, path: Path, target: Path, old: Buffer, copy: Copy, at: int, first: int, end: int
) -> Program:
    """The program with the copy at a position of the loop, whose statements from `first` to `end` use its buffer."""
    loop = loop_at(target)
    body = [work_on(s, old.name, copy.buffer.name) if first <= k < end else s for k, s in enumerate(loop.body)]
    body.insert(at, _marked(copy.stmt))
    return with_alloc(put(program, target, replace(loop, body=tuple(body))), path, copy.buffer)


def _marked(s: Stmt) -> Stmt:
    match s:
        case For(body=(inner,)):
            return replace(s, body=(_marked(inner),))
        case Block():
            return replace(s, annotations=(*s.annotations, (AUTO_COPY, 1)))
    raise TypeError(f"no copy: {s!r}")


__all__ = ["AUTO_COPY", "read_at", "write_at"]
