"""The primitive that computes an epilogue inside the reduction it follows: fuse_reduction_epilogue."""

from __future__ import annotations

import msgspec
from msgspec.structs import replace

from mslang.ir import arith
from mslang.ir.expr import Binary, Const, Expr, Load
from mslang.ir.find import all_buffers, path_to_block
from mslang.ir.program import For, Program, Region, Store
from mslang.ir.reduction import identity, update_of
from mslang.ir.region import infer_regions, point
from mslang.ir.visit import Path, loads_of, substitute
from mslang.transform.analysis.dependence import consumers, producers, storage_of
from mslang.transform.analysis.formula import at_element, inverse, tidy_value
from mslang.transform.analysis.inlining import complete_formula, limits, made_for_all, require_covered, require_inner
from mslang.transform.analysis.instances import domains_of, portable_predicate, runs_all
from mslang.transform.analysis.legality import why_not_reduction
from mslang.transform.analysis.loop_kinds import require_kinds
from mslang.transform.analysis.outer_accesses import require_in_blocks
from mslang.transform.analysis.position import (
    axis_ranges,
    block_at,
    block_path,
    loops_above,
    same_scope,
    scope_body,
)
from mslang.transform.analysis.reduction_updates import updates_of
from mslang.transform.outcome import BlockRef, BufferRef, Gone, Outcome, refuse
from mslang.transform.primitive import primitive
from mslang.transform.rewriting.block_moving import (
    require_final,
    require_finished,
    require_order,
    require_same_results,
    require_same_values,
)
from mslang.transform.rewriting.inlining import without_alloc
from mslang.transform.rewriting.nest import vanished, without
from mslang.transform.rewriting.rewrite import put

PRIMITIVE = "fuse_reduction_epilogue"


@primitive(family="inlining", consumes=("epilogue",))
def fuse_reduction_epilogue(program: Program, block: BlockRef, epilogue: BlockRef) -> Outcome:
    """Put what follows a reduction into the reduction; the epilogue and the buffer between the two go.

    The reduction keeps its name and its loops, and stores what the epilogue stored. Only what keeps the result is
    fused: an addition after a sum and a multiplication after a product (the reduction starts from it), a minimum or
    maximum after a minimum or maximum, and chains of these. Floating-point sums and products are rounded in another
    order.

    Before:
        block mm[i: 64, j: 64 | k: 64] { T[i, j] += A[i, k] * B[k, j] }
        block bias[i: 64, j: 64] { C[i, j] = T[i, j] + b[j] }

    After:
        # mm.fuse_reduction_epilogue(bias)
        block mm[i: 64, j: 64 | k: 64] {
            init { C[i, j] = b[j] }
            C[i, j] += A[i, k] * B[k, j]
        }

    Rejects:
        - a block that is not a reduction block, or updates more than one buffer or in another way than a sum, product,
          minimum or maximum
        - an epilogue that is not complete, or does anything but one store (`let`s apart)
        - an epilogue that does not read the reduction's result once, or is not its only reader
        - a result that is an output of its scope, or read through a view
        - an epilogue that does not run for just the elements that the reduction makes
        - an operation after the reduction that is not the same done within it, such as max(sum, 0): each partial sum
          would be clipped
        - another block that writes what the epilogue reads after the reduction, or reads what it writes before it, also
          in another iteration of a loop around both

    Source: TVM fuse_reduction_epilogue
    """
    path, after = block_path(program, block, PRIMITIVE), block_path(program, epilogue, PRIMITIVE)
    job = _job(program, path, after)
    folded, axes = block_at(after), axis_ranges(block_at(path))
    inverted = inverse(job.load.indices, axis_ranges(folded))
    spatial = {a.name: axes[a.name] for a in block_at(path).axes if a.kind == "spatial"}
    if inverted is None or inverse(job.update.indices, spatial) is None:
        raise refuse(
            "MS353",
            PRIMITIVE,
            f"the loads of `{job.update.buffer}` in block `{epilogue.name}`, or the indices at which "
            f"block `{block.name}` stores, cannot be inverted",
            why="each element must come from one value of the axes, by one affine map",
        )
    values = {n: arith.simplify(e, axes) for n, e in at_element(inverted, job.update.indices).items()}
    _require_same(path, after, job, limits(folded, values, job.load.indices, job.update.indices, axes))
    start, step = job.start, job.value
    for s in job.steps:
        start, step = _fused(job, s, tidy_value(substitute(s.other, values), axes), start, step)
    index = tuple(arith.simplify(substitute(i, values), axes) for i in job.formula.indices)
    own = Load(job.formula.buffer, index, job.load.dtype)
    made = replace(
        block_at(path),
        init=(Store(own.buffer, index, start),),
        body=(Store(own.buffer, index, Binary(job.op, own, step)),),
    )
    read, written = infer_regions(made, all_buffers(program))
    done = put(program, path, replace(made, reads=read, writes=written))
    done = without_alloc(without(done, path_to_block(done, epilogue.name) or ()), after, job.update.buffer)
    _require_legal(done, block.name, job.update.buffer)
    fused = path_to_block(done, block.name) or ()
    require_same_results(program, after, done, fused, PRIMITIVE)
    require_finished(program, after, done, fused, PRIMITIVE)
    into = (block,)
    return Outcome(
        done,
        (),
        {
            **vanished(program, done, PRIMITIVE, into),
            epilogue: Gone(PRIMITIVE, into),
            BufferRef(job.update.buffer): Gone(PRIMITIVE),
        },
    )


