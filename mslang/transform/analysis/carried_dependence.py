"""What iterations of a loop do to each other: may they run at once?

A buffer that is allocated in the scope and accessed under the loop alone is *private*: lowering gives each iteration
its own, so it matters only that an iteration reads what it wrote itself. All other buffers are shared: what
different iterations access must be apart wherever one of them writes.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from mslang.ir import arith
from mslang.ir.arith.linear import coefficients
from mslang.ir.atomics import atomic_update, is_atomic
from mslang.ir.expr import ONE, ZERO, Binary, Expr, Var
from mslang.ir.find import all_buffers, leaf_paths
from mslang.ir.program import Axis, Block, Buffer, For, Program, Range, Region, Stmt
from mslang.ir.region import resolved
from mslang.ir.text import kind_text
from mslang.ir.visit import Path, conjunction, conjuncts, free_vars, loads_of, substitute, walk, walk_expr
from mslang.transform.analysis.accesses import bound_loads, bound_regions, guard_regions, updated_regions
from mslang.transform.analysis.cover import consumed_box, covers, image, produced_box
from mslang.transform.analysis.definite_writes import Box, paved, tile_numbers
from mslang.transform.analysis.dependence import paths_touching, storage_of, storages_read, storages_written
from mslang.transform.analysis.initialization import regions_read
from mslang.transform.analysis.instances import where_both_run
from mslang.transform.analysis.position import (
    axis_ranges,
    bindings,
    block_at,
    common_path,
    is_under,
    loop_at,
    loop_range,
    loop_ranges,
    loops_above,
    loops_between,
    predicate_outside,
    ranges_above,
    region_outside,
    scope_buffers,
    whole_box,
)
from mslang.transform.analysis.predicated_indices import detect
from mslang.transform.analysis.steady_boxes import is_steady


def why_unplaced(body: tuple[Stmt, ...], around: str) -> str | None:
    """None if there are only loops and blocks among some statements; `around` says where they are."""
    for s in walk(body, into_blocks=False):
        if not isinstance(s, For | Block):
            return f"{kind_text(s)} under {around} stands in no block, so nothing is known of it"
    return None


def why_not_data_parallel(path: Path, kinds: frozenset[str] = frozenset({"spatial"})) -> str | None:
    """None if the loop at the end of a path serves only axes of some kinds, and stands over nothing but loops and
    blocks."""
    loop = loop_at(path)
    stray = why_unplaced(loop.body, f"loop `{loop.var}`")
    if stray is not None:
        return stray
    for q in leaf_paths(path):
        block = block_at(q)
        for a in block.axes:
            if a.kind not in kinds and reaches(loop.var, a.binding, q) and not _by_atomics(loop, block, a):
                return f"loop `{loop.var}` serves the {a.kind} axis `{a.name}` of block `{block.name}`"
    return None


def _by_atomics(loop: For, block: Block, axis: Axis) -> bool:
    """Do the blocks or threads of a loop reduce along an axis by atomic updates?"""
    return axis.kind == "reduce" and loop.kind.startswith(("blockIdx", "threadIdx")) and is_atomic(block)


def why_not_independent(program: Program, path: Path, but: frozenset[str] = frozenset()) -> str | None:
    """None if the iterations of the loop at the end of a path may run at once, the memory in `but` apart."""
    loop = loop_at(path)
    if arith.proved(Binary("<=", loop.extent, ONE)):
        return None
    blocks = leaf_paths(path)
    local = {b.name for b in scope_buffers(program, path)}
    for storage in storages_of(program, blocks):
        touching = touching_paths(program, blocks, storage)
        if storage in but or _only_atomics(program, touching, storage, loop):
            continue
        private = storage in local and all(is_under(q, loop) for q in paths_touching(program, storage))
        reason = why_not_apart(program, touching, storage, path)
        if private and reason is not None:
            reason = why_not_private(program, touching, storage, path)
        if reason is not None:
            return reason
    return None


def _only_atomics(program: Program, touching: Sequence[Path], storage: str, loop: For) -> bool:
    """Do blocks access a buffer that the iterations of a loop share by atomic updates of one operator alone?"""
    scope = all_buffers(program)[storage].scope
    shared = ("blockIdx", "threadIdx") if scope == "global" else ("threadIdx",) if scope.startswith("shared") else ()
    if not loop.kind.startswith(shared):
        return False
    how = set[str]()
    for q in touching:
        block = block_at(q)
        update = atomic_update(block) if is_atomic(block) else None
        if update is None or update[0].buffer != storage:
            return False
        how.add(update[1].op)
    return len(how) == 1


def shared_storages(program: Program, path: Path) -> frozenset[str]:
    """The memory that is written under the loop at the end of a path, and that its iterations do not have each of its
    own."""
    local = {b.name for b in scope_buffers(program, path)}
    return frozenset(
        s
        for s in storages_of(program, leaf_paths(path))
        if s not in local or not all(is_under(q, loop_at(path)) for q in paths_touching(program, s))
    )


def reaches(var: str, e: Expr, path: Path) -> bool:
    """Does a loop variable occur in an expression, or in the bounds of a loop that does?"""
    used = set(free_vars(e))
    for s in reversed(path):
        if isinstance(s, For) and s.var in used:
            used |= free_vars(s.extent) | free_vars(s.start)
    return var in used


def storages_of(program: Program, blocks: Iterable[Path]) -> tuple[str, ...]:
    """The memory that some blocks write, in order."""
    return tuple(dict.fromkeys(s for q in blocks for s in sorted(storages_written(program, block_at(q)))))


def touching_paths(program: Program, blocks: Sequence[Path], storage: str) -> tuple[Path, ...]:
    """Those of some blocks that read or write the memory of a buffer, or stand in loops whose bounds do."""
    return tuple(
        q
        for q in blocks
        if storage in storages_read(program, block_at(q)) | storages_written(program, block_at(q))
        or any(storage_of(program, x.buffer) == storage for x in bound_loads(loops_above(q)))
    )


def _written_boxes(program: Program, path: Path, storage: str, above: Path) -> list[Box] | None:
    """What a block may write of a buffer in one iteration; None where it does so through a view."""
    shape = all_buffers(program)[storage]
    mine = [r for r in block_at(path).writes if storage_of(program, r.buffer) == storage]
    return None if any(r.buffer != storage for r in mine) else [consumed_box(path, r, above, shape) for r in mine]


def _boxes(program: Program, path: Path, storage: str, above: Path, *, writes: bool = True) -> list[Box] | None:
    """What a block may access of a buffer in one iteration; None where it does so through a view."""
    block, shape = block_at(path), all_buffers(program)[storage]
    regions = [*regions_read(path, above), *(block.writes if writes else ())]
    mine = [r for r in regions if storage_of(program, r.buffer) == storage]
    if any(r.buffer != storage for r in mine):
        return None
    inner = loops_between(path, above)
    around = [r for r in (*guard_regions(block), *bound_regions(inner)) if storage_of(program, r.buffer) == storage]
    if any(r.buffer != storage for r in around):
        return None
    return [
        *(consumed_box(path, r, above, shape) for r in mine),
        *(arith.relax(resolved(r.ranges, shape), loop_ranges(inner), whole_box(shape)) for r in around),
    ]


def why_not_private(program: Program, touching: Sequence[Path], storage: str, above: Path) -> str | None:
    """None if one iteration of the loop at the end of `above` reads of a buffer only what it wrote itself, first.

    So it does if already each iteration of the innermost loop around all that accesses the buffer does.
    """
    why = _why_not_written(program, touching, storage, above)
    if why is None:
        return None
    inner = above
    for s in common_path(*touching)[len(above) :]:
        if not isinstance(s, For):
            break
        inner = (*inner, s)
    return why if inner is above or _why_not_written(program, touching, storage, inner) is not None else None


def _why_not_written(program: Program, touching: Sequence[Path], storage: str, above: Path) -> str | None:
    shape, ranges = all_buffers(program)[storage], _ranges(above)
    written: list[tuple[Path, Region]] = []
    for q in touching:
        block = block_at(q)
        made = (
            (box, image(block_at(p), r))
            for p, r in written
            for box in (produced_box(where_both_run(p, q, above), r, above),)
            if box is not None and is_steady(program, box, p, q, above)
        )
        boxes = _boxes(program, q, storage, above, writes=False)
        if boxes != [] and q is touching[0]:
            return f"block `{block.name}` reads `{storage}` before the same iteration writes it"
        if boxes is None or not _made(made, boxes, shape, ranges):
            return (
                f"block `{block.name}` reads elements of `{storage}` that block `{block_at(touching[0]).name}` "
                "does not "
                f"provably write in the same iteration of loop `{loop_at(above).var}`"
            )
        written += [(q, r) for r in block.writes if r.buffer == storage]
    return None


def _made(made: Iterator[tuple[Box, Box]], boxes: Sequence[Box], shape: Buffer, ranges: dict[str, Range]) -> bool:
    """Is each box in one of those that were made, or in all of them side by side? (Each of these is given with the
    image to which it is cut; they are asked for while a box is missing.)"""
    missing, known = list(boxes), list[tuple[Box, Box]]()
    while missing and (another := next(made, None)) is not None:
        known.append(another)
        missing = [b for b in missing if not covers(another[0], b, shape, ranges)]
    if not missing or len(known) < 2:
        return not missing
    cut = [arith.intersect_box(m, reached, ranges) for m, reached in known]
    for box in missing:
        inside = arith.intersect_box(box, whole_box(shape), ranges)
        if not any(paved(cut, inside, d, ranges) for d in range(len(box))):
            return False
    return True


def why_not_apart(
    program: Program, touching: Sequence[Path], storage: str, above: Path, *, reads: bool = True
) -> str | None:
    """None if different iterations of the loop at the end of `above` access different elements of a buffer, or
    (without `reads`) write different ones."""
    loop = loop_at(above)
    if _element_each(program, touching, storage, loop) or _tile_each(program, touching, storage, above):
        return None
    boxes: list[Box] = []
    for q in touching:
        found = _boxes(program, q, storage, above) if reads else _written_boxes(program, q, storage, above)
        if found is None:
            return f"`{storage}` is accessed through a view"
        boxes += found
    ranges = _ranges(above)
    whole = whole_box(all_buffers(program)[storage])
    union = boxes[0]
    for box in boxes[1:]:
        union = arith.union_box(union, box, whole, ranges)
    if _apart(union, loop, ranges):
        return None
    names = ", ".join(dict.fromkeys(f"`{block_at(q).name}`" for q in touching))
    return (
        f"different iterations of loop `{loop.var}` may access the same elements of `{storage}`, "
        f"which is written there (block {names})"
    )


def _element_each(program: Program, touching: Sequence[Path], storage: str, loop: For) -> bool:
    """Does a single block access a buffer, each instance one element, and are these others in each iteration of `loop`,
    as those inside it run, or some around it too?

    What a guard keeps apart may be known only where the loops that it is about run together.
    """
    if len(touching) != 1:
        return False
    block, own = block_at(touching[0]), loops_above(touching[0])
    mine = [
        r for r in (*block.reads, *updated_regions(block), *block.writes) if storage_of(program, r.buffer) == storage
    ]
    around = [r for r in (*guard_regions(block), *bound_regions(own)) if storage_of(program, r.buffer) == storage]
    same = all(r.buffer == storage and r.ranges == mine[0].ranges for r in mine)
    same = same and all(r.buffer == storage and r.ranges == region_outside(block, mine[0]) for r in around)
    if not same or any(r.extent != ONE or any(loads_of(r.start)) for r in mine[0].ranges):
        return False
    at = next((k for k, s in enumerate(own) if s is loop), -1)
    indices = _indices(block, mine[0])
    used = frozenset(v for e in indices for v in free_vars(e))
    if loop.var not in used:
        return False
    for k in range(at + 1):
        moving = [s for s in own[k:] if s.var in used]
        still = {s.var for s in own[k:]} - used
        if any(not still.isdisjoint(free_vars(e)) for s in moving for e in (s.start, s.extent)):
            return False
        conditions = tuple(c for c in conjuncts(predicate_outside(block)) if free_vars(c).isdisjoint(still))
        found = detect(indices, loop_ranges(moving), conjunction(conditions))
        if isinstance(found, arith.IterMap) and found.level in ("injective", "bijective"):
            return True
    return False


def _indices(block: Block, region: Region) -> list[Expr]:
    """Expressions of loops that differ wherever the elements of a region do: its indices, or what they determine."""
    starts = [r.start for r in region.ranges]
    values, ranges = bindings(block), axis_ranges(block)
    used = dict.fromkeys(v for e in starts for v in sorted(free_vars(e)))
    divided = any(isinstance(x, Binary) and x.op in ("//", "%") for e in starts for x in walk_expr(e))
    if divided and used.keys() <= ranges.keys():
        found = arith.detect(starts, {v: ranges[v] for v in used})
        if isinstance(found, arith.IterMap) and found.level in ("injective", "bijective"):
            return [values[v] for v in used]
    return [substitute(e, values) for e in starts]


def _tile_each(program: Program, touching: Sequence[Path], storage: str, above: Path) -> bool:
    """Do all blocks access a buffer in whole tiles of one size, each of which determines the iteration of the loop?

    The tiles of an iteration need not be neighbours, as a box of all of them would have it.
    """
    found: list[tuple[Path, Region]] = []
    for q in touching:
        block = block_at(q)
        own = (*block.reads, *updated_regions(block), *block.writes)
        regions = (
            *(Region(r.buffer, region_outside(block, r)) for r in own),
            *guard_regions(block),
            *bound_regions(loops_between(q, above)),
        )
        found += ((q, r) for r in dict.fromkeys(regions) if storage_of(program, r.buffer) == storage)
    sizes = {tuple(x.extent for x in r.ranges) for _, r in found}
    if len(sizes) != 1 or any(r.buffer != storage for _, r in found):
        return False
    (size,) = sizes
    if all(n == ONE for n in size):
        return False
    owners = {_owner([x.start for x in r.ranges], size, q, above) for q, r in found}
    return len(owners) == 1 and None not in owners


def _owner(starts: Sequence[Expr], size: Sequence[Expr], path: Path, above: Path) -> Expr | None:
    """The iteration of the loop at the end of `above`, in terms of the numbers `@0`, `@1`, … of a tile, where they
    determine it."""
    loop, own = loop_at(above), loops_between(path, above)
    inner = loop_ranges((loop, *own))
    if any(any(loads_of(start)) or free_vars(extent) for start, extent in zip(starts, size, strict=True)):
        return None
    numbers = tile_numbers(map(Range, starts, size), {**ranges_above(above), **inner})
    if numbers is None:
        return None
    used = frozenset[str]().union(*(free_vars(e) for e in numbers))
    varying = {v: r for v, r in inner.items() if v in used}
    if loop.var not in varying or any(not free_vars(r.extent).isdisjoint(inner) for r in varying.values()):
        return None
    found = arith.invert(numbers, [Var(f"@{k}") for k in range(len(numbers))], varying)
    return None if found is None else found[loop.var]


def _ranges(above: Path) -> dict[str, Range]:
    loop = loop_at(above)
    return {**ranges_above(above), loop.var: loop_range(loop)}


def _apart(box: Box, loop: For, ranges: dict[str, Range]) -> bool:
    """Are the boxes of different iterations of a loop provably disjoint?"""
    return any(_steps_over(r, loop.var, ranges) for r in box) or _distinct(box, loop, ranges)


def _steps_over(r: Range, var: str, ranges: dict[str, Range]) -> bool:
    terms = coefficients(r.start, frozenset({var}))
    if not terms or var in free_vars(r.extent):
        return False
    step = terms[var]
    return arith.proved(Binary("<=", r.extent, step), ranges) or arith.proved(
        Binary("<=", r.extent, arith.sub(ZERO, step)), ranges
    )


def _distinct(box: Box, loop: For, ranges: dict[str, Range]) -> bool:
    """Do the box numbers (start over extent, where that is exact) of different iterations differ?"""
    numbers: list[Expr] = []
    for r in box:
        if loop.var not in free_vars(r.start) or free_vars(r.extent):
            continue
        number = arith.simplify(arith.floordiv(r.start, r.extent), ranges)
        if not arith.equal(arith.mul(number, r.extent), r.start, ranges):
            continue
        numbers.append(number)
    if not numbers:
        return False
    found = arith.detect(numbers, {loop.var: loop_range(loop)})
    return isinstance(found, arith.IterMap) and found.level in ("injective", "bijective")
