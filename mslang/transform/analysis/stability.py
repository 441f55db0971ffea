"""Stability: do the elements that a loop writes keep their values through its later iterations?

A block that reads a buffer may leave a loop around its writers, or enter one, only if it finds the same values there:
no later iteration of the loop overwrites an element with another value. So it is where iterations write different
elements, or compute the same values again from what the loop does not change. Likewise a block that writes a buffer may
leave a loop around its readers only if these find the same values where it has run to its end.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

from mslang.ir import arith
from mslang.ir.expr import ONE, Binary, Expr, Var
from mslang.ir.find import leaf_paths, path_to_block, path_to_loop
from mslang.ir.program import Block, Evaluate, For, Program, Range, Region, While
from mslang.ir.visit import Path, free_vars, loads_of, walk
from mslang.transform.analysis.accesses import bound_loads, guard_loads
from mslang.transform.analysis.carried_dependence import (
    reaches,
    storages_of,
    touching_paths,
    why_not_apart,
    why_not_private,
)
from mslang.transform.analysis.cover import Box, cuts_only_outside, produced_box, why_not_covered
from mslang.transform.analysis.dependence import storage_of, storages_read, storages_written
from mslang.transform.analysis.initialization import regions_read
from mslang.transform.analysis.position import (
    axis_ranges,
    block_at,
    common_path,
    is_under,
    leaves,
    loop_at,
    loops_above,
    loops_between,
    ranges_above,
    scope_body,
)
from mslang.transform.analysis.predicated_indices import detect


def why_other_values(
    program: Program,
    reader: Path,
    places: Iterable[Path],
    but: frozenset[str] = frozenset(),
    *,
    keeps: Callable[[For], bool] = lambda loop: False,
) -> str | None:
    """None if the block at the end of a path reads the same values at other places, as far as loops around its writers
    decide: those that it leaves, and those that it comes under.

    Args:
        program: the program before the move.
        reader: the block.
        places: blocks of the program next to which it is to stand, or loops in which it is to.
        but: memory that is not meant.
        keeps: of a loop around it at both places: does each instance run in the same iterations as before?
    """
    block = block_at(reader)
    under = _paths_by_writer(program, reader, leaves(*scope_body(program, reader)))
    for place in places:
        for storage in sorted(storages_read(program, block) - but):
            for writer in under.get(storage, ()):
                before, after = (_loops_shared(writer, q) for q in (reader, place))
                both = [s for s in before if s in after and not keeps(s)]
                moved = [*both, *(s for s in (*before, *after) if (s in before) != (s in after))]
                reasons = (_why(program, reader, storage, s, s in before and s not in after) for s in moved)
                reason = next(filter(None, reasons), None)
                if reason is not None:
                    return reason
    return None


def why_other_results(program: Program, before: Path, done: Program, after: Path) -> str | None:
    """None if other blocks read the same values of what a block writes once it has moved, or another block writes it in
    its place, as far as loops around both decide: in those that the block leaves, or in which it would run for other
    instances, no later iteration may overwrite what an earlier one wrote.

    Args:
        program: the program before the move.
        before: the block at its old place.
        done: the program after the move.
        after: the block at its new place, or the block that does its work there.
    """
    block = block_at(before)
    alike = runs_alike if block.name == block_at(after).name else _writes_alike
    for reader in leaves(*scope_body(program, before)):
        storages = sorted(storages_read(program, reader) & storages_written(program, block))
        if reader is block or not storages:
            continue
        still = {s.var for s in _loops_shared(after, path_to_block(done, reader.name) or ())}
        for s in _loops_shared(before, path_to_block(program, reader.name) or ()):
            same = s.var in still and alike(before, after, program, done, s)
            for storage in () if same else storages:
                reason = why_not_stable(program, storage, path_to_loop(program, s.var) or ())
                reason = reason or _why_not_anew(program, path_to_block(program, reader.name) or (), storage, s)
                if reason is not None:
                    return f"block `{reader.name}` reads `{storage}` under loop `{s.var}`, and {reason}"
    return None


def why_not_final(program: Program, before: Path, done: Program, after: Path) -> str | None:
    """None if a block at its new place reads nothing that a later iteration of a loop around it still writes.

    So it is in a loop of which the iterations access different elements, or in which each reads only what it wrote, as
    none overwrites that. Another block may do the work of the one that moved. See `why_other_results` for the
    arguments.
    """
    block = block_at(after)
    alike = runs_alike if block_at(before).name == block.name else _writes_alike
    beside = {s.var for s in loops_above(before)}
    for loop in loops_above(after):
        above = path_to_loop(done, loop.var) or ()
        made = _paths_by_writer(done, after, leaves(loop))
        read = {storage_of(done, x.buffer) for x in bound_loads(loops_between(after, above))}
        shared = sorted(made.keys() & (read | storages_read(done, block)))
        if not shared or (loop.var in beside and alike(before, after, program, done, loop)):
            continue
        for storage in shared:
            reason = _why_not_final(done, after, made[storage], storage, above)
            if reason is not None:
                return f"block `{block.name}` reads `{storage}` under loop `{loop.var}`, and {reason}"
    return None


def _why_not_final(program: Program, reader: Path, makers: Sequence[Path], storage: str, above: Path) -> str | None:
    apart = why_not_apart(program, (*makers, reader), storage, above)
    if apart is None:
        return None
    elsewhere = (*guard_loads(block_at(reader)), *bound_loads(loops_between(reader, above)))
    if any(storage_of(program, x.buffer) == storage for x in elsewhere):
        return apart
    asked = tuple(r for r in block_at(reader).reads if storage_of(program, r.buffer) == storage)
    return why_not_stable(program, storage, above) or why_not_covered(program, reader, asked, under=loop_at(above))


def _why_not_anew(program: Program, reader: Path, storage: str, loop: For) -> str | None:
    """None if what a reader finds of a buffer is written in the same iteration of a loop, or if nothing has been in the
    buffer before: an element of a later iteration holds what was there first."""
    given = any(p.buffer.name == storage and p.direction == "inout" for p in program.params)
    inside = set(leaves(loop))
    others = (b for b in leaves(*program.body) if b not in inside)
    if not given and not any(storage in storages_written(program, b) for b in others):
        return None
    asked = tuple(r for r in block_at(reader).reads if storage_of(program, r.buffer) == storage)
    return why_not_covered(program, reader, asked, under=loop)


def runs_alike(before: Path, after: Path, program: Program, done: Program, loop: For) -> bool:
    """Do the same instances of a block run in an iteration of a loop in two programs?"""

    def instances(p: Program, path: Path) -> Box | None:
        everywhere = Region("", tuple(Range(Var(a.name), ONE) for a in block_at(path).axes))
        return produced_box(path, everywhere, path_to_loop(p, loop.var) or ())

    return _equal(instances(program, before), instances(done, after), ranges_above(after))


def _writes_alike(before: Path, after: Path, program: Program, done: Program, loop: For) -> bool:
    """Does a block in one program write the same elements in an iteration of a loop as another block does in another
    program? Each of the two writes one region."""

    def written(p: Program, path: Path) -> Box | None:
        return produced_box(path, block_at(path).writes[0], path_to_loop(p, loop.var) or ())

    return _equal(written(program, before), written(done, after), ranges_above(after))


def _equal(a: Box | None, b: Box | None, ranges: Mapping[str, Range]) -> bool:
    if a is None or b is None:
        return False
    return all(
        arith.equal(x.start, y.start, ranges) and arith.equal(x.extent, y.extent, ranges)
        for x, y in zip(a, b, strict=True)
    )


def _paths_by_writer(program: Program, reader: Path, blocks: Iterable[Block]) -> dict[str, list[Path]]:
    """The paths of those of some blocks that write, other than the reader, by what they write."""
    found: dict[str, list[Path]] = {}
    for b in blocks:
        if b is not block_at(reader):
            for storage in storages_written(program, b):
                found.setdefault(storage, []).append(path_to_block(program, b.name) or ())
    return found


def _loops_shared(writer: Path, other: Path) -> tuple[For, ...]:
    return tuple(s for s in common_path(writer[:-1], other) if isinstance(s, For))


def _why(program: Program, reader: Path, storage: str, loop: For, leaves_it: bool) -> str | None:
    if any(storage_of(program, x.buffer) == storage for x in guard_loads(block_at(reader))):
        return f"the predicate of block `{block_at(reader).name}` reads `{storage}`, which loop `{loop.var}` writes"
    reason = why_not_stable(program, storage, path_to_loop(program, loop.var) or ())
    if reason is not None or not is_under(reader, loop):
        return reason
    if not leaves_it:  # an instance that runs in another iteration now could find what is written between the two
        return _why_not_anew(program, reader, storage, loop)
    asked = tuple(r for r in block_at(reader).reads if storage_of(program, r.buffer) == storage)
    return why_not_covered(program, reader, asked, under=loop)


def why_not_stable(program: Program, storage: str, above: Path, asked: frozenset[str] = frozenset()) -> str | None:
    """None if no iteration of the loop at the end of a path overwrites with another value an element of a buffer that
    an earlier iteration wrote. (`asked`: buffers of which that is being asked already.)"""
    if arith.proved(Binary("<=", loop_at(above).extent, ONE), ranges_above(above)):
        return None
    blocks = leaf_paths(above)
    makers = [q for q in blocks if storage in storages_written(program, block_at(q))]
    if not makers or why_not_apart(program, makers, storage, above, reads=False) is None:
        return None
    loop = loop_at(above)
    changed = frozenset(storages_of(program, blocks))
    head = f"later iterations of loop `{loop.var}` may overwrite elements of `{storage}` with other values"
    for q in makers:
        block = block_at(q)
        shared = _why_not_own(program, q, storage, loop)
        if shared is not None:
            return f"{head}: {shared}"
        if any(isinstance(s, Evaluate | While) for s in walk(block.body)):
            return f"{head}: the effect of block `{block.name}` is not known"
        for a in block.axes:
            if a.kind not in ("spatial", "reduce"):
                return f"{head}: axis `{a.name}` of block `{block.name}` is {a.kind}"
            if a.kind == "reduce" and reaches(loop.var, a.binding, q):
                return f"{head}: block `{block.name}` accumulates along it"
        read = {storage_of(program, r.buffer) for r in regions_read(q, above)}
        read |= {storage_of(program, x.buffer) for x in guard_loads(block)}
        for s in sorted(read & changed - asked):
            reason = why_not_private(program, touching_paths(program, blocks, s), s, above)
            reason = reason or (why_not_stable(program, s, above, asked | {storage}) if s != storage else None)
            if reason is not None:
                return f"{head}: {reason}"
    return None


def _why_not_own(program: Program, path: Path, storage: str, loop: For) -> str | None:
    """None if an element that the block at the end of a path writes tells which instance writes it, as far as a loop
    moves that: then a later iteration that writes it again runs the same instance again."""
    block = block_at(path)
    moving = {a.name for a in block.axes if a.kind == "spatial" and reaches(loop.var, a.binding, path)}
    ranges = {n: r for n, r in axis_ranges(block).items() if r.extent != ONE}
    spatial = {a.name: ranges[a.name] for a in block.axes if a.kind == "spatial" and a.name in ranges}
    for region in block.writes:
        if storage_of(program, region.buffer) != storage:
            continue
        numbers = [n for r in region.ranges for n in (_number(r, ranges),) if n is not None]
        alone = [e for e in numbers if free_vars(e) & spatial.keys() <= moving]
        for indices, axes in ((alone, {n: r for n, r in spatial.items() if n in moving}), (numbers, spatial)):
            found = detect(indices, axes) if axes else None
            if not axes or (isinstance(found, arith.IterMap) and found.level in ("injective", "bijective")):
                break
        else:
            return f"several instances of block `{block.name}` may write the same element"
    reduced = any(a.kind == "reduce" for a in block.axes)
    if reduced and reaches(loop.var, block.predicate, path) and not cuts_only_outside(path):
        return f"the predicate of block `{block.name}` depends on it"
    return None


def _number(r: Range, ranges: Mapping[str, Range]) -> Expr | None:
    """The place of a part of a dimension among parts of its size that lie side by side; None if it is not one of
    these."""
    if r.extent == ONE:
        return None if any(loads_of(r.start)) else r.start
    if free_vars(r.extent) or any(loads_of(r.start)):
        return None
    number = arith.simplify(arith.floordiv(r.start, r.extent), ranges)
    return number if arith.equal(arith.mul(number, r.extent), r.start, ranges) else None


__all__ = ["runs_alike", "why_not_final", "why_not_stable", "why_other_results", "why_other_values"]
