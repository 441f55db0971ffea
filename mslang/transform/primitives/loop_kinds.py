"""Primitives that say how a loop runs: parallel, vectorize, unroll, bind."""

from __future__ import annotations

from collections.abc import Iterable

from msgspec.structs import replace

from mslang.diagnostics import ScheduleError
from mslang.ir import arith
from mslang.ir.expr import ONE, ZERO, Binary, DynamicRange, Expr, Symbol
from mslang.ir.print import print_expr
from mslang.ir.program import LOOP_KINDS, Annotations, For, Program
from mslang.ir.visit import Path, all_buffers, blocks_of, free_vars, path_to_loop, walk, walk_expr, walk_paths
from mslang.transform.analysis.carried_dependence import (
    leaf_paths,
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
from mslang.transform.analysis.threads import require_one_index
from mslang.transform.kinds import ThreadAxis
from mslang.transform.outcome import LoopRef, Outcome, refuse
from mslang.transform.primitive import primitive
from mslang.transform.rewriting.rewrite import put

MAX_STEPS = "unroll.max_steps"
"""The annotation of an unrolled loop: it is unrolled only while it makes no more than so many copies."""


@primitive(family="loop kinds")
def parallel(program: Program, loop: LoopRef) -> Outcome:
    """Run the iterations of a loop at once, shared out over the machine's cores.

    A buffer that is allocated in the scope and touched under the loop alone becomes private to each iteration. Another
    kind that the loop had is forgotten: what is said last counts.

    Before:
        for i in 0..64 { block b[x: 64 = i] { B[x] = A[x] } }

    After:
        # i.parallel()
        for i in 0..64 @ parallel { block b[x: 64 = i] { B[x] = A[x] } }

    Rejects:
        - a loop that a reduction, scan or opaque axis depends on
        - a statement below that stands in no block
        - iterations that may touch the same element of a buffer that one of them writes
        - a loop around or inside another parallel loop, or inside a vectorized one

    Source: TVM parallel
    """
    path = loop_path(program, loop, "parallel")
    old = loop_at(path)
    if old.kind == "parallel":
        return Outcome(program)
    for s in _around(path):
        if s.kind in ("parallel", "vectorized"):
            raise refuse(
                "MS311",
                "parallel",
                f"loop `{old.var}` is inside the {s.kind} loop `{s.var}`",
                help="`fuse` the loops that are to run in parallel into one",
            )
    _require_no_kind(old, "parallel", ("parallel",))
    _require_independent(program, path, "parallel")
    return Outcome(put(program, path, _marked(old, "parallel")))


@primitive(family="loop kinds")
def vectorize(program: Program, loop: LoopRef) -> Outcome:
    """Run the iterations of a loop at once, as the lanes of vector instructions.

    Any extent is allowed; how many lanes one instruction takes is the concern of lowering. Loops inside run in all
    lanes alike, which is of use where only an outer loop steps through memory; where they cannot, because their bounds
    differ between lanes, the iterations run one after the other. Another kind that the loop had is forgotten: what is
    said last counts.

    Before:
        for i in 0..16 { block b[x: 16 = i] { B[x] = A[x] } }

    After:
        # i.vectorize()
        for i in 0..16 @ vectorized { block b[x: 16 = i] { B[x] = A[x] } }

    Rejects:
        - a loop that a reduction, scan or opaque axis depends on
        - a statement below that stands in no block
        - iterations that may touch the same element of a buffer that one of them writes
        - a loop inside a vectorized one, or around one or around a parallel or bound loop: lanes hold no lanes

    Source: TVM vectorize
    """
    path = loop_path(program, loop, "vectorize")
    old = loop_at(path)
    if old.kind == "vectorized":
        return Outcome(program)
    for s in _around(path):
        if s.kind == "vectorized":
            raise refuse(
                "MS311",
                "vectorize",
                f"loop `{old.var}` is inside the vectorized loop `{s.var}`",
                help="`fuse` the loops and vectorize the result",
            )
    _require_no_kind(old, "vectorize", _NOT_IN_LANES)
    _require_independent(program, path, "vectorize")
    return Outcome(put(program, path, _marked(old, "vectorized")))


@primitive(family="loop kinds")
def unroll(program: Program, loop: LoopRef, *, max_steps: Expr | None = None) -> Outcome:
    """Write out the iterations of a loop one after the other.

    With `max_steps` the loop is written out only if it has no more iterations than that (0: never), which is
    decided when the program is lowered; it is kept as the annotation `unroll.max_steps`. Another kind that the loop
    had, and another limit, is forgotten: what is said last counts.

    Before:
        for i in 0..4 { block b[x: 4 = i] { B[x] = A[x] } }

    After:
        # i.unroll(max_steps = 16)
        for i in 0..4 @ unrolled("unroll.max_steps" = 16) { block b[x: 4 = i] { B[x] = A[x] } }

    Rejects:
        - a limit that depends on a loop, or is negative

    Source: TVM unroll
    """
    path = loop_path(program, loop, "unroll")
    old = loop_at(path)
    notes: Annotations = () if max_steps is None else ((MAX_STEPS, max_steps),)
    if max_steps is not None and (free_vars(max_steps) or not arith.proved(Binary("<=", ZERO, max_steps))):
        raise refuse("MS303", "unroll", "`max_steps` is not provably 0 or more", help="0 says: unroll none of it")
    if old.kind == "unrolled" and dict(old.annotations).get(MAX_STEPS) == max_steps:
        return Outcome(program)
    marked = _marked(old, "unrolled")
    return Outcome(put(program, path, replace(marked, annotations=(*marked.annotations, *notes))))


THREAD_AXES = frozenset(k for k in LOOP_KINDS if "." in k)
"""The thread axes that loops are bound to: `blockIdx.x` … `vthread.z`."""


@primitive(family="loop kinds")
def bind(program: Program, loop: LoopRef, axis: ThreadAxis) -> Outcome:
    """Run the iterations of a loop as the blocks or threads of a GPU's thread axis.

    `axis` is one of `blockIdx`, `threadIdx`, `vthread`, each with `.x`, `.y` or `.z`. On a `threadIdx` axis a single
    reduction block may reduce over the loop, beside blocks that do what is each thread's own: the threads combine what
    each of them has summed. Loops of one `threadIdx` axis inside each other are one thread index: each thread does its
    share of what is inside the inner one, as when all of them copy together what they all need. Another kind that the
    loop had is forgotten: what is said last counts.

    Before:
        for i in 0..64 { block b[x: 64 = i] { B[x] = A[x] } }

    After:
        # i.bind(threadIdx.x)
        for i in 0..64 @ threadIdx.x { block b[x: 64 = i] { B[x] = A[x] } }

    Rejects:
        - an axis that there is not
        - a loop around or inside another of the same `blockIdx` or `vthread` axis, around a `blockIdx` loop, or inside
          a vectorized one
        - a loop around or inside another of the same `threadIdx` axis, if their extents are not provably equal, if what
          is inside depends on the outer loop, goes on from what it wrote before (a reduction does), or reads what does,
          or if it writes memory that each thread has to itself
        - an extent that depends on a loop, or for threads on a size known only at the call: a launch fixes it
        - another extent than a loop of the same `threadIdx` axis has under the same outermost bound loop, if it differs
          for all sizes: one launch has as many threads everywhere
        - a loop that a reduction, scan or opaque axis depends on, but for a reduction over threads
        - a statement below that stands in no block
        - iterations that may touch the same element of a buffer that one of them writes

    Source: TVM bind
    """
    if axis not in THREAD_AXES:
        raise refuse(
            "MS316",
            "bind",
            f"there is no thread axis `{axis}`",
            help=f"the thread axes are: {', '.join(sorted(THREAD_AXES))}",
        )
    path = loop_path(program, loop, "bind")
    old = loop_at(path)
    if old.kind == axis:
        return Outcome(program)
    threads = axis.startswith("threadIdx")
    outside = {"vectorized", *(() if threads else (axis,)), *(THREAD_AXES - _BLOCK_AXES if axis in _BLOCK_AXES else ())}
    for s in _around(path):
        if s.kind in outside:
            raise refuse(
                "MS311",
                "bind",
                f"loop `{old.var}` is inside the {s.kind} loop `{s.var}`",
                help="bind each loop of a nest to an axis of its own, blocks outside of threads",
            )
    inside = {*(() if threads else (axis,)), *(() if axis in _BLOCK_AXES else _BLOCK_AXES)}
    _require_no_kind(old, "bind", tuple(sorted(inside)))
    _require_launchable(path, axis)
    if not (threads and _reduces(program, path)):
        _require_independent(program, path, "bind")
    done = put(program, path, _marked(old, axis))
    require_one_index(done, "bind")
    return Outcome(done)


_BLOCK_AXES = frozenset(k for k in THREAD_AXES if k.startswith("blockIdx"))

_NOT_IN_LANES = ("parallel", "vectorized", *sorted(THREAD_AXES))
"""Kinds of loops that a vectorized loop does not hold."""


def _require_launchable(path: Path, axis: str) -> None:
    """What a launch of a kernel fixes must be known, and one, for all of it."""
    loop = loop_at(path)
    outer = free_vars(loop.extent) | free_vars(loop.start)
    if outer:
        raise refuse(
            "MS395",
            "bind",
            f"the bounds of loop `{loop.var}` depend on `{min(outer)}`",
            why="a launch has the same blocks and threads for all of its iterations",
            help="`split` the loop by a number, and bind that part",
        )
    sizes = [x for x in walk_expr(loop.extent) if isinstance(x, Symbol) and isinstance(x.domain, DynamicRange)]
    if sizes and axis not in _BLOCK_AXES:
        raise refuse(
            "MS395",
            "bind",
            f"the extent of loop `{loop.var}` depends on `{sizes[0].text}`, a size known only at the call",
            why=f"the extent of {axis} is fixed when the kernel is compiled",
            help="`split` the loop by a number, bind that part, and the rest to blockIdx",
        )
    top = next((s for s in _around(path) if s.kind in THREAD_AXES), loop)
    bound = [s for s in walk((top,)) if isinstance(s, For) and s is not loop and s.kind.startswith("threadIdx")]
    if axis.startswith("threadIdx"):
        bound = [replace(loop, kind=axis), *bound]
    first: dict[str, For] = {}
    for s in bound:
        other = first.setdefault(s.kind, s)
        if arith.decide(Binary("==", s.extent, other.extent)) is arith.Verdict.REFUTED:
            raise refuse(
                "MS395",
                "bind",
                f"loops `{other.var}` and `{s.var}` of {s.kind} would belong to one launch, with different extents",
                why=f"one has {print_expr(other.extent)} iterations, the other {print_expr(s.extent)}",
                help="`split` the longer by the extent of the shorter, and bind that part",
            )


def _reduces(program: Program, path: Path) -> bool:
    return _why_not_joined(program, path) is None


def _why_not_joined(program: Program, path: Path) -> str | None:
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
            return f"block `{block_at(others[0]).name}` touches `{storage}`, into which block `{block.name}` reduces"
    if len(inside) == 1:
        return None
    scopes = {name: all_buffers(program)[name].scope for name in storages_of(program, inside)}
    shared = next((name for name, scope in scopes.items() if scope.startswith(("shared", "warp"))), None)
    if shared is not None:
        return f"`{shared}` lies in `{scopes[shared]}`, which threads that share out a reduction do not fill together"
    return why_not_independent(program, path, storages_written(program, block))


def require_kinds(program: Program, names: Iterable[str], primitive: str) -> None:
    """Check that loops which run at once still may, after a primitive has moved them.

    Raises:
        ScheduleError: MS310, their iterations have become dependent; MS311, they no longer nest as they must.
    """
    for name in names:
        path = loop_path(program, LoopRef(name), primitive)
        loop = loop_at(path)
        if loop.kind == "vectorized":
            _require_no_kind(loop, primitive, _NOT_IN_LANES)
        reduced = loop.kind.startswith("threadIdx") and _reduces(program, path)
        if loop.kind in THREAD_AXES | {"parallel", "vectorized"} and not reduced:
            reason = why_not_independent(program, path)
            if reason is not None:
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
        reason = _why_not_joined(program, path)
        if reason is not None:
            raise refuse(
                "MS309",
                primitive,
                f"the threads of loop `{loop.var}` share out a reduction, and would do something else beside",
                why=reason,
                help=f"{primitive} at a loop further out, or before the loop is bound",
            )


_APART = ("parallel", "vectorized", "vthread", "threadIdx", "blockIdx")
"""Kinds of loops whose iterations run at once."""


def require_shared_apart(before: Program, after: Program, primitive: str) -> None:
    """Check loops that run at once: is what was private to their iterations, or is new, touched outside of them?

    Raises:
        ScheduleError: MS310, different iterations of such a loop would touch the same elements.
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
        ScheduleError: MS310, different iterations of such a loop would touch the same elements.
    """
    others = frozenset(all_buffers(program)) - storages_written(program, block_at(path))
    for s in loops_above(path):
        above = path[: index_of(path, s) + 1]
        if not s.kind.startswith(_APART) or (s.kind.startswith("threadIdx") and _reduces(program, above)):
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


# ------------------------------------------------------------------ shared
def _around(path: Path) -> tuple[For, ...]:
    """The loops above, in enclosing scopes too."""
    return tuple(s for s in path[:-1] if isinstance(s, For))


def _marked(loop: For, kind: str) -> For:
    """A loop that runs in one way; what was said of another goes."""
    return replace(loop, kind=kind, annotations=tuple(n for n in loop.annotations if n[0] != MAX_STEPS))


def _require_no_kind(loop: For, primitive: str, kinds: tuple[str, ...]) -> None:
    lanes = kinds is _NOT_IN_LANES
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
            help="`fuse` the loops that are to run at once into one",
        )


def _require_independent(program: Program, path: Path, primitive: str) -> None:
    loop = loop_at(path)
    reason = why_not_data_parallel(path)
    if reason is not None:
        help = None
        if any(a.kind == "reduce" and loop.var in free_vars(a.binding) for b in blocks_of(loop.body) for a in b.axes):
            help = f"split `{loop.var}` and `rfactor` one part: its partial results are independent"
        raise refuse(
            "MS309", primitive, f"the iterations of loop `{loop.var}` may not run at once", why=reason, help=help
        )
    reason = why_not_independent(program, path)
    if reason is not None:
        raise refuse("MS310", primitive, f"the iterations of loop `{loop.var}` may not run at once", why=reason)
