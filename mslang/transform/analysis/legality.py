"""The legality model: what makes a block complete, a reduction, covered; a scope a stage pipeline.

Every `why_not_…` gives None where the property holds, else a text that names the condition that fails, so that a
refusal explains itself. `among` are the statements in which dominance is meant: the whole scope by default, a
subtree for *local* completeness.
"""

from __future__ import annotations

from collections.abc import Set as AbstractSet

from mslang.ir import arith
from mslang.ir.expr import Const, Select, Var
from mslang.ir.find import block_paths
from mslang.ir.program import Block, For, If, Program, Stmt, Store
from mslang.ir.visit import Path, free_vars, stmt_exprs, walk, walk_expr
from mslang.transform.analysis.accesses import why_not_own_elements, why_several_names
from mslang.transform.analysis.cover import why_not_covered
from mslang.transform.analysis.dependence import (
    DependenceKind,
    dependences_of,
    storage_of,
    storages_read,
    storages_written,
    writers,
)
from mslang.transform.analysis.initialization import why_not_from_scratch
from mslang.transform.analysis.position import (
    block_at,
    index_of,
    leaves,
    loop_ranges,
    loops_above,
    predicate_outside,
    ranges_above,
    scope_body,
)
from mslang.transform.analysis.predicated_indices import detect


def affine_binding(path: Path, first: For | None = None) -> arith.IterMap | arith.NotAffine:
    """What iter-map detection says of the bindings of the block at the end of a path over the loops above it.

    With `first`, a loop of the path, only that loop and those inside it move; what is outside stands still.
    """
    block = block_at(path)
    loops = loops_above(path)
    ranges = ranges_above(path) if first is None else loop_ranges(loops[index_of(loops, first) :])
    return detect([a.binding for a in block.axes], ranges, predicate_outside(block))


def _affine_further_out(path: Path, first: For) -> bool:
    block = block_at(path)
    own = [s for s in loops_above(path) if leaves(s) == (block,)]
    return any(s is first for s in own) and isinstance(affine_binding(path, own[0]), arith.IterMap)


def why_not_affine(path: Path, first: For | None = None) -> str | None:
    """None if the bindings of the block at the end of a path are an affine map of the loops from `first` on.

    Without `first`: of all loops above it, or else of those that it alone is under. (A block computed where several
    iterations need the same elements is affine in its own loops only.) What is affine in all of its own loops is
    so in some of them, even where a guard makes one loop of those that move and those that stand still.
    """
    block = block_at(path)
    found = affine_binding(path, first)
    if first is not None and isinstance(found, arith.NotAffine) and _affine_further_out(path, first):
        return None
    if first is None and isinstance(found, arith.NotAffine):
        own = next((s for s in loops_above(path) if leaves(s) == (block,)), None)
        again = affine_binding(path, own) if own is not None else found
        found = found if isinstance(again, arith.NotAffine) else again
    if isinstance(found, arith.NotAffine):
        return f"the bindings of block `{block.name}` are not affine: {found.reason}"
    return None


def why_not_dominant(program: Program, path: Path, among: tuple[Stmt, ...] | None = None) -> str | None:
    """None if no other block writes what the block at the end of a path writes."""
    block = block_at(path)
    body = scope_body(program, path) if among is None else among
    for storage in sorted(storages_written(program, block)):
        others = [b.name for b in writers(program, body, storage) if b is not block]
        if others:
            return f"block `{block.name}` is not the only writer of `{storage}`: so is block `{others[0]}`"
    return None


def why_not_alone(program: Program, path: Path, top: For) -> str | None:
    """None if the block at the end of a path is the only writer of what it writes, or else the only block under a loop
    of its path that accesses it: within the loop, then, nobody sees in which order it writes."""
    block = block_at(path)
    other = why_not_dominant(program, path)
    touched = frozenset[str]().union(
        *(storages_read(program, b) | storages_written(program, b) for b in leaves(top) if b is not block)
    )
    return None if touched.isdisjoint(storages_written(program, block)) else other


def why_not_complete(program: Program, path: Path, among: tuple[Stmt, ...] | None = None) -> str | None:
    """None if the block at the end of a path is *complete*: all axes are spatial, it alone writes its outputs, and
    it reads nothing that it writes."""
    block = block_at(path)
    for a in block.axes:
        if a.kind != "spatial":
            return (
                f"block `{block.name}` is not complete (condition 1, all axes are spatial): axis `{a.name}` is {a.kind}"
            )
    other = why_not_dominant(program, path, among)
    if other is not None:
        return f"block `{block.name}` is not complete (condition 2, it is the only writer of its outputs): {other}"
    both = storages_read(program, block) & storages_written(program, block)
    if both:
        return (
            f"block `{block.name}` is not complete (condition 3, it reads nothing that it writes): "
            f"it reads and writes `{min(both)}`"
        )
    return None


