"""Primitives that make a block of what stands under a loop: blockize."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec
from msgspec.structs import replace

from mslang.ir import arith
from mslang.ir.expr import ONE, ZERO, Binary, Expr, Var
from mslang.ir.program import Axis, Block, For, Program, Range, Region, Stmt
from mslang.ir.region import hidden, infer_regions
from mslang.ir.visit import Path, all_buffers, conjunction, conjuncts, free_vars, fresh, substitute, walk
from mslang.transform.analysis.cover import cuts_only_outside
from mslang.transform.analysis.instances import loops_beyond_spatial, runs_once
from mslang.transform.analysis.position import (
    axis_ranges,
    block_at,
    block_path,
    common_path,
    index_of,
    leaves,
    loop_at,
    loop_path,
    loops_above,
    loops_between,
    ranges_above,
    same_scope,
    scope_path,
    taken_names,
)
from mslang.transform.outcome import BlockRef, LoopRef, Outcome, refuse
from mslang.transform.rewriting.initial import init_nest
from mslang.transform.rewriting.rewrite import put, tidy


def blockize(program: Program, target: LoopRef | Sequence[BlockRef]) -> Outcome:
    """Make what stands under a loop, or several blocks that stand side by side, one block.

    The new block, `mm_o`, has an axis `i_o` for each axis `i` of the old one: the part of `i` that the loops outside
    give. The old block stays inside, under the loops from `target` on, and keeps its name; of its axes it is told the
    rest. An init is lifted: it runs for the whole of the new block, in a block `mm_init` under loops of its own. What
    the predicate says of the loops outside becomes the predicate of the new block.

    Given blocks, the new one, `a_b_o`, holds them in their order, each under the loops that it alone is under; its axes
    come from the loops around all of them. Their inits stay where they are.

    Before:
        for io in 0..4, jo in 0..4, it in 0..16, jt in 0..16 {
            block b[i: 64 = io * 16 + it, j: 64 = jo * 16 + jt] { B[i, j] = A[i, j] * 2.0 }
        }

    After:
        # blockize(it)
        for io in 0..4, jo in 0..4 {
            block b_o[i_o: 4 = io, j_o: 4 = jo] {
                reads A[i_o * 16..i_o * 16 + 16, j_o * 16..j_o * 16 + 16]
                writes B[i_o * 16..i_o * 16 + 16, j_o * 16..j_o * 16 + 16]
                for it in 0..16, jt in 0..16 {
                    block b[i: 64 = i_o * 16 + it, j: 64 = j_o * 16 + jt] { B[i, j] = A[i, j] * 2.0 }
                }
            }
        }

    Rejects:
        - a loop under which several statements stand, or something else than loops and a block
        - a block of which an axis is not a multiple of what the loops inside run over, plus these
        - a predicate that mixes loops outside and inside in a way that the new axes cannot tell
        - an init that would not run as often as before
        - blocks that do not stand side by side, that are in different scopes, or of which loops around all reduce

    Source: TVM blockize
    """
    if isinstance(target, LoopRef):
        return _of_loop(program, target, "blockize")
    return _of_blocks(program, tuple(target))


# ------------------------------------------------------------------ a loop
def _of_loop(program: Program, loop: LoopRef, primitive: str) -> Outcome:
    top = loop_path(program, loop, primitive)
    path = single_block(top, primitive)
    block = block_at(path)
    inner = (loop_at(top), *loops_between(path, top))
    parts = _divided(path, inner, primitive)
    taken = taken_names(program)
    axes = _outer_axes(program, block, parts)
    told = _told(block, axes, parts, ranges_above(path))
    outside, inside = _predicates(path, axes, parts, inner, primitive)
    small = replace(block, axes=told, predicate=conjunction(inside))
    init: tuple[Stmt, ...] | None = None
    if block.init is not None and block.allocs:
        raise refuse(
            "MS378",
            primitive,
            f"the init of block `{block.name}` cannot be lifted",
            why="the block allocates buffers, which init and updates would each need",
        )
    if block.init is not None:
        _require_liftable(path, inner, primitive)
        init = (_lifted(small, axes, inner, taken, primitive),)
        small = _without_init(small)
    body: Stmt = small
    for s in reversed(inner):
        body = replace(s, body=(body,))
    name = fresh(f"{block.name}_o", taken)
    made = _with_regions(program, Block(name, axes, (), (), (body,), init, conjunction(outside)))
    return Outcome(put(program, top, made), (BlockRef(name),))


def single_block(top: Path, primitive: str) -> Path:
    """The path to the one block under a loop (MS375: there is not exactly one, or something else stands there)."""
    path = top
    while not isinstance(path[-1], Block):
        s = path[-1]
        if not isinstance(s, For) or len(s.body) != 1:
            what = (
                f"a `{type(s).__name__.lower()}` stands"
                if not isinstance(s, For)
                else f"{len(s.body)} statements stand"
            )
            raise refuse(
                "MS375",
                primitive,
                f"not only one block is under loop `{loop_at(top).var}`",
                why=f"{what} under it",
                help="give the list of blocks, or use fission to give each block loops of its own",
            )
        path = (*path, s.body[0])
    return path


# ------------------------------------------------------------------ the division of bindings
class Part(msgspec.Struct, frozen=True):
    """A binding taken apart: `outer * extent + inner`, `inner` below `extent`; `outer` runs to `count`."""

    outer: Expr
    count: Expr
    inner: Expr
    extent: Expr


def _divided(path: Path, inner: Sequence[For], primitive: str) -> tuple[Part, ...]:
    """The bindings of the block at the end of a path, by the loops inside (MS376: one cannot be divided)."""
    block, ranges = block_at(path), ranges_above(path)
    unsaid = sorted(hidden(block, "read") | hidden(block, "write"))
    if unsaid:
        raise refuse(
            "MS379",
            primitive,
            f"block `{block.name}` hides that it touches `{unsaid[0]}`",
            why="the new block could not declare it",
            help="hide the access of the new block instead",
        )
    starts: dict[str, Expr] = {s.var: s.start for s in inner}
    return tuple(_part(a, starts, inner, ranges, block, primitive) for a in block.axes)


def _part(
    axis: Axis,
    starts: Mapping[str, Expr],
    inner: Sequence[For],
    ranges: Mapping[str, Range],
    block: Block,
    primitive: str,
) -> Part:
    def indivisible(why: str) -> Exception:
        return refuse(
            "MS376",
            primitive,
            f"axis `{axis.name}` of block `{block.name}` cannot be divided at loop `{inner[0].var if inner else ''}`",
            why=why,
            help="split the loops so that the inner ones run over whole tiles, and reorder them to be innermost",
        )

    bound = arith.simplify(axis.binding, ranges)
    if not free_vars(bound) & starts.keys():
        return Part(axis.binding, axis.extent, ZERO, ONE)
    if any((free_vars(s.start) | free_vars(s.extent)) & ranges.keys() for s in inner):
        raise indivisible("the bounds of a loop inside depend on other loops")
    if not all(arith.proved(Binary("<=", ONE, s.extent), ranges) for s in inner):
        raise indivisible("a loop inside may not run at all")
    base = arith.simplify(substitute(bound, starts), ranges)
    rest = arith.simplify(arith.sub(bound, base), ranges)
    moved = frozenset(ranges) - starts.keys()
    if free_vars(rest) & moved:
        raise indivisible(
            f"its binding does not take the loops apart: `{min(free_vars(rest) & moved)}` is in both parts"
        )
    reach = arith.bounds(rest, {v: r for v, r in ranges.items() if v in starts})
    if reach is None or free_vars(reach[1]) or not arith.equal(reach[0], ZERO):
        raise indivisible("what the loops inside add to it does not run from 0 to a known number")
    extent = arith.add(reach[1], ONE)
    if not arith.equal(arith.mod(base, extent), ZERO, ranges):
        raise indivisible("what the loops outside give is not a multiple of what those inside run over")
    whole = arith.equal(arith.mod(axis.extent, extent), ZERO)
    count = arith.floordiv(axis.extent, extent) if whole else arith.ceildiv(axis.extent, extent)
    return Part(arith.simplify(arith.floordiv(base, extent), ranges), arith.simplify(count), rest, extent)


def _outer_axes(program: Program, block: Block, parts: Sequence[Part]) -> tuple[Axis, ...]:
    """The axes of the new block, named after those of the old one."""
    # The axes of a block around are named in the bindings and the predicate: the new ones must not hide them.
    outside = free_vars(block.predicate).union(*(free_vars(p.outer) for p in parts))
    taken = _not_axes(program) | {a.name for a in block.axes} | outside
    made: list[Axis] = []
    for a, p in zip(block.axes, parts, strict=True):
        name = fresh(f"{a.name}_o", taken)
        taken.add(name)
        made.append(Axis(name, p.count, a.kind, p.outer))
    return tuple(made)


def _not_axes(program: Program) -> set[str]:
    """Names that an axis must not take: it is local to its block, but hides nothing."""
    axes = {a.name for s in walk(program.body) if isinstance(s, Block) for a in s.axes}
    loops = {s.var for s in walk(program.body) if isinstance(s, For)}
    return (taken_names(program) - axes) | loops | set(all_buffers(program))


def _told(block: Block, axes: Sequence[Axis], parts: Sequence[Part], ranges: Mapping[str, Range]) -> tuple[Axis, ...]:
    """The axes of the old block, bound to those of the new one and to the loops inside."""
    inside = {**ranges, **{a.name: Range(ZERO, a.extent) for a in axes}}
    return tuple(
        replace(a, binding=tidy(arith.add(arith.mul(p.extent, Var(o.name)), p.inner), inside))
        for a, o, p in zip(block.axes, axes, parts, strict=True)
    )


# ------------------------------------------------------------------ predicates
def _predicates(
    path: Path, axes: Sequence[Axis], parts: Sequence[Part], inner: Sequence[For], primitive: str
) -> tuple[tuple[Expr, ...], tuple[Expr, ...]]:
    """What the predicate says to the new block, and what is left for the old one."""
    block, ranges = block_at(path), ranges_above(path)
    own = {a.name: a.binding for a in block.axes}
    within = {s.var for s in inner}
    _require_guards(path, primitive)
    outside: list[Expr] = []
    inside: list[Expr] = []
    for c in conjuncts(block.predicate):
        if not free_vars(substitute(c, own)) & within:
            outside.append(substitute(c, own))
        else:
            inside.append(_said_inside(c, path, within, primitive))
    for a, p in zip(axes, parts, strict=True):
        if p.inner == ZERO and p.extent == ONE:
            continue
        # What leaves the new axis leaves the old one, too, so nothing that ran is cut off.
        if not arith.proved(Binary("<=", ZERO, p.outer), ranges):
            outside.append(Binary("<=", ZERO, Var(a.name)))
        if not arith.proved(Binary("<", p.outer, a.extent), ranges):
            outside.append(Binary("<", Var(a.name), a.extent))
    return tuple(outside), tuple(inside)


def _require_guards(path: Path, primitive: str) -> None:
    """The predicate keeps the axes in their domains and says no more (MS377)."""
    block = block_at(path)
    if not cuts_only_outside(path):
        raise refuse(
            "MS377",
            primitive,
            f"the predicate of block `{block.name}` leaves out some of what its axes run over",
            why="the new block would say that it writes all of its region",
        )


def _said_inside(condition: Expr, path: Path, within: set[str], primitive: str) -> Expr:
    """A condition in terms of the old block's axes, where it names loops outside."""
    block, ranges = block_at(path), ranges_above(path)
    allowed = {a.name for a in block.axes} | within
    if free_vars(condition) <= allowed:
        return condition
    match condition:
        case Binary(op=op, left=left, right=right):
            sides = [_as_axis(e, block, ranges, allowed) for e in (left, right)]
            if sides[0] is not None and sides[1] is not None:
                return Binary(op, sides[0], sides[1])
    names = ", ".join(f"`{v}`" for v in sorted(free_vars(condition) - allowed))
    raise refuse(
        "MS377",
        primitive,
        f"the predicate of block `{block.name}` mixes loops outside ({names}) with loops inside",
        why="the axes of the new block do not tell it",
        help="split by a factor that divides, or state the condition on the axes: `where` in the block",
    )


