"""Primitives that say how a loop runs: parallel, vectorize, unroll, bind."""

from __future__ import annotations

from msgspec.structs import replace

from mslang.ir import arith
from mslang.ir.annotations import JOINED, MAX_STEPS
from mslang.ir.expr import ZERO, Binary, DynamicRange, Expr, Symbol
from mslang.ir.find import blocks_of
from mslang.ir.print import print_expr
from mslang.ir.program import Annotations, For, Program
from mslang.ir.visit import Path, free_vars, walk, walk_expr
from mslang.transform.analysis.carried_dependence import (
    why_not_data_parallel,
    why_not_independent,
)
from mslang.transform.analysis.loop_kinds import (
    BLOCK_AXES,
    THREAD_AXES,
    kept_out,
    require_no_kind,
    shares_out_a_reduction,
    why_not_joined_lanes,
)
from mslang.transform.analysis.position import loop_at, loop_path
from mslang.transform.analysis.threads import require_one_index
from mslang.transform.kinds import ThreadAxis
from mslang.transform.outcome import LoopRef, Outcome, refuse
from mslang.transform.primitive import primitive
from mslang.transform.rewriting.rewrite import put


@primitive(family="loop kinds")
def parallel(program: Program, loop: LoopRef) -> Outcome:
    """Run the iterations of a loop concurrently, shared among the machine's cores.

    A buffer that is allocated in the scope and accessed under the loop alone becomes private to each iteration. Another
    kind that the loop had is forgotten: what is said last counts.

    Before:
        for i in 0..64 { block b[x: 64 = i] { B[x] = A[x] } }

    After:
        # i.parallel()
        for i in 0..64 @ parallel { block b[x: 64 = i] { B[x] = A[x] } }

    Rejects:
        - a loop that a reduction, scan or opaque axis depends on
        - a statement below that stands in no block
        - iterations that may access the same element of a buffer that one of them writes
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
                help="`fuse` the loops that should run in parallel into one",
            )
    require_no_kind(old, "parallel", kept_out("parallel"))
    done = put(program, path, _marked(old, "parallel"))
    # as cores, which do not update atomically as the blocks and threads do that it may have been bound to
    _require_independent(done, loop_path(done, loop, "parallel"), "parallel")
    return Outcome(done)


@primitive(family="loop kinds")
def vectorize(program: Program, loop: LoopRef, *, reduction: bool = False) -> Outcome:
    """Run the iterations of a loop together, as the lanes of vector instructions.

    Any extent is allowed; how many lanes one instruction takes is the concern of lowering. Loops inside run in all
    lanes alike, which is of use where only an outer loop steps through memory; where they cannot, because their bounds
    differ between lanes, the iterations run one after the other. Another kind that the loop had is forgotten: what is
    said last counts.

    With `reduction` the loop may be one that a single reduction block reduces over, if that combines in any order:
    each lane combines its part, then the lanes are joined, pair by pair. The loop is annotated with this permission,
    and later primitives that would put anything else under it are refused. As with `rfactor` and `reorder`, sums of
    floating-point numbers round differently.

    Before:
        for i in 0..16 { block b[x: 16 = i] { B[x] = A[x] } }

    After:
        # i.vectorize()
        for i in 0..16 @ vectorized { block b[x: 16 = i] { B[x] = A[x] } }

    Rejects:
        - a loop that a reduction, scan or opaque axis depends on; with `reduction`, such a loop around several blocks,
          or around one that must keep its order
        - a statement below that stands in no block
        - iterations that may access the same element of a buffer that one of them writes
        - a loop inside a vectorized one, or around one or around a parallel or bound loop: lanes hold no lanes

    Source: TVM vectorize; with `reduction`, Halide's `atomic().vectorize()`
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
    require_no_kind(old, "vectorize", kept_out("vectorized"))
    marked = _marked(old, "vectorized")
    done = put(program, path, marked)
    lanes = loop_path(done, loop, "vectorize")
    if reduction and (why_not_data_parallel(lanes) or why_not_independent(done, lanes)):
        _require_joined_lanes(path)
        joined = replace(marked, annotations=(*marked.annotations, (JOINED, True)))
        return Outcome(put(program, path, joined))
    _require_independent(done, lanes, "vectorize")
    return Outcome(done)


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