def why_not_reduction(program: Program, path: Path, among: tuple[Stmt, ...] | None = None) -> str | None:
    """None if the block at the end of a path is a *reduction* block: it has an init, affine bindings, spatial and
    reduction axes only, it alone writes its outputs, no reduction axis indexes them, it reads no other elements of them
    than it writes, and it starts each of them from scratch with its init."""
    form = why_not_reduction_form(program, path, among)
    if form is not None:
        return form
    block = block_at(path)
    head = f"block `{block.name}` is not a reduction block"
    others = why_several_names(path) or why_not_own_elements(block)
    if others is not None:
        return f"{head} (condition 6, it reads no other elements of its outputs than it writes): {others}"
    started = why_not_from_scratch(path)
    if started is not None:
        return f"{head} (condition 7, its init starts each element, and comes first): {started}"
    return None


def why_not_reduction_form(program: Program, path: Path, among: tuple[Stmt, ...] | None = None) -> str | None:
    """None if the block at the end of a path has the form of a reduction block, as far as its axes, its signature and
    other writers tell: conditions 1 to 5 of `why_not_reduction`."""
    block = block_at(path)
    head = f"block `{block.name}` is not a reduction block"
    if block.init is None:
        return f"{head} (condition 1, it has an init): it has none"
    affine = why_not_affine(path)
    if affine is not None:
        return f"{head} (condition 2, its bindings are affine): {affine}"
    for a in block.axes:
        if a.kind not in ("spatial", "reduce"):
            return f"{head} (condition 3, its axes are spatial or reduce): axis `{a.name}` is {a.kind}"
    other = why_not_dominant(program, path, among)
    if other is not None:
        return f"{head} (condition 4, it is the only writer of its outputs): {other}"
    reduced = {a.name for a in block.axes if a.kind == "reduce"}
    for region in block.writes:
        used = reduced & {v for r in region.ranges for e in (r.start, r.extent) for v in free_vars(e)}
        if used:
            return (
                f"{head} (condition 5, no reduction axis indexes its outputs): "
                f"`{region.buffer}` is indexed by `{min(used)}`"
            )
    return None


def why_neither(program: Program, path: Path, among: tuple[Stmt, ...] | None = None) -> str | None:
    """None if the block at the end of a path is complete or a reduction block; the reason of the nearer of the two."""
    reduction = why_not_reduction(program, path, among)
    if reduction is None or block_at(path).init is not None:
        return reduction
    return why_not_complete(program, path, among)


def why_not_stage_pipeline(program: Program, path: Path, buffers: AbstractSet[str]) -> str | None:
    """None if the scope in which the last statement of a path stands is a *stage pipeline* for some buffers: loops and
    blocks only, each block's reads of them covered by its producers, and no block writes what an earlier one reads."""
    storages = {storage_of(program, b) for b in buffers}
    body = scope_body(program, path)
    for s in walk(body, into_blocks=False):
        if not isinstance(s, For | Block):
            kind = type(s).__name__.lower()
            return f"the scope is not a stage pipeline: a `{kind}` stands among its loops and blocks"
    for d in dependences_of(program, path):
        if d.kind is DependenceKind.WAR and storage_of(program, d.buffer) in storages:
            return (
                f"the scope is not a stage pipeline: block `{d.target}` writes `{d.buffer}` after block "
                f"`{d.source}` read it"
            )
    for q in block_paths(program.body):
        if scope_body(program, q) is body:
            asked = tuple(r for r in block_at(q).reads if storage_of(program, r.buffer) in storages)
            reason = why_not_covered(program, q, asked)
            if reason is not None:
                return f"the scope is not a stage pipeline: {reason}"
    return None


def _path_below(path: Path, block: Block) -> Path:
    return next((*path[:-1], *q) for q in block_paths((path[-1],)) if q[-1] is block)


# ------------------------------------------------------------------ what a block is like
def is_reduction(block: Block) -> bool:
    """Has the block a reduction axis?"""
    return any(a.kind == "reduce" for a in block.axes)


def is_injective(block: Block) -> bool:
    """Does the block compute each element of one buffer once, by a formula of its own index: spatial axes only, no
    init, one store, at indices that are distinct axes?"""
    stores = [s for s in walk(block.body) if isinstance(s, Store)]
    if block.init is not None or len(stores) != 1 or any(a.kind != "spatial" for a in block.axes):
        return False
    names = [i.name for i in stores[0].indices if isinstance(i, Var)]
    plain = len(names) + sum(isinstance(i, Const) for i in stores[0].indices) == len(stores[0].indices)
    own = {a.name for a in block.axes}
    reads_itself = any(r.buffer == stores[0].buffer for r in block.reads)
    return plain and not reads_itself and len(set(names)) == len(names) and set(names) == own


def has_branch(block: Block) -> bool:
    """Does the block's body decide anything: an `if`, a `while` or a `select`?"""
    return any(_branches(s) for s in walk((*block.body, *(block.init or ()))))


def _branches(s: Stmt) -> bool:
    return isinstance(s, If) or any(isinstance(x, Select) for e in stmt_exprs(s) for x in walk_expr(e))


def loops_by_kind(path: Path, kind: str) -> tuple[For, ...]:
    """The loops above the block at the end of a path whose variables occur in bindings of axes of one kind only."""
    block = block_at(path)
    uses: dict[str, set[str]] = {}
    for a in block.axes:
        for v in free_vars(a.binding):
            uses.setdefault(v, set()).add(a.kind)
    return tuple(loop for loop in loops_above(path) if uses.get(loop.var) == {kind})