class _Step(msgspec.Struct, frozen=True):
    """An operation on the result of a reduction: `result op other`."""

    op: str
    other: Expr


class _Job(msgspec.Struct, frozen=True):
    """A reduction and what follows it."""

    update: Store
    op: str
    value: Expr
    """What the reduction combines in."""
    start: Expr
    formula: Store
    """What the epilogue does."""
    load: Load
    """Its load of the reduction's result."""
    steps: tuple[_Step, ...]
    """What it does to that, the innermost first."""


def _job(program: Program, path: Path, after: Path) -> _Job:
    block, epilogue = block_at(path), block_at(after)
    reason = why_not_reduction(program, path)
    if reason is not None:
        raise refuse("MS313", PRIMITIVE, f"nothing can be fused into block `{block.name}`", why=reason)
    updates = updates_of(program, block, PRIMITIVE)
    update = updates.stores[0]
    how = update_of(update)
    if len(updates.stores) > 1 or how is None:
        raise refuse(
            "MS370",
            PRIMITIVE,
            f"block `{block.name}` is not a sum, product, minimum or maximum",
            why="what may be done within a reduction is known of these",
        )
    if not same_scope(path, after):
        raise refuse(
            "MS340",
            PRIMITIVE,
            f"blocks `{block.name}` and `{epilogue.name}` are in different scopes",
            why="both must stand in the same block, or in none",
        )
    formula = complete_formula(program, after, PRIMITIVE)
    require_inner(program, path, update.buffer, PRIMITIVE)
    users = [b.name for b in consumers(program, path)]
    if users != [epilogue.name]:
        others = [u for u in users if u != epilogue.name]
        raise refuse(
            "MS341",
            PRIMITIVE,
            f"block `{others[0]}` reads what block `{block.name}` writes"
            if others
            else f"block `{epilogue.name}` does not read what block `{block.name}` writes",
            why="the epilogue must be the only reader of the reduction's result",
        )
    require_order(program, after, PRIMITIVE)
    require_same_values(program, after, (path,), PRIMITIVE, frozenset({storage_of(program, update.buffer)}))
    loads = [x for e in (formula.value, *formula.indices) for x in loads_of(e) if x.buffer == update.buffer]
    if len(loads) != 1:
        raise refuse(
            "MS371",
            PRIMITIVE,
            f"block `{epilogue.name}` reads `{update.buffer}` {len(loads)} times",
            why="once can be fused",
        )
    steps = _steps(formula.value, loads[0], epilogue.name)
    return _Job(update, how.op, how.value, updates.starts[0], formula, loads[0], steps)


