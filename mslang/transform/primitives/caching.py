"""Primitives that stage a buffer through another: cache_read, cache_write, cache_inplace."""

from __future__ import annotations

from collections.abc import Sequence

from mslang.ir import arith
from mslang.ir.find import path_to_block
from mslang.ir.program import For, Program
from mslang.transform.analysis.dependence import buffers_read, buffers_written, storage_of, writers
from mslang.transform.analysis.instances import loops_beyond_spatial
from mslang.transform.analysis.loop_kinds import require_shared_apart
from mslang.transform.analysis.outer_accesses import require_in_blocks
from mslang.transform.analysis.position import (
    axis_ranges,
    block_at,
    common_path,
    ranges_above,
    scope_body,
    scope_path,
)
from mslang.transform.kinds import Scope
from mslang.transform.outcome import BlockRef, BufferRef, Outcome, refuse
from mslang.transform.primitive import primitive
from mslang.transform.rewriting.buffer_replacement import read_from, work_on
from mslang.transform.rewriting.rewrite import put
from mslang.transform.rewriting.staging import (
    after_writer,
    copy_between,
    only_writer,
    others_touching,
    provably_written,
    read_box,
    readable,
    require_apart,
    require_begun,
    require_filled,
    require_plain,
    require_users_covered,
    subject,
    users_of,
    with_alloc,
    with_block,
    with_settled_axes,
)


@primitive(family="caching", gives=(BlockRef,))
def cache_read(
    program: Program,
    block: BlockRef,
    buffer: BufferRef,
    scope: Scope = "global",
    *,
    consumers: Sequence[BlockRef] | None = None,
) -> Outcome:
    """Copy what blocks read of a buffer into a new buffer, and let them read that.

    The copy is a block `A_shared` with axes `ax0`, `ax1`, … under loops of its own, and is returned. The new buffer,
    `A_shared_1`, has the shape of the old one (lowering keeps of it what is used). The copy stands after the writer of
    the buffer, in the innermost loop that the writer shares with a reader; without a writer at the start of the scope.
    It copies what the readers read there, or, if some of them are outside of that loop, all that the writer has
    written there.

    `consumers` are the blocks that read the new buffer; by default all that read the old one after its last writer.

    Before:
        block mm[i: 64, j: 64 | k: 64] { C[i, j] += A[i, k] * B[k, j] }

    After:
        # mm.cache_read(A, scope = shared)
        block A_shared[ax0: 64, ax1: 64] { A_shared_1[ax0, ax1] = A[ax0, ax1] }
        block mm[i: 64, j: 64 | k: 64] { C[i, j] += A_shared_1[i, k] * B[k, j] }

    Rejects:
        - an unknown storage scope
        - a block, or one of `consumers`, that does not read the buffer, or that reads it before it is written
        - a buffer that a reader writes too, or that has several writers if a reader is not under all loops of the copy
        - a buffer of which not all that is copied is provably written before, or of which iterations that run at the
          same time write what others would copy

    Source: TVM cache_read
    """
    primitive = "cache_read"
    path, old = subject(program, block, buffer, scope, primitive)
    if old.name not in buffers_read(block_at(path)):
        raise refuse(
            "MS330",
            primitive,
            f"block `{block.name}` does not read `{old.name}`",
            help=f"it reads {', '.join(f'`{b}`' for b in buffers_read(block_at(path))) or 'nothing'}",
        )
    require_in_blocks(program, scope_body(program, path), primitive, written=(old.name,))
    makers = writers(program, scope_body(program, path), old.name)
    source = makers[-1] if makers else None
    if any(b is block_at(path) for b in makers):
        raise refuse(
            "MS333",
            primitive,
            f"block `{block.name}` reads and writes `{old.name}`",
            why="what it reads changes while it runs",
        )
    users = users_of(program, path, old, source, consumers, primitive)
    if consumers is None and not any(b is block_at(path) for b in users):
        raise refuse(
            "MS344",
            primitive,
            f"block `{block.name}` reads `{old.name}` before it is written",
            why="the copy would stand after the writer",
        )
    reading = [path_to_block(program, b.name) or () for b in users]
    writing = () if source is None else path_to_block(program, source.name) or ()
    anchor = after_writer(writing, reading) if writing else (*scope_path(path), scope_body(program, path)[0])
    above, ranges = anchor[:-1], ranges_above(anchor)
    everyone = all(len(common_path(above, q)) == len(above) for q in reading)
    if not everyone:  # What is copied is what a writer makes, not what is read.
        only_writer(program, path, old, primitive)
    limits = readable(path, old)
    box = (
        read_box(reading, old, above, limits, ranges) if everyone else provably_written(writing, old, above, primitive)
    )
    copy = copy_between(program, old, scope, box, limits, ranges, into=True)
    done = put(program, anchor, *((anchor[-1], copy.stmt) if writing else (copy.stmt, anchor[-1])))
    for user in users:
        done = with_block(done, user.name, lambda s: read_from(s, old.name, copy.buffer.name))
    done = with_alloc(done, path, copy.buffer)
    require_filled(done, copy.block, old, primitive)
    require_users_covered(done, copy.block, copy.buffer, users, primitive)
    require_shared_apart(program, done, primitive)
    require_apart(done, copy.block, primitive, only=storage_of(program, old.name))
    return Outcome(with_settled_axes(done, copy.block), (BlockRef(copy.block),))