def _as_axis(e: Expr, block: Block, ranges: Mapping[str, Range], allowed: set[str]) -> Expr | None:
    """An index as one of the block's axes times a number, if it is one."""
    if free_vars(e) <= allowed:
        return e
    return next((Var(a.name) for a in block.axes if arith.equal(a.binding, e, ranges)), None)


# ------------------------------------------------------------------ init
_IN_ORDER = ("serial", "unrolled", "vectorized")


def _require_liftable(path: Path, inner: Sequence[For], primitive: str) -> None:
    """The init of a block may run before all that the loops inside do (MS378)."""
    block, ranges = block_at(path), ranges_above(path)

    def refused(why: str) -> Exception:
        return refuse("MS378", primitive, f"the init of block `{block.name}` cannot be lifted", why=why)

    used = frozenset(v for a in block.axes for v in free_vars(a.binding))
    idle = next((s for s in inner if s.var not in used and not arith.proved(Binary("<=", s.extent, ONE))), None)
    if idle is not None:
        raise refused(f"loop `{idle.var}` repeats the whole reduction, and no axis depends on it")
    if not runs_once(path, inner):
        raise refused(f"the loops from `{inner[0].var}` on may run an instance of the block twice")
    beyond = loops_beyond_spatial(path)
    at_once = next((s for s in loops_above(path) if s.var in beyond and s.kind not in _IN_ORDER), None)
    if at_once is not None:
        raise refused(f"loop `{at_once.var}`, which reduces, is {at_once.kind}: its iterations run at the same time")
    starts: dict[str, Expr] = {s.var: s.start for s in inner}
    spatial = frozenset(v for a in block.axes if a.kind == "spatial" for v in free_vars(a.binding))
    for a in block.axes:
        mixed = free_vars(a.binding) & starts.keys() & spatial
        if a.kind != "spatial" and mixed:
            raise refused(f"loop `{min(mixed)}` serves spatial and reduction axes")
        if a.kind != "spatial":
            base = substitute(a.binding, starts)
            if arith.bounds(arith.sub(a.binding, base), ranges) is None or not arith.proved(
                Binary("<=", base, a.binding), ranges
            ):
                raise refused(f"the reduction over axis `{a.name}` does not surely begin with the first iteration")


