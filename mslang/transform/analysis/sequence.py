"""In which order a reduction runs its instances: its init first, and what cannot be combined in any order in the order
of its axes."""

from __future__ import annotations

from collections.abc import Sequence

from mslang.ir import arith
from mslang.ir.expr import ONE, ZERO, Binary, Expr
from mslang.ir.program import For
from mslang.ir.reducers import combines_in_any_order
from mslang.ir.visit import Path, free_vars, substitute
from mslang.transform.analysis.guarded import detect
from mslang.transform.analysis.linear import linear_terms
from mslang.transform.analysis.position import block_at, loop_ranges, loops_above, ranges_above
from mslang.transform.analysis.reducers import known_reducers


def why_not_init_first(path: Path) -> str | None:
    """None if of the instances of a reduction that concern one element the first is surely the one with the init, where
    all of its reduction axes are 0.

    So it is where the axes are 0 as the loops start and no loop serves other axes too, or each is a sum of digits of
    the loops that only grow.
    """
    block = block_at(path)
    if block.init is None:
        return None
    loops = loops_above(path)
    ranges = ranges_above(path)
    first: dict[str, Expr] = {s.var: s.start for s in loops}
    for a in block.axes:
        if a.kind == "reduce" and not _least(substitute(a.binding, first), a.binding, ranges):
            return f"axis `{a.name}` of block `{block.name}` does not surely begin at 0"
    tangled = _used(path, "reduce") & _used(path, "spatial")
    if not tangled:
        return None
    found = detect([a.binding for a in block.axes], loop_ranges(loops), block.predicate)
    if isinstance(found, arith.IterMap) and not any(t.reflected for s in found.sums for t in s.terms):
        return None
    return f"loop `{min(tangled)}` serves spatial and reduction axes of block `{block.name}`"


def _least(first: Expr, binding: Expr, ranges: arith.Ranges) -> bool:
    return arith.proved(Binary("<=", ZERO, first), ranges) and arith.proved(Binary("<=", first, binding), ranges)


def why_not_in_sequence(path: Path) -> str | None:
    """None if a reduction may combine in any order, or surely does so in the order of its axes, the last fastest."""
    block = block_at(path)
    if block.init is None or combines_in_any_order(block, known_reducers()):
        return None
    reduced = [a for a in block.axes if a.kind == "reduce"]
    total: Expr = ZERO
    for a in reduced:
        total = arith.add(arith.mul(total, a.extent), a.binding)
    used = _used(path, "reduce")
    loops = [s for s in loops_above(path) if s.var in used]
    if used.isdisjoint(_used(path, "spatial")) and _ascends(arith.simplify(total, ranges_above(path)), loops, path):
        return None
    return f"what block `{block.name}` combines over `{reduced[0].name}` must keep its order"


def _ascends(total: Expr, loops: Sequence[For], path: Path) -> bool:
    """Is a number larger in each later iteration of some loops?"""
    terms = linear_terms(total, frozenset(s.var for s in loops))
    if terms is None:
        return False
    ranges = ranges_above(path)
    step: Expr = ONE
    for s in reversed(loops):
        if arith.equal(s.extent, ONE):
            continue
        if not arith.proved(Binary("<=", step, terms.get(s.var, ZERO)), ranges):
            return False
        step = arith.mul(terms[s.var], s.extent)
    return True


def _used(path: Path, kind: str) -> frozenset[str]:
    """The loops that axes of a kind depend on."""
    mine = loop_ranges(loops_above(path)).keys()
    used = (free_vars(a.binding) for a in block_at(path).axes if a.kind == kind)
    return frozenset[str]().union(*used) & mine
