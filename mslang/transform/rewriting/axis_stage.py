"""A buffer staged in a layout derived from the axes of the block that uses it."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec
from msgspec.structs import replace

from mslang.ir import arith
from mslang.ir.expr import ONE, TRUE, ZERO, Binary, Const, Expr, Load, Select, Symbol, Var
from mslang.ir.find import all_buffers, path_to_block
from mslang.ir.program import Axis, Block, Buffer, For, Program, Range, Region, Stmt, Store
from mslang.ir.visit import (
    Path,
    conjunction,
    conjuncts,
    free_vars,
    fresh,
    loads_of,
    map_bodies,
    map_expr,
    map_stmt_exprs,
    substitute,
)
from mslang.transform.analysis.cover import Box, consumed_box, produced_box, steady_box
from mslang.transform.analysis.definite_writes import provably_stored, stored_under
from mslang.transform.analysis.initialization import reads_only_its_own
from mslang.transform.analysis.instances import loops_beyond_spatial, portable_predicate
from mslang.transform.analysis.loop_kinds import require_shared_apart
from mslang.transform.analysis.position import (
    axis_ranges,
    block_at,
    memory_at,
    ranges_above,
    scope_path,
    taken_names,
)
from mslang.transform.outcome import BlockRef, Outcome, refuse
from mslang.transform.rewriting.nest import nest
from mslang.transform.rewriting.rewrite import put
from mslang.transform.rewriting.staging import (
    Copy,
    require_apart,
    require_filled,
    with_alloc,
    with_block,
    with_settled_axes,
)


class Used(msgspec.Struct, frozen=True):
    """Where a block accesses a buffer: the one list of indices, and the axes that it mentions, in their order."""

    indices: tuple[Expr, ...]
    axes: tuple[str, ...]


class Stage(msgspec.Struct, frozen=True):
    """The new buffer's and block's name, its scope, its indices by the axes of the block, its shape; and the statement
    at which the copy stands: before it to read (`behind`: after it), after it to write."""

    name: str
    scope: str
    layout: tuple[Expr, ...]
    shape: tuple[Expr, ...]
    anchor: Path
    behind: bool = False


def staged(
    program: Program, path: Path, old: Buffer, used: Used, stage: Stage, writing: bool, primitive: str
) -> Outcome:
    """The program with a buffer staged, and its new block.

    Raises:
        ScheduleError: MS332 not all that is copied is provably written; for writing: MS346 a loop above the copy still
            reduces, MS347 a predicate about more than the axes, MS348 it is not known which instances run.
    """
    block, anchor = block_at(path), stage.anchor
    above = anchor[:-1]
    kept: tuple[Expr, ...] = ()
    if writing:
        box, kept = _instances(path, old, used, anchor, primitive)
    else:
        axes = {a.name: a for a in block.axes}
        box = steady_box(program, path, [axes[n] for n in used.axes], above)
    copy = _copy(program, block, old, used, stage, box, kept, ranges_above(anchor), writing)
    behind = writing or stage.behind
    done = put(program, anchor, *((anchor[-1], copy.stmt) if behind else (copy.stmt, anchor[-1])))
    done = with_block(done, block.name, lambda s: _sent(s, old.name, copy.buffer.name, stage.layout))
    done = with_alloc(done, path, copy.buffer)
    if not writing:
        require_filled(done, copy.block, old, primitive)
        _require_declared(done, copy.block, old, primitive)
    require_apart(done, copy.block, primitive)
    require_shared_apart(program, done, primitive)
    return Outcome(with_settled_axes(done, copy.block), (BlockRef(copy.block),))


def _require_declared(program: Program, copy: str, old: Buffer, primitive: str) -> None:
    """A copy may read no more than what the block around it says that it reads (MS332): the values that axes can have
    are more than those that they take."""
    path = path_to_block(program, copy) or ()
    scope = scope_path(path)
    if not scope or any(b.name == old.name for b in block_at(scope).allocs):
        return
    outer = block_at(scope)
    ranges = axis_ranges(outer)
    said = [r.ranges for r in outer.reads if r.buffer == old.name]
    for box in (consumed_box(path, r, scope, old) for r in block_at(path).reads if r.buffer == old.name):
        if not any(_holds(whole, box, ranges) for whole in said):
            raise refuse(
                "MS332",
                primitive,
                f"the copy would read more of `{old.name}` than block `{outer.name}` around it says",
                why=f"block `{outer.name}` reads only what its blocks do now",
                help=f"copy in front of block `{outer.name}`, or before it is made",
            )


def _holds(whole: Box, part: Box, ranges: Mapping[str, Range]) -> bool:
    """Does a box provably hold another one?"""
    return all(
        arith.proved(Binary("<=", w.start, p.start), ranges)
        and arith.proved(Binary("<=", Binary("+", p.start, p.extent), Binary("+", w.start, w.extent)), ranges)
        for w, p in zip(whole, part, strict=True)
    )


def _instances(path: Path, old: Buffer, used: Used, anchor: Path, primitive: str) -> tuple[Box, tuple[Expr, ...]]:
    """The values of the axes for which a block provably runs in one run of the statement at the end of `anchor`, but
    for what its own conditions leave out."""
    block, above = block_at(path), anchor[:-1]
    reduced = [s.var for s in above if isinstance(s, For) and s.var in loops_beyond_spatial(path)]
    if reduced:
        raise refuse(
            "MS346",
            primitive,
            f"loop `{reduced[0]}` still reduces in block `{block.name}`",
            why="the copy would be of partial results",
        )
    if not reads_only_its_own(path, old.name, above):
        raise refuse(
            "MS333",
            primitive,
            f"block `{block.name}` reads and writes `{old.name}`",
            why="the new buffer would hold nothing when it is read",
        )
    if not provably_stored(path, Region(old.name, _points(used.indices)), above):
        raise refuse(
            "MS332",
            primitive,
            f"block `{block.name}` does not provably write `{old.name}` in each of its instances",
            why="a copy must not access what is not written",
        )
    kept = portable_predicate(path)
    changing = memory_at(path, stored_under(anchor[-1]))
    if kept is not None and changing & memory_at(path, (x.buffer for c in kept for x in loads_of(c))):
        kept = None
    if kept is None or any(not free_vars(c) <= set(used.axes) for c in kept):
        raise refuse(
            "MS347",
            primitive,
            f"the predicate of block `{block.name}` cannot be said of the axes by which it writes",
            why="the copy must access what the block writes, no more",
        )
    guards = conjunction(tuple(c for c in conjuncts(block.predicate) if c not in kept))
    everywhere = Region("", tuple(Range(Var(n), ONE) for n in used.axes))
    box = produced_box((*path[:-1], replace(block, predicate=guards)), everywhere, above)
    if box is None:
        raise refuse(
            "MS348",
            primitive,
            f"it is not known for which values of its axes block `{block.name}` runs",
            why="the copy must access what the block writes, no more",
        )
    return box, kept


def _copy(
    program: Program,
    block: Block,
    old: Buffer,
    used: Used,
    stage: Stage,
    box: Box,
    kept: tuple[Expr, ...],
    ranges: Mapping[str, Range],
    writing: bool,
) -> Copy:
    taken = taken_names(program)
    name = fresh(stage.name, taken)
    taken.add(name)
    new = Buffer(fresh(name, taken), old.dtype, stage.shape, stage.scope)
    taken.add(new.name)
    others = {*all_buffers(program), name, new.name, *(s.name for s in program.dynamic if isinstance(s, Symbol))}
    names = {n: fresh(n, others) for n in used.axes}
    values = {n: Var(m) for n, m in names.items()}
    there = tuple(substitute(e, values) for e in used.indices)
    here = tuple(substitute(e, values) for e in stage.layout)
    extents = {a.name: a.extent for a in block.axes}
    axes = tuple(Axis(names[n], extents[n], "spatial", ZERO) for n in used.axes)
    own = {a.name: Range(ZERO, a.extent) for a in axes}
    if writing:
        store = Store(old.name, there, Load(new.name, here, old.dtype))
        source, target = Region(new.name, _points(here)), Region(old.name, _points(there))
    else:
        store = Store(new.name, here, _guarded(Load(old.name, there, old.dtype), old, own))
        source, target = Region(old.name, _points(there)), Region(new.name, _points(here))
    copy = Block(name, axes, (source,), (target,), (store,))
    spans = dict(zip((a.name for a in axes), box, strict=True))
    conditions = tuple(substitute(c, values) for c in kept)
    return Copy(new, name, nest(copy, spans, conditions, ranges, taken).stmt)


def _points(indices: tuple[Expr, ...]) -> Box:
    return tuple(Range(i, ONE) for i in indices)


def _guarded(load: Load, old: Buffer, axes: Mapping[str, Range]) -> Expr:
    """A load that is 0 outside of the buffer."""
    conditions = [
        c
        for i, n in zip(load.indices, old.shape, strict=True)
        for c in (Binary("<=", ZERO, i), Binary("<", i, n))
        if not arith.proved(c, axes)
    ]
    inside = conjunction(tuple(conditions))
    if inside == TRUE:
        return load
    return Select(inside, load, _zero(old.dtype))


def _zero(dtype: str) -> Const:
    """The 0 of an element type."""
    if dtype == "bool":
        return Const(False, dtype)
    return Const(0.0 if dtype.startswith(("f", "bf")) else 0, dtype)


def _sent(s: Stmt, old: str, new: str, layout: tuple[Expr, ...]) -> Stmt:
    """A block that accesses the buffer `new` at `layout` where it accessed `old`."""

    def loads(e: Expr) -> Expr:
        return map_expr(e, lambda x: Load(new, layout, x.dtype) if isinstance(x, Load) and x.buffer == old else None)

    def stores(s: Stmt) -> Stmt:
        s = Store(new, layout, s.value) if isinstance(s, Store) and s.buffer == old else s
        return map_bodies(s, lambda body: tuple(stores(x) for x in body))

    def region(r: Region) -> Region:
        return Region(new, _points(layout)) if r.buffer == old else r

    changed = stores(map_stmt_exprs(s, loads))
    if not isinstance(changed, Block):
        return changed
    return replace(
        changed,
        reads=tuple(dict.fromkeys(region(r) for r in changed.reads)),
        writes=tuple(dict.fromkeys(region(r) for r in changed.writes)),
    )


__all__ = ["Stage", "Used", "staged"]
