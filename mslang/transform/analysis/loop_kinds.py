"""What loops that run at once need: iterations that depend on nothing of each other, before and after a primitive."""

from __future__ import annotations

from collections.abc import Iterable

from mslang.diagnostics import ScheduleError
from mslang.ir import arith
from mslang.ir.annotations import ATOMIC
from mslang.ir.atomics import is_atomic
from mslang.ir.expr import ONE, Binary
from mslang.ir.find import all_buffers, blocks_of, contents_of, joins_lanes, leaf_paths, path_to_block, path_to_loop
from mslang.ir.program import LOOP_KINDS, For, Program
from mslang.ir.reducers import combines_in_any_order
from mslang.ir.visit import Path, walk, walk_paths
from mslang.transform.analysis.accesses import why_not_own_elements, why_several_names
from mslang.transform.analysis.carried_dependence import (
    reaches,
    shared_storages,
    storages_of,
    touching_paths,
    why_not_data_parallel,
    why_not_independent,
)
from mslang.transform.analysis.dependence import storages_written
from mslang.transform.analysis.legality import why_not_reduction
from mslang.transform.analysis.position import block_at, index_of, loop_at, loop_path, loops_above
from mslang.transform.analysis.reducers import known_reducers
from mslang.transform.outcome import LoopRef, refuse

THREAD_AXES = frozenset(k for k in LOOP_KINDS if "." in k)
"""The thread axes that loops are bound to: `blockIdx.x` … `vthread.z`."""

BLOCK_AXES = frozenset(k for k in THREAD_AXES if k.startswith("blockIdx"))
"""The axes of blocks of threads."""

NOT_IN_LANES = ("parallel", "vectorized", *sorted(THREAD_AXES))
"""Kinds of loops that a vectorized loop does not hold."""


def shares_out_a_reduction(program: Program, path: Path) -> bool:
    """Whether the iterations of the loop at the end of a path are parts of one reduction."""
    return why_not_joined(program, path) is None


def why_not_joined(program: Program, path: Path) -> str | None:
    """None if one block under a loop is a reduction that the loop's iterations are parts of, and what else they do is
    each one's own."""
    loop, inside = loop_at(path), leaf_paths(path)
    parts = [q for q in inside if any(a.kind == "reduce" and reaches(loop.var, a.binding, q) for a in block_at(q).axes)]
    if len(parts) != 1:
        return f"{'no' if not parts else 'more than one'} block reduces over loop `{loop.var}`"
    stray = why_not_data_parallel(path, frozenset({"spatial", "reduce"})) or why_not_reduction(program, parts[0])
    if stray is not None:
        return stray
    block = block_at(parts[0])
    for storage in sorted(storages_written(program, block)):
        others = [q for q in touching_paths(program, inside, storage) if q is not parts[0]]
        if others:
            return f"block `{block_at(others[0]).name}` accesses `{storage}`, into which block `{block.name}` reduces"
    if len(inside) == 1:
        return None
    scopes = {name: all_buffers(program)[name].scope for name in storages_of(program, inside)}
    shared = next((name for name, scope in scopes.items() if scope.startswith(("shared", "warp"))), None)
    if shared is not None:
        return f"`{shared}` lies in `{scopes[shared]}`, which threads that share out a reduction do not fill together"
    return why_not_independent(program, path, storages_written(program, block))


def why_not_joined_lanes(path: Path) -> str | None:
    """None if the lanes of the loop at the end of a path may each combine a part of what one block reduces, and be
    joined then: nothing else is under the loop, which reduces alone, and the block combines in any order."""
    loop, inside = loop_at(path), leaf_paths(path)
    stray = why_not_data_parallel(path, frozenset({"reduce"}))
    if stray is not None:
        return stray
    if len(inside) != 1:
        return f"{len(inside)} blocks are under loop `{loop.var}`, not one reduction"
    block = block_at(inside[0])
    if not any(reaches(loop.var, a.binding, inside[0]) for a in block.axes):
        return f"block `{block.name}` does not reduce over loop `{loop.var}`, which repeats it"
    if blocks_of(block.body) or block.views:
        return (
            f"block `{block.name}` holds {'views' if block.views else 'blocks'}, which may do more than combine values"
        )
    if not combines_in_any_order(block, known_reducers()):
        return f"the order in which block `{block.name}` combines values must be kept"
    others = why_several_names(inside[0]) or why_not_own_elements(block)
    return None if others is None else f"block `{block.name}` reads elements that it does not update: {others}"


def _joined(program: Program, path: Path) -> bool:
    """Whether the iterations of the loop at the end of a path may depend on each other, as parts of one reduction."""
    loop = loop_at(path)
    if loop.kind == "vectorized":
        return joins_lanes(loop) and why_not_joined_lanes(path) is None
    return loop.kind.startswith("threadIdx") and shares_out_a_reduction(program, path)


def require_joined_lanes(before: Program, after: Program, primitive: str) -> None:
    """Check that loops whose lanes may be joined, before a primitive or after it, hold one reduction each.

    Raises:
        ScheduleError: MS310, such a loop does something else, or lost the permission and its lanes are dependent.
    """
    marked = contents_of(before.body).joined | contents_of(after.body).joined
    if not marked:
        return
    for path in walk_paths(after.body):
        loop = path[-1]
        if not isinstance(loop, For) or loop.kind != "vectorized" or loop.var not in marked:
            continue
        if not joins_lanes(loop):
            require_kinds(after, (loop.var,), primitive)
            continue
        reason = why_not_joined_lanes(path)
        if reason is not None:
            raise refuse(
                "MS310",
                primitive,
                f"the lanes of loop `{loop.var}` would not be parts of one reduction",
                why=reason,
                help=f"{primitive} first, then `vectorize(reduction = true)`",
            )


