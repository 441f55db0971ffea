"""Primitives that change the loops of a nest: split, fuse, reorder, add_unit_loop."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from msgspec.structs import replace

from mslang.ir import arith
from mslang.ir.expr import ONE, ZERO, Binary, Const, Expr, Var
from mslang.ir.find import path_to_loop
from mslang.ir.print import print_expr
from mslang.ir.program import For, Program, Stmt
from mslang.ir.visit import Path, free_vars, fresh
from mslang.ops.words import TAILS
from mslang.transform.analysis.interchange import why_not_reorderable
from mslang.transform.analysis.loop_kinds import require_kinds
from mslang.transform.analysis.plain_loops import require_distinct, require_plain
from mslang.transform.analysis.position import (
    leaves,
    loop_at,
    loop_path,
    loop_range,
    path_of,
    ranges_above,
    same_scope,
    taken_names,
)
from mslang.transform.kinds import LoopArguments, Tail
from mslang.transform.outcome import BlockRef, Gone, LoopRef, Outcome, refuse
from mslang.transform.primitive import primitive
from mslang.transform.rewriting.loop_nest import called, mixed_radix, nested
from mslang.transform.rewriting.rewrite import guard, put, substitute_loops
from mslang.transform.rewriting.rounded_loop import pad
from mslang.transform.rewriting.split_tails import peel, shift


@primitive(family="loops", gives=(LoopRef,), many=True, consumes=("loop",))
def split(
    program: Program,
    loop: LoopRef,
    factors: Sequence[Expr | None],
    *,
    tail: Tail = "guard",
    disable_predication: bool = False,
) -> Outcome:
    """Replace a loop by a nest of loops over the same values.

    One factor may be a hole: it becomes the extent divided by the product of the others, rounded up. Where the factors
    provably multiply to the extent (a perfect tile, a divisor), that is all; else `tail` says how the remainder runs:

    - `guard`: every block below gets the predicate that cuts off what lies beyond.
    - `peel`: the nest runs full tiles only: the hole, or else the outermost factor, is rounded down. What is left, of
      which there may be nothing, runs in a loop `i_tail` behind it, over copies of the loops, blocks and own buffers
      below, whose names end in `_tail`. A reduction that is cut goes on there: its block says that it reads what it
      updates, and has no init where that provably never runs.
    - `shift`: the last tile is moved inwards until it ends with the loop, so that some iterations run again.
    - `pad`: the domain is rounded up, and the buffers that the iterations added access grow. What they read that nobody
      under the loop writes is filled with zeros in front, by a block `T_fill`.

    With `disable_predication` a predicate must provably stay away. Loops of one iteration stay.

    The new loops are named `i_0`, `i_1`, … and are returned outermost first; the old handle is dead.

    Before:
        for i in 0..100 {
            block b[x: 100 = i] { B[x] = A[x] }
        }

    After:
        # let i0, i1 = i.split([_, 8])
        for i0 in 0..13, i1 in 0..8 {
            block b[x: 100 = i0 * 8 + i1] {
                where i0 * 8 + i1 < 100
                B[x] = A[x]
            }
        }

    Rejects:
        - a loop that is not serial, or that is annotated (what was said of it would be lost)
        - no factor at all, or more than one hole
        - a factor that is not provably positive
        - factors without a hole whose product may fall short of the extent
        - `disable_predication` where a predicate is not provably needless
        - `peel`, if the iterations of a concurrent loop below would share a buffer
        - `shift`, if one tile may be larger than the loop
        - `shift`, if an iteration does not write the same values whenever it runs: it builds on what was there
        - `pad`, if how many iterations are added depends on another loop
        - `pad`, if the iterations added would reduce, or access anything but new elements of buffers that the scope
          allocates, in steps of a fixed size

    Source: TVM split
    """
    path = loop_path(program, loop, "split")
    old = loop_at(path)
    require_plain(old, "split")
    extents = _split_extents(old, factors)
    product = arith.size_product(extents)
    outside = ranges_above(path)
    exact = arith.equal(product, old.extent, outside)
    if tail not in TAILS:
        raise refuse("MS303", "split", f"`{tail}` is no way to run a remainder", help=f"one of {', '.join(TAILS)}")
    taken = taken_names(program)
    names: list[str] = []
    for k in range(len(extents)):
        names.append(fresh(f"{old.var}_{k}", taken))
        taken.add(names[-1])
    made = tuple(LoopRef(n) for n in names)
    if exact or tail == "guard":
        result = _guarded(program, path, names, extents, disable_predication)
    elif tail == "peel":
        result = peel(program, path, names, extents, next((k for k, f in enumerate(factors) if f is None), 0))
    elif tail == "shift":
        result = shift(program, path, names, extents)
    else:
        result = pad(program, path, names, extents)
    return Outcome(result, made, {loop: Gone("split", made)})


def _guarded(
    program: Program, path: Path, names: Sequence[str], extents: Sequence[Expr], disable_predication: bool
) -> Program:
    old, outside = loop_at(path), ranges_above(path)
    index = mixed_radix(names, extents)
    value = arith.add(old.start, index)
    loops = [For(n, e, ()) for n, e in zip(names, extents, strict=True)]
    ranges = outside | {s.var: loop_range(s) for s in loops}
    body = substitute_loops(old.body, {old.var: value}, ranges)
    inside = Binary("<", index, old.extent)
    if not arith.equal(arith.size_product(extents), old.extent, outside) and not arith.proved(inside, ranges):
        if disable_predication:
            raise refuse(
                "MS306",
                "split",
                f"loop `{old.var}` cannot be split without a predicate",
                why="the factors may run over its extent",
                help="leave `disable_predication` out, or give factors that provably divide the extent",
            )
        body = guard(body, inside)
    return put(program, path, *nested(loops, body))


def _split_extents(loop: For, factors: Sequence[Expr | None]) -> list[Expr]:
    if not factors:
        raise refuse("MS303", "split", "no factors are given", help="give one for each new loop; one may be `_`")
    given = [f for f in factors if f is not None]
    if len(factors) - len(given) > 1:
        raise refuse("MS303", "split", "only one factor may be `_`", why="two unknown factors have many solutions")
    for f in given:
        if free_vars(f):
            raise refuse(
                "MS306",
                "split",
                f"a factor depends on `{min(free_vars(f))}`",
                why="a factor is one number in all iterations",
            )
        if not arith.proved(Binary("<", ZERO, f)):
            raise refuse(
                "MS306",
                "split",
                f"the factor `{print_expr(f)}` is not provably positive",
                help="a factor is a number above 0 or `_`",
            )
    product = arith.size_product(given)
    if len(given) < len(factors):
        rest = arith.ceildiv(loop.extent, product)
        return [rest if f is None else f for f in factors]
    short = Binary("<", product, loop.extent)
    verdict = arith.decide(short)
    if verdict is not arith.Verdict.REFUTED:
        shortfall = "is" if verdict is arith.Verdict.PROVED else "may be"
        size = f" {loop.extent.value}" if isinstance(loop.extent, Const) else ""
        raise refuse(
            "MS306",
            "split",
            f"the factors do not cover loop `{loop.var}`",
            why=f"their product {shortfall} below the extent{size}",
            help="make one factor `_`: it is then inferred, and what does not divide is guarded",
        )
    return given


@primitive(family="loops", gives=(LoopRef,), consumes=("loops",))
def fuse(program: Program, loops: LoopArguments) -> Outcome:
    """Make one loop of several that are directly nested in each other, over all their iterations in the same order.

    The new loop is named `i_j_fused` and returned; the old handles are dead. Fusing one loop alone changes nothing.

    Before:
        for i in 0..4, j in 0..8 {
            block b[x: 4 = i, y: 8 = j] { B[x, y] = A[x, y] }
        }

    After:
        # let f = fuse(i, j)
        for f in 0..32 {
            block b[x: 4 = f // 8, y: 8 = f % 8] { B[x, y] = A[x, y] }
        }

    Rejects:
        - no loop at all, or a loop named twice
        - loops that are not nested directly, outermost first, with nothing next to the inner ones
        - a loop that is not serial, or that is annotated
        - a loop whose bounds depend on another of the loops

    Source: TVM fuse
    """
    require_distinct(loops, "fuse")
    if not loops:
        raise refuse("MS303", "fuse", "no loops are given", help="name those to fuse, outermost first")
    paths = [loop_path(program, x, "fuse") for x in loops]
    if len(loops) == 1:
        return Outcome(program, tuple(loops))
    olds = [loop_at(p) for p in paths]
    for old in olds:
        require_plain(old, "fuse")
    _require_nested(olds, paths)
    for k, old in enumerate(olds):
        used = (free_vars(old.extent) | free_vars(old.start)) & {x.var for x in olds[:k]}
        if used:
            raise refuse(
                "MS307",
                "fuse",
                f"the bounds of loop `{old.var}` depend on loop `{min(used)}`",
                why="the fused loop would not have a fixed number of iterations",
            )
    extents = [x.extent for x in olds]
    name = fresh("_".join([*(x.var for x in olds), "fused"]), taken_names(program))
    total = arith.size_product(extents)
    new = For(name, total, ())
    ranges = ranges_above(paths[0]) | {name: loop_range(new)}
    values: dict[str, Expr] = {}
    for k, old in enumerate(olds):
        inner = arith.size_product(extents[k + 1 :])
        digit = arith.floordiv(Var(name), inner)
        values[old.var] = arith.add(old.start, digit if k == 0 else arith.mod(digit, old.extent))
    body = substitute_loops(olds[-1].body, values, ranges)
    made = LoopRef(name)
    return Outcome(put(program, paths[0], replace(new, body=body)), (made,), {x: Gone("fuse", (made,)) for x in loops})


def _require_nested(loops: list[For], paths: list[Path]) -> None:
    depth = sorted(range(len(loops)), key=lambda k: len(paths[k]))
    for outer, inner in pairwise(loops):
        if len(outer.body) == 1 and outer.body[0] is inner:
            continue
        if depth != list(range(len(loops))):
            order = ", ".join(loops[k].var for k in depth)
            raise refuse("MS304", "fuse", "the loops are not given outermost first", help=f"try fuse({order})")
        beside = [s for s in outer.body if s is not inner and any(x is inner for x in outer.body)]
        between = _between(outer, inner)
        if beside:
            why = f"{called(beside[0])} stands next to it"
        elif between:
            why = f"{', '.join(called(s) for s in between)} stands between them"
        else:
            why = f"loop `{inner.var}` is not inside loop `{outer.var}`"
        raise refuse(
            "MS304",
            "fuse",
            f"loop `{inner.var}` is not all of the body of loop `{outer.var}`",
            why=why,
            help="`reorder` the loops next to each other first" if between and not beside else None,
        )


def _between(outer: For, inner: For) -> tuple[Stmt, ...]:
    """The statements around one loop inside another, from the outside in."""
    path = path_to_loop(Program("", (), outer.body), inner.var)
    return () if path is None else tuple(s for s in path[:-1])


@primitive(family="loops")
def reorder(program: Program, loops: LoopArguments) -> Outcome:
    """Permute loops of one nest: they take the places that they hold among them, in the order given.

    The loops need not be next to each other; loops between them that are not named stay where they are. Handles stay
    alive.

    Before:
        for i in 0..4, j in 0..8, k in 0..16 {
            block b[x: 4 = i, y: 8 = j, z: 16 = k] { B[x, y, z] = A[z, y, x] }
        }

    After:
        # reorder(k, i)
        for k in 0..16, j in 0..8, i in 0..4 {
            block b[x: 4 = i, y: 8 = j, z: 16 = k] { B[x, y, z] = A[z, y, x] }
        }

    Rejects:
        - no loop at all, or a loop named twice
        - loops that are not in one nest, or with something next to a loop between the first and the last of them
        - a block below with a scan or opaque axis, or with bindings that are not affine
        - bounds of a loop that would come to depend on a loop inside it
        - blocks below that hand values to each other from one iteration to another
        - a loop that serves spatial and reduction axes of a block with an init: the init must stay the first
        - parallel and vectorized loops that would no longer be legal where they come to stand

    Source: TVM reorder
    """
    if not loops:
        raise refuse("MS303", "reorder", "no loops are given", help="name those to permute, outermost first")
    require_distinct(loops, "reorder")
    paths = [loop_path(program, x, "reorder") for x in loops]
    if len(loops) < 2:
        return Outcome(program)
    deepest = max(paths, key=len)
    top = min(paths, key=len)
    for path in paths:
        if not any(s is path[-1] for s in deepest) or not same_scope(path, deepest):
            raise refuse(
                "MS304",
                "reorder",
                f"loops `{loop_at(path).var}` and `{loop_at(deepest).var}` are not in one nest",
                why="neither is around the other in the same scope",
            )
    chain = [s for s in deepest[len(top) - 1 :] if isinstance(s, For)]
    for outer, inner in pairwise(deepest[len(top) - 1 :]):
        if not isinstance(outer, For) or len(outer.body) != 1:
            why = (
                f"loop `{outer.var}` between them holds more than {called(inner)}"
                if isinstance(outer, For)
                else f"{called(outer)} stands between them"
            )
            raise refuse("MS304", "reorder", "the loops are not in one nest", why=why)
    wanted = {id(p[-1]) for p in paths}
    order = iter([loop_at(p) for p in paths])
    new_chain = [next(order) if id(s) in wanted else s for s in chain]
    if all(a is b for a, b in zip(chain, new_chain, strict=True)):
        return Outcome(program)
    for k, s in enumerate(new_chain):
        inside = {x.var for x in new_chain[k:]}
        used = (free_vars(s.extent) | free_vars(s.start)) & inside
        if used:
            raise refuse(
                "MS307",
                "reorder",
                f"the bounds of loop `{s.var}` depend on loop `{min(used)}`",
                why=f"loop `{min(used)}` would be inside it",
            )
    reason = why_not_reorderable(program, deepest, chain, new_chain)
    if reason is not None:
        raise refuse(
            "MS308",
            "reorder",
            f"the order of loops above block `{leaves(top[-1])[0].name}` matters"
            if leaves(top[-1])
            else "the order of these loops matters",
            why=reason,
        )
    result = put(program, top, *nested(new_chain, chain[-1].body))
    require_kinds(result, (s.var for s in chain), "reorder")
    return Outcome(result)


@primitive(family="loops", gives=(LoopRef,))
def add_unit_loop(program: Program, target: LoopRef | BlockRef) -> Outcome:
    """Put a loop of one iteration around a loop or a block.

    The new loop is named `u` and returned.

    Before:
        block b[] { S[] = 0.0 }

    After:
        # let u = b.add_unit_loop()
        for u in 0..1 { block b[] { S[] = 0.0 } }

    Rejects:
        - nothing that exists

    Source: TVM add_unit_loop
    """
    path = path_of(program, target, "add_unit_loop")
    name = fresh("u", taken_names(program))
    return Outcome(put(program, path, For(name, ONE, (path[-1],))), (LoopRef(name),))
