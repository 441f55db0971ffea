"""The initialisation of a reduction, as a nest of its own."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec
from msgspec.structs import replace

from mslang.ir import arith
from mslang.ir.expr import ZERO, Expr, Var
from mslang.ir.program import Block, Buffer, For, Range, Stmt, Store
from mslang.ir.region import NO_BUFFERS, infer_regions
from mslang.ir.visit import Path, conjunction, conjuncts, free_vars, fresh, loads_of, stmt_exprs, substitute, walk
from mslang.transform.analysis.position import block_at, loop_range, ranges_above
from mslang.transform.outcome import refuse
from mslang.transform.rewriting.rewrite import tidy


class Init(msgspec.Struct, frozen=True):
    """The nest of an initialisation: its outermost statement and the name of its block."""

    nest: Stmt
    name: str


def init_nest(
    path: Path,
    kept: Sequence[For],
    dropped: Sequence[For],
    taken: set[str],
    primitive: str = "decompose_reduction",
    buffers: Mapping[str, Buffer] = NO_BUFFERS,
) -> Init:
    """The init of the block at the end of a path, as a block under copies of the loops `kept`, annotated as it is.

    Args:
        path: the path.
        kept: loops above the block that its spatial axes depend on.
        dropped: loops above it that only reduction axes depend on: the init runs in their first iteration.
        taken: names that loops and blocks must not take; those made are added.
        primitive: who asks, for messages.
        buffers: the buffers by name: a region that depends on data is all of its buffer.
    """
    old = block_at(path)
    ranges = ranges_above(path)
    starts: dict[str, Expr] = {s.var: s.start for s in dropped}
    renamed: dict[str, Expr] = {}
    loops: list[For] = []
    for s in kept:
        new = fresh(f"{s.var}_init", taken)
        taken.add(new)
        made = replace(s, var=new, start=substitute(s.start, renamed), extent=substitute(s.extent, renamed), body=())
        loops.append(made)
        renamed[s.var] = Var(new)
        ranges[new] = loop_range(made)
    values = starts | renamed
    axes = tuple(replace(a, binding=_moved(a.binding, values, ranges)) for a in old.axes if a.kind == "spatial")
    zeros: dict[str, Expr] = {a.name: ZERO for a in old.axes if a.kind != "spatial"}
    own: dict[str, Expr] = {a.name: Var(a.name) for a in old.axes} | zeros
    conditions = [_moved(c, values | own, ranges) for c in conjuncts(old.predicate)]
    # an axis keeps to its extent because the predicate says so, hence the proof is about bindings
    bound = {a.name: a.binding for a in axes}
    name = fresh(f"{old.name}_init", taken)
    taken.add(name)
    body = old.init or ()
    used = touched_by(old, body)
    reduced = zeros.keys()
    views = tuple(v for v in old.views if v.buffer.name in used)
    for v in views:
        if any(free_vars(e) & reduced for r in v.source.ranges for e in (r.start, r.extent)):
            raise refuse(
                "MS314",
                primitive,
                f"the initialisation uses the view `{v.buffer.name}`, which a reduction axis moves",
                why="it would start another part in each iteration of the reduction",
            )
    block = Block(
        name,
        axes,
        (),
        (),
        body,
        predicate=conjunction(tuple(c for c in conditions if not arith.proved(substitute(c, bound), ranges))),
        allocs=tuple(b for b in old.allocs if b.name in used),
        views=views,
        annotations=old.annotations,
    )
    reads, writes = infer_regions(block, buffers)
    nest: Stmt = replace(block, reads=reads, writes=writes)
    for s in reversed(loops):
        nest = replace(s, body=(nest,))
    return Init(nest, name)


def _moved(e: Expr, values: dict[str, Expr], ranges: dict[str, Range]) -> Expr:
    """An expression with loops replaced; what loses a variable is brought to normal form."""
    lost = {v for v in free_vars(e) & values.keys() if not isinstance(values[v], Var)}
    moved = substitute(e, values)
    return tidy(moved, ranges) if lost else moved


def buffers_of(body: tuple[Stmt, ...]) -> frozenset[str]:
    """The buffers that statements name."""
    stored = {s.buffer for s in walk(body) if isinstance(s, Store)}
    return frozenset(stored | {x.buffer for s in walk(body) for e in stmt_exprs(s) for x in loads_of(e)})


def touched_by(block: Block, body: tuple[Stmt, ...]) -> frozenset[str]:
    """The buffers that statements of a block name, and those that its views among them look at."""
    return with_sources(block, buffers_of(body))


def with_sources(block: Block, buffers: frozenset[str]) -> frozenset[str]:
    """Some buffers, and those that the views of a block among them look at."""
    found = set(buffers)
    for v in reversed(block.views):
        if v.buffer.name in found:
            found.add(v.source.buffer)
    return frozenset(found)
