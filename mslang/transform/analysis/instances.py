"""Which instances of a block run: what its predicate says besides staying in its axes, whether all of them run, and
whether any runs twice."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec
from msgspec.structs import replace

from mslang.ir import arith
from mslang.ir.expr import COMPARISONS, ONE, ZERO, Binary, Expr, Var
from mslang.ir.program import Block, For, Range, Region
from mslang.ir.visit import Path, conjunction, conjuncts, free_vars, loads_of, substitute
from mslang.transform.analysis.cover import consumed_box, cuts_only_outside, produced_box
from mslang.transform.analysis.definite_writes import stored_under, tile_numbers
from mslang.transform.analysis.position import (
    axis_ranges,
    bindings,
    block_at,
    loop_ranges,
    loops_above,
    memory_at,
    predicate_outside,
    ranges_above,
    scope_path,
)
from mslang.transform.analysis.predicated_indices import detect


class Conditions(msgspec.Struct, frozen=True):
    """What a block's predicate says: that its axes keep to their domains (`guards`), and more, of its axes (`kept`)."""

    guards: tuple[Expr, ...]
    kept: tuple[Expr, ...]


def conditions_of(path: Path) -> Conditions | None:
    """What the predicate of the block at the end of a path says; None if it says more of the loops than can be said of
    the axes."""
    block = block_at(path)
    if cuts_only_outside(path):
        return Conditions(conjuncts(block.predicate), ())
    guards: list[Expr] = []
    kept: list[Expr] = []
    for c in conjuncts(block.predicate):
        if cuts_only_outside(with_predicate(path, c)):
            guards.append(c)
            continue
        said = _of_axes(c, path)
        if said is None:
            return Conditions(conjuncts(block.predicate), ()) if _reaches(path, domains_of(path)) else None
        kept.append(said)
    return Conditions(tuple(guards), tuple(kept))


def portable_predicate(path: Path) -> tuple[Expr, ...] | None:
    """What the predicate of the block at the end of a path says besides keeping its axes in their domains, in terms of
    its axes alone; None if that cannot be determined."""
    found = conditions_of(path)
    return None if found is None else found.kept


def _of_axes(condition: Expr, path: Path) -> Expr | None:
    """A condition with an axis for each loop, or each side of a comparison, to which that axis is bound."""
    axes = block_at(path).axes
    own = {a.name for a in axes}
    values: dict[str, Expr] = {
        a.binding.name: Var(a.name) for a in axes if isinstance(a.binding, Var) and a.binding.name not in own
    }
    plain = substitute(condition, values)
    if isinstance(plain, Binary) and plain.op in COMPARISONS and not free_vars(plain) <= own:
        inside = bindings(block_at(path))
        ranges = ranges_above(path)

        def side(e: Expr) -> Expr:
            bound = substitute(e, inside)
            return next((Var(n) for n, b in inside.items() if free_vars(e) - own and arith.equal(bound, b, ranges)), e)

        plain = Binary(plain.op, side(plain.left), side(plain.right))
    return plain if free_vars(plain) <= own else None


def domains_of(path: Path) -> dict[str, Range]:
    """The values that the axes of the block at the end of a path take in its scope: those of their domains, but for
    axes bound to axes of the block around, which tell them which part is theirs."""
    loops = loop_ranges(loops_above(path))
    found: dict[str, Range] = {}
    for a in block_at(path).axes:
        outer = free_vars(a.binding) - loops.keys()
        found[a.name] = arith.relax((a.binding,), loops)[0] if outer else Range(ZERO, a.extent)
    return found


def provable_domains(path: Path) -> dict[str, Range] | None:
    """The values of the axes for which the block at the end of a path provably runs, each of them and no others but
    for what its own conditions leave out: those of `domains_of`, or of spatial axes a box of them, as a copy of a part
    of a buffer has it; None if neither is known."""
    domains = domains_of(path)
    if runs_all(path, domains):
        return domains
    found = conditions_of(path)
    if found is None:
        return None
    guarded, axes = with_predicate(path, conjunction(found.guards)), block_at(path).axes
    everywhere, scope = Region("", tuple(Range(Var(a.name), ONE) for a in axes)), scope_path(path)
    ranges, whole = ranges_above(scope), tuple(Range(ZERO, a.extent) for a in axes)
    reached = produced_box(guarded, everywhere, scope)
    touched = arith.intersect_box(consumed_box(guarded, everywhere, scope), whole, ranges)
    if reached is None or arith.covers(reached, touched, ranges) is not arith.Verdict.PROVED:
        return None
    narrow = {a.name: r for a, r in zip(axes, touched, strict=True) if a.kind == "spatial"}
    done = {name: narrow.get(name, domain) for name, domain in domains.items()}
    return done if _reaches(guarded, done) else None


