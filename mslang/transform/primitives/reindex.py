"""Primitives that stage a buffer in a layout derived from a block's axes: reindex, reindex_cache_read,
reindex_cache_write."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from mslang.ir import arith
from mslang.ir.expr import ONE, ZERO, Binary, Const, Expr, Load, Var
from mslang.ir.find import path_to_block
from mslang.ir.index_map import IndexMap
from mslang.ir.program import Block, Buffer, For, Let, Program, Range, Stmt, Store
from mslang.ir.visit import Path, bodies, free_vars, loads_of, stmt_exprs, substitute, walk_expr
from mslang.transform.analysis.dependence import (
    buffers_read,
    buffers_written,
    readers,
    storage_of,
    storages_read,
    storages_written,
)
from mslang.transform.analysis.legality import why_not_stage_pipeline
from mslang.transform.analysis.outer_accesses import require_in_blocks
from mslang.transform.analysis.position import (
    axis_ranges,
    block_at,
    leaves,
    scope_body,
    scope_path,
)
from mslang.transform.kinds import Access, Scope
from mslang.transform.outcome import BlockRef, BufferRef, Outcome, refuse
from mslang.transform.primitive import primitive
from mslang.transform.rewriting.axis_stage import Stage, Used, staged
from mslang.transform.rewriting.staging import (
    after_writer,
    only_writer,
    require_plain,
    staged_name,
    subject,
)


@primitive(family="caching", gives=(BlockRef,))
def reindex(
    program: Program, block: BlockRef, buffer: BufferRef, *, access: Access | None = None, fold_units: bool = False
) -> Outcome:
    """Stage a buffer in the layout of the axes by which a block indexes it.

    So `A[i * 2 + j]` becomes `A_reindex_1[i, j]`.

    The new buffer has one dimension for each axis that the indices mention, in the order of the axes. A block
    `A_reindex` with these axes copies to it (`access = read`) or from it (`access = write`), and is returned; it stands
    before or after the loops of the block. By default what the block writes is staged on the way out, else on the
    way in. Where the indices may leave the buffer (the block guards the load), the copy puts 0.

    With `fold_units`, an axis of extent 1 is left out where it is added to others (the kernel's axes of a 1x1
    convolution), as TVM leaves it out; one that is an index by itself stays.

    Before:
        block conv[i: 16 | k: 3] { C[i] += A[i + k] * W[k] }

    After:
        # conv.reindex(A)
        block A_reindex[i: 16, k: 3] { A_reindex_1[i, k] = A[i + k] }
        block conv[i: 16 | k: 3] { C[i] += A_reindex_1[i, k] * W[k] }

    Rejects:
        - a block that does not access the buffer so, or that holds other blocks
        - a buffer that the block accesses at several places, at places that depend on data or on loops inside of the
          block, or through a view
        - a scope that is not a stage pipeline for the buffer, or another block under the block's loops that writes it,
          or for writing reads it
        - for writing: indices that are the same for several values of their axes, instances that do not provably
          run or write, or a block that reads the buffer without having started it; for reading: a block that writes
          it too
        - elements that are not provably written before, or that the block around does not say it reads

    Source: TVM reindex
    """
    primitive = "reindex"
    path, old = subject(program, block, buffer, "global", primitive)
    writes = old.name in buffers_written(block_at(path))
    writing = writes if access is None else access == "write"
    used = _touch(program, path, old, writing, primitive, fold_units)
    _require_stages(program, path, old, primitive)
    anchor = path[: len(scope_path(path)) + 1]
    _require_apart_from_others(program, path, anchor, old, writing, primitive)
    layout = tuple(Var(n) for n in used.axes)
    extents = {a.name: a.extent for a in block_at(path).axes}
    stage = Stage(
        f"{old.name}_reindex",
        old.scope,
        layout,
        tuple(extents[n] for n in used.axes),
        anchor,
    )
    return staged(program, path, old, used, stage, writing, primitive)


@primitive(family="caching", gives=(BlockRef,))
def reindex_cache_read(program: Program, block: BlockRef, buffer: BufferRef, scope: Scope, map: IndexMap) -> Outcome:
    """Copy what a block reads of a buffer into a new buffer in a layout of one's own.

    `map` gives the indices of the new buffer by the block's axes.

    The copy is a block `A_shared` whose axes are those that the indices mention, and is returned. It stands after the
    writer of the buffer, in the innermost loop that the writer shares with the block; without a writer at the start
    of the scope. Where the indices may leave the buffer (the block guards the load), the copy puts 0.

    Before:
        block mm[i: 64, j: 64 | k: 64] { C[i, j] += A[i, k] * B[k, j] }

    After:
        # mm.reindex_cache_read(A, shared, fn (i, j, k) -> [k // 4, i, k % 4])
        block A_shared[i: 64, k: 64] { A_shared_1[k // 4, i, k % 4] = A[i, k] }
        block mm[i: 64, j: 64 | k: 64] { C[i, j] += A_shared_1[k // 4, i, k % 4] * B[k, j] }

    Rejects:
        - an unknown storage scope
        - a block that does not read the buffer, or writes it too, or holds other blocks
        - a buffer that the block accesses at several places, at places that depend on data or on loops inside of the
          block, or through a view
        - a map with another number of parameters than the block has axes, of other axes than the indices of the
          buffer, below 0, or that gives the same indices for several values of the axes
        - a scope that is not a stage pipeline for the buffer, or a buffer with several writers in it
        - elements that are not provably written before, or that the block around does not say it reads

    Source: TVM reindex_cache_read
    """
    primitive = "reindex_cache_read"
    path, old = subject(program, block, buffer, scope, primitive)
    used = _touch(program, path, old, False, primitive)
    _require_stages(program, path, old, primitive)
    layout, shape = _layout(block_at(path), used, map, primitive)
    source = only_writer(program, path, old, primitive)
    writing = () if source is None else path_to_block(program, source.name) or ()
    first = (*scope_path(path), scope_body(program, path)[0])
    anchor = after_writer(writing, [path]) if writing else first
    stage = Stage(staged_name(old, scope), scope, layout, shape, anchor, behind=bool(writing))
    return staged(program, path, old, used, stage, False, primitive)


@primitive(family="caching", gives=(BlockRef,))
def reindex_cache_write(program: Program, block: BlockRef, buffer: BufferRef, scope: Scope, map: IndexMap) -> Outcome:
    """Let a block compute into a new buffer in a layout of one's own, and copy that to the old one.

    `map` gives the indices of the new buffer by the block's axes.

    The copy is a block `C_local` whose axes are those that the indices mention, and is returned. It stands after the
    block, in the innermost loop that the block shares with a reader of the buffer, else after all of its loops.

    Before:
        block mm[i: 64, j: 64 | k: 64] { C[i, j] += A[i, k] * B[k, j] }

    After:
        # mm.reindex_cache_write(C, local, fn (i, j, k) -> [j, i])
        block mm[i: 64, j: 64 | k: 64] { C_local_1[j, i] += A[i, k] * B[k, j] }
        block C_local[i: 64, j: 64] { C[i, j] = C_local_1[j, i] }

    Rejects:
        - an unknown storage scope
        - a block that does not write the buffer, is not its only writer, reads it without having started it, or
          holds other blocks
        - a buffer that the block accesses at several places, at places that depend on data or on loops inside of the
          block, or through a view
        - a map with another number of parameters than the block has axes, of other axes than the indices of the
          buffer, below 0, or that gives the same indices for several values of the axes; indices that do so
        - a scope that is not a stage pipeline for the buffer, or a reader inside a loop over which the block still
          reduces
        - instances that do not provably run, or write

    Source: TVM reindex_cache_write
    """
    primitive = "reindex_cache_write"
    path, old = subject(program, block, buffer, scope, primitive)
    used = _touch(program, path, old, True, primitive)
    _require_stages(program, path, old, primitive)
    only_writer(program, path, old, primitive)
    layout, shape = _layout(block_at(path), used, map, primitive)
    around = [
        path_to_block(program, b.name) or ()
        for b in readers(program, scope_body(program, path), old.name)
        if b is not block_at(path)
    ]
    stage = Stage(staged_name(old, scope), scope, layout, shape, after_writer(path, around))
    return staged(program, path, old, used, stage, True, primitive)


# ------------------------------------------------------------------ what the block accesses
def _touch(program: Program, path: Path, old: Buffer, writing: bool, primitive: str, fold_units: bool = False) -> Used:
    block = block_at(path)
    found = buffers_written(block) if writing else buffers_read(block)
    if old.name not in found:
        raise refuse(
            "MS330",
            primitive,
            f"block `{block.name}` does not {'write' if writing else 'read'} `{old.name}`",
            help=f"it {'writes' if writing else 'reads'} {', '.join(f'`{b}`' for b in found) or 'nothing'}",
        )
    names = (old.name,)
    require_in_blocks(program, scope_body(program, path), primitive, read=names, written=names)
    require_plain(program, block, old, primitive)
    if old.name in (buffers_read(block) if writing else buffers_written(block)) and not (writing and block.init):
        raise refuse(
            "MS333",
            primitive,
            f"block `{block.name}` reads and writes `{old.name}`",
            why="the new buffer would hold nothing when it is read"
            if writing
            else "what it reads changes while it runs",
        )
    if any(v.source.buffer == old.name for v in block.views):
        raise _no_single(block, old, "it is accessed through a view", primitive)
    places = list(dict.fromkeys(_places((*block.body, *(block.init or ())), old.name, {})))
    axes = axis_ranges(block)
    if None in places:
        raise _no_single(block, old, "the block holds other blocks", primitive)
    if len(places) != 1 or places[0] is None:
        raise _no_single(block, old, f"it is accessed at {len(places)} places", primitive)
    if any(isinstance(x, Load) for e in places[0] for x in walk_expr(e)):
        raise _no_single(block, old, "the place depends on data", primitive)
    strange = sorted({v for e in places[0] for v in free_vars(e)} - axes.keys())
    if strange:
        raise _no_single(block, old, f"`{strange[0]}` in its indices is not an axis of the block", primitive)
    indices = tuple(_simplified(e, axes, fold_units) for e in places[0])
    mentioned = {v for e in indices for v in free_vars(e)}
    used = Used(indices, tuple(n for n in axes if n in mentioned))
    if writing and not _apart(used.indices, {n: axes[n] for n in used.axes}):
        raise refuse(
            "MS361",
            primitive,
            f"block `{block.name}` may write an element of `{old.name}` for several values of its axes",
            why="in the new layout they would be different elements",
        )
    return used


def _require_apart_from_others(
    program: Program, path: Path, anchor: Path, old: Buffer, writing: bool, primitive: str
) -> None:
    """No other block under the loops of a block may come between it and a copy outside of them all (MS360)."""
    block, storage = block_at(path), storage_of(program, old.name)
    for other in leaves(anchor[-1]):
        written = storage in storages_written(program, other)
        if other is not block and (written or (writing and storage in storages_read(program, other))):
            raise refuse(
                "MS360",
                primitive,
                f"block `{other.name}` {'writes' if written else 'reads'} `{old.name}` under loops of block "
                f"`{block.name}`",
                why="the copy stands outside of all of them",
                help="fission the loops, or use reindex_cache_read or reindex_cache_write",
            )


def _no_single(block: Block, old: Buffer, why: str, primitive: str) -> Exception:
    return refuse(
        "MS360",
        primitive,
        f"block `{block.name}` does not access `{old.name}` at one place determined by its axes",
        why=why,
    )


def _simplified(e: Expr, axes: Mapping[str, Range], fold_units: bool) -> Expr:
    """An index in normal form; an axis of extent 1 that is all of it stays."""
    simple = arith.simplify(e, axes, fold=fold_units and not isinstance(e, Var))
    return e if isinstance(simple, Const) else simple


def _places(body: tuple[Stmt, ...], buffer: str, lets: Mapping[str, Expr]) -> Iterator[tuple[Expr, ...] | None]:
    """The indices at which statements access a buffer, `let`s and unit loops put in; None for a nested block."""
    for s in body:
        if isinstance(s, Block):
            yield None
            continue
        for e in stmt_exprs(s):
            for x in loads_of(e):
                if x.buffer == buffer:
                    yield tuple(substitute(i, lets) for i in x.indices)
        inner = lets
        match s:
            case Store() if s.buffer == buffer:
                yield tuple(substitute(i, lets) for i in s.indices)
            case Let(name=n, value=v):
                inner = {**lets, n: substitute(v, lets)}
            case For(var=n, start=v, extent=extent) if arith.equal(extent, ONE):
                inner = {**lets, n: substitute(v, lets)}
        for part in bodies(s):
            yield from _places(part, buffer, inner)


def _apart(indices: Sequence[Expr], axes: Mapping[str, Range]) -> bool:
    """Are the indices provably different for different values of the axes?"""
    if not axes:
        return True
    found = arith.detect(list(indices), axes)
    return isinstance(found, arith.IterMap) and found.level != "affine"


def _layout(block: Block, used: Used, map: IndexMap, primitive: str) -> tuple[tuple[Expr, ...], tuple[Expr, ...]]:
    """The indices of the new buffer by the block's axes, and its shape (MS361: the map does not fit)."""
    axes = axis_ranges(block)
    if len(map.params) != len(axes):
        raise refuse(
            "MS361",
            primitive,
            f"the map takes {len(map.params)} indices, block `{block.name}` has {len(axes)} axes",
            help=f"the axes are {', '.join(f'`{n}`' for n in axes) or 'none'}",
        )
    if map.has_ranges:
        raise refuse("MS361", primitive, "the map gives a range", why="an element has one place in the new buffer")
    layout = tuple(arith.simplify(e) for e in map.at([Var(n) for n in axes]))
    mentioned = {v for e in layout for v in free_vars(e)}
    missing, extra = sorted(set(used.axes) - mentioned), sorted(mentioned - set(used.axes))
    if missing or extra:
        raise refuse(
            "MS361",
            primitive,
            f"axis `{(missing or extra)[0]}` is in the indices of the {'buffer' if missing else 'map'} alone",
            why="the new buffer holds one element for each value of the axes that the old one is indexed by",
        )
    own = {n: axes[n] for n in used.axes}
    if layout != used.indices and not _apart(layout, own):
        raise refuse(
            "MS361",
            primitive,
            "the map may give the same indices for several values of the axes",
            why="the new buffer would hold one element where the block uses several",
        )
    shape = []
    for e in layout:
        limits = arith.bounds(e, own)
        if limits is None or not arith.proved(Binary("<=", ZERO, limits[0])):
            raise refuse(
                "MS361",
                primitive,
                "an index of the map may be below 0, or has no bound",
                why="the new buffer has elements from 0 on",
            )
        shape.append(arith.simplify(arith.add(limits[1], ONE)))
    return layout, tuple(shape)


def _require_stages(program: Program, path: Path, old: Buffer, primitive: str) -> None:
    reason = why_not_stage_pipeline(program, path, {old.name})
    if reason is not None:
        raise refuse(
            "MS362",
            primitive,
            f"block `{block_at(path).name}` stands in a scope that is not a stage pipeline for `{old.name}`",
            why=reason,
        )


__all__ = ["reindex", "reindex_cache_read", "reindex_cache_write"]
