"""What `split` does with a remainder when it is not guarded: the tails `peel`, `shift` and `pad`."""

from __future__ import annotations

from collections.abc import Sequence

from mslang.ir import arith
from mslang.ir.expr import ZERO, Binary, Expr, Var
from mslang.ir.find import leaf_paths
from mslang.ir.program import Block, Evaluate, For, Program, While
from mslang.ir.visit import Path, free_vars, fresh, substitute, walk
from mslang.transform.analysis.carried_dependence import (
    reaches,
    storages_of,
    touching_paths,
    why_not_private,
    why_unplaced,
)
from mslang.transform.analysis.cover import cuts_only_outside
from mslang.transform.analysis.position import block_at, loop_at, loop_range, ranges_above, taken_names
from mslang.transform.outcome import refuse
from mslang.transform.rewriting.cloning import Part, parted, used_outside_of_blocks
from mslang.transform.rewriting.loop_nest import mixed_radix, nested
from mslang.transform.rewriting.rewrite import put, substitute_loops


def peel(program: Program, path: Path, names: Sequence[str], extents: Sequence[Expr], outer: int) -> Program:
    """The loop at the end of a path as a nest of full tiles and a loop over the rest.

    Args:
        program: the program.
        path: to the loop.
        names: of the loops of the nest.
        extents: theirs, as they would cover the loop.
        outer: which of them is made smaller, so that no tile runs over.
    """
    old = loop_at(path)
    others = arith.size_product([e for k, e in enumerate(extents) if k != outer])
    full = arith.floordiv(old.extent, others)
    covered = arith.mul(full, others)
    loops = tuple(For(n, full if k == outer else extents[k], ()) for k, n in enumerate(names))
    index = mixed_radix(names, [s.extent for s in loops])
    tail = fresh(f"{old.var}_tail", taken_names(program) | set(names))
    rest = arith.simplify(arith.sub(old.extent, covered))
    beyond = arith.simplify(arith.add(old.start, arith.add(covered, Var(tail))))
    parts = (Part(loops, arith.add(old.start, index)), Part((For(tail, rest, ()),), beyond, "tail"))
    return parted(program, path, parts, "split")


def shift(program: Program, path: Path, names: Sequence[str], extents: Sequence[Expr]) -> Program:
    """The loop at the end of a path as a nest whose last tile is moved inwards, so that it repeats iterations.

    Raises:
        ScheduleError: MS354, a tile may be larger than the loop; MS355, iterations may not run twice.
    """
    old = loop_at(path)
    tile = arith.size_product(extents[1:])
    if not arith.proved(Binary("<=", tile, old.extent), ranges_above(path)):
        raise refuse(
            "MS354",
            "split",
            f"the last tile of loop `{old.var}` cannot be moved inwards",
            why="one tile may be larger than the whole loop",
            help="use `tail = guard` or `tail = peel`",
        )
    reason = why_not_repeatable(program, path)
    if reason is not None:
        raise refuse(
            "MS355",
            "split",
            f"iterations of loop `{old.var}` cannot run twice, as the last tile moved inwards would make them",
            why=reason,
            help="use `tail = guard` or `tail = peel`",
        )
    loops = [For(n, e, ()) for n, e in zip(names, extents, strict=True)]
    first = arith.minimum(arith.mul(Var(names[0]), tile), arith.sub(old.extent, tile))
    value = arith.add(first, mixed_radix(names[1:], extents[1:])) if len(names) > 1 else first
    ranges = ranges_above(path) | {s.var: loop_range(s) for s in loops}
    body = substitute_loops(old.body, {old.var: arith.add(old.start, value)}, ranges)
    return put(program, path, *nested(loops, body))


def why_not_repeatable(program: Program, path: Path) -> str | None:
    """None if an iteration of the loop at the end of a path may run again after any later ones: it writes the same
    values whenever it runs."""
    loop = loop_at(path)
    stray = why_unplaced(loop.body, f"loop `{loop.var}`")
    if stray is not None:
        return stray
    paths = leaf_paths(path)
    for q in paths:
        reason = _why_accumulates(q, loop)
        if reason is not None:
            return reason
    for storage in storages_of(program, paths):
        if used_outside_of_blocks(program, storage):
            return f"`{storage}` is read outside of blocks"
        reason = why_not_private(program, touching_paths(program, paths, storage), storage, path)
        if reason is not None:
            return reason
    return None


def _why_accumulates(path: Path, loop: For) -> str | None:
    """None if what the block at the end of a path leaves after one iteration does not build on what was there."""
    block = block_at(path)
    if any(isinstance(s, Evaluate | While) for s in walk(block.body)):
        return f"what block `{block.name}` does is not known from what it reads and writes"
    inner = {s.var: s for s in path[path.index(loop) + 1 :] if isinstance(s, For)}
    reduced = {v for a in block.axes if a.kind == "reduce" for v in free_vars(a.binding)}
    for a in block.axes:
        if a.kind not in ("spatial", "reduce"):
            return f"axis `{a.name}` of block `{block.name}` is {a.kind}: its iterations have an order"
        if a.kind == "reduce" and reaches(loop.var, a.binding, path):
            return f"block `{block.name}` accumulates along the loop"
        if a.kind == "reduce" and block.init is not None and not free_vars(a.binding) <= inner.keys():
            return f"block `{block.name}` accumulates along a loop around it"
        if a.kind == "spatial" and block.init is not None and free_vars(a.binding) & reduced:
            return f"a loop serves both spatial and reduction axes of block `{block.name}`"
    if block.init is None:
        return None
    starts = {v: s.start for v, s in inner.items()}
    begins = all(
        arith.equal(substitute(a.binding, starts), ZERO, ranges_above(path)) for a in block.axes if a.kind == "reduce"
    )
    if not begins or not (cuts_only_outside(path) or not free_vars(block.predicate) & (reduced | _reduction(block))):
        return f"the reduction of block `{block.name}` does not provably begin at 0 there"
    return None


def _reduction(block: Block) -> frozenset[str]:
    return frozenset(a.name for a in block.axes if a.kind == "reduce")