def _lifted(small: Block, axes: Sequence[Axis], inner: Sequence[For], taken: set[str], primitive: str) -> Stmt:
    """The init of the old block as a nest, for all that the new block does."""
    around = Block("", tuple(axes), (), (), (), None)
    spatial = frozenset(v for a in small.axes if a.kind == "spatial" for v in free_vars(a.binding))
    kept = [s for s in inner if s.var in spatial]
    dropped = [s for s in inner if s.var not in spatial]
    # In the init all that is reduced is 0, so what is left of the predicate is about spatial axes.
    return init_nest((around, *inner, replace(small, annotations=())), kept, dropped, taken, primitive).nest


def _without_init(block: Block) -> Block:
    """A block that updates what another has started."""
    started = {r.buffer for r in block.writes}
    read = {r.buffer for r in block.reads}
    reads, _ = infer_regions(replace(block, init=None))
    own = tuple(r for r in block.writes if r.buffer in {x.buffer for x in reads} & started - read)
    return replace(block, init=None, reads=(*own, *block.reads))


def _with_regions(program: Program, block: Block) -> Block:
    """The block with its regions, in normal form."""
    reads, writes = infer_regions(block, all_buffers(program))
    ranges = axis_ranges(block)

    def tidied(r: Region) -> Region:
        return Region(r.buffer, tuple(Range(tidy(d.start, ranges), arith.simplify(d.extent, ranges)) for d in r.ranges))

    return replace(block, reads=tuple(map(tidied, reads)), writes=tuple(map(tidied, writes)))


