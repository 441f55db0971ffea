"""The primitive that takes a reduction apart along a loop: rfactor."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec
from msgspec.structs import replace

from mslang.ir import arith
from mslang.ir.expr import ONE, TRUE, ZERO, Expr, Load, Select, Symbol, Var
from mslang.ir.find import all_buffers
from mslang.ir.program import Axis, Block, Buffer, For, Let, Program, Range, Stmt, Store
from mslang.ir.region import infer_regions
from mslang.ir.visit import Path, conjunction, conjuncts, free_vars, fresh, substitute
from mslang.transform.analysis.formula import tidy_value
from mslang.transform.analysis.loop_kinds import require_kinds
from mslang.transform.analysis.position import (
    bindings,
    block_at,
    loop_at,
    loop_path,
    loops_above,
    ranges_above,
    scope_path,
    taken_names,
    within_scope,
)
from mslang.transform.analysis.reducers import Match, combined, identity_of, known_reducers
from mslang.transform.analysis.reduction_updates import Updates, own_loads, reduction_of, updates_of
from mslang.transform.analysis.rfactor_legality import (
    PRIMITIVE,
    only_block,
    require_from_scratch,
    require_loops,
    require_plain,
    rises,
)
from mslang.transform.outcome import BlockRef, LoopRef, Outcome, refuse
from mslang.transform.primitive import primitive
from mslang.transform.rewriting.rewrite import put, tidy
from mslang.transform.rewriting.staging import with_alloc


@primitive(family="reductions", gives=(BlockRef,))
def rfactor(program: Program, loop: LoopRef, axis: int = 0) -> Outcome:
    """Take a reduction apart along a loop, into partial results and a reduction of these.

    There is one partial result for each iteration of the loop. The block of the partial results is `mm_rf`, and is
    returned; it writes a new buffer, `C_rf`, with one dimension more: `axis` says which. In it the loop is spatial, so
    it can be vectorized or run in parallel. The handle of the block stays with what reduces the partial results.
    `mm_rf` stands in front of the nest, under loops like those of the block; the reduction loops but the one given go
    with it.

    Known are sums, products, minima and maxima, sums into two buffers, the position and value of the largest or
    smallest element, and what packages register. Sums and products of floating-point numbers are rounded in another
    order.

    Before:
        for i in 0..8, k0 in 0..4, k1 in 0..4 {
            block s[x: 8 = i | y: 16 = k0 * 4 + k1] {
                init { S[x] = 0.0 }
                S[x] = S[x] + A[x, y]
            }
        }

    After:
        # k1.rfactor(axis = 1)
        for i_rf in 0..8, k0 in 0..4, k1_rf in 0..4 {
            block s_rf[k1: 4 = k1_rf, x: 8 = i_rf | k0: 4 = k0] {
                init { S_rf[x, k1] = 0.0 }
                S_rf[x, k1] = S_rf[x, k1] + A[x, k0 * 4 + k1]
            }
        }
        for i in 0..8, k1 in 0..4 {
            block s[k1: 4 @ reduce = k1, x: 8 = i] {
                init { S[x] = 0.0 }
                S[x] = S[x] + S_rf[x, k1]
            }
        }

    Rejects:
        - a loop that is around several blocks, in a scope that is not a stage pipeline, or around no reduction block
        - a loop that is not serial, or that is annotated
        - a loop that a spatial axis depends on, or one of several iterations that no reduction axis depends on
        - a loop that spatial and reduction axes depend on, or one of several iterations under a reduction loop that no
          axis depends on
        - another block that comes first in the outermost loop, or stands under the outermost reduction loop
        - loops that run an instance twice, or whose bounds depend on others
        - a reduction that does not provably begin at 0
        - a block with views or buffers of its own, or one inside another that does not run for all values of its axes
        - an init or body of another shape (the one of twelve conditions that fails is named)
        - what no known reducer does
        - an axis beyond the dimensions of the buffer
        - a reducer that keeps an order (the first of equals), unless the loop is the outermost that reduces, or has one
          iteration, or the positions of the elements rise with the reduction: then they decide between equals

    Source: TVM rfactor
    """
    above = loop_path(program, loop, PRIMITIVE)
    path = only_block(above)
    old, top = block_at(path), loop_at(above)
    require_plain(program, path, top)
    chain = loops_above(path)
    reducing = require_loops(path, chain, top)
    updates = updates_of(program, old, PRIMITIVE)
    match = reduction_of(old, updates, known_reducers(), PRIMITIVE)
    require_from_scratch(program, path, [s for s in chain if s.var in reducing and s is not top])
    first_reducing = next(s for s in chain if s.var in reducing)
    inner = match.reducer.ordered and top is not first_reducing and not arith.equal(top.extent, ONE)
    if inner and not (match.reducer.rising and rises(path, match.values[0], reducing)):
        raise refuse(
            "MS370",
            PRIMITIVE,
            f"{match.reducer.name} cannot be taken apart along the inner loop `{top.var}`",
            why="the order in which values are combined must be kept",
            help=f"rfactor loop `{first_reducing.var}`, or let the positions of equal values decide",
        )
    dims = len(updates.stores[0].indices)
    if not -dims - 1 <= axis <= dims:
        raise refuse(
            "MS303",
            PRIMITIVE,
            f"there is no axis {axis} in `{updates.stores[0].buffer}`",
            why=f"it has {dims} dimensions",
            help=f"an axis from {-dims - 1} to {dims}",
        )
    at = axis + dims + 1 if axis < 0 else axis
    taken = taken_names(program)
    buffers = _partial_buffers(program, updates, at, top, taken)
    job = _Job(path, chain, top, reducing, updates, match, buffers, at, inner)
    first = _partial_nest(program, job, taken)
    second = _strip(chain[0], job, _write_back(program, job))
    done = put(program, path[: len(path) - len(within_scope(path)) + 1], first.nest, second)
    for buffer in buffers:
        done = with_alloc(done, path, buffer)
    kinds = [
        s.var for s in (*first.loops, *chain) if s.kind != "serial" and (s in first.loops or s.var not in reducing)
    ]
    require_kinds(done, kinds, PRIMITIVE)
    return Outcome(done, (BlockRef(first.block),))


class _Job(msgspec.Struct, frozen=True):
    """What is taken apart."""

    path: Path
    chain: tuple[For, ...]
    """The loops above the block."""
    loop: For
    reducing: frozenset[str]
    """The loops that reduction axes depend on."""
    updates: Updates
    match: Match
    buffers: tuple[Buffer, ...]
    """The new ones."""
    axis: int
    by_position: bool
    """The partial results are not combined in the order of what they are of: their positions tell it."""

    @property
    def block(self) -> Block:
        """The block."""
        return block_at(self.path)

    def partial(self, index: Expr) -> tuple[Expr, ...]:
        """The indices of a partial result."""
        given = self.updates.stores[0].indices
        return (*given[: self.axis], index, *given[self.axis :])


# ------------------------------------------------------------------ what is made
def _partial_buffers(program: Program, updates: Updates, at: int, loop: For, taken: set[str]) -> tuple[Buffer, ...]:
    found: list[Buffer] = []
    known = all_buffers(program)
    for s in updates.stores:
        old = known[s.buffer]
        name = fresh(f"{old.name}_rf", taken)
        taken.add(name)
        shape = (*old.shape[:at], loop.extent, *old.shape[at:])
        found.append(Buffer(name, old.dtype, shape, old.scope))
    return tuple(found)


class _Partial(msgspec.Struct, frozen=True):
    """The nest of the partial results."""

    nest: Stmt
    block: str
    loops: tuple[For, ...]


def _partial_nest(program: Program, job: _Job, taken: set[str]) -> _Partial:
    old = job.block
    loops, renamed = _copied_loops(job, taken)
    axes, own, of_loops = _partial_axes(program, job, renamed)
    index = Var(axes[0].name)
    ranges = {a.name: Range(ZERO, a.extent) for a in axes}
    guards, predicate = _conditions(job, axes, own, of_loops, renamed)
    if guards and job.match.reducer.ordered:
        raise refuse(
            "MS370",
            PRIMITIVE,
            f"{job.match.reducer.name} cannot be taken apart where iterations are left out",
            why="what stands in their place would win against equals",
        )
    values = tuple(
        _guarded(tidy_value(substitute(v, own), ranges), guards, job, k) for k, v in enumerate(job.match.values)
    )
    stored = job.partial(index)
    name = fresh(f"{old.name}_rf", taken)
    taken.add(name)
    names = tuple(b.name for b in job.buffers)
    body, init = (
        _stores(job, names, stored, values, axes),
        tuple(Store(n, stored, _identity(job, k)) for k, n in enumerate(names)),
    )
    if not any(a.kind == "reduce" for a in axes):
        body, init = tuple(Store(n, stored, v) for n, v in zip(names, values, strict=True)), ()
    block = Block(name, axes, (), (), body, init=init or None, predicate=predicate, annotations=old.annotations)
    reads, writes = infer_regions(block, all_buffers(program) | {b.name: b for b in job.buffers})
    nest: Stmt = replace(block, reads=reads, writes=writes)
    for s in reversed(loops):
        nest = replace(s, body=(nest,))
    return _Partial(nest, name, loops)


def _copied_loops(job: _Job, taken: set[str]) -> tuple[tuple[For, ...], dict[str, Expr]]:
    """Loops like those above the block. Those that go from there keep their names."""
    renamed: dict[str, Expr] = {}
    loops: list[For] = []
    for s in job.chain:
        moves = s.var in job.reducing and s is not job.loop
        var = s.var if moves else fresh(f"{s.var}_rf", taken)
        taken.add(var)
        made = replace(s, var=var, start=substitute(s.start, renamed), extent=substitute(s.extent, renamed), body=())
        renamed[s.var] = Var(var)
        loops.append(made)
    return tuple(loops), renamed


def _partial_axes(
    program: Program, job: _Job, renamed: Mapping[str, Expr]
) -> tuple[tuple[Axis, ...], dict[str, Expr], dict[str, Expr]]:
    """The axes of the partial results, the old axes in terms of them, and the loops in terms of them."""
    old = job.block
    names = {*all_buffers(program), *(s.name for s in program.dynamic if isinstance(s, Symbol))}
    names |= {a.name for a in old.axes if a.kind == "spatial" or job.loop.var not in free_vars(a.binding)}
    of_loops: dict[str, Expr] = {}
    own: dict[str, Expr] = {}

    def for_loop(s: For, kind: str) -> Axis:
        name = fresh(s.var, names)
        names.add(name)
        of_loops[s.var] = arith.add(Var(name), s.start)
        return Axis(name, s.extent, kind, arith.sub(renamed[s.var], s.start))

    axes = [for_loop(job.loop, "spatial")]
    for a in old.axes:
        used = free_vars(a.binding)
        if a.kind == "spatial" or job.loop.var not in used:
            axes.append(replace(a, binding=substitute(a.binding, renamed)))
            continue
        axes.extend(for_loop(s, "reduce") for s in job.chain if s.var in used and s.var not in of_loops)
        ranges = {x.name: Range(ZERO, x.extent) for x in axes}
        own[a.name] = tidy(substitute(a.binding, of_loops), ranges)
    return tuple(axes), own, of_loops


def _conditions(
    job: _Job,
    axes: Sequence[Axis],
    own: Mapping[str, Expr],
    of_loops: Mapping[str, Expr],
    renamed: Mapping[str, Expr],
) -> tuple[tuple[Expr, ...], Expr]:
    """What of the predicate stands in front of the values of the partial results, and what is their predicate.

    The partial results of all iterations must be initialised, so a condition that may be false where the loops that
    still reduce begin does not keep the block from running: it puts the identity in place of the value.
    """
    old, ranges = job.block, ranges_above(job.path)
    values = bindings(old)
    starts: dict[str, Expr] = {s.var: s.start for s in job.chain if s.var in job.reducing}
    still = {v: e for v, e in starts.items() if v != job.loop.var}
    plainly = {a.binding.name: Var(a.name) for a in old.axes if a.kind == "spatial" and isinstance(a.binding, Var)}
    in_axes = {**renamed, **plainly, **of_loops, **{a.name: own.get(a.name, Var(a.name)) for a in old.axes}}
    kept: list[Expr] = []
    guards: list[Expr] = []
    for c in conjuncts(old.predicate):
        plain = substitute(c, values)
        moved = substitute(c, in_axes)
        if not free_vars(plain) & job.reducing:
            kept.append(moved)
        elif scope_path(job.path) and not arith.proved(plain, ranges):
            raise refuse(
                "MS368",
                PRIMITIVE,
                f"block `{old.name}` stands inside block `{block_at(scope_path(job.path)).name}`, and has a condition "
                "on loops that reduce",
                why="the partial results would reach beyond the regions that block declares",
                help="rfactor before blocks are made into one",
            )
        elif arith.proved(substitute(plain, still), ranges):
            if not arith.proved(plain, ranges):
                kept.append(moved)
        elif not arith.proved(substitute(plain, starts), ranges) or not free_vars(moved) <= {a.name for a in axes}:
            raise refuse(
                "MS368",
                PRIMITIVE,
                f"a condition of block `{old.name}` may be false where the reduction begins",
                why="what it starts from is then not known",
            )
        else:
            guards.append(moved)
    return tuple(guards), conjunction(tuple(kept))


def _guarded(value: Expr, guards: tuple[Expr, ...], job: _Job, k: int) -> Expr:
    return Select(conjunction(guards), value, _identity(job, k)) if guards else value


def _identity(job: _Job, k: int) -> Expr:
    """What partial results start from: the identity; of several buffers what the block itself starts from, which does
    as well (see `reduction_of`)."""
    if len(job.buffers) > 1:
        return job.updates.starts[k]
    return identity_of(job.match.reducer, k, job.buffers[k].dtype)


def _stores(
    job: _Job,
    buffers: Sequence[str],
    indices: tuple[Expr, ...],
    values: Sequence[Expr],
    axes: Sequence[Axis],
    by_position: bool = False,
) -> tuple[Stmt, ...]:
    """The update of some buffers at some indices by some values."""
    dtypes = [x.dtype for x in own_loads(job.updates)]
    before = tuple(Load(b, indices, d) for b, d in zip(buffers, dtypes, strict=True))
    reducer = job.match.reducer
    if by_position:
        reducer = replace(reducer, combine=reducer.rising)
    results = combined(reducer, before, values)
    if len(buffers) == 1:
        return (Store(buffers[0], indices, results[0]),)
    taken = {a.name for a in axes}
    names: list[str] = []
    for b in buffers:
        names.append(fresh(f"v_{b}", taken))
        taken.add(names[-1])
    body: tuple[Stmt, ...] = tuple(Store(b, indices, Var(n, d)) for b, n, d in zip(buffers, names, dtypes, strict=True))
    for n, result in zip(reversed(names), reversed(results), strict=True):
        body = (Let(n, result, body),)
    return body


def _write_back(program: Program, job: _Job) -> Block:
    """The block that reduces the partial results; it keeps the name, the init and the spatial axes of the old one."""
    old = job.block
    names = {*all_buffers(program), *(a.name for a in old.axes if a.kind == "spatial")}
    names |= {s.name for s in program.dynamic if isinstance(s, Symbol)}
    name = fresh(job.loop.var, names)
    axes = (
        Axis(name, job.loop.extent, "reduce", arith.sub(Var(job.loop.var), job.loop.start)),
        *(a for a in old.axes if a.kind == "spatial"),
    )
    gone: dict[str, Expr] = {a.name: ZERO for a in old.axes if a.kind != "spatial"}
    starts = {s.buffer: e for s, e in zip(job.updates.stores, job.updates.starts, strict=True)}
    init = tuple(
        Store(s.buffer, s.indices, substitute(starts[s.buffer], gone)) for s in old.init or () if isinstance(s, Store)
    )
    indices = job.updates.stores[0].indices
    values = tuple(Load(b.name, job.partial(Var(name)), b.dtype) for b in job.buffers)
    bound = bindings(old)
    kept = tuple(c for c in conjuncts(old.predicate) if not free_vars(substitute(c, bound)) & job.reducing)
    # An axis over no loop, `k = 0`, is gone, too: other reduction axes do not occur in these conditions.
    constant = {a.name: a.binding for a in old.axes if a.kind != "spatial" and not free_vars(a.binding)}
    kept = tuple(substitute(c, constant) for c in kept)
    block = Block(
        old.name,
        axes,
        (),
        (),
        _stores(job, tuple(s.buffer for s in job.updates.stores), indices, values, axes, job.by_position),
        init=init,
        predicate=conjunction(kept) if kept else TRUE,
        annotations=old.annotations,
    )
    reads, writes = infer_regions(block, all_buffers(program) | {b.name: b for b in job.buffers})
    return replace(block, reads=reads, writes=writes)


def _strip(s: Stmt, job: _Job, block: Block) -> Stmt:
    """The old nest over the block of the write-back: loops that reduce go, but the one given."""
    if s is job.block:
        return block
    if not isinstance(s, For) or not any(s is x for x in job.chain):
        return s
    if s.var in job.reducing and s is not job.loop:
        return _strip(s.body[0], job, block)
    return replace(s, body=tuple(_strip(x, job, block) for x in s.body))
