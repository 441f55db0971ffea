"""May loops change places? Not where what their iterations hand on to each other would come in another order."""

from __future__ import annotations

from collections.abc import Sequence

from mslang.ir import arith
from mslang.ir.expr import Binary
from mslang.ir.find import all_buffers, leaf_paths
from mslang.ir.program import For, Program, Region
from mslang.ir.reducers import combines_in_any_order
from mslang.ir.region import resolved
from mslang.ir.visit import Path, free_vars, map_region, substitute
from mslang.transform.analysis.accesses import bound_regions, guard_regions, updated_regions, why_several_names
from mslang.transform.analysis.carried_dependence import (
    storages_of,
    touching_paths,
    why_not_private,
    why_unplaced,
)
from mslang.transform.analysis.cover import consumed_box
from mslang.transform.analysis.definite_writes import Box
from mslang.transform.analysis.dependence import storage_of, storages_written
from mslang.transform.analysis.initialization import why_not_init_first
from mslang.transform.analysis.instances import loops_beyond_spatial, runs_once
from mslang.transform.analysis.legality import why_not_affine
from mslang.transform.analysis.position import (
    bindings,
    block_at,
    loop_ranges,
    loops_above,
    loops_between,
    whole_box,
)
from mslang.transform.analysis.reducers import known_reducers


def why_not_reorderable(program: Program, bottom: Path, chain: Sequence[For], order: Sequence[For]) -> str | None:
    """None if the loops `chain`, the innermost of which is at the end of the path `bottom`, may come in `order`."""
    blocks = leaf_paths(bottom)
    stray = why_unplaced(chain[-1].body, "the loops")
    if stray is not None:
        return stray
    for q in blocks:
        block = block_at(q)
        for a in block.axes:
            if a.kind not in ("spatial", "reduce"):
                return f"axis `{a.name}` of block `{block.name}` is {a.kind}: its iterations have an order"
        reason = why_not_affine(q, chain[0])
        if reason is not None:
            return reason
    variables = {s.var for s in chain}
    for storage in storages_of(program, blocks):
        touching = touching_paths(program, blocks, storage)
        reason = (
            _why_carried(program, touching, storage, bottom, variables)
            if len(touching) > 1
            else _why_handed_on(program, touching[0], storage, bottom[: -len(chain)])
        )
        if reason is not None:
            return reason
    reasons = (f(q, chain, order) for q in blocks for f in (_why_init_not_first, _why_ordered))
    return next(filter(None, (*reasons, *(_why_repeated(q, chain, order) for q in blocks))), None)


def _why_handed_on(program: Program, path: Path, storage: str, above: Path) -> str | None:
    """None if no instance of a block reads of a buffer what another instance writes."""
    block = block_at(path)
    written = [r for r in block.writes if storage_of(program, r.buffer) == storage]
    values, inner = bindings(block), loops_between(path, above)
    # The predicate, the bindings and the bounds of loops say what they read by the loops around.
    around = [map_region(w, lambda e: substitute(e, values)) for w in written]
    buffers = all_buffers(program)

    def consumed(r: Region) -> Box:
        return consumed_box(path, r, above, buffers[r.buffer])

    def around_block(r: Region) -> Box:
        shape = buffers[r.buffer]
        return arith.relax(resolved(r.ranges, shape), loop_ranges(inner), whole_box(shape))

    read = [
        *((r, consumed) for r in dict.fromkeys((*block.reads, *updated_regions(block))) if r not in written),
        *((r, around_block) for r in guard_regions(block) if r not in around),
        *((r, around_block) for r in bound_regions(inner)),
    ]
    for r, box in read:
        if storage_of(program, r.buffer) != storage:
            continue
        same = all(w.buffer == r.buffer for w in written)
        if not same or not all(_disjoint(box(r), consumed(w)) for w in written):
            return f"block `{block.name}` may read elements of `{storage}` that it writes in another iteration"
    return None


def _disjoint(a: Box, b: Box) -> bool:
    return any(
        arith.proved(Binary("<=", arith.add(p.start, p.extent), q.start))
        or arith.proved(Binary("<=", arith.add(q.start, q.extent), p.start))
        for p, q in zip(a, b, strict=True)
    )


def _why_ordered(path: Path, chain: Sequence[For], order: Sequence[For]) -> str | None:
    """What a block combines over its reduction axes may come in another order only if a known reducer says so."""
    block = block_at(path)
    reducing = frozenset(v for a in block.axes if a.kind == "reduce" for v in free_vars(a.binding))
    if _among(chain, reducing) == _among(order, reducing):
        return None
    if combines_in_any_order(block, known_reducers()) and why_several_names(path) is None:
        return None
    return (
        f"the order in which block `{block.name}` combines values along loop `{_among(chain, reducing)[0]}` "
        "must be kept"
    )


def _why_repeated(path: Path, chain: Sequence[For], order: Sequence[For]) -> str | None:
    """A loop in which a reduction runs the same instances again must stay outside of those that it reduces over: there
    all of it is done again, from the init on; inside, each step would be done several times."""
    block, loops = block_at(path), loops_above(path)
    if block.init is None:
        return None
    reducing = loops_beyond_spatial(path)
    at = next(k for k, s in enumerate(loops) if s is chain[0])
    after = (*loops[:at], *order, *loops[at + len(chain) :])
    before, inside = (_from_first(x, reducing) for x in (loops, after))
    entered = [s for s in inside if all(s is not x for x in before)]
    if not entered or runs_once(path, inside):
        return None
    return f"block `{block.name}` would repeat steps of its reduction in loop `{entered[0].var}`"


def _from_first(loops: Sequence[For], names: frozenset[str]) -> Sequence[For]:
    return loops[next((k for k, s in enumerate(loops) if s.var in names), len(loops)) :]


def _why_init_not_first(path: Path, chain: Sequence[For], order: Sequence[For]) -> str | None:
    """The init runs where all reduction axes are 0. It must be the first instance of an element in any order of the
    loops; where a loop is both of spatial and of reduction axes (as a piece of two that were fused is), what belongs
    together must keep its order."""
    block = block_at(path)
    reducing = loops_beyond_spatial(path)
    if _among(chain, reducing) != _among(order, reducing):
        reason = why_not_init_first(path)
        if reason is not None:
            return f"the init of block `{block.name}` may not come first: {reason}"
    axes = [(a.kind, free_vars(a.binding)) for a in block.axes]
    spatial, reduced = (frozenset(v for k, used in axes if k == kind for v in used) for kind in ("spatial", "reduce"))
    tangled = sorted(s.var for s in chain if s.var in spatial & reduced)
    bound = reduced.union(*(used for _, used in axes if not used.isdisjoint(tangled)))
    if block.init is None or not tangled or _among(chain, bound) == _among(order, bound):
        return None
    return (
        f"loop `{tangled[0]}` serves spatial and reduction axes of block `{block.name}`, whose initialisation would no "
        "longer provably come first"
    )


def _among(loops: Sequence[For], names: frozenset[str]) -> list[str]:
    return [s.var for s in loops if s.var in names]


def _why_carried(
    program: Program,
    touching: Sequence[Path],
    storage: str,
    above: Path,
    variables: set[str],
) -> str | None:
    for q in touching:
        block = block_at(q)
        reduced = {v for a in block.axes if a.kind == "reduce" for v in free_vars(a.binding)} & variables
        if reduced and storage in storages_written(program, block):
            return (
                f"block `{block.name}` accumulates into `{storage}` along loop `{min(reduced)}`, and another "
                "block accesses it in between"
            )
    return why_not_private(program, touching, storage, above)