# ------------------------------------------------------------------ several blocks
def _of_blocks(program: Program, blocks: tuple[BlockRef, ...]) -> Outcome:
    primitive = "blockize"
    if not blocks:
        raise refuse("MS379", primitive, "no block is given", help="name at least one")
    paths = [block_path(program, b, primitive) for b in blocks]
    _require_one_scope(program, blocks, paths)
    above = common_path(*(q[:-1] for q in paths))
    held = _side_by_side(program, blocks, paths, above)
    axes: list[Axis] = []
    inside: list[Stmt] = []
    for path in paths:
        inner = loops_between(path, above)
        inside.append(_told_by(program, path, inner, axes, primitive))
    name = fresh("_".join((*(b.name for b in blocks), "o")), taken_names(program))
    made = _with_regions(program, Block(name, tuple(axes), (), (), tuple(inside)))
    around = _around(program, above)
    first = index_of(around, held[0])
    body = (*around[:first], made, *around[first + len(held) :])
    if not above:
        return Outcome(replace(program, body=body), (BlockRef(name),))
    parent = above[-1]
    if not isinstance(parent, For | Block):
        raise TypeError(f"no loop and no block: {parent!r}")
    return Outcome(put(program, above, replace(parent, body=body)), (BlockRef(name),))


def _around(program: Program, above: Path) -> tuple[Stmt, ...]:
    """The statements directly under the last one of a path."""
    if not above:
        return program.body
    return above[-1].body if isinstance(above[-1], For | Block) else ()