@primitive(family="caching", gives=(BlockRef,))
def cache_write(
    program: Program,
    block: BlockRef,
    buffer: BufferRef,
    scope: Scope = "global",
    *,
    consumers: Sequence[BlockRef] | None = None,
) -> Outcome:
    """Let a block compute into a new buffer, and copy that to the old one.

    The copy is a block `C_local` with axes `ax0`, `ax1`, … under loops of its own, and is returned. The new buffer,
    `C_local_1`, has the shape of the old one (lowering keeps of it what is used). The copy stands after the block, in
    the innermost loop that the block shares with another that accesses the buffer, else after all of its loops.

    Readers still read the old buffer, but for `consumers`, which read the new one.

    Before:
        block mm[i: 64, j: 64 | k: 64] { C[i, j] += A[i, k] * B[k, j] }

    After:
        # mm.cache_write(C, scope = local)
        block mm[i: 64, j: 64 | k: 64] { C_local_1[i, j] += A[i, k] * B[k, j] }
        block C_local[ax0: 64, ax1: 64] { C[ax0, ax1] = C_local_1[ax0, ax1] }

    Rejects:
        - an unknown storage scope
        - a block that does not write the buffer, or reads it without having started it, or accesses it by another name
        - one of `consumers` that does not read the buffer after the block, or consumers of what others write too
        - a block of which it is not known exactly what it writes
        - another block that accesses the buffer inside a loop over which the block still reduces

    Source: TVM cache_write
    """
    primitive = "cache_write"
    path, old = subject(program, block, buffer, scope, primitive)
    writer = block_at(path)
    if old.name not in buffers_written(writer):
        raise refuse(
            "MS330",
            primitive,
            f"block `{block.name}` does not write `{old.name}`",
            help=f"it writes {', '.join(f'`{b}`' for b in buffers_written(writer)) or 'nothing'}",
        )
    require_in_blocks(program, scope_body(program, path), primitive, read=(old.name,), written=(old.name,))
    require_plain(program, writer, old, primitive)
    if consumers is not None:
        only_writer(program, path, old, primitive)
    users = () if consumers is None else users_of(program, path, old, writer, consumers, primitive)
    anchor = after_writer(path, others_touching(program, path, old.name))
    above = anchor[:-1]
    reduced = [s.var for s in above if isinstance(s, For) and s.var in loops_beyond_spatial(path)]
    if reduced:
        raise refuse(
            "MS346",
            primitive,
            f"loop `{reduced[0]}` still reduces in block `{block.name}`",
            why=f"`{old.name}` is accessed in it by another block, and the copy would be of partial results",
        )
    require_begun(program, path, old, above, primitive)
    box = provably_written(path, old, above, primitive)
    region = next(r for r in writer.writes if r.buffer == old.name)
    limits = arith.relax(region.ranges, axis_ranges(writer))
    copy = copy_between(program, old, scope, box, limits, ranges_above(anchor), into=False)
    done = put(program, anchor, anchor[-1], copy.stmt)
    done = with_block(done, block.name, lambda s: work_on(s, old.name, copy.buffer.name))
    for user in users:
        done = with_block(done, user.name, lambda s: read_from(s, old.name, copy.buffer.name))
    done = with_alloc(done, path, copy.buffer)
    require_users_covered(done, block.name, copy.buffer, users, primitive)
    require_shared_apart(program, done, primitive)
    return Outcome(with_settled_axes(done, copy.block), (BlockRef(copy.block),))


