"""In which order a reduction combines: what cannot be combined in any order keeps the order of the axes."""

from __future__ import annotations

from collections.abc import Sequence

from mslang.ir import arith
from mslang.ir.arith.linear import coefficients
from mslang.ir.expr import ONE, ZERO, Binary, Expr
from mslang.ir.program import Axis, Block, For
from mslang.ir.reducers import combines_in_any_order
from mslang.ir.visit import Path, free_vars
from mslang.transform.analysis.accesses import why_not_own_elements, why_several_names
from mslang.transform.analysis.position import block_at, loop_ranges, loops_above, ranges_above
from mslang.transform.analysis.reducers import known_reducers


def runs_in_any_order(block: Block) -> bool:
    """May the instances of a block run in any order: does none read what another one writes, but to combine with it
    what may be combined so?"""
    reduces = any(a.kind == "reduce" and a.extent != ONE for a in block.axes)
    ordered = any(a.kind not in ("spatial", "reduce") for a in block.axes) or why_not_own_elements(block) is not None
    return not ordered and (not reduces or combines_in_any_order(block, known_reducers()))


def why_not_in_sequence(path: Path) -> str | None:
    """None if a reduction may combine in any order, or provably does so in the order of its axes, the last fastest."""
    block = block_at(path)
    free = combines_in_any_order(block, known_reducers()) and why_several_names(path) is None
    if block.init is None or free:
        return None
    reduced = [a for a in block.axes if a.kind == "reduce"]
    used = _used(reduced, path)
    shared = [a for a in block.axes if a.kind == "spatial" and not _used([a], path).isdisjoint(used)]
    # With these as leading digits: among equal leading digits the number ascends as the rest of it does.
    used |= _used(shared, path)
    total: Expr = ZERO
    for a in (*shared, *reduced):
        total = arith.add(arith.mul(total, a.extent), a.binding)
    loops = [s for s in loops_above(path) if s.var in used]
    if _ascends(arith.simplify(total, ranges_above(path)), loops, path):
        return None
    return f"the order in which block `{block.name}` combines values over `{reduced[0].name}` must be kept"


def _ascends(total: Expr, loops: Sequence[For], path: Path) -> bool:
    """Is a number larger in each later iteration of some loops?"""
    terms = coefficients(total, frozenset(s.var for s in loops))
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


def _used(axes: Sequence[Axis], path: Path) -> frozenset[str]:
    """The loops that some axes depend on."""
    mine = loop_ranges(loops_above(path)).keys()
    return frozenset[str]().union(*(free_vars(a.binding) for a in axes)) & mine