def _steps(value: Expr, load: Load, name: str) -> tuple[_Step, ...]:
    """What is done to a load, the innermost operation first."""
    if value == load:
        return ()
    match value:
        case Binary(op=op, left=left, right=right) if op in ("+", "*", "min", "max", "-"):
            if any(x == load for x in loads_of(left)):
                return (*_steps(left, load, name), _Step(op, right))
            if op != "-":
                return (*_steps(right, load, name), _Step(op, left))
    raise refuse(
        "MS371",
        PRIMITIVE,
        f"block `{name}` does something to the reduction's result that cannot be done within the reduction",
        why="known are additions after sums, multiplications after products, minima and maxima after minima and maxima",
    )


_LATTICE = frozenset({"min", "max"})


def _fused(job: _Job, step: _Step, other: Expr, start: Expr, value: Expr) -> tuple[Expr, Expr]:
    """What the reduction starts from and combines in if it does a step that followed it.

    `(a op x) step e` is `(a step e) op x` where both are the same operation, or a difference after a sum; for a minimum
    after a maximum (or the other way round) it is `(a step e) op (x step e)`.
    """
    first = other if _is_identity(start, job.op, step.op) else Binary(step.op, start, other)
    if step.op == job.op or (job.op, step.op) == ("+", "-"):
        return first, value
    if {job.op, step.op} == _LATTICE:
        return Binary(step.op, start, other), Binary(step.op, value, other)
    what = {"+": "sum", "*": "product", "min": "minimum", "max": "maximum"}[job.op]
    raise refuse(
        "MS371",
        PRIMITIVE,
        f"`{step.op}` after a {what} is not the same within it",
        why=f"it would be done to each partial {what}"
        if step.op in _LATTICE
        else f"it would be done in each iteration, or change what the {what} combines",
        help="`reverse_compute_at` puts the epilogue next to the reduction",
    )


def _is_identity(start: Expr, op: str, step: str) -> bool:
    return step == op and isinstance(start, Const) and start == identity(op, start.dtype)


def _require_same(path: Path, after: Path, job: _Job, differences: tuple[Expr, ...]) -> None:
    """The epilogue runs for just the elements that the reduction makes."""
    block, epilogue = block_at(path), block_at(after)
    if portable_predicate(after) != () or not runs_all(after, domains_of(after)):
        raise refuse(
            "MS348",
            PRIMITIVE,
            f"block `{epilogue.name}` does not provably run for all values of its axes",
            why="its loops and its predicate do not provably cover the domains of its axes",
        )
    read = arith.relax(job.load.indices, axis_ranges(epilogue))
    stored = Region(job.update.buffer, tuple(map(point, job.update.indices)))
    if differences or not made_for_all(path, stored, read):
        raise refuse(
            "MS332",
            PRIMITIVE,
            f"block `{epilogue.name}` does not provably run for just the elements of `{job.update.buffer}` that "
            f"block `{block.name}` makes",
            why="the reduction would store too much or too little",
        )


def _require_legal(done: Program, name: str, gone: str) -> None:
    path = path_to_block(done, name) or ()
    require_in_blocks(done, scope_body(done, path), PRIMITIVE, read=(gone,))
    require_order(done, path, PRIMITIVE)
    require_final(done, producers(done, path), loops_above(path), name, PRIMITIVE)
    require_covered(done, path, PRIMITIVE)
    for user in consumers(done, path):
        require_covered(done, path_to_block(done, user.name) or (), PRIMITIVE)
    require_kinds(done, [s.var for s in path if isinstance(s, For) and s.kind != "serial"], PRIMITIVE)


__all__ = ["fuse_reduction_epilogue"]