@primitive(family="caching", gives=(BlockRef, BlockRef))
def cache_inplace(program: Program, block: BlockRef, buffer: BufferRef, scope: Scope = "global") -> Outcome:
    """Let a block that reads and writes a buffer do so in a new buffer, filled before and copied back after.

    Two copies are made and returned: `A_local`, which fills the new buffer `A_local_1` with what the block reads, and
    `A_local_back`, which copies to the old one what the block has written. They stand around the statement nearest to
    the program that holds the block and no other that accesses the buffer.

    Before:
        block add[i: 64] { A[i] = A[i] + B[i] }

    After:
        # add.cache_inplace(A, scope = local)
        block A_local[ax0: 64] { A_local_1[ax0] = A[ax0] }
        block add[i: 64] { A_local_1[i] = A_local_1[i] + B[i] }
        block A_local_back[ax0: 64] { A[ax0] = A_local_1[ax0] }

    Rejects:
        - an unknown storage scope
        - a block that does not both read and write the buffer
        - a buffer that the block accesses by another name too, or that is accessed outside of blocks
        - a buffer of which not all that is read is provably written before
        - a block of which it is not known exactly what it writes
        - another block that accesses the buffer inside a loop over which the block reduces

    Source: TVM cache_inplace
    """
    primitive = "cache_inplace"
    path, old = subject(program, block, buffer, scope, primitive)
    target = block_at(path)
    for verb, found in (("read", buffers_read(target)), ("write", buffers_written(target))):
        if old.name not in found:
            raise refuse(
                "MS330",
                primitive,
                f"block `{block.name}` does not {verb} `{old.name}`",
                why="the block must do both",
                help="cache_read or cache_write stage a buffer that is read or written only",
            )
    require_in_blocks(program, scope_body(program, path), primitive, read=(old.name,), written=(old.name,))
    require_plain(program, target, old, primitive)
    anchor = after_writer(path, others_touching(program, path, old.name))
    above, ranges = anchor[:-1], ranges_above(anchor)
    reduced = [s.var for s in above if isinstance(s, For) and s.var in loops_beyond_spatial(path)]
    if reduced:
        raise refuse(
            "MS346",
            primitive,
            f"loop `{reduced[0]}` still reduces in block `{block.name}`",
            why=f"`{old.name}` is accessed by another block in it, and the copies would be of partial results",
        )
    written = provably_written(path, old, above, primitive)
    image = next(arith.relax(r.ranges, axis_ranges(target)) for r in target.writes if r.buffer == old.name)
    limits = readable(path, old)
    wanted = read_box([path], old, above, limits, ranges)
    if any(isinstance(s, For) for s in above) and arith.covers(written, wanted, ranges) is not arith.Verdict.PROVED:
        raise refuse(
            "MS346",
            primitive,
            f"block `{block.name}` may read more of `{old.name}` than it writes in one iteration of the enclosing "
            "loops",
            why="other iterations change that, and the copies of it would differ",
        )
    fill = copy_between(program, old, scope, wanted, limits, ranges, into=True)
    done = put(program, anchor, fill.stmt, anchor[-1])
    done = with_alloc(done, path, fill.buffer)
    require_filled(done, fill.block, old, primitive)
    done = with_block(done, block.name, lambda s: work_on(s, old.name, fill.buffer.name))
    require_users_covered(done, fill.block, fill.buffer, [block_at(path_to_block(done, block.name) or ())], primitive)
    anchor = (path_to_block(done, block.name) or ())[: len(anchor)]
    back = copy_between(done, old, scope, written, image, ranges, into=False, other=fill.buffer)
    done = put(done, anchor, anchor[-1], back.stmt)
    require_apart(done, fill.block, primitive)
    require_shared_apart(program, done, primitive)
    done = with_settled_axes(with_settled_axes(done, fill.block), back.block)
    return Outcome(done, (BlockRef(fill.block), BlockRef(back.block)))