def _reached(p: Part, block: Block, axis: Axis, ranges: Mapping[str, Range], primitive: str) -> Expr:
    """The extent of a new axis, beyond that of the tiles where loops outside run over: each block inside has a guard of
    its own (MS377: it is not known how far they run)."""
    reach = arith.bounds(p.outer, ranges)
    if reach is None or free_vars(reach[1]) or not arith.proved(Binary("<=", ZERO, reach[0])):
        raise refuse(
            "MS377",
            primitive,
            f"it is not known how far the loops around all blocks run over axis `{axis.name}` of block `{block.name}`",
            why="the axis of the block around them would have no extent",
        )
    return p.count if arith.proved(Binary("<", p.outer, p.count), ranges) else arith.add(reach[1], ONE)


def _require_one_scope(program: Program, blocks: Sequence[BlockRef], paths: Sequence[Path]) -> None:
    other = next((b for b, q in zip(blocks, paths, strict=True) if not same_scope(q, paths[0])), None)
    if other is not None:
        raise refuse(
            "MS379",
            "blockize",
            f"block `{other.name}` is in another scope than block `{blocks[0].name}`",
            why="one block holds them all",
        )
    if len({b.name for b in blocks}) < len(blocks):
        raise refuse("MS379", "blockize", "a block is given twice", help="name each block once")
    between = [s for q in paths for s in q[len(scope_path(q)) :] if not isinstance(s, For | Block)]
    if between:
        raise refuse(
            "MS379",
            "blockize",
            f"a `{type(between[0]).__name__.lower()}` stands above one of the blocks",
            why="blocks are put together that stand among loops alone",
        )


def _side_by_side(program: Program, blocks: Sequence[BlockRef], paths: Sequence[Path], above: Path) -> list[Stmt]:
    """The statements, one a block, that hold the blocks directly under the loops around all of them (MS379: they hold
    others too, or do not follow one another)."""
    body = _around(program, above)
    held = [q[len(above)] for q in paths]
    for b, s in zip(blocks, held, strict=True):
        others = [x.name for x in leaves(s) if x.name != b.name]
        if others:
            raise refuse(
                "MS379",
                "blockize",
                f"block `{others[0]}` shares loops with block `{b.name}` that are not around all blocks",
                help="give the list of all blocks under the loop, or use fission first",
            )
    at = [index_of(body, s) for s in held]
    if at != list(range(at[0], at[0] + len(at))):
        raise refuse(
            "MS379",
            "blockize",
            "the blocks do not follow one another in the order given",
            why=f"in their scope they are at positions {', '.join(map(str, at))}",
        )
    return held


def _told_by(program: Program, path: Path, inner: Sequence[For], axes: list[Axis], primitive: str) -> Stmt:
    """A block under its loops, bound to the axes of the new block; these grow by what is missing."""
    block, ranges = block_at(path), ranges_above(path)
    parts = (
        _divided(path, inner, primitive) if inner else tuple(Part(a.binding, a.extent, ZERO, ONE) for a in block.axes)
    )
    made = _outer_axes(program, block, parts)
    told: list[Axis] = []
    for a, o, p in zip(block.axes, made, parts, strict=True):
        if a.kind != "spatial" and not arith.equal(p.outer, ZERO, ranges):
            raise refuse(
                "MS379",
                primitive,
                f"block `{block.name}` reduces over axis `{a.name}` in the loops around all blocks",
                why="the others would see partial results, and the new block would not say so",
            )
        same = next((x for x in axes if arith.equal(x.binding, p.outer, ranges)), None)
        constant = not free_vars(p.outer) & ranges.keys()
        if constant:
            told.append(replace(a, binding=arith.simplify(arith.add(arith.mul(p.extent, p.outer), p.inner))))
            continue
        if same is None:
            name = fresh(o.name, {x.name for x in axes} | _not_axes(program) | free_vars(o.binding))
            same = replace(o, name=name, extent=_reached(p, block, a, ranges, primitive))
            axes.append(same)
        inside = {**ranges, **{x.name: Range(ZERO, x.extent) for x in axes}}
        told.append(replace(a, binding=tidy(arith.add(arith.mul(p.extent, Var(same.name)), p.inner), inside)))
    within = {s.var for s in inner}
    _require_guards(path, primitive)
    conditions = tuple(_said_inside(c, path, within, primitive) for c in conjuncts(block.predicate))
    body: Stmt = replace(block, axes=tuple(told), predicate=conjunction(conditions))
    for s in reversed(inner):
        body = replace(s, body=(body,))
    return body


__all__ = ["Part", "blockize", "single_block"]
