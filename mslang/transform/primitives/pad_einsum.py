"""The primitive that pads a product of tensors to rounder sizes: pad_einsum."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from mslang.ir import arith
from mslang.ir.dtype import INDEX
from mslang.ir.expr import ZERO, Binary, Const, Expr, Var, dtype_of
from mslang.ir.find import all_buffers, path_to_block
from mslang.ir.program import Block, Program
from mslang.ir.visit import Path, free_vars
from mslang.transform.analysis.carried_dependence import why_unplaced
from mslang.transform.analysis.dependence import consumers, storages_read, storages_written
from mslang.transform.analysis.einsum_formula import PRIMITIVE, Product, fill_for, product_of
from mslang.transform.analysis.formula import is_viewed
from mslang.transform.analysis.inlining import require_covered
from mslang.transform.analysis.instances import domains_of, portable_predicate, runs_all
from mslang.transform.analysis.legality import why_not_dominant
from mslang.transform.analysis.loop_kinds import require_kinds
from mslang.transform.analysis.position import (
    block_at,
    block_path,
    leaves,
    loops_above,
    scope_path,
    taken_names,
    within_scope,
)
from mslang.transform.kinds import Values
from mslang.transform.outcome import BlockRef, Outcome, refuse
from mslang.transform.primitive import primitive
from mslang.transform.rewriting.cloning import used_outside_of_blocks
from mslang.transform.rewriting.einsum_copies import Copy, Padded, padded_copy
from mslang.transform.rewriting.rewrite import put
from mslang.transform.rewriting.staging import with_alloc


@primitive(family="layout")
def pad_einsum(program: Program, block: BlockRef, padding: Values) -> Outcome:
    """Round the extents of a product of tensors up, on padded copies of what it reads and writes.

    `padding` has a number for each axis; its extent becomes a multiple of that. What is added to the buffers read is
    such that it changes nothing: zeros for a sum of products, the lowest value for a maximum. The copies are blocks
    `A_pad`, `B_pad` in front of the nest and `C_pad` behind it, with buffers `A_pad_1` and so on; buffers that need no
    padding are used as they are. Other blocks of the nest read what is written where it is now.

    A loop that runs over all values of one axis alone, and of no other block, runs over the iterations added, too.
    Other axes get the larger domain, and the buffers with them, but no iterations.

    Before:
        block mm[i: 6, j: 8 | k: 10] { C[i, j] += A[i, k] * B[k, j] }

    After:
        # mm.pad_einsum([1, 1, 4])
        block A_pad[ax0: 6, ax1: 12] { A_pad_1[ax0, ax1] = select(ax1 < 10, A[ax0, ax1], 0.0) }
        block B_pad[ax0: 12, ax1: 8] { B_pad_1[ax0, ax1] = select(ax0 < 10, B[ax0, ax1], 0.0) }
        block mm[i: 6, j: 8 | k: 12] { C[i, j] += A_pad_1[i, k] * B_pad_1[k, j] }

    Rejects:
        - not one number above 0 for each axis
        - a block that is neither complete nor a reduction block (other writers apart), holds more than stores, divides
          whole numbers by what is read, or uses a buffer at two indices or for reading and writing
        - an index that is neither an axis nor a number
        - a block inside another; if it is written to a copy, one that does not provably run for all values of its axes
        - another block of the nest that writes a buffer that is copied, or reads it before it is written there
        - a spatial axis with iterations added that does not index what is written
        - a reduction in which what is added would count: no fill of the buffers makes it vanish

    Source: TVM pad_einsum
    """
    path = block_path(program, block, PRIMITIVE)
    old = block_at(path)
    padded = _extents(old, padding)
    product = product_of(program, path)
    if not padded:
        return Outcome(program)
    _require_nest(path)
    loops = _loops_of(path, padded)
    grown = {a.name for a in old.axes if isinstance(a.binding, Var) and a.binding.name in loops}
    _require_stored(product, {a.name for a in old.axes if a.kind == "spatial"} & grown)
    fill = fill_for(program, product, {a.name for a in old.axes if a.kind != "spatial"} & grown)
    taken = taken_names(program)
    into = tuple(padded_copy(program, old, x, padded, fill, taken) for x in product.reads if x.along(padded))
    out = tuple(padded_copy(program, old, x, padded, None, taken) for x in product.writes if x.along(padded))
    if out and (not runs_all(path, domains_of(path)) or portable_predicate(path) != ()):
        raise refuse(
            "MS348",
            PRIMITIVE,
            f"block `{old.name}` does not provably run for all values of its axes",
            why="its loops and its predicate do not provably cover the domains of its axes",
        )
    others = _require_others(program, path, into, out)
    top = path[: len(scope_path(path)) + 1]
    buffers = all_buffers(program) | {c.buffer.name: c.buffer for c in (*into, *out)}
    changed = Padded(old, padded, loops, into, out).nest(top[-1], buffers)
    done = put(program, top, *(c.stmt for c in into), changed, *(c.stmt for c in out))
    for c in (*into, *out):
        done = with_alloc(done, path, c.buffer)
    after = {u.name for c in out for u in consumers(done, path_to_block(done, c.block) or ())}
    for name in (*(c.block for c in into), *(b.name for b in others), *sorted(after)):
        require_covered(done, path_to_block(done, name) or (), PRIMITIVE)
    require_kinds(done, [s.var for s in loops_above(path) if s.kind != "serial"], PRIMITIVE)
    return Outcome(done)


# ------------------------------------------------------------------ conditions
def _extents(block: Block, padding: Sequence[int | Expr]) -> dict[str, Expr]:
    """The extents of the axes that get others."""
    multiples = [n if isinstance(n, Expr) else Const(n) for n in padding]
    if len(multiples) != len(block.axes) or not all(_is_positive(n) for n in multiples):
        raise refuse(
            "MS303",
            PRIMITIVE,
            f"block `{block.name}` has {len(block.axes)} axes, and {len(multiples)} numbers are given"
            if len(multiples) != len(block.axes)
            else "each multiple must be provably positive",
            help="give one number above 0 for each axis; 1 keeps an extent",
        )
    extents = {a.name: arith.mul(arith.ceildiv(a.extent, n), n) for a, n in zip(block.axes, multiples, strict=True)}
    return {a.name: extents[a.name] for a in block.axes if not arith.equal(extents[a.name], a.extent)}


def _is_positive(n: Expr) -> bool:
    return dtype_of(n) == INDEX and not free_vars(n) and arith.proved(Binary("<", ZERO, n))


def _require_nest(path: Path) -> None:
    """The block stands among loops and other blocks, in no block."""
    name = block_at(path).name
    if scope_path(path):
        raise refuse(
            "MS372",
            PRIMITIVE,
            f"block `{name}` stands inside block `{block_at(scope_path(path)).name}`",
            why="the copies would reach beyond the regions that block declares",
            help="pad before blocks are made into one",
        )
    stray = why_unplaced((within_scope(path)[0],), f"the loops of block `{name}`")
    if stray is not None:
        raise refuse("MS372", PRIMITIVE, f"block `{name}` does not stand among loops and blocks alone", why=stray)


def _loops_of(path: Path, padded: Mapping[str, Expr]) -> dict[str, Expr]:
    """The extents that the loops get that run over all values of one padded axis, and over nothing else."""
    block, chain = block_at(path), loops_above(path)
    bounds = {v for s in chain for v in free_vars(s.start) | free_vars(s.extent)}
    found: dict[str, Expr] = {}
    for a in block.axes:
        own = [s for s in chain if isinstance(a.binding, Var) and s.var == a.binding.name and leaves(s) == (block,)]
        if a.name not in padded or not own:
            continue
        loop = own[0]
        plain = arith.equal(loop.start, ZERO) and arith.equal(loop.extent, a.extent)
        shared = bounds.union(*(free_vars(x.binding) for x in block.axes if x is not a))
        if plain and loop.var not in shared and free_vars(block.predicate).isdisjoint((a.name, loop.var)):
            found[loop.var] = padded[a.name]
    return found


def _require_stored(product: Product, grown: set[str]) -> None:
    for w in product.writes:
        for axis in sorted(grown):
            if not w.along((axis,)):
                raise refuse(
                    "MS372",
                    PRIMITIVE,
                    f"the spatial axis `{axis}` does not index `{w.buffer}`",
                    why="the iterations added would store over the others",
                )


def _require_others(program: Program, path: Path, into: Sequence[Copy], out: Sequence[Copy]) -> tuple[Block, ...]:
    """The other blocks of the nest that read what the block writes to copies (MS372: the copies, which stand before and
    after the nest, would not hold what the nest writes, or would not be what it reads)."""
    block, found = block_at(path), leaves(within_scope(path)[0])
    before = True
    readers: list[Block] = []
    for other in found:
        if other is block:
            before = False
            continue
        for c, way in ((c, way) for way, several in (("into", into), ("out", out)) for c in several):
            buffer = c.access.buffer
            if buffer in storages_written(program, other):
                raise _in_one_nest(other, block, f"it writes `{buffer}`, which is copied before or after the nest")
            if way == "into" or buffer not in storages_read(program, other):
                continue
            if before:
                raise _in_one_nest(other, block, f"it reads `{buffer}` before block `{block.name}` writes it")
            numbered = any(isinstance(i, Const) for i in c.access.indices)
            if numbered or is_viewed(program, buffer) or why_not_dominant(program, path) is not None:
                raise _in_one_nest(
                    other, block, f"it may read elements of `{buffer}` that the padded copy does not hold"
                )
            readers.append(other)
    outside = next((c.access.buffer for c in out if used_outside_of_blocks(program, c.access.buffer)), None)
    if outside is not None:
        raise refuse(
            "MS352",
            PRIMITIVE,
            f"`{outside}` is read outside of blocks",
            why="of statements outside of blocks it is not known when they run",
        )
    return tuple(readers)


def _in_one_nest(other: Block, block: Block, why: str) -> Exception:
    return refuse(
        "MS372",
        PRIMITIVE,
        f"block `{other.name}` is in one nest with block `{block.name}`",
        why=why,
        help="pad before other blocks are moved into it",
    )


__all__ = ["pad_einsum"]
