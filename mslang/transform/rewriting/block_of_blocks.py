"""Several blocks that stand side by side as one: blockize of a list."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from msgspec.structs import replace

from mslang.ir import arith
from mslang.ir.expr import ONE, ZERO, Binary, Expr, Var
from mslang.ir.program import Axis, Block, For, Program, Range, Stmt
from mslang.ir.text import kind_text
from mslang.ir.visit import Path, bodies, conjunction, conjuncts, free_vars, fresh, map_bodies
from mslang.transform.analysis.position import (
    block_at,
    block_path,
    common_path,
    index_of,
    leaves,
    loops_between,
    ranges_above,
    same_scope,
    scope_path,
    taken_names,
)
from mslang.transform.outcome import BlockRef, Outcome, refuse
from mslang.transform.rewriting.block_division import (
    PRIMITIVE,
    Part,
    divided,
    not_axes,
    outer_axes,
    require_guards,
    require_told_once,
    said_inside,
    with_regions,
)
from mslang.transform.rewriting.rewrite import put, tidy


def of_blocks(program: Program, blocks: tuple[BlockRef, ...]) -> Outcome:
    """The blocks in one, each under the loops that it alone is under, by axes from the loops around all of them."""
    if not blocks:
        raise refuse("MS379", PRIMITIVE, "no block is given", help="name at least one")
    paths = [block_path(program, b, PRIMITIVE) for b in blocks]
    _require_one_scope(program, blocks, paths)
    above = common_path(*(q[:-1] for q in paths))
    held = _side_by_side(program, blocks, paths, above)
    axes: list[Axis] = []
    inside: list[Stmt] = []
    for path in paths:
        inner = loops_between(path, above)
        inside.append(_told_by(program, path, inner, axes))
    held_blocks = [block_at(q) for q in paths]
    require_told_once(program, held_blocks, {f"the binding of axis `{a.name}`": a.binding for a in axes})
    name = fresh("_".join((*(b.name for b in blocks), "o")), taken_names(program))
    made = with_regions(program, Block(name, tuple(axes), (), (), tuple(inside)))
    around = _around(program, above, paths[0])
    first = index_of(around, held[0])
    body = (*around[:first], made, *around[first + len(held) :])
    if not above:
        return Outcome(replace(program, body=body), (BlockRef(name),))
    parent = above[-1]
    held_in = map_bodies(parent, lambda b: body if b is around else b)
    return Outcome(put(program, above, held_in), (BlockRef(name),))


def _around(program: Program, above: Path, path: Path) -> tuple[Stmt, ...]:
    """The statements directly under the last one of the path `above` among which a longer path goes on."""
    if not above:
        return program.body
    return next(body for body in bodies(above[-1]) if any(s is path[len(above)] for s in body))


def _reached(p: Part, block: Block, axis: Axis, ranges: Mapping[str, Range]) -> Expr:
    """The extent of a new axis, beyond that of the tiles where loops outside run over: each block inside has a guard of
    its own (MS377: it is not known how far they run)."""
    reach = arith.bounds(p.outer, ranges)
    if reach is None or free_vars(reach[1]) or not arith.proved(Binary("<=", ZERO, reach[0])):
        raise refuse(
            "MS377",
            PRIMITIVE,
            f"it is not known how far the loops around all blocks run over axis `{axis.name}` of block `{block.name}`",
            why="the axis of the block around them would have no extent",
        )
    return p.count if arith.proved(Binary("<", p.outer, p.count), ranges) else arith.add(reach[1], ONE)


def _require_one_scope(program: Program, blocks: Sequence[BlockRef], paths: Sequence[Path]) -> None:
    other = next((b for b, q in zip(blocks, paths, strict=True) if not same_scope(q, paths[0])), None)
    if other is not None:
        raise refuse(
            "MS379",
            PRIMITIVE,
            f"block `{other.name}` is in another scope than block `{blocks[0].name}`",
            why="one block holds them all",
        )
    if len({b.name for b in blocks}) < len(blocks):
        raise refuse("MS379", PRIMITIVE, "a block is given twice", help="name each block once")
    between = [s for q in paths for s in q[len(scope_path(q)) :] if not isinstance(s, For | Block)]
    if between:
        raise refuse(
            "MS379",
            PRIMITIVE,
            f"{kind_text(between[0])} stands above one of the blocks",
            why="blocks are put together that stand among loops alone",
        )


def _side_by_side(program: Program, blocks: Sequence[BlockRef], paths: Sequence[Path], above: Path) -> list[Stmt]:
    """The statements, one a block, that hold the blocks directly under the loops around all of them (MS379: they hold
    others too, or do not follow one another)."""
    body = _around(program, above, paths[0])
    held = [q[len(above)] for q in paths]
    for b, s in zip(blocks, held, strict=True):
        others = [x.name for x in leaves(s) if x.name != b.name]
        if others:
            raise refuse(
                "MS379",
                PRIMITIVE,
                f"block `{others[0]}` shares loops with block `{b.name}` that are not around all blocks",
                help="give the list of all blocks under the loop, or use fission first",
            )
    at = [index_of(body, s) for s in held]
    if at != list(range(at[0], at[0] + len(at))):
        raise refuse(
            "MS379",
            PRIMITIVE,
            "the blocks do not follow one another in the order given",
            why=f"in their scope they are at positions {', '.join(map(str, at))}",
        )
    return held


def _told_by(program: Program, path: Path, inner: Sequence[For], axes: list[Axis]) -> Stmt:
    """A block under its loops, bound to the axes of the new block; these grow by what is missing."""
    block, ranges = block_at(path), ranges_above(path)
    parts = divided(path, inner) if inner else tuple(Part(a.binding, a.extent, ZERO, ONE) for a in block.axes)
    made = outer_axes(program, block, parts)
    told: list[Axis] = []
    for a, o, p in zip(block.axes, made, parts, strict=True):
        if a.kind != "spatial" and not arith.equal(p.outer, ZERO, ranges):
            raise refuse(
                "MS379",
                PRIMITIVE,
                f"block `{block.name}` reduces over axis `{a.name}` in the loops around all blocks",
                why="the others would see partial results, and the new block would not say so",
            )
        same = next((x for x in axes if arith.equal(x.binding, p.outer, ranges)), None)
        constant = not free_vars(p.outer) & ranges.keys()
        if constant:
            told.append(replace(a, binding=arith.simplify(arith.add(arith.mul(p.extent, p.outer), p.inner))))
            continue
        if same is None:
            name = fresh(o.name, {x.name for x in axes} | not_axes(program) | free_vars(o.binding))
            same = replace(o, name=name, extent=_reached(p, block, a, ranges))
            axes.append(same)
        inside = {**ranges, **{x.name: Range(ZERO, x.extent) for x in axes}}
        told.append(replace(a, binding=tidy(arith.add(arith.mul(p.extent, Var(same.name)), p.inner), inside)))
    within = {s.var for s in inner}
    require_guards(path)
    conditions = said_inside(conjuncts(block.predicate), path, within)
    body: Stmt = replace(block, axes=tuple(told), predicate=conjunction(conditions))
    for s in reversed(inner):
        body = replace(s, body=(body,))
    return body
