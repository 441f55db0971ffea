"""Along which loops a reduction can be taken apart: what rfactor asks of a block and of the loops above it."""

from __future__ import annotations

from collections.abc import Sequence

from mslang.ir import arith
from mslang.ir.arith.linear import coefficients
from mslang.ir.expr import ONE, ZERO, Binary, Cast, Const, Expr, dtype_of
from mslang.ir.program import Block, For, Program
from mslang.ir.visit import Path, free_vars, loads_of, substitute
from mslang.transform.analysis.initialization import why_may_not_iterate
from mslang.transform.analysis.instances import runs_once
from mslang.transform.analysis.legality import (
    why_not_reduction,
    why_not_reduction_form,
    why_not_stage_pipeline,
)
from mslang.transform.analysis.position import bindings, block_at, leaves, loop_at, loops_above, ranges_above
from mslang.transform.outcome import refuse

PRIMITIVE = "rfactor"


def only_block(above: Path) -> Path:
    """The path to the one block under a loop."""
    blocks = leaves(above[-1])
    if len(blocks) != 1:
        names = ", ".join(f"`{b.name}`" for b in blocks)
        raise refuse(
            "MS368",
            PRIMITIVE,
            f"loop `{loop_at(above).var}` is around {'several blocks: ' + names if blocks else 'no block'}",
            why="one reduction is taken apart at a time",
        )
    path = above
    while path[-1] is not blocks[0]:
        inner = path[-1]
        if not isinstance(inner, For) or len(inner.body) != 1:
            raise refuse(
                "MS368",
                PRIMITIVE,
                f"something else than loops stands above block `{blocks[0].name}`",
                why="only loops may",
            )
        path = (*path, inner.body[0])
    return path


def require_plain(program: Program, path: Path, loop: For) -> None:
    """A reduction block without views or buffers of its own, in a stage pipeline, under a serial loop."""
    block = block_at(path)
    reason = why_not_stage_pipeline(program, path, {r.buffer for r in (*block.reads, *block.writes)})
    if reason is not None:
        raise refuse("MS368", PRIMITIVE, f"block `{block.name}` stands where the order of blocks matters", why=reason)
    _require_none(why_not_reduction_form(program, path), block)
    if loop.kind != "serial" or loop.annotations:
        said = loop.kind if loop.kind != "serial" else f"annotated with {loop.annotations[0][0]!r}"
        raise refuse(
            "MS305",
            PRIMITIVE,
            f"loop `{loop.var}` is {said}",
            why="the loop's kind or annotation would be lost",
            help="rfactor first, then mark the new loops",
        )
    if block.views or block.allocs:
        raise refuse(
            "MS368",
            PRIMITIVE,
            f"block `{block.name}` has {'views' if block.views else 'buffers of its own'}",
            why="they would have to be divided between two blocks",
        )


def require_from_scratch(program: Program, path: Path, others: Sequence[For]) -> None:
    """The block at the end of a path is a reduction block: each element starts with its init, first of all; and the
    loops that reduce besides the one that is taken out have iterations, so that all partial results are started."""
    _require_none(why_not_reduction(program, path) or why_may_not_iterate(path, others), block_at(path))


def _require_none(reason: str | None, block: Block) -> None:
    if reason is not None:
        raise refuse("MS313", PRIMITIVE, f"block `{block.name}` cannot be taken apart", why=reason)


def require_loops(path: Path, chain: Sequence[For], loop: For) -> frozenset[str]:
    """The loops that reduction axes depend on; the one given is taken for one if it has one iteration, of no axis."""
    block = block_at(path)
    spatial = frozenset(v for a in block.axes if a.kind == "spatial" for v in free_vars(a.binding))
    reducing = frozenset(v for a in block.axes if a.kind == "reduce" for v in free_vars(a.binding))
    if loop.var not in spatial and arith.equal(loop.extent, ONE):
        reducing |= {loop.var}
    first = leaves(chain[0])[0]
    if first is not block:
        raise refuse(
            "MS368",
            PRIMITIVE,
            f"block `{first.name}` comes before block `{block.name}` in the outermost loop `{chain[0].var}`",
            why="the partial results are computed before that loop",
        )
    _require_touched(block, chain, loop, spatial, reducing)
    outermost = next(k for k, s in enumerate(chain) if s.var in reducing)
    beside = [b.name for b in leaves(chain[outermost]) if b is not block]
    if beside:
        raise refuse(
            "MS368",
            PRIMITIVE,
            f"block `{beside[0]}` is under the reduction loop `{chain[outermost].var}`, too",
            why="the loop goes with the partial results",
        )
    if not runs_once(path, chain[outermost:]):
        raise refuse(
            "MS368",
            PRIMITIVE,
            f"the loops from `{chain[outermost].var}` on may run an instance of block `{block.name}` twice",
            why="its bindings are not provably different in different iterations",
        )
    _require_bounds(path, chain, reducing)
    return reducing


