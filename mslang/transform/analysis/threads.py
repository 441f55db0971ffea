"""Loops of one thread axis inside each other: they are one thread index, so that each thread does its share of what is
inside the inner loop.

Its meaning is defined without threads: every thread of the outer loop runs all of the inner one. It comes to the same
where each of them would store the same values at the same places, in memory that they share.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from types import MappingProxyType

from mslang.diagnostics import ScheduleError
from mslang.ir import arith
from mslang.ir.find import all_buffers, contents_of, leaf_paths
from mslang.ir.print import print_expr
from mslang.ir.program import Block, For, If, Let, Program, Stmt, While
from mslang.ir.visit import Path, bodies, free_vars, stmt_exprs, walk, walk_paths
from mslang.transform.analysis.dependence import paths_touching, storages_read, storages_written
from mslang.transform.analysis.position import block_at, is_under, loop_at
from mslang.transform.outcome import refuse

SHARED_SCOPES = frozenset({"global", "shared", "shared.dyn"})
"""Where a buffer lies that all threads of a block see."""


def require_one_index(program: Program, primitive: str) -> None:
    """Check that loops of one `threadIdx` axis inside each other may be one thread index; of others none may.

    Raises:
        ScheduleError: MS395, they have different extents; MS317, the threads would not share out what is inside.
    """
    if contents_of(program.body).bound < 2:
        return
    for top, loop in _nested_blocks(program.body):
        raise refuse(
            "MS317",
            primitive,
            f"loop `{loop.var}` is inside the {loop.kind} loop `{top.var}`: they are one index",
            why="each block, or virtual thread, would run only those iterations in which both are the same",
            help="bind each loop of a nest to an axis of its own",
        )
    for outer, path in _nested(program.body, ()):
        loop, top = loop_at(path), loop_at(outer)
        if not arith.equal(loop.extent, top.extent):
            raise refuse(
                "MS395",
                primitive,
                f"loops `{top.var}` and `{loop.var}` are one thread index of {loop.kind}, with different extents",
                why=f"one has {print_expr(top.extent)} iterations, the other {print_expr(loop.extent)}",
                help="`split` the inner loop by the extent of the outer, and bind that part",
            )
        reason = _why_not_shared_out(program, outer, path)
        if reason is not None:
            raise _not_shared_out(primitive, top, loop, reason)


def _not_shared_out(primitive: str, top: For, loop: For, reason: str) -> ScheduleError:
    return refuse(
        "MS317",
        primitive,
        f"loop `{loop.var}` is inside the {loop.kind} loop `{top.var}`, whose threads may not share it out",
        why=reason,
        help="bind each loop of a nest to an axis of its own, or copy to shared memory what all the threads need",
    )


def _nested_blocks(
    body: tuple[Stmt, ...], above: Mapping[str, For] = MappingProxyType({})
) -> Iterator[tuple[For, For]]:
    """The loops of blocks, and of virtual threads, inside others of their axis."""
    for s in body:
        inside = above
        if isinstance(s, For) and s.kind.startswith(("blockIdx", "vthread")):
            if s.kind in above:
                yield above[s.kind], s
            inside = {**above, s.kind: s}
        for b in bodies(s):
            yield from _nested_blocks(b, inside)


def _nested(body: tuple[Stmt, ...], above: Path) -> Iterator[tuple[Path, Path]]:
    """The loops of threads inside others of their axis: the paths of the outer and of the inner one."""
    for path in walk_paths(body, above):
        loop = path[-1]
        if isinstance(loop, For) and loop.kind.startswith("threadIdx"):
            for k, s in enumerate(path[:-1]):
                if isinstance(s, For) and s.kind == loop.kind:
                    yield path[: k + 1], path


def _why_not_shared_out(program: Program, outer: Path, inner: Path) -> str | None:
    """None if all iterations of the outer loop do the same in the inner loop, and do it to memory that they share."""
    inside = leaf_paths(inner)
    for q in inside:
        block = block_at(q)
        for storage in sorted(storages_written(program, block)):
            scope = all_buffers(program)[storage].scope
            if scope not in SHARED_SCOPES:
                return f"block `{block.name}` writes `{storage}`, which lies in `{scope}`: each thread has its own"
    waiting, seen = list(inside), set[str]()
    while waiting:
        q = waiting.pop()
        block = block_at(q)
        reason = _why_not_repeatable(program, q) or _why_it_differs(outer, q)
        if reason is not None:
            return reason
        for storage in sorted((storages_read(program, block) | storages_written(program, block)) - seen):
            seen.add(storage)
            waiting += (p for p in _writers(program, storage) if is_under(p, loop_at(outer)))
    return None


def _writers(program: Program, storage: str) -> list[Path]:
    """The innermost blocks that write to some memory: what is around them writes through them."""
    found = [q for q in paths_touching(program, storage) if storage in storages_written(program, block_at(q))]
    return [q for q in found if not any(p is not q and is_under(p, q[-1]) for p in found)]


def _why_not_repeatable(program: Program, path: Path) -> str | None:
    """None if a block may run several times: it does not go on from what it wrote before."""
    block = block_at(path)
    for a in block.axes:
        if a.kind != "spatial":
            return f"axis `{a.name}` of block `{block.name}` is {a.kind}: what it sums up would be summed up again"
    both = storages_read(program, block) & storages_written(program, block)
    if both or block.init is not None:
        return f"block `{block.name}` continues from what it wrote before, and more than one thread would run it"
    return None


def _why_it_differs(outer: Path, path: Path) -> str | None:
    """None if nothing that a block does depends on the outer loop, through the loops and blocks between, too."""
    top, block = loop_at(outer), block_at(path)
    varying = {top.var}
    for s in path[len(outer) : -1]:
        match s:
            case If() | While():
                return f"block `{block.name}` stands under a condition, which may differ between threads"
            case For() if _varies(s, varying):
                return f"how often loop `{s.var}` runs depends on loop `{top.var}`, and so on the thread"
            case Let(name=name) if _varies(s, varying):
                varying.add(name)
            case Block():
                if not varying.isdisjoint(free_vars(s.predicate)):
                    return f"the condition of block `{s.name}` depends on loop `{top.var}`, and so on the thread"
                varying |= {a.name for a in s.axes if not varying.isdisjoint(free_vars(a.binding))}
    if any(_varies(s, varying) for s in walk((block,))):
        return f"what block `{block.name}` does depends on loop `{top.var}`: each thread would do something else"
    return None


def _varies(s: Stmt, varying: set[str]) -> bool:
    views = s.views if isinstance(s, Block) else ()
    seen = (e for v in views for r in v.source.ranges for e in (r.start, r.extent))
    return any(not varying.isdisjoint(free_vars(e)) for e in (*stmt_exprs(s), *seen))
