"""A block as part of one around it: its bindings and its predicate, divided between the two."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import msgspec
from msgspec.structs import replace

from mslang.ir import arith
from mslang.ir.expr import ONE, ZERO, Binary, Expr, Var
from mslang.ir.find import all_buffers
from mslang.ir.program import Axis, Block, For, Program, Range, Region
from mslang.ir.region import HIDDEN, hidden, infer_regions
from mslang.ir.visit import Path, conjuncts, free_vars, fresh, loads_of, substitute, walk
from mslang.transform.analysis.accesses import written_by
from mslang.transform.analysis.cover import cuts_only_outside, only_guards
from mslang.transform.analysis.dependence import storage_of
from mslang.transform.analysis.position import axis_ranges, bindings, block_at, ranges_above, taken_names
from mslang.transform.outcome import refuse
from mslang.transform.rewriting.rewrite import tidy

PRIMITIVE = "blockize"


class Part(msgspec.Struct, frozen=True):
    """A binding taken apart: `outer * extent + inner`, `inner` below `extent`; `outer` runs to `count`."""

    outer: Expr
    count: Expr
    inner: Expr
    extent: Expr


def divided(path: Path, inner: Sequence[For]) -> tuple[Part, ...]:
    """The bindings of the block at the end of a path, by the loops inside (MS376: one cannot be divided)."""
    block, ranges = block_at(path), ranges_above(path)
    unsaid = sorted(hidden(block, "read") | hidden(block, "write"))
    if unsaid and block.init is not None:
        raise refuse(
            "MS379",
            PRIMITIVE,
            f"block `{block.name}` hides that it accesses `{unsaid[0]}`",
            why="it is not known which part of it the init accesses",
            help="hide the access of the new block instead",
        )
    starts: dict[str, Expr] = {s.var: s.start for s in inner}
    return tuple(_part(a, starts, inner, ranges, block) for a in block.axes)


def _part(
    axis: Axis,
    starts: Mapping[str, Expr],
    inner: Sequence[For],
    ranges: Mapping[str, Range],
    block: Block,
) -> Part:
    def indivisible(why: str) -> Exception:
        return refuse(
            "MS376",
            PRIMITIVE,
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
    if not _begins_tiles(base, extent, ranges):
        raise indivisible("what the loops outside give is not a multiple of what those inside run over")
    whole = arith.equal(arith.mod(axis.extent, extent), ZERO)
    count = arith.floordiv(axis.extent, extent) if whole else arith.ceildiv(axis.extent, extent)
    return Part(arith.simplify(arith.floordiv(base, extent), ranges), arith.simplify(count), rest, extent)


def outer_axes(program: Program, block: Block, parts: Sequence[Part]) -> tuple[Axis, ...]:
    """The axes of the new block, named after those of the old one."""
    # The axes of a block around are named in the bindings and the predicate: the new ones must not hide them.
    outside = free_vars(block.predicate).union(*(free_vars(p.outer) for p in parts))
    taken = not_axes(program) | {a.name for a in block.axes} | outside
    made: list[Axis] = []
    for a, p in zip(block.axes, parts, strict=True):
        name = fresh(f"{a.name}_o", taken)
        taken.add(name)
        made.append(Axis(name, p.count, a.kind, p.outer))
    return tuple(made)


def not_axes(program: Program) -> set[str]:
    """Names that an axis must not take: it is local to its block, but hides nothing."""
    axes = {a.name for s in walk(program.body) if isinstance(s, Block) for a in s.axes}
    loops = {s.var for s in walk(program.body) if isinstance(s, For)}
    return (taken_names(program) - axes) | loops | set(all_buffers(program))


def require_told_once(program: Program, blocks: Sequence[Block], told: Mapping[str, Expr]) -> None:
    """What the new block is told before its instances run is what each of them was told (MS376).

    Args:
        program: the program before.
        blocks: the blocks inside.
        told: for what it is in a message, what the new block evaluates: bindings and conditions.
    """
    written = {storage_of(program, b): block for block in blocks for b in written_by(block)}
    for what, e in told.items():
        for x in loads_of(e):
            block = written.get(storage_of(program, x.buffer))
            if block is not None:
                raise refuse(
                    "MS376",
                    PRIMITIVE,
                    f"{what} of block `{blocks[0].name}` loads `{x.buffer}`, which block `{block.name}` writes",
                    why="the new block would load it once, before what the loops inside do; each instance loads what "
                    "those before it left",
                )


# ------------------------------------------------------------------ predicates
def _begins_tiles(base: Expr, extent: Expr, ranges: Mapping[str, Range]) -> bool:
    """Is what the loops outside give provably a multiple of what those inside run over?"""
    return arith.equal(arith.mod(base, extent), ZERO, ranges)


def predicates(
    path: Path, axes: Sequence[Axis], parts: Sequence[Part], inner: Sequence[For]
) -> tuple[tuple[Expr, ...], tuple[Expr, ...]]:
    """What the predicate says to the new block, and what is left for the old one."""
    block, ranges = block_at(path), ranges_above(path)
    own = bindings(block)
    within = {s.var for s in inner}
    require_guards(path)
    conditions = conjuncts(block.predicate)
    outside = [e for c in conditions for e in (substitute(c, own),) if not free_vars(e) & within]
    said = [arith.simplify(c, ranges) for c in outside]
    for a, p in zip(axes, parts, strict=True):
        # What leaves the new axis leaves the old one, too, so nothing that ran is cut off.
        for kept, needed in (
            (Binary("<=", ZERO, Var(a.name)), Binary("<=", ZERO, p.outer)),
            (Binary("<", Var(a.name), a.extent), Binary("<", p.outer, a.extent)),
        ):
            if arith.simplify(needed, ranges) not in said and not arith.proved(needed, ranges):
                outside.append(kept)
    inside = said_inside([c for c in conditions if free_vars(substitute(c, own)) & within], path, within)
    return tuple(outside), inside


def require_guards(path: Path) -> None:
    """The predicate keeps the axes in their domains and says no more (MS377)."""
    block = block_at(path)
    if not cuts_only_outside(path):
        raise refuse(
            "MS377",
            PRIMITIVE,
            f"the predicate of block `{block.name}` leaves out some of what its axes run over",
            why="the new block would say that it writes all of its region",
        )


def said_inside(conditions: Iterable[Expr], path: Path, within: set[str]) -> tuple[Expr, ...]:
    """Conditions that keep the axes of the block at the end of a path in their domains, without loops outside.

    What neither is about the axes and the loops inside nor compares them is stated again: each axis keeps to its
    domain, which is equivalent, for no instance may run outside; MS377 if it is false elsewhere, too, where an instance
    would run once more.
    """
    block, ranges = block_at(path), ranges_above(path)
    said = [_said(c, block, ranges, {a.name for a in block.axes} | within) for c in conditions]
    kept = [c for c in said if c is not None]
    if len(kept) < len(said):
        if not only_guards(path):
            raise refuse(
                "MS377",
                PRIMITIVE,
                f"the predicate of block `{block.name}` mixes loops outside with loops inside",
                why="it is not known to be false only where an axis would leave its domain, the only "
                "condition that the axes of the new block can express",
                help="split by a factor that divides, or state the condition on the axes: `where` in the block",
            )
        for a in block.axes:
            bounds = (Binary("<=", ZERO, Var(a.name)), Binary("<", Var(a.name), a.extent))
            kept += [c for c in bounds if c not in kept and not arith.proved(substitute(c, bindings(block)), ranges)]
    return tuple(kept)


def _said(condition: Expr, block: Block, ranges: Mapping[str, Range], allowed: set[str]) -> Expr | None:
    """A condition in terms of the block's axes, where it compares them; None where it names loops outside otherwise."""
    if free_vars(condition) <= allowed:
        return condition
    match condition:
        case Binary(op=op, left=left, right=right):
            one, other = (_as_axis(e, block, ranges, allowed) for e in (left, right))
            return None if one is None or other is None else Binary(op, one, other)
    return None


def _as_axis(e: Expr, block: Block, ranges: Mapping[str, Range], allowed: set[str]) -> Expr | None:
    """An index as one of the block's axes, if it is one."""
    if free_vars(e) <= allowed:
        return e
    return next((Var(a.name) for a in block.axes if arith.equal(a.binding, e, ranges)), None)


# ------------------------------------------------------------------ regions
def with_regions(program: Program, block: Block) -> Block:
    """The block with its regions, in normal form; what blocks inside of it hide it hides."""
    reads, writes = infer_regions(block, all_buffers(program))
    ranges = axis_ranges(block)

    def tidied(r: Region) -> Region:
        return Region(r.buffer, tuple(Range(tidy(d.start, ranges), arith.simplify(d.extent, ranges)) for d in r.ranges))

    inside = [s for s in walk(block.body, into_blocks=False) if isinstance(s, Block)]
    notes = tuple(
        (key, tuple(unsaid))
        for access, key in HIDDEN.items()
        for unsaid in (sorted(frozenset().union(*(hidden(b, access) for b in inside))),)
        if unsaid
    )
    return replace(block, reads=tuple(map(tidied, reads)), writes=tuple(map(tidied, writes)), annotations=notes)