def require_atomic_updates(program: Program, primitive: str) -> None:
    """Check that blocks whose updates are to be atomic still only update, after a primitive has changed them.

    Raises:
        ScheduleError: MS322, one does something else.
    """
    for name in sorted(contents_of(program.body).atomic):
        path = path_to_block(program, name)
        if path is not None and not is_atomic(block_at(path)):
            raise refuse(
                "MS322",
                primitive,
                f"the updates of block `{name}` could not be atomic any more",
                why="it would not only combine a value with one element by `+`, `min` or `max`",
                help=f'{primitive} before `atomic`, or `unannotate({name}, "{ATOMIC}")`',
            )


def require_kinds(program: Program, names: Iterable[str], primitive: str) -> None:
    """Check that loops which run at once still may, after a primitive has moved them.

    Raises:
        ScheduleError: MS310, their iterations have become dependent; MS311, they no longer nest as they must.
    """
    for name in names:
        path = loop_path(program, LoopRef(name), primitive)
        loop = loop_at(path)
        if loop.kind == "vectorized":
            require_no_kind(loop, primitive, NOT_IN_LANES)
        if loop.kind in THREAD_AXES | {"parallel", "vectorized"}:
            reason = why_not_independent(program, path)
            if reason is not None and not _joined(program, path):
                raise _dependent(loop, reason, primitive)


def require_joined(program: Program, primitive: str) -> None:
    """Check that what else loops of threads that share out a reduction do still hangs together in no thread, after a
    primitive has moved blocks.

    Raises:
        ScheduleError: MS309, such a loop holds another block.
    """
    for path in walk_paths(program.body):
        loop = path[-1]
        if not isinstance(loop, For) or not loop.kind.startswith("threadIdx") or why_not_data_parallel(path) is None:
            continue
        reason = why_not_joined(program, path)
        if reason is not None:
            raise refuse(
                "MS309",
                primitive,
                f"the threads of loop `{loop.var}` share out a reduction, and would also do something else",
                why=reason,
                help=f"{primitive} at a loop further out, or before the loop is bound",
            )


_APART = ("parallel", "vectorized", "vthread", "threadIdx", "blockIdx")
"""Kinds of loops whose iterations run at once."""


def require_shared_apart(before: Program, after: Program, primitive: str) -> None:
    """Check loops that run at once: is what was private to their iterations, or is new, accessed outside of them?

    Raises:
        ScheduleError: MS310, different iterations of such a loop would access the same elements.
    """
    for path in walk_paths(after.body):
        loop = path[-1]
        if not isinstance(loop, For) or not loop.kind.startswith(_APART):
            continue
        old = path_to_loop(before, loop.var)
        known = frozenset[str]() if old is None else shared_storages(before, old)
        if shared_storages(after, path) - known and why_not_data_parallel(path) is None:
            require_kinds(after, (loop.var,), primitive)


def require_own_writes(program: Program, path: Path, primitive: str) -> None:
    """Check that what the block at the end of a path writes is each iteration's own, in loops of its scope
    above it that run at once; it may be written several times there.

    Raises:
        ScheduleError: MS310, different iterations of such a loop would access the same elements.
    """
    others = frozenset(all_buffers(program)) - storages_written(program, block_at(path))
    for s in loops_above(path):
        above = path[: index_of(path, s) + 1]
        if not s.kind.startswith(_APART) or _joined(program, above):
            continue
        reason = why_not_independent(program, above, others)
        if reason is not None:
            raise _dependent(s, reason, primitive)


def _dependent(loop: For, reason: str, primitive: str) -> ScheduleError:
    return refuse(
        "MS310",
        primitive,
        f"the iterations of the {loop.kind} loop `{loop.var}` would no longer be independent",
        why=reason,
        help=f"{primitive} first, then mark the loop",
    )


def kept_out(kind: str) -> tuple[str, ...]:
    """The kinds of loops that may not be inside of a loop of this kind."""
    if kind in ("parallel", "vectorized"):
        return NOT_IN_LANES if kind == "vectorized" else ("parallel",)
    if kind not in THREAD_AXES:
        return ()
    # Loops of one `threadIdx` axis inside each other are one thread index.
    same = () if kind.startswith("threadIdx") else (kind,)
    return tuple(sorted({*same, *(() if kind in BLOCK_AXES else BLOCK_AXES)}))


def require_nesting(path: Path, primitive: str) -> None:
    """Check that the loops inside of a block that was moved may be inside of those around it now (MS311)."""
    for s in loops_above(path):
        require_no_kind(s, primitive, kept_out(s.kind))


def require_no_kind(loop: For, primitive: str, kinds: tuple[str, ...]) -> None:
    """Check that no loop of these kinds is inside of a loop (MS311)."""
    lanes = kinds is NOT_IN_LANES
    for s in walk(loop.body):
        if not isinstance(s, For) or s.kind not in kinds or (lanes and arith.proved(Binary("<=", s.extent, ONE))):
            continue
        raise refuse(
            "MS311",
            primitive,
            f"loop `{loop.var}` is around the {s.kind} loop `{s.var}`",
            why="the iterations of a vectorized loop are lanes, which hold neither lanes nor threads"
            if lanes
            else None,
            help="`fuse` the loops that should be concurrent into one",
        )
