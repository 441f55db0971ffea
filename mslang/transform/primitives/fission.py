"""Primitives that take a loop's body apart, and put the bodies of loops together: fission, merge."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from msgspec.structs import replace

from mslang.ir import arith
from mslang.ir.expr import Expr, Var
from mslang.ir.find import leaf_paths
from mslang.ir.program import For, Program, Stmt
from mslang.ir.visit import Path, bodies, fresh, substitute, walk, walk_paths
from mslang.transform.analysis.accesses import bound_loads
from mslang.transform.analysis.carried_dependence import why_unplaced
from mslang.transform.analysis.dependence import storage_of, storages_read, storages_written
from mslang.transform.analysis.loop_distribution import Under, why_order_matters
from mslang.transform.analysis.plain_loops import require_distinct, require_plain
from mslang.transform.analysis.position import (
    common_path,
    index_of,
    is_under,
    leaves,
    loop_at,
    loop_path,
    path_of,
    ranges_above,
    same_scope,
    shown,
    taken_names,
)
from mslang.transform.kinds import LoopArguments
from mslang.transform.outcome import BlockRef, Gone, Handle, LoopRef, Outcome, refuse
from mslang.transform.primitive import primitive
from mslang.transform.rewriting.cloning import require_still_concurrent, used_outside_of_blocks
from mslang.transform.rewriting.loop_nest import called
from mslang.transform.rewriting.rewrite import put, substitute_loops


@primitive(family="loops", gives=(LoopRef, LoopRef), consumes=("loop",))
def fission(program: Program, loop: LoopRef, after: LoopRef | BlockRef) -> Outcome:
    """Take a loop apart behind a statement of its body: one loop up to it, and one over the rest.

    `after` may stand deeper: the statement of the loop's body that holds it counts. To take several enclosing loops
    apart, begin with the innermost. The new loops are named `i_0` and `i_1` and are returned; the old handle is dead.

    Before:
        for i in 0..64 {
            block a[x: 64 = i] { T[x] = A[x] }
            block b[x: 64 = i] { B[x] = T[x] }
        }

    After:
        # let i0, i1 = i.fission(a)
        for i0 in 0..64 {
            block a[x: 64 = i0] { T[x] = A[x] }
        }
        for i1 in 0..64 {
            block b[x: 64 = i1] { B[x] = T[x] }
        }

    Rejects:
        - a loop that is not serial, or that is annotated
        - a statement that is not under the loop in its scope, or after which nothing follows
        - statements under the loop that stand in no block
        - an iteration of the rest that may access what a later iteration of the first part accesses, where one of them
          writes it; a buffer that each iteration fills for itself is no exception

    Source: not in TVM
    """
    path, wanted = loop_path(program, loop, "fission"), path_of(program, after, "fission")
    old = loop_at(path)
    require_plain(old, "fission")
    if not is_under(wanted, old) or not same_scope(path, wanted):
        raise refuse(
            "MS304",
            "fission",
            f"{shown(after)} is not under loop `{old.var}` in its scope",
            help="name a statement of the loop's body, after which something follows",
        )
    at = index_of(old.body, wanted[len(path)]) + 1
    if at == len(old.body):
        raise refuse(
            "MS304",
            "fission",
            f"nothing follows {called(wanted[len(path)])} in loop `{old.var}`",
            help="name a statement before the last",
        )
    _require_known(program, (old,), "fission")
    inside = leaf_paths(path)
    first, second = (_under(part, inside, path) for part in (old.body[:at], old.body[at:]))
    reason = why_order_matters(program, first, second)
    if reason is not None:
        raise refuse("MS357", "fission", f"loop `{old.var}` cannot be taken apart", why=reason)
    taken = taken_names(program)
    parts: list[For] = []
    for k, body in enumerate((old.body[:at], old.body[at:])):
        name = fresh(f"{old.var}_{k}", taken)
        taken.add(name)
        parts.append(replace(old, var=name, body=substitute_loops(body, {old.var: Var(name)}, None)))
    made = tuple(LoopRef(s.var) for s in parts)
    result = put(program, path, *parts)
    require_still_concurrent(result, (*(s for s in path[:-1] if isinstance(s, For)), *parts), "fission")
    return Outcome(result, made, {loop: Gone("fission", made)})


@primitive(family="loops", gives=(LoopRef,), consumes=("loops",))
def merge(program: Program, loops: LoopArguments) -> Outcome:
    """Make one nest of several that stand side by side: its body is theirs, in their order.

    They may be named in any order. The loops and those around them, up to the statement that holds all the nests, are
    joined pair by pair; the new ones are named `i_m`, and the innermost is returned. The handles of the loops around go
    to the new ones. The nest stands where the first stood, or else, if something between must come before it, where the
    last did.

    Before:
        for i in 0..64 {
            block a[x: 64 = i] { T[x] = A[x] }
        }
        for j in 0..64 {
            block b[x: 64 = j] { B[x] = T[x] }
        }

    After:
        # let m = merge(i, j)
        for m in 0..64 {
            block a[x: 64 = m] { T[x] = A[x] }
            block b[x: 64 = m] { B[x] = T[x] }
        }

    Rejects:
        - fewer than two loops, or a loop named twice
        - a loop, of those named or around them, that is not serial, or that is annotated
        - loops of different scopes, one inside another, at different depths, or with something next to a loop
        - loops whose ranges are not provably equal
        - statements under the loops that stand in no block
        - an iteration that would come before one that it builds on: it may access what a later iteration of an earlier
          nest accesses, where one of them writes it, and not both only add to it (or take the maximum, …)
        - things between the nests that must come neither all after them nor all before

    Source: TVM merge
    """
    require_distinct(loops, "merge")
    if len(loops) < 2:
        raise refuse(
            "MS303",
            "merge",
            "fewer than two loops are given",
            help="name the loops to merge",
        )
    paths = _in_program_order(program, [loop_path(program, x, "merge") for x in loops])
    chains = _chains(program, paths)
    tops = [loop_at(c[0]) for c in chains]
    around, body = _siblings(program, chains)
    _require_known(program, tops, "merge")
    _require_equal(chains)
    nests = [Under(leaf_paths(c[-1]), c) for c in chains]
    for k, second in enumerate(nests):
        for first in nests[:k]:
            reason = why_order_matters(program, first, second)
            if reason is not None:
                raise refuse("MS357", "merge", f"{_named(paths)} cannot be merged", why=reason)
    place = _place(program, body, tops)
    taken = taken_names(program)
    names: list[str] = []
    for path in chains[0]:
        names.append(fresh(f"{loop_at(path).var}_m", taken))
        taken.add(names[-1])
    inner: tuple[Stmt, ...] = ()
    for c in chains:
        values: dict[str, Expr] = {loop_at(p).var: Var(n) for p, n in zip(c, names, strict=True)}
        inner += substitute_loops(loop_at(c[-1]).body, values, None)
    heads: dict[str, Expr] = {}
    made: list[For] = []
    for p, n in zip(chains[0], names, strict=True):
        s = loop_at(p)
        made.append(replace(s, var=n, start=substitute(s.start, heads), extent=substitute(s.extent, heads), body=()))
        heads[s.var] = Var(n)
    nest: Stmt = replace(made[-1], body=inner)
    for s in reversed(made[:-1]):
        nest = replace(s, body=(nest,))
    result = program
    for top in tops:
        result = put(result, _found(result, top), *((nest,) if top is place else ()))
    require_still_concurrent(result, (*(s for s in around if isinstance(s, For)), nest), "merge")
    forward: dict[Handle, Handle | Gone] = {}
    for c in chains:
        for p, n in zip(c, names, strict=True):
            forward[LoopRef(loop_at(p).var)] = LoopRef(n)
    last = LoopRef(names[-1])
    return Outcome(result, (last,), forward | {x: Gone("merge", (last,)) for x in loops})


# ------------------------------------------------------------------ shared
def _under(part: Sequence[Stmt], inside: Iterable[Path], loop: Path) -> Under:
    wanted = {b.name for b in leaves(*part)}
    return Under(tuple(q for q in inside if getattr(q[-1], "name", "") in wanted), (loop,))


def _require_known(program: Program, tops: Sequence[For], primitive: str) -> None:
    for top in tops:
        stray = why_unplaced(top.body, f"loop `{top.var}`")
        if stray is not None:
            raise refuse("MS357", primitive, "the order of what the loops run is not known to be free", why=stray)
        for block in leaves(top):
            for storage in sorted(storages_written(program, block)):
                if used_outside_of_blocks(program, storage):
                    raise refuse(
                        "MS352",
                        primitive,
                        f"`{storage}` is read outside of blocks",
                        why="of statements outside of blocks it is not known when they run",
                    )


# ------------------------------------------------------------------ merge
def _named(paths: Sequence[Path]) -> str:
    return " and ".join(f"loop `{loop_at(p).var}`" for p in paths)


def _in_program_order(program: Program, paths: Sequence[Path]) -> list[Path]:
    order = {id(q[-1]): k for k, q in enumerate(walk_paths(program.body))}
    return sorted(paths, key=lambda p: order[id(p[-1])])


def _chains(program: Program, paths: Sequence[Path]) -> list[tuple[Path, ...]]:
    """For each of some loops in program order the paths of the loops from the outermost that is to be joined down to
    it."""
    shared = len(common_path(*paths))
    for p in paths:
        if not same_scope(p, paths[0]):
            raise refuse(
                "MS304",
                "merge",
                f"{_named(paths)} are in several scopes",
                why="loops are merged within one block, or outside of all",
            )
        if len(p) <= shared:
            raise refuse(
                "MS304",
                "merge",
                f"loop `{loop_at(p).var}` is around another of the loops",
                why="loops are merged that stand side by side",
            )
        if len(p) != len(paths[0]):
            raise refuse(
                "MS304",
                "merge",
                f"loops `{loop_at(paths[0]).var}` and `{loop_at(p).var}` are not equally deep",
                why="the loops around them are joined pair by pair",
            )
        for k, s in enumerate(p[shared:], shared):
            if not isinstance(s, For):
                raise refuse(
                    "MS304",
                    "merge",
                    f"{called(s)} stands around loop `{loop_at(p).var}`",
                    why="only loops may stand around those to merge, up to where the nests part",
                )
            require_plain(s, "merge")
            if k + 1 < len(p) and len(s.body) != 1:
                raise refuse(
                    "MS304",
                    "merge",
                    f"loop `{s.var}` holds more than {called(p[k + 1])}",
                    why="what stands next to them would run in another order",
                )
    chains = [tuple(p[: k + 1] for k in range(shared, len(p))) for p in paths]
    beside = _list_of(program, chains[0][0])
    if any(all(c[0][-1] is not s for s in beside) for c in chains):
        raise refuse(
            "MS304", "merge", "the nests do not stand side by side", why="the loops around them are not the same"
        )
    return chains


def _list_of(program: Program, path: Path) -> tuple[Stmt, ...]:
    """The statement list in which the end of a path stands."""
    if len(path) == 1:
        return program.body
    return next(b for b in bodies(path[-2]) if any(s is path[-1] for s in b))


def _siblings(program: Program, chains: Sequence[tuple[Path, ...]]) -> tuple[Path, tuple[Stmt, ...]]:
    top = chains[0][0]
    return top[:-1], _list_of(program, top)


def _require_equal(chains: Sequence[tuple[Path, ...]]) -> None:
    for c in chains[1:]:
        values: dict[str, Expr] = {}
        for mine, its in zip(c, chains[0], strict=True):
            a, b = loop_at(mine), loop_at(its)
            ranges = ranges_above(its)
            same = all(
                arith.equal(substitute(x, values), y, ranges) for x, y in ((a.start, b.start), (a.extent, b.extent))
            )
            if not same:
                raise refuse(
                    "MS304",
                    "merge",
                    f"loops `{b.var}` and `{a.var}` do not provably run over the same range",
                    help="`loop_partition` the longer one first",
                )
            values[a.var] = Var(b.var)


def _place(program: Program, body: tuple[Stmt, ...], tops: Sequence[For]) -> For:
    """The nest in the place of which the new one is put: the first, if the others may come before all that stands
    between, or the last, if those before it may come after (MS357: neither)."""
    first = _in_the_way(program, body, tops, tops[0])
    if first is None:
        return tops[0]
    if _in_the_way(program, body, tops, tops[-1]) is None:
        return tops[-1]
    what, why = first
    raise refuse(
        "MS357",
        "merge",
        f"{called(what)} stands between the loops, and what comes after it would come before",
        why=why,
        help="nor can it come before them all",
    )


def _in_the_way(program: Program, body: tuple[Stmt, ...], tops: Sequence[For], place: For) -> tuple[Stmt, str] | None:
    """What stands between some loops and must not change places with those that are moved to one of them, and why."""
    first, last, at = (index_of(body, x) for x in (tops[0], tops[-1], place))
    for k, s in enumerate(body[first:last], first):
        if any(s is t for t in tops):
            continue
        moved = [t for t in tops if (index_of(body, t) > k) == (at == first)]
        stray = why_unplaced((s,), "the loops")
        if stray is not None or any(_meet(program, s, t) for t in moved):
            return s, stray or "both access a buffer that one of them writes"
    return None


def _meet(program: Program, a: Stmt, b: Stmt) -> bool:
    (reads, writes), (its_reads, its_writes) = (
        (
            frozenset[str]().union(_bounding(program, s), *(storages_read(program, x) for x in leaves(s))),
            frozenset[str]().union(*(storages_written(program, x) for x in leaves(s))),
        )
        for s in (a, b)
    )
    return bool(writes & (its_reads | its_writes) or reads & its_writes)


def _bounding(program: Program, s: Stmt) -> frozenset[str]:
    """The memory that the bounds of loops read, at or under a statement."""
    loops = (x for x in walk((s,), into_blocks=False) if isinstance(x, For))
    return frozenset(storage_of(program, x.buffer) for x in bound_loads(loops))


def _found(program: Program, loop: For) -> Path:
    return loop_path(program, LoopRef(loop.var), "merge")