@primitive(family="loop kinds")
def bind(program: Program, loop: LoopRef, axis: ThreadAxis) -> Outcome:
    """Run the iterations of a loop as the blocks or threads of a GPU's thread axis.

    `axis` is one of `blockIdx`, `threadIdx`, `vthread`, each with `.x`, `.y` or `.z`. Blocks and threads may reduce
    over the loop where the updates are `atomic`. On a `threadIdx` axis a single reduction block may reduce over the
    loop, besides blocks that do each thread's own work: the threads combine what each of them has summed. Loops of
    one `threadIdx` axis inside each other are one thread index: each thread does its share of what is inside the inner
    one, as when all of them copy together what they all need. Another kind that the loop had is forgotten: what is said
    last counts.

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
          is inside depends on the outer loop, continues from what it wrote before (a reduction does), or reads what
          does, or if it writes memory that each thread has to itself
        - an extent that depends on a loop, or for threads on a size known only at the call: a launch fixes it
        - another extent than a loop of the same `threadIdx` axis has under the same outermost bound loop, if it differs
          for all sizes: one launch has as many threads everywhere
        - a loop that a reduction, scan or opaque axis depends on, but for a reduction over threads or by atomic updates
        - a statement below that stands in no block
        - iterations that may access the same element of a buffer that one of them writes

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
    outside = {"vectorized", *(() if threads else (axis,)), *(THREAD_AXES - BLOCK_AXES if axis in BLOCK_AXES else ())}
    for s in _around(path):
        if s.kind in outside:
            raise refuse(
                "MS311",
                "bind",
                f"loop `{old.var}` is inside the {s.kind} loop `{s.var}`",
                help="bind each loop of a nest to an axis of its own, blocks outside of threads",
            )
    require_no_kind(old, "bind", kept_out(axis))
    _require_launchable(path, axis)
    done = put(program, path, _marked(old, axis))
    if not (threads and shares_out_a_reduction(program, path)):
        # as blocks and threads, which may update the same elements by atomics
        _require_independent(done, loop_path(done, loop, "bind"), "bind")
    require_one_index(done, "bind")
    return Outcome(done)


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
    if sizes and axis not in BLOCK_AXES:
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


# ------------------------------------------------------------------ shared
def _around(path: Path) -> tuple[For, ...]:
    """The loops above, in enclosing scopes too."""
    return tuple(s for s in path[:-1] if isinstance(s, For))


def _marked(loop: For, kind: str) -> For:
    """A loop that runs in one way; what was said of another goes."""
    return replace(loop, kind=kind, annotations=tuple(n for n in loop.annotations if n[0] not in (MAX_STEPS, JOINED)))


def _require_joined_lanes(path: Path) -> None:
    """Check that the lanes of a loop are parts of one reduction."""
    reason = why_not_joined_lanes(path)
    if reason is not None:
        raise refuse(
            "MS309",
            "vectorize",
            f"the iterations of loop `{loop_at(path).var}` are not parts of one reduction",
            why=reason,
            help="vectorize the loop of a block that only adds, multiplies, or takes minima or maxima",
        )


def _require_independent(program: Program, path: Path, primitive: str) -> None:
    loop = loop_at(path)
    reason = why_not_data_parallel(path)
    if reason is not None:
        help = None
        if any(a.kind == "reduce" and loop.var in free_vars(a.binding) for b in blocks_of(loop.body) for a in b.axes):
            help = f"split `{loop.var}` and `rfactor` one part: its partial results are independent"
            if primitive == "vectorize":
                help += "; or `vectorize(reduction = true)`: the lanes are joined"
        raise refuse(
            "MS309", primitive, f"the iterations of loop `{loop.var}` cannot be concurrent", why=reason, help=help
        )
    reason = why_not_independent(program, path)
    if reason is not None:
        raise refuse("MS310", primitive, f"the iterations of loop `{loop.var}` cannot be concurrent", why=reason)