def runs_all(path: Path, domains: Mapping[str, Range]) -> bool:
    """Does the block at the end of a path provably run for all values in `domains` of axes that its own conditions
    allow, whatever the values of the other axes for which it runs?"""
    found = conditions_of(path)
    if found is None:
        return False
    return _reaches(with_predicate(path, conjunction(found.guards)), domains)


def _reaches(path: Path, domains: Mapping[str, Range]) -> bool:
    """Does the block at the end of a path provably run for all values of its axes, whatever its predicate cuts off?"""
    axes = block_at(path).axes
    everywhere = Region("", tuple(Range(Var(a.name), ONE) for a in axes))
    box = produced_box(path, everywhere, scope_path(path))
    if box is None:
        return False
    reached = tuple(r for r, a in zip(box, axes, strict=True) if a.name in domains)
    wanted = tuple(domains[a.name] for a in axes if a.name in domains)
    return arith.covers(reached, wanted, ranges_above(path)) is arith.Verdict.PROVED


def runs_once(path: Path, loops: Sequence[For]) -> bool:
    """Does no instance of the block at the end of a path provably run in two different iterations of some loops above
    it, for any one iteration of the other loops?"""
    bindings = [a.binding for a in block_at(path).axes]
    if any(loop.var not in _variables(bindings) and not arith.equal(loop.extent, ONE) for loop in loops):
        return False
    found = detect(bindings, loop_ranges(loops), predicate_outside(block_at(path)))
    return isinstance(found, arith.IterMap) and found.level != "affine"


def tells_instance(block: Block) -> bool:
    """Does an element that a block writes provably tell the values of its spatial axes?"""
    ranges = axis_ranges(block)
    axes = {a.name: ranges[a.name] for a in block.axes if a.kind == "spatial" and a.extent != ONE}
    for region in block.writes:
        numbers = tile_numbers(region.ranges, ranges)
        found = None if numbers is None or not axes else detect(numbers, axes)
        if axes and not (isinstance(found, arith.IterMap) and found.level in ("injective", "bijective")):
            return False
    return True


def where_both_run(writer: Path, reader: Path, above: Path) -> Path:
    """The path of a block without the conditions that another block has too, and that do not change in one iteration of
    the loop at the end of `above`: where they are false, neither runs."""
    common = {told for _, told in _standing(reader, above)}
    shared = {c for c, told in _standing(writer, above) if told in common}
    kept = tuple(c for c in conjuncts(block_at(writer).predicate) if c not in shared)
    return with_predicate(writer, conjunction(kept)) if shared else writer


def _standing(path: Path, above: Path) -> list[tuple[Expr, Expr]]:
    """The conditions of the block at the end of a path that are the same in all of an iteration, and what they say
    outside of the block."""
    block, between = block_at(path), path[len(above) : -1]
    inside = {s.var for s in between if isinstance(s, For)}
    inside |= {a.name for s in between if isinstance(s, Block) for a in s.axes}
    told = ((c, substitute(c, bindings(block))) for c in conjuncts(block.predicate))
    changing = memory_at(path, stored_under(above[-1])) if above else frozenset[str]()
    return [
        (c, e)
        for c, e in told
        if inside.isdisjoint(free_vars(e)) and changing.isdisjoint(memory_at(path, (x.buffer for x in loads_of(e))))
    ]


def loops_beyond_spatial(path: Path) -> frozenset[str]:
    """The variables that occur in the binding of an axis that is not spatial."""
    return _variables([a.binding for a in block_at(path).axes if a.kind != "spatial"])


def _variables(several: Sequence[Expr]) -> frozenset[str]:
    return frozenset[str]().union(*(free_vars(e) for e in several))


def with_predicate(path: Path, predicate: Expr) -> Path:
    """The path with another predicate of the block at its end."""
    return (*path[:-1], replace(block_at(path), predicate=predicate))