def _require_touched(
    block: Block, chain: Sequence[For], loop: For, spatial: frozenset[str], reducing: frozenset[str]
) -> None:
    if loop.var in spatial:
        axis = next(a.name for a in block.axes if a.kind == "spatial" and loop.var in free_vars(a.binding))
        raise refuse(
            "MS368",
            PRIMITIVE,
            f"loop `{loop.var}` serves the spatial axis `{axis}` of block `{block.name}`",
            why="only a loop that reduces can be taken out of a reduction",
            help=f"loops that reduce: {', '.join(s.var for s in chain if s.var in reducing - spatial) or 'none'}",
        )
    if loop.var not in reducing:
        raise refuse(
            "MS368",
            PRIMITIVE,
            f"no reduction axis of block `{block.name}` depends on loop `{loop.var}`",
            why="only a loop that reduces can be taken out of a reduction",
        )
    seen = False
    for s in chain:
        if s.var in spatial & reducing:
            raise refuse(
                "MS368",
                PRIMITIVE,
                f"loop `{s.var}` serves spatial and reduction axes of block `{block.name}`",
                why="it would have to be both moved and kept",
            )
        seen = seen or s.var in reducing
        if seen and s.var not in spatial | reducing and not arith.proved(Binary("<=", s.extent, ONE)):
            raise refuse(
                "MS368",
                PRIMITIVE,
                f"no axis of block `{block.name}` depends on loop `{s.var}`, which is under a loop that reduces",
                why="the partial results would be added several times",
            )


def rises(path: Path, value: Expr, reducing: frozenset[str]) -> bool:
    """Does an integer provably grow from each iteration of the loops that reduce to the next, from 0 or above? (-1 is
    the position of none, before all others.)"""
    while isinstance(value, Cast) and value.dtype in ("i32", "i64") and dtype_of(value.operand) in ("i32", "i64"):
        value = value.operand
    if dtype_of(value) not in ("i32", "i64") or any(loads_of(value)):
        return False
    bound, ranges = substitute(value, bindings(block_at(path))), ranges_above(path)
    steps, box = coefficients(arith.simplify(bound, ranges), reducing), arith.bounds(bound, ranges)
    if steps is None or box is None or not arith.proved(Binary("<", box[1], Const(1 << 31))):
        return False
    if not arith.proved(Binary("<=", ZERO, box[0])):
        return False
    inside: Expr = ZERO
    for s in reversed([s for s in loops_above(path) if s.var in reducing]):
        step = steps.get(s.var, ZERO)
        if not arith.equal(s.extent, ONE) and not arith.proved(Binary("<", inside, step), ranges):
            return False
        inside = arith.add(inside, arith.mul(step, arith.sub(s.extent, ONE)))
    return True


def _require_bounds(path: Path, chain: Sequence[For], reducing: frozenset[str]) -> None:
    """Loops that reduce run over the same values always, and the reduction begins where they do."""
    block = block_at(path)
    variables = {s.var for s in chain}
    for s in chain:
        used = free_vars(s.start) | free_vars(s.extent)
        if (s.var in reducing and used) or used & reducing:
            raise refuse(
                "MS368",
                PRIMITIVE,
                f"the bounds of loop `{s.var}` depend on `{min(used)}`",
                why="the buffer of the partial results would not have one shape",
            )
    starts: dict[str, Expr] = {s.var: s.start for s in chain if s.var in reducing}
    for a in block.axes:
        if a.kind != "reduce":
            continue
        if not free_vars(a.binding) <= variables:
            raise refuse(
                "MS368",
                PRIMITIVE,
                f"the reduction axis `{a.name}` depends on an axis of the block that encloses block `{block.name}`",
                why="the reduction is not over where this loop nest is",
            )
        if not arith.equal(substitute(a.binding, starts), ZERO, ranges_above(path)):
            raise refuse(
                "MS368",
                PRIMITIVE,
                f"the reduction over axis `{a.name}` does not provably begin at 0",
                why="the initialisation runs where all reduction axes are 0",
            )
