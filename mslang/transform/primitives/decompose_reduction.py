"""Primitives on reductions: decompose_reduction."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from msgspec.structs import replace

from mslang.ir import arith
from mslang.ir.expr import ONE, ZERO, Binary, Expr
from mslang.ir.find import all_buffers, path_to_block
from mslang.ir.program import Block, For, Program
from mslang.ir.region import infer_regions
from mslang.ir.text import kind_text
from mslang.ir.visit import Path, free_vars, fresh, substitute
from mslang.transform.analysis.accesses import init_footprint
from mslang.transform.analysis.cover import produces_for
from mslang.transform.analysis.dependence import (
    storage_of,
    storages_deciding,
    storages_read,
    storages_written,
)
from mslang.transform.analysis.initialization import why_may_not_iterate
from mslang.transform.analysis.instances import runs_once
from mslang.transform.analysis.legality import affine_binding, why_not_alone, why_not_reduction
from mslang.transform.analysis.loop_kinds import require_kinds
from mslang.transform.analysis.position import (
    block_at,
    block_path,
    index_of,
    leaves,
    loop_at,
    loop_path,
    loops_above,
    ranges_above,
    same_scope,
    taken_names,
)
from mslang.transform.outcome import BlockRef, LoopRef, Outcome, refuse
from mslang.transform.primitive import primitive
from mslang.transform.rewriting.init_nest import init_nest, touched_by, with_sources
from mslang.transform.rewriting.rewrite import put
from mslang.transform.rewriting.staging import require_filled


@primitive(family="reductions", gives=(BlockRef,))
def decompose_reduction(program: Program, block: BlockRef, loop: LoopRef) -> Outcome:
    """Move the initialisation of a reduction into a nest of its own, in front of a loop.

    The new block is `mm_init`, and is returned; what is left is `mm_update`, to which the handle of `mm` goes. The
    loops of the new nest are copies of those at and under `loop` that the spatial axes depend on, and keep how they
    run. Both blocks have the annotations of the old one.

    Before:
        for i in 0..8, k in 0..4 {
            block s[x: 8 = i | y: 4 = k] {
                init { S[x] = 0.0 }
                S[x] = S[x] + A[x, y]
            }
        }

    After:
        # s.decompose_reduction(i)
        for i_init in 0..8 {
            block s_init[x: 8 = i_init] { S[x] = 0.0 }
        }
        for i in 0..8, k in 0..4 {
            block s_update[x: 8 = i | y: 4 = k] { S[x] = S[x] + A[x, y] }
        }

    Rejects:
        - a block that is not a reduction block (the condition that fails is named); others may write its buffers, too,
          if none of these stands under the loop, and no reader
        - a loop that is not above the block in its scope
        - a branch, a `while` loop or a `let` between the loop and the block
        - a loop inside another that a reduction axis depends on: the initialisation would be repeated
        - another block under the loop that reads what the block writes before the reduction has started it, or that
          writes what the init, the predicate or the bounds of a loop read
        - loops at or under it that run the same instance of the block again
        - a loop of the reduction that may have no iterations
        - a spatial loop whose bounds depend on a reduction loop
        - a reduction loop bound to threads: they must start together what they join

    Source: TVM decompose_reduction
    """
    path, above = block_path(program, block, "decompose_reduction"), loop_path(program, loop, "decompose_reduction")
    old, top = block_at(path), loop_at(above)
    loops = loops_above(path)
    if not any(s is top for s in loops) or not same_scope(path, above):
        names = ", ".join(s.var for s in loops)
        raise refuse(
            "MS314",
            "decompose_reduction",
            f"loop `{loop.name}` is not above block `{block.name}`",
            help=f"the loops above it are: {names or 'none'}",
        )
    between = next((s for s in path[len(above) : -1] if not isinstance(s, For)), None)
    if between is not None:
        raise refuse(
            "MS314",
            "decompose_reduction",
            f"{kind_text(between)} stands between loop `{loop.name}` and block `{block.name}`",
            why="the initialisation would be moved out of it",
            help="decompose at a loop inside it",
        )
    reason = why_not_reduction(program, path, (top,)) or why_not_alone(program, path, top)
    if reason is not None:
        raise refuse("MS313", "decompose_reduction", f"block `{block.name}` cannot be decomposed", why=reason)
    _require_apart_from_others(program, path, above)
    at = next(k for k, s in enumerate(loops) if s is top)
    _require_first(loops[:at], old, top)
    nest = loops[at:]
    spatial, reduced = _variables(old, "spatial"), _variables(old, "reduce")
    _require_single_instances(path, nest)
    kept = [s for s in nest if s.var in spatial]
    dropped = [s for s in nest if s.var not in spatial]
    empty = why_may_not_iterate(path, dropped)
    if empty is not None:
        raise refuse(
            "MS314", "decompose_reduction", f"the initialisation of block `{block.name}` may not run", why=empty
        )
    for s in kept:
        used = (free_vars(s.start) | free_vars(s.extent)) & {x.var for x in dropped}
        if used:
            raise refuse(
                "MS314",
                "decompose_reduction",
                f"the bounds of loop `{s.var}` depend on the reduction loop `{min(used)}`",
                why="the initialisation would have no such loop around it",
            )
    tangled = sorted(s.var for s in kept if s.var in reduced)
    _require_initial(path, {s.var: s.start for s in dropped}, tangled)
    _require_own_buffers_apart(old)
    taken = taken_names(program)
    init = init_nest(path, kept, dropped, taken, buffers=all_buffers(program))
    update = _update(old, taken)
    program = put(program, path, update)
    moved = loop_path(program, loop, "decompose_reduction")
    program = put(program, moved, init.nest, moved[-1])
    # Threads join what they have summed only where they start it together.
    joining = [s.var for s in loops if s.kind.startswith("threadIdx") and s.var in reduced]
    require_kinds(program, joining, "decompose_reduction")
    program = _declared_around(program, path)
    _require_init_reads_filled(program, init.name)
    made, left = BlockRef(init.name), BlockRef(update.name)
    return Outcome(program, (made,), {block: left})


def _require_apart_from_others(program: Program, path: Path, above: Path) -> None:
    """No other block under the loop may come between the old place of the init and the new one (MS319).

    What others read of the buffers must be what the block has written before, in the same iteration; what the init, the
    predicate and the bounds of loops read must not be written there.
    """
    block, top = block_at(path), loop_at(above)
    order = leaves(top)
    own = storages_written(program, block)
    deciding = storages_deciding(program, path, above)
    if deciding & own:
        raise refuse(
            "MS319",
            "decompose_reduction",
            f"the init of block `{block.name}` cannot be moved before loop `{top.var}`",
            why=f"the block writes `{min(deciding & own)}`, which decides how often it runs",
            help="decompose at the innermost loop whose bounds do not depend on it",
        )
    needed = deciding | {storage_of(program, r.buffer) for r in init_footprint(block).reads}
    for other in order:
        if other is block:
            continue
        changed = sorted(needed & storages_written(program, other))
        if changed:
            raise refuse(
                "MS319",
                "decompose_reduction",
                f"the init of block `{block.name}` cannot be moved before loop `{top.var}`",
                why=f"block `{other.name}` writes `{changed[0]}` under the loop, which the init, the predicate or the "
                "bounds of a loop read",
                help="decompose at a loop inside that does not hold that block",
            )
        user = path_to_block(program, other.name) or ()
        for storage in sorted(own & storages_read(program, other)):
            buffers = [r.buffer for r in other.reads if storage_of(program, r.buffer) == storage]
            later = index_of(order, other) > index_of(order, block)
            if not (later and buffers and all(produces_for(program, path, user, b) for b in buffers)):
                raise refuse(
                    "MS319",
                    "decompose_reduction",
                    f"the init of block `{block.name}` cannot be moved before loop `{top.var}`",
                    why=f"block `{other.name}` may read elements of `{storage}` under the loop before the reduction "
                    "starts them",
                    help="decompose at a loop inside that does not hold that block",
                )


def _require_init_reads_filled(program: Program, init: str) -> None:
    """What the initialisation reads must be there before it, too."""
    block = block_at(path_to_block(program, init) or ())
    buffers = all_buffers(program)
    for region in block.reads:
        require_filled(program, init, buffers[region.buffer], "decompose_reduction")


def _require_first(outside: Sequence[For], block: Block, top: For) -> None:
    reduced = _variables(block, "reduce")
    for s in outside:
        if s.var in reduced:
            raise refuse(
                "MS314",
                "decompose_reduction",
                f"loop `{top.var}` is inside the reduction loop `{s.var}`",
                why="the initialisation would run again in each of its iterations",
                help=f"decompose at loop `{s.var}` or further out",
            )


def _variables(block: Block, kind: str) -> frozenset[str]:
    return frozenset(v for a in block.axes if a.kind == kind for v in free_vars(a.binding))


def _require_single_instances(path: Path, nest: Sequence[For]) -> None:
    """The loops of the nest run each instance of the block once: else the old program initialised again between."""
    block = block_at(path)
    used = frozenset(v for a in block.axes for v in free_vars(a.binding))
    idle = next((s for s in nest if s.var not in used and not arith.proved(Binary("<=", s.extent, ONE))), None)
    if idle is not None:
        raise refuse(
            "MS314",
            "decompose_reduction",
            f"loop `{idle.var}` repeats the whole reduction",
            why=f"no axis of block `{block.name}` depends on it, so the initialisation must stay inside it",
            help="decompose at a loop inside it",
        )
    if not runs_once(path, nest):
        raise refuse(
            "MS314",
            "decompose_reduction",
            f"the loops from `{nest[0].var}` on may run an instance of block `{block.name}` twice",
            why="its initialisation must then stay between",
            help="decompose at a loop further inside",
        )


def _require_initial(path: Path, starts: dict[str, Expr], tangled: Sequence[str]) -> None:
    """The init runs in the first iteration of the loops that go away."""
    block = block_at(path)
    if tangled:
        found = affine_binding(path)
        if not (isinstance(found, arith.IterMap) and found.level == "bijective"):
            raise refuse(
                "MS314",
                "decompose_reduction",
                f"loop `{tangled[0]}` serves spatial and reduction axes of block `{block.name}`",
                why="it cannot be determined where the initialisation must run",
            )
        _require_zero(block, dict(zip((a.name for a in block.axes), found.starts, strict=True)), path)
        return
    _require_zero(block, {a.name: substitute(a.binding, starts) for a in block.axes}, path)


def _require_zero(block: Block, first: Mapping[str, Expr], path: Path) -> None:
    """The reduction axes begin at 0, where the init runs (MS314)."""
    ranges = ranges_above(path)
    for a in block.axes:
        if a.kind == "reduce" and not arith.equal(first[a.name], ZERO, ranges):
            raise refuse(
                "MS314",
                "decompose_reduction",
                f"the reduction over axis `{a.name}` does not provably begin at 0",
                why="the initialisation runs where all reduction axes are 0",
            )


def _update(old: Block, taken: set[str]) -> Block:
    touched, _ = infer_regions(replace(old, init=None))
    loaded, read = {r.buffer for r in touched}, {r.buffer for r in old.reads}
    own = tuple(r for r in old.writes if r.buffer in loaded and r.buffer not in read)
    started = touched_by(old, old.init or ()) & {b.name for b in old.allocs}
    return replace(
        old,
        name=fresh(f"{old.name}_update", taken),
        init=None,
        reads=(*own, *old.reads),
        allocs=tuple(b for b in old.allocs if b.name not in started),
        views=tuple(v for v in old.views if not started & with_sources(old, frozenset({v.buffer.name}))),
    )


def _require_own_buffers_apart(old: Block) -> None:
    """What the block allocates goes with its init or stays with its body."""
    both = {b.name for b in old.allocs} & touched_by(old, old.init or ()) & touched_by(old, old.body)
    if both:
        raise refuse(
            "MS314",
            "decompose_reduction",
            f"`{min(both)}`, which block `{old.name}` allocates, is used by its init and by its body",
            why="it would be needed in two blocks",
        )


def _declared_around(program: Program, before: Path) -> Program:
    """The blocks around an update declare to read what it reads, as the reduction did not."""
    names: list[str] = []
    for k in reversed(range(len(before) - 1)):
        old = before[k]
        if not isinstance(old, Block):
            continue
        here = path_to_block(program, old.name) or ()
        block, buffers = block_at(here), all_buffers(program)
        known = infer_regions(old, buffers)[0]
        added = tuple(r for r in infer_regions(block, buffers)[0] if r not in known and r not in block.reads)
        if not added:
            break
        program = put(program, here, replace(block, reads=(*added, *block.reads)))
        names += [s.var for s in here if isinstance(s, For) and s.kind not in ("serial", "unrolled")]
    require_kinds(program, dict.fromkeys(names), "decompose_reduction")
    return program
